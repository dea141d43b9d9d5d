use super::*;

#[test]
fn kinds_of_numbers() {
    for (descr, big_endian, letter, width) in [
        ("<f2", false, 'f', 2),
        (">f4", true, 'f', 4),
        ("<f8", false, 'f', 8),
        ("|i1", false, 'i', 1),
        ("<i1", false, 'i', 1),
        (">i8", true, 'i', 8),
        ("|u1", false, 'u', 1),
        ("<u2", false, 'u', 2),
        ("|b1", false, 'b', 1),
    ] {
        let kind = Kind::parse(descr).unwrap_or_else(|| panic!("{descr}"));
        let got = (kind.big_endian, kind.letter, kind.width);
        assert_eq!(got, (big_endian, letter, width), "{descr}");
    }
    for descr in [
        "", "<", "<f", "f4", "<f1", "<b2", "<c8", "<U4", "<f16", "|f4", "|i2", "=f4", "=i1", "?b1",
        "<f4 ", "|O",
    ] {
        assert!(Kind::parse(descr).is_none(), "{descr}");
    }
}

/// The first bytes of an array of version 2 with a header of this length.
fn start_of(length: usize, filled_with: u8) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x02\x00".to_vec();
    file.extend((length as u32).to_le_bytes());
    file.resize(file.len() + length, filled_with);
    file
}

#[test]
fn header_length_is_limited() {
    let longest = start_of(HEADER, b' ');
    assert_eq!(start(&mut &longest[..]).as_ref(), Ok(&longest));
    let error = start(&mut &start_of(HEADER + 1, b' ')[..]).unwrap_err();
    assert_eq!(error, "expected a header of 10000 bytes at most, got 10001");
}

#[test]
fn bracket_count_is_limited() {
    for bracket in *b"([{" {
        let most = start_of(BRACKETS, bracket);
        assert_eq!(start(&mut &most[..]).as_ref(), Ok(&most));
        let error = start(&mut &start_of(BRACKETS + 1, bracket)[..]).unwrap_err();
        assert!(
            error.ends_with("got a header with many brackets"),
            "{error}"
        );
    }
}
