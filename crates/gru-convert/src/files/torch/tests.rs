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

fn archive(compression: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(compression);
    let start = archive.start_file("archive/data.pkl", options);
    start.expect("an entry");
    archive.write_all(&[b'N'; 4096]).expect("memory is written");
    archive.finish().expect("an archive").into_inner()
}

/// A few bytes would expand to gigabytes before any array is read.
#[test]
fn compressed_archives_are_an_error() {
    let message = error(&archive(CompressionMethod::Deflated));
    assert!(
        message.contains("archive/data.pkl: expected no compression"),
        "{message}"
    );
    let message = error(&archive(CompressionMethod::Stored));
    assert!(!message.contains("compression"), "{message}");
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
fn the_error_names_an_array_of_another_type() {
    let small = TensorView::new(Dtype::F8_E4M3, vec![2], &[0, 0]).expect("two bytes");
    let bytes = safetensors::serialize([("weights", small)], None).expect("a file");
    let read = StateDict::from_safetensors_bytes("model.safetensors", bytes);
    let message = read.expect_err("Burn has no such type").to_string();
    assert_eq!(
        message,
        "model.safetensors: weights: expected numbers of a type of Burn, got F8_E4M3"
    );
}
