use super::*;

#[test]
fn types_of_numbers() {
    use DType::*;
    let bool = Bool(BoolStore::Native);
    for (descr, dtype, is_big_endian) in [
        ("<f2", F16, false),
        (">f4", F32, true),
        ("<f8", F64, false),
        ("|i1", I8, false),
        ("<i1", I8, false),
        (">i8", I64, true),
        ("|u1", U8, false),
        ("<u2", U16, false),
        ("|b1", bool, false),
    ] {
        assert_eq!(number_type(descr), Some((dtype, is_big_endian)), "{descr}");
    }
    for descr in [
        "", "<", "<f", "f4", "<f1", "<b2", "<c8", "<U4", "<f16", "|f4", "|i2", "=f4", "=i1", "?b1",
        "<f4 ", "|O",
    ] {
        assert!(number_type(descr).is_none(), "{descr}");
    }
}
