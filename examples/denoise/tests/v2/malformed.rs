//! Files of weights that are malformed: an error or a model, never a panic.

use denoise::v2::arrays::{Arrays, ArraysError};
use denoise::v2::model::Model;
use gru_cpu::spec::Precision;

pub fn plain() -> [(&'static str, fn()); 2] {
    [("v2/blob", blobs), ("v2/invalid-arrays", invalid_arrays)]
}

type Array = (String, Vec<u8>);

/// All arrays of a network whose GRUs have no blocks of weights.
pub fn arrays() -> Vec<Array> {
    let mut all = Vec::new();
    let mut add = |name: String, bytes: usize| all.push((name, vec![0; bytes]));
    for (name, inputs, outputs) in [
        ("conv1", 195, 128),
        ("conv2", 384, 384),
        ("dense_out", 1536, 32),
        ("vad_dense", 1536, 1),
    ] {
        add(format!("{name}_weights_float"), 4 * inputs * outputs);
        add(format!("{name}_bias"), 4 * outputs);
    }
    for gru in 1..=3 {
        for side in ["input", "recurrent"] {
            add(format!("gru{gru}_{side}_weights_float"), 0);
            // The number of blocks of every eight outputs.
            add(format!("gru{gru}_{side}_weights_idx"), 4 * 1152 / 8);
            add(format!("gru{gru}_{side}_bias"), 4 * 1152);
        }
        add(format!("gru{gru}_recurrent_weights_diag"), 4 * 1152);
    }
    all
}

pub fn blob(arrays: &[Array]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, data) in arrays {
        let padded = data.len().next_multiple_of(64);
        bytes.extend(b"DNNw\0\0\0\0\0\0\0\0");
        bytes.extend(
            [data.len() as u32, padded as u32]
                .map(u32::to_le_bytes)
                .concat(),
        );
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
    }
    bytes
}

fn parse(bytes: &[u8]) -> Result<Model, ArraysError> {
    Model::new(&Arrays::parse(bytes)?, Precision::Full)
}

/// Truncates and changes bytes at the places. A change may be harmless.
fn spoil(
    whole: &[u8],
    places: impl Iterator<Item = usize>,
    read: impl Fn(&[u8]) -> bool,
) -> [usize; 2] {
    let mut counts = [0; 2];
    let mut bytes = whole.to_vec();
    for place in places {
        counts[usize::from(read(&whole[..place]))] += 1;
        for flip in [0x01, 0x80, 0xff] {
            bytes[place] ^= flip;
            counts[usize::from(read(&bytes))] += 1;
            bytes[place] ^= flip;
        }
    }
    counts
}

fn blobs() {
    let arrays = arrays();
    let whole = blob(&arrays);
    parse(&whole).unwrap();
    let mut heads = vec![];
    let mut at = 0;
    for (_, data) in &arrays {
        heads.extend([
            at,
            at + 3,
            at + 12,
            at + 15,
            at + 16,
            at + 19,
            at + 20,
            at + 63,
            at + 64,
        ]);
        at += 64 + data.len().next_multiple_of(64);
    }
    assert_eq!(at, whole.len());
    let places = heads.into_iter().filter(|&place| place < whole.len());
    let [errors, models] = spoil(&whole, places, |bytes| parse(bytes).is_ok());
    assert!(errors > 300 && models > 0, "{errors} {models}");
    assert_eq!(Arrays::parse(b"RIFF").unwrap_err(), ArraysError::Kind);
}

/// Errors of arrays name the array.
fn invalid_arrays() {
    let with = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut arrays = arrays();
        let array = arrays.iter_mut().find(|(found, _)| found == name).unwrap();
        change(&mut array.1);
        parse(&blob(&arrays)).err().unwrap().to_string()
    };
    let name = "gru2_recurrent_weights_idx";
    let set = |at: usize, value: u32| {
        move |data: &mut Vec<u8>| data[4 * at..][..4].copy_from_slice(&value.to_le_bytes())
    };
    // One block, but the array ends too early. More blocks than words. Weights for a block are missing.
    assert!(with(name, &set(0, 1)).contains("gru2_recurrent_weights_idx: expected blocks"));
    assert!(
        with(name, &set(143, u32::MAX)).contains("gru2_recurrent_weights_idx: expected blocks")
    );
    for (first, expected) in [
        (0, "_float: expected 128 bytes, got 0"),
        (2, "_idx"),
        (384, "_idx"),
    ] {
        let block = |data: &mut Vec<u8>| {
            data.extend([0; 4]);
            set(0, 1)(data);
            set(1, first)(data);
        };
        assert!(
            with(name, &block).contains(&format!("gru2_recurrent_weights{expected}")),
            "{first}"
        );
    }
    assert!(
        with("conv1_bias", &|data| data.truncate(508))
            .contains("conv1_bias: expected 512 bytes, got 508")
    );
    assert!(
        with("vad_dense_bias", &set(0, f32::NAN.to_bits()))
            .contains("vad_dense_bias: expected finite")
    );
    let mut few = arrays();
    few.retain(|(name, _)| name != "gru3_input_bias");
    assert_eq!(
        parse(&blob(&few)).err().unwrap(),
        ArraysError::Missing("gru3_input_bias".to_owned())
    );
    // Without float32 weights, 8-bit weights are read.
    few.retain(|(name, _)| !(name.starts_with("gru") && name.ends_with("_float")));
    assert_eq!(
        parse(&blob(&few)).err().unwrap(),
        ArraysError::Missing("gru1_input_weights_int8".to_owned())
    );
}
