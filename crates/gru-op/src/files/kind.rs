//! What a file is, by its first bytes, for the errors of readers.

use std::{
    fmt::Display,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// A burnpack file.
pub const BURNPACK: &str = "a burnpack file (.bpk)";
/// A file of Keras.
pub const KERAS: &str = "a Keras file (.h5, .weights.h5 or .keras)";
/// A file of `numpy.savez`.
pub const NPZ: &str = "an .npz file of NumPy";
/// An ONNX model.
pub const ONNX: &str = "an ONNX model";
/// A file of `torch.save`.
pub const PYTORCH: &str = "a PyTorch file (torch.save)";
/// A safetensors file.
pub const SAFETENSORS: &str = "a safetensors file";

const SAVED_MODEL: &str =
    "a TensorFlow SavedModel: save the model as .keras, or its variables with numpy.savez";
const CHECKPOINT: &str = "a part of a TensorFlow checkpoint: save its variables with numpy.savez";
const FROZEN: &str = "a frozen TensorFlow graph: convert it to ONNX with tf2onnx";

const PICKLE: &str = "a pickle: write the state dict with torch.save";

/// First bytes of files.
const FIRST: [(&[u8], &str); 9] = [
    (
        b"version https://git-lfs",
        "a Git LFS pointer: `git lfs pull` downloads the file",
    ),
    (b"NRUB", BURNPACK),
    (b"\x89HDF\r\n\x1a\n", KERAS),
    (b"\x93NUMPY", "one array (.npy): write it with numpy.savez"),
    // The number with which PyTorch before 1.6 starts a file.
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", PYTORCH),
    (b"\x80\x02", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"\x80\x05", PICKLE),
    (b"\x1f\x8b", "gzip data: decompress it"),
];

/// First entries of zip archives: the end of the name.
const ENTRIES: [(&str, &str); 6] = [
    (".pkl", PYTORCH),
    ("/version", PYTORCH),
    ("/byteorder", PYTORCH),
    (".npy", NPZ),
    (".json", KERAS),
    (".weights.h5", KERAS),
];

/// The text of an error: `expected`, one of the names above, and what the file is. If neither its first bytes nor its
/// name show that, the `reason` of the reader follows.
pub fn mismatch(
    expected: &str,
    name: &str,
    file: &mut (impl Read + Seek),
    reason: impl Display,
) -> String {
    let of_name = is_shard(name).then(|| CHECKPOINT.to_owned());
    match of_name.or_else(|| found(file)) {
        Some(found) if found != expected => format!("expected {expected}, got {found}"),
        Some(_) => format!("expected {expected}, got one that cannot be read: {reason}"),
        None => format!("expected {expected}, got other bytes: {reason}"),
    }
}

/// Whether a file has the name of TensorFlow's numbers, `NAME.data-00000-of-00001`, which are bytes without a start.
fn is_shard(name: &str) -> bool {
    let shard = name
        .rsplit_once(".data-")
        .and_then(|(_, k)| k.split_once("-of-"));
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    shard.is_some_and(|(k, of)| is_number(k) && is_number(of))
}

/// What a folder is, or a path without a file, if TensorFlow made it.
pub(super) fn without_file(path: &Path) -> Option<&'static str> {
    let mut index = path.as_os_str().to_owned();
    index.push(".index");
    if path.join("saved_model.pb").is_file() {
        Some(SAVED_MODEL)
    } else {
        Path::new(&index).is_file().then_some(CHECKPOINT)
    }
}

/// A file of TensorFlow, by the first fields of its messages.
fn tensorflow(start: &[u8]) -> Option<&'static str> {
    // The table of a checkpoint: an empty key, and a header with the number of shards and a version.
    if matches!(start, [0, 0, _, 8, _, 0x1a, 2, 8, ..]) {
        return Some(CHECKPOINT);
    }
    // The version 1, then a graph. An ONNX model has a name there.
    if let Some(rest) = start.strip_prefix(b"\x08\x01") {
        let (_, graph) = message(rest, 0x12)?;
        return matches!(graph, [0x0a | 0x12, ..]).then_some(SAVED_MODEL);
    }
    let (size, first) = message(start, 0x0a)?;
    // A graph with its operators, or nodes.
    if let Some((operators, list)) = message(first, 0x12) {
        let (_, operator) = message(list, 0x0a)?;
        let (name, _) = message(operator, 0x0a)?;
        return (name < operators && operators < size).then_some(CHECKPOINT);
    }
    let (name, text) = message(first, 0x0a)?;
    let (name, rest) = text.split_at_checked(name)?;
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    (is_name && rest.first() == Some(&0x12)).then_some(FROZEN)
}

/// The length and the start of a message in the field with this tag.
fn message(bytes: &[u8], tag: u8) -> Option<(usize, &[u8])> {
    let mut rest = bytes.strip_prefix(&[tag])?;
    let (mut length, mut shift) = (0, 0);
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        match (byte & 0x80, shift) {
            (0, _) => return Some((length, rest)),
            (_, 35..) => return None,
            _ => {}
        }
    }
}

fn found(file: &mut (impl Read + Seek)) -> Option<String> {
    let start = part(file, SeekFrom::Start(0), 512)?;
    if let Some((_, kind)) = FIRST.iter().find(|(first, _)| start.starts_with(first)) {
        return Some((*kind).into());
    }
    if start.starts_with(b"PK\x03\x04") {
        return Some(zip(&start, file));
    }
    let length = start.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    if length.is_some_and(|length| length < 1 << 32) && start.get(8) == Some(&b'{') {
        return Some(SAFETENSORS.into());
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some("a tar archive".into());
    }
    if let Some(kind) = tensorflow(&start) {
        return Some(kind.into());
    }
    // The version of the format, then a name or the graph.
    if matches!(start[..], [8, 1..=32, 0x12 | 0x3a | 0x42, ..]) {
        return Some(ONNX.into());
    }
    text(&start)
}

/// A zip archive ends with a table of its entries, and starts with the first entry.
fn zip(start: &[u8], file: &mut (impl Read + Seek)) -> String {
    const TABLE: i64 = 22 + (1 << 16);
    let size = file.seek(SeekFrom::End(0)).unwrap_or_default();
    let end = part(file, SeekFrom::End(-TABLE.min(size as i64)), TABLE as u64);
    if !end
        .unwrap_or_default()
        .windows(4)
        .any(|at| at == b"PK\x05\x06")
    {
        return "a truncated zip archive: download or copy it again".into();
    }
    let length = |low: &[u8; 2]| usize::from(u16::from_le_bytes(*low));
    let name = start.get(26..).and_then(<[u8]>::first_chunk).map(length);
    let name = name.and_then(|length| start.get(30..)?.get(..length));
    let name = String::from_utf8_lossy(name.unwrap_or_default());
    match ENTRIES.iter().find(|(end, _)| name.ends_with(end)) {
        Some((_, kind)) => (*kind).into(),
        None => format!("a zip archive with {name:?}"),
    }
}

fn text(start: &[u8]) -> Option<String> {
    const SHOWN: usize = 40;
    if start.is_empty() {
        return Some("an empty file".into());
    }
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with('<') {
        return Some("a web page (HTML or XML): download the file itself".into());
    }
    if text.starts_with('{') && text.contains("\"weight_map\"") {
        return Some("the index of sharded weights: read each file that it names".into());
    }
    if text.starts_with("model_checkpoint_path:") {
        return Some(CHECKPOINT.into());
    }
    let printable = |c: char| !c.is_control() || c.is_whitespace();
    let shown: String = text.chars().take(SHOWN).collect();
    let is_text = !shown.is_empty() && shown.chars().all(|c| c != '\u{fffd}' && printable(c));
    is_text.then(|| format!("a text, {shown:?}"))
}

fn part(file: &mut (impl Read + Seek), from: SeekFrom, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(from).ok()?;
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
