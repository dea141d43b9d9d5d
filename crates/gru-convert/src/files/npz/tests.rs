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
