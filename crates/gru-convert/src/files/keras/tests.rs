use super::*;
use hdf5_pure::{CharacterSet, FileBuilder, StringPadding};

fn read_of(fill: impl FnOnce(&mut FileBuilder)) -> Result<StateDict, String> {
    let mut file = FileBuilder::new();
    fill(&mut file);
    let bytes = file.finish().map_err(text)?;
    let limit = Limit::new(bytes.len() as u64);
    read("model.h5", bytes, limit)
}

#[test]
fn every_number_keeps_its_type() {
    macro_rules! check {
        ($($write:ident $number:ty),+) => {$({
            let numbers: [$number; 3] = [1 as $number, 2 as $number, <$number>::MAX];
            let dict = read_of(|file| {
                file.create_dataset("a").$write(&numbers);
            });
            let expected = TensorData::new(numbers.to_vec(), [3]);
            assert_eq!(dict.unwrap().get("a"), Some(&expected));
        })+};
    }
    check!(
        with_f32_data f32, with_f64_data f64, with_i8_data i8, with_i16_data i16,
        with_i32_data i32, with_i64_data i64, with_u8_data u8, with_u16_data u16,
        with_u32_data u32, with_u64_data u64
    );
}

fn float_of_two_bytes(
    byte_order: DatatypeByteOrder,
    exponent: u8,
    mantissa: u8,
    bytes: [u8; 2],
) -> Result<StateDict, String> {
    let layout = FloatingPointLayout {
        bit_offset: 0,
        bit_precision: 16,
        exponent_location: mantissa,
        exponent_size: exponent,
        mantissa_location: 0,
        mantissa_size: mantissa,
        exponent_bias: (1 << (exponent - 1)) - 1,
    };
    let kind = Datatype::FloatingPoint {
        size: 2,
        byte_order,
        layout,
    };
    read_of(|file| {
        file.create_dataset("a")
            .with_raw_data(kind, bytes.to_vec(), 1);
    })
}

#[test]
fn half_precision_in_both_orders_and_no_other_of_16_bits() {
    use DatatypeByteOrder::{BigEndian, LittleEndian};
    let number = f16::from_f32(-1.25);
    let expected = TensorData::new(vec![number], [1]);
    for (order, bytes) in [
        (LittleEndian, number.to_le_bytes()),
        (BigEndian, number.to_be_bytes()),
    ] {
        let dict = float_of_two_bytes(order, 5, 10, bytes).unwrap();
        assert_eq!(dict.get("a"), Some(&expected), "{order:?}");
    }
    // bfloat16 has the same size.
    let dict = float_of_two_bytes(LittleEndian, 8, 7, [0, 0]).unwrap();
    let error = dict.shape::<1>("a").unwrap_err().to_string();
    assert!(
        error.starts_with("a: expected numbers of a usual type, got "),
        "{error}"
    );
}

#[test]
fn texts_are_left_out() {
    let kind = Datatype::String {
        size: 3,
        padding: StringPadding::NullPad,
        charset: CharacterSet::Ascii,
    };
    let dict = read_of(|file| {
        file.create_dataset("text")
            .with_raw_data(kind, b"gru".to_vec(), 1);
        file.create_dataset("number").with_f32_data(&[1.0]);
    });
    let dict = dict.unwrap();
    let error = dict.shape::<1>("text").unwrap_err().to_string();
    assert_eq!(error, "text: expected numbers, got another type");
    assert!(dict.get("number").is_some());
}

/// A number within this many groups.
fn nested(depth: usize) -> Result<StateDict, String> {
    read_of(|file| {
        let mut group = file.create_group("g");
        group.create_dataset("a").with_f32_data(&[1.0]);
        for _ in 1..depth {
            let mut outer = file.create_group("g");
            outer.add_group(group.finish());
            group = outer;
        }
        file.add_group(group.finish());
    })
}

#[test]
fn group_depth_is_limited() {
    let dict = nested(DEPTH).unwrap();
    assert!(dict.get(&format!("{}a", "g/".repeat(DEPTH))).is_some());
    let error = nested(DEPTH + 1).unwrap_err();
    assert!(
        error.contains("expected groups 64 deep at most, got g/g/"),
        "{error}"
    );
}

/// Every path is copied, so long paths of many groups need memory.
#[test]
fn path_length_is_limited() {
    let mut limit = Limit::new(0);
    limit.claim(limit.largest() - 3).expect("the largest claim");
    let dict = StateDict::new();
    let mut traversal = Traversal { limit, dict };
    assert_eq!(traversal.name("a/", "b").as_deref(), Ok("a/b"));
    let error = traversal.name("", "b").unwrap_err();
    assert!(error.starts_with("it holds 0 bytes, but"), "{error}");
}
