use super::*;
use std::{
    fs,
    io::{Cursor, Write},
};
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

/// The reader joins the name of a dictionary with the name of each array in it.
#[test]
fn long_names_of_many_arrays_are_an_error() {
    let pickle = |names: usize| {
        let mut pickle = b"\x80\x02}X\x20\x4e\0\0".to_vec();
        pickle.extend([b'p'; 20_000]);
        pickle.extend(b"}(");
        for k in 0..names {
            pickle.extend(format!("X\x06\0\0\0{k:06}h\x01").bytes());
        }
        pickle.extend(b"us.");
        pickle
    };
    let check = |names| scan::check(&pickle(names), &Limit::new(100_000));
    assert_eq!(check(2000), Ok(()));
    let message = check(10_000).expect_err("200 MB of names");
    assert!(message.contains("its arrays claim 200000000"), "{message}");
    // A text that is no name, next to as many arrays.
    let texts = [
        &pickle(10_000)[..3],
        b"X\x01\0\0\0k",
        &pickle(10_000)[3..20_008],
        b"s",
    ]
    .concat();
    let other = [texts, b"h\x01".repeat(10_000)].concat();
    assert_eq!(scan::check(&other, &Limit::new(100_000)), Ok(()));
}

/// The sizes of a tensor are copied with it.
#[test]
fn copies_of_many_sizes_are_an_error() {
    let sizes = [
        b"\x80\x02(".to_vec(),
        b"K\x01".repeat(200_000),
        b"tq\0".to_vec(),
    ]
    .concat();
    let pickle = [sizes, b"h\0".repeat(1000)].concat();
    assert!(scan::check(&pickle, &Limit::new(400_000)).is_err());
}

/// The reader reads everything between the first and the last number of an array.
#[test]
fn large_strides_of_many_arrays_are_an_error() {
    let array = b"QK\0K\x02\x85J\0\0\x10\0\x85\x89N)RtR";
    let check = |arrays| scan::check(&array.repeat(arrays), &Limit::new(4 << 20));
    assert_eq!(check(10), Ok(()));
    let message = check(100).expect_err("100 times 8 MiB");
    assert!(
        message.contains("expected arrays with small strides"),
        "{message}"
    );
}
