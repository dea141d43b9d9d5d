use super::*;
use burn::{module::Module, tensor::Device};
use gru_op::{GruBlock, GruBlockConfig};
use std::fs;

/// A file of one machine is read on every other.
#[test]
fn numbers_are_little_endian() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("block.bpk");
    let block = GruBlockConfig::new(2, 1).init(&Device::flex());
    block.save_with_config(&path).expect("a file");
    let weights = block.layers[0].w_ih.val().into_data();
    let bytes: Vec<u8> = weights.iter::<f32>().flat_map(f32::to_le_bytes).collect();
    let file = fs::read(&path).expect("a file");
    assert!(file.windows(bytes.len()).any(|part| part == bytes));

    let dict = StateDict::from_burnpack(&path).expect("arrays");
    assert_eq!(dict.get("layers.0.w_ih"), Some(&weights));
    let read = GruBlock::from_file(&path, &Device::flex()).expect("a block");
    assert_eq!(read.layers[0].w_ih.val().into_data(), weights);

    // Burn writes the byte order of the machine.
    block.save_file(&path).expect("a file");
    let dict = StateDict::from_burnpack(&path);
    assert_eq!(dict.is_ok(), cfg!(target_endian = "little"), "{dict:?}");
}
