// The first definition of a link holds: on the page of the documentation the source is below the link.
#![doc = "[`examples/linear_recurrence.rs`]: #the-whole-of-it\n"]
#![doc = include_str!("../GUIDE.md")]
#![doc = "```rust"]
#![doc = include_str!("../examples/linear_recurrence.rs")]
#![doc = "```"]

#[cfg(test)]
mod tests {
    /// What the guide shows of the small operator stands in it word by word.
    #[test]
    fn excerpts_are_those_of_the_tested_source() {
        let guide = include_str!("../GUIDE.md");
        let source = include_str!("../examples/linear_recurrence.rs");
        let excerpts = guide.split("```rust,ignore\n").skip(1);
        let mut count = 0;
        for rest in excerpts {
            let (excerpt, _) = rest.split_once("```").expect("a block ends");
            assert!(source.contains(excerpt), "not in the source:\n{excerpt}");
            count += 1;
        }
        assert_eq!(count, 6, "the guide's excerpts");
    }
}
