//! Files of weights that are malformed: an error or a model, never a panic.

use denoise::v2::arrays::{Arrays, ArraysError, unpack};
use denoise::v2::model::Model;
use gru_cpu::spec::Precision;

pub fn plain() -> [(&'static str, fn()); 4] {
    [
        ("v2/blob", blobs),
        ("v2/library", libraries),
        ("v2/wheel", wheels),
        ("v2/invalid-arrays", invalid_arrays),
    ]
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

/// An ELF library with only a symbol table, relocations and one segment, which is the whole file.
fn library(arrays: &[Array]) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56 + 4 * 64];
    let mut append = |data: &[u8]| {
        let at = bytes.len();
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        at as u64
    };
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let strings = append(b"\0rnnoise_arrays\0");
    let addresses: Vec<_> = arrays
        .iter()
        .map(|(name, data)| [append(&[name.as_bytes(), b"\0"].concat()), append(data)])
        .collect();
    let record = |(_, data): &Array| words(&[0, (data.len() as u64) << 32, 0]);
    let records = arrays.iter().flat_map(record).chain([0; 24]);
    let table = append(&records.collect::<Vec<u8>>());
    let relocation = |(k, [name, data]): (usize, &[u64; 2])| {
        let at = table + 24 * k as u64;
        words(&[at, 8, *name, at + 16, 8, *data])
    };
    let relocations: Vec<u8> = addresses.iter().enumerate().flat_map(relocation).collect();
    let of_relocations = append(&relocations);
    // No name, then: name 1, global object in section 1, address, size.
    let size = 24 * (arrays.len() as u64 + 1);
    let symbols = append(&words(&[0, 0, 0, 0x0001_0011_0000_0001, table, size]));
    let whole = bytes.len() as u64;
    // The header: 64 bits, little-endian; a shared library for x86-64; one segment, four sections.
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
    bytes[20..64].copy_from_slice(
        &[
            &1u32.to_le_bytes()[..],
            &words(&[0, 64, 120]),
            &[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 2, 0],
        ]
        .concat(),
    );
    bytes[64..120].copy_from_slice(&words(&[4 << 32 | 1, 0, 0, 0, whole, whole, 8]));
    let sections = [
        // type << 32, flags, address, offset, size, link and info, alignment, size of an entry
        [11 << 32, 2, symbols, symbols, 48, 2 | 1 << 32, 8, 24],
        [3 << 32, 2, strings, strings, 16, 0, 1, 0],
        [
            4 << 32,
            2,
            of_relocations,
            of_relocations,
            relocations.len() as u64,
            1,
            8,
            24,
        ],
    ];
    bytes[184..376].copy_from_slice(&words(sections.as_flattened()));
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
}

fn libraries() {
    let arrays = arrays();
    let whole = library(&arrays);
    parse(&whole).unwrap();
    let read = Arrays::parse(&whole).unwrap();
    for (name, data) in &arrays {
        assert_eq!(read.get(name).unwrap(), data);
    }
    let few = [
        ("a".to_owned(), vec![1, 2, 3]),
        ("b".to_owned(), vec![4; 70]),
    ];
    let small = library(&few);
    let is_read = |bytes: &[u8]| {
        let Ok(read) = Arrays::parse(bytes) else {
            return false;
        };
        few.iter().all(|(name, data)| read.get(name) == Ok(data))
    };
    assert!(is_read(&small));
    let [errors, arrays] = spoil(&small, 0..small.len(), is_read);
    assert!(errors > 500 && arrays > 500, "{errors} {arrays}");

    let mut other = small.clone();
    other[18] = 0xb7; // AArch64
    assert!(matches!(
        Arrays::parse(&other),
        Err(ArraysError::Architecture(_))
    ));
    let at = small
        .windows(7)
        .position(|bytes| bytes == b"rnnoise")
        .unwrap();
    other = small.clone();
    other[at] = b'R';
    assert_eq!(Arrays::parse(&other).unwrap_err(), ArraysError::Table);
}

fn wheels() {
    use std::io::Write;
    let small = library(&[("a".to_owned(), vec![1, 2, 3])]);
    let zip = |name: &str| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(&small).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let whole = zip("a/librnnoise.so");
    assert_eq!(unpack(whole.clone()).unwrap(), small);
    assert!(matches!(
        unpack(zip("other.so")),
        Err(ArraysError::Wheel(_))
    ));
    let is_read = |bytes: &[u8]| unpack(bytes.to_vec()).is_ok_and(|library| library == small);
    let [errors, wheels] = spoil(&whole, 0..whole.len(), is_read);
    assert!(errors > 100 && wheels > 0, "{errors} {wheels}");
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

/// The real library: headers, tables of symbols and relocations, and the table of arrays.
pub fn library_of(library: &'static [u8]) {
    let at = library.len();
    let places = (0..64)
        .chain((64..0x2000).step_by(37))
        .chain((at - 10_000..at).step_by(131));
    let read = |bytes: &[u8]| {
        // The names and sizes suffice: `blobs` covers models.
        Arrays::parse(bytes).is_ok_and(|arrays| arrays.names().count() == 50)
    };
    assert!(read(library));
    let [errors, arrays] = spoil(library, places, read);
    assert!(errors > 100 && arrays > 100, "{errors} {arrays}");
}
