//! Turns the Rust code of README and the book into functions for the test program `book`.
//!
//! A comment before a block says what the program around it is. Without a comment the block is the whole program.
//!
//! - `<!-- continues -->`: the first block of the page precedes it.
//! - `<!-- context: NAME -->`: the function of this name in `src/book/contexts.rs` has the block at `block!();`.
//! - `<!-- continues: NAME -->`: both.
//! - `<!-- not compiled: REASON -->`, for `rust,ignore` only.

use std::{collections::BTreeMap, env, fmt::Write, fs, path::Path};

/// Code of a page, with its place.
struct Block {
    /// `PAGE.md:LINE`.
    name: String,
    language: String,
    comment: String,
    code: String,
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &Path| {
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let folder = root.join("docs/src");
    println!("cargo:rerun-if-changed={}", folder.display());
    let files = fs::read_dir(&folder).expect("the folder exists");
    let mut pages: Vec<_> = files
        .map(|file| file.expect("the folder is readable").path())
        .collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();

    let mut contexts = contexts(&read(&root.join("tests/src/book/contexts.rs")));
    let (mut functions, mut list) = (String::new(), String::new());
    for path in pages {
        let page = path
            .file_name()
            .expect("a page is a file")
            .to_string_lossy();
        let blocks = blocks(&page, &read(&path));
        for (k, block) in blocks.iter().enumerate() {
            let program = program(block, &blocks[0], &mut contexts);
            let Some((uses, attribute, program)) = program else {
                continue;
            };
            let function = format!("{}_{k}", page.to_lowercase().replace(['-', '.'], "_"));
            let name = &block.name;
            writeln!(
                functions,
                "// {name}\n{attribute}\nmod {function} {{\n{uses}\
                 pub fn run() -> Result<(), Box<dyn std::error::Error>> {{\n{program}\nOk(())\n}}\n}}"
            )
            .expect("a string grows");
            if block.language == "rust" {
                writeln!(list, "{attribute}\n({name:?}, {function}::run),")
                    .expect("a string grows");
            }
        }
    }
    let unused: Vec<_> = contexts
        .iter()
        .filter(|(_, context)| !context.used)
        .map(|(name, _)| name)
        .collect();
    assert!(
        unused.is_empty(),
        "contexts.rs: expected a block for each context, got none for {unused:?}"
    );
    let text = format!(
        "{functions}pub const BLOCKS: &[(&str, fn() -> Result<(), Box<dyn std::error::Error>>)] = &[\n{list}];\n"
    );
    let out = env::var("OUT_DIR").expect("Cargo sets it");
    fs::write(Path::new(&out).join("book.rs"), text).expect("the folder is writable");
}

/// The blocks in Rust of a page.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut before, mut open) = (Vec::new(), "", None::<Block>);
    for (k, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (Some(block), None) => writeln!(block.code, "{line}").expect("a string grows"),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(language)) => {
                open = Some(Block {
                    name: format!("{page}:{}", k + 1),
                    language: language.to_owned(),
                    comment: before.trim().to_owned(),
                    code: String::new(),
                });
            }
            (None, None) => {}
        }
        before = line;
    }
    for Block {
        name,
        language,
        code,
        ..
    } in &blocks
    {
        let known = [
            "rust",
            "rust,no_run",
            "rust,ignore",
            "toml",
            "sh",
            "text",
            "diff",
            "python",
        ];
        assert!(
            known.contains(&language.as_str()),
            "{name}: expected a language of {known:?}, got {language:?}"
        );
        // Readers of the page on a repository's site see such a line.
        let hidden = code
            .lines()
            .any(|line| language.starts_with("rust") && line.trim_start().starts_with("# "));
        assert!(
            !hidden,
            "{name}: expected no line that rustdoc hides, got one"
        );
    }
    blocks.retain(|block| block.language.starts_with("rust"));
    blocks
}

/// What surrounds a block.
struct Context {
    attribute: String,
    uses: String,
    before: String,
    after: String,
    used: bool,
}

/// The functions of `contexts.rs` by name.
fn contexts(text: &str) -> BTreeMap<String, Context> {
    let mut contexts = BTreeMap::new();
    for function in text
        .split_inclusive("\n}\n")
        .filter(|function| function.contains("\nfn "))
    {
        let (head, body) = function
            .split_once("() {\n")
            .expect("a context has no arguments");
        let (attribute, name) = head.split_once("fn ").expect("it is a function");
        let attribute = attribute
            .lines()
            .filter(|line| line.starts_with("#["))
            .collect();
        let body = body
            .strip_suffix("}\n")
            .expect("a function ends with a brace");
        let mut parts = body.split("    block!();\n");
        let (Some(before), Some(after), None) = (parts.next(), parts.next(), parts.next()) else {
            panic!("contexts.rs: expected `block!();` once in {name}")
        };
        let (mut uses, mut before) = (String::new(), before);
        // The imports go outside of the function, so that the block may repeat one.
        while before.trim_start().starts_with("use ") {
            let (import, rest) = before.split_once(';').expect("an import ends");
            writeln!(uses, "{};", import.trim()).expect("a string grows");
            before = rest;
        }
        let context = Context {
            attribute,
            uses,
            before: before.to_owned(),
            after: after.to_owned(),
            used: false,
        };
        contexts.insert(name.to_owned(), context);
    }
    contexts
}

/// Imports, an attribute, and the body of a function. None if the block is not compiled.
fn program(
    block: &Block,
    first: &Block,
    contexts: &mut BTreeMap<String, Context>,
) -> Option<(String, String, String)> {
    let Block {
        name,
        language,
        comment,
        code,
    } = block;
    let words = comment
        .strip_prefix("<!-- ")
        .and_then(|comment| comment.strip_suffix(" -->"));
    let (kind, argument) = words.map_or(("", ""), |words| {
        words.split_once(": ").unwrap_or((words, ""))
    });
    let call = if code.contains("fn main() ->") {
        "main()?;"
    } else if code.contains("fn main()") {
        "main();"
    } else {
        ""
    };
    let code = format!("{code}{call}");
    match (kind, language.as_str()) {
        ("not compiled", "rust,ignore") if !argument.is_empty() => None,
        (_, "rust,ignore") | ("not compiled", _) => {
            panic!("{name}: expected `rust,ignore` with a reason")
        }
        ("", _) if !comment.starts_with("<!") => Some((String::new(), String::new(), code)),
        ("continues", _) if argument.is_empty() => {
            Some((String::new(), String::new(), first.code.clone() + &code))
        }
        ("continues" | "context", _) => {
            let context = contexts
                .get_mut(argument)
                .unwrap_or_else(|| panic!("{name}: unknown context {argument:?}"));
            context.used = true;
            let first = if kind == "continues" { &first.code } else { "" };
            let program = format!("{first}{}{code}{}", context.before, context.after);
            Some((context.uses.clone(), context.attribute.clone(), program))
        }
        _ => panic!("{name}: unknown comment {comment:?}"),
    }
}
