use super::*;
use std::io::Cursor;
use zip::{ZipWriter, write::SimpleFileOptions};

/// The error for a PyTorch file with this content.
fn error(content: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(&file, content).expect("a temporary file is written");
    let read = StateDict::from_pytorch(&file);
    read.expect_err("the file is hostile").to_string()
}

fn archive(name: &str, compression: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(compression);
    let start = archive.start_file(name, options);
    start.expect("an entry");
    archive.write_all(&[b'N'; 4096]).expect("memory is written");
    archive.finish().expect("an archive").into_inner()
}

/// A few bytes would expand to gigabytes before any array is read.
#[test]
fn compressed_archives_are_an_error() {
    let message = error(&archive("archive/data.pkl", CompressionMethod::Deflated));
    assert!(
        message.contains("archive/data.pkl: expected no compression"),
        "{message}"
    );
    let message = error(&archive("archive/data.pkl", CompressionMethod::Stored));
    assert!(!message.contains("compression"), "{message}");
}

/// TorchScript compresses its code.
#[test]
fn torch_script_is_an_error() {
    for name in ["model/code/__torch__.py", "model/constants.pkl"] {
        let message = error(&archive(name, CompressionMethod::Deflated));
        let expected =
            "expected a state dict, got TorchScript; save torch.jit.load(file).state_dict()";
        assert!(message.ends_with(expected), "{message}");
    }
}

/// A sparse entry of a tar archive has any number of zeros. The tests of the operator read a plain archive.
#[test]
fn other_entries_of_tar_archives_are_an_error() {
    let entry = |kind: u8| {
        let mut header = [0; 512];
        header[124..135].copy_from_slice(b"00000000003");
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        let content = [1; 512];
        [header, content].concat()
    };
    let expected = "expected a tar archive of files";
    for kind in [b'S', b'x', b'L'] {
        let message = error(&[entry(b'0'), entry(kind)].concat());
        assert!(message.contains(expected), "{message}");
    }
    let message = error(&[entry(b'0'), vec![0; 1024], entry(0)].concat());
    assert!(!message.contains(expected), "{message}");
}

#[test]
fn arrays_of_other_types() {
    let read = |dtype, bytes: &[u8]| {
        let two = TensorView::new(dtype, vec![2], bytes).expect("two numbers");
        let bytes = safetensors::serialize([("weights", two)], None).expect("a file");
        StateDict::from_safetensors_bytes("model.safetensors", bytes)
    };
    let message = read(Dtype::BOOL, &[1, 2]).expect_err("2 is no boolean");
    let expected = "model.safetensors: weights: expected booleans, bytes 0 and 1, got 2";
    assert_eq!(message.to_string(), expected);
    let dict =
        read(Dtype::F8_E4M3, &[0, 0]).and_then(|dict| dict.renamed(|key| format!("a.{key}")));
    let message = dict.and_then(|dict| dict.shape::<1>("a.weights"));
    let message = message.expect_err("Burn has no such type").to_string();
    assert_eq!(
        message,
        "a.weights: expected numbers of a type of Burn, got F8_E4M3"
    );
    let dict = read(Dtype::U16, &[1, 0, 0, 1]).expect("Burn has such a type");
    let expected = TensorData::new(vec![1u16, 256], [2]);
    assert_eq!(dict.get("weights"), Some(&expected));
}
