//! Reads texts from disk in chunks, so a file may be larger than the memory.
//!
//! Several files are read as one text. A byte-order mark is skipped, `\r\n` becomes `\n`, and a missing
//! line end between two files is added.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// Bytes per chunk. The chunk is small because each parallel stream holds one.
const CHUNK: usize = 16 * 1024;

/// A text with the position of every chunk in characters, which allows random access. Clones share these
/// data.
#[derive(Clone, Debug)]
pub struct Text {
    parts: Arc<[Part]>,
    marks: Arc<[Mark]>,
    characters: usize,
}

#[derive(Debug)]
struct Part {
    source: Source,
    length: u64,
}

#[derive(Debug)]
enum Source {
    Memory(Cow<'static, str>),
    File(PathBuf),
}

/// The start of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    character: usize,
    part: usize,
    byte: u64,
}

impl Text {
    /// A text in memory.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Result<(Self, Vocabulary), Error> {
        let text = text.into();
        Self::of(vec![Part {
            length: text.len() as u64,
            source: Source::Memory(text),
        }])
    }

    /// Files, and all `.txt` files in folders, sorted by name.
    pub fn open(paths: &[PathBuf]) -> Result<(Self, Vocabulary), Error> {
        let mut files = Vec::new();
        for path in paths {
            collect(path, true, &mut files)?;
        }
        if files.is_empty() {
            return Err(Error::NoFiles);
        }
        let mut parts = Vec::with_capacity(files.len());
        for path in files {
            let failed = |source| Error::ReadText {
                path: path.clone(),
                source,
            };
            let length = fs::metadata(&path).map_err(failed)?.len();
            parts.push(Part {
                source: Source::File(path),
                length,
            });
        }
        Self::of(parts)
    }

    /// Reads everything once to check the encoding, count the characters and find the distinct ones.
    fn of(parts: Vec<Part>) -> Result<(Self, Vocabulary), Error> {
        let mut text = Self {
            parts: parts.into(),
            marks: Arc::new([]),
            characters: 0,
        };
        let mut distinct = BTreeSet::new();
        let mut place = Mark {
            character: 0,
            part: 0,
            byte: 0,
        };
        let mut marks = Vec::new();
        while let Some(chunk) = text.chunk(place)? {
            marks.push(place);
            distinct.extend(chunk.text.chars());
            place = chunk.next;
        }
        text.characters = place.character;
        text.marks = marks.into();
        let vocabulary = Vocabulary::new(distinct.into_iter().collect())?;
        Ok((text, vocabulary))
    }

    /// The number of characters.
    pub fn characters(&self) -> usize {
        self.characters
    }

    /// Reads from character `start`.
    pub fn read_from(&self, start: usize) -> Reader {
        let after = self.marks.partition_point(|mark| mark.character <= start);
        let mark = self.marks[after.saturating_sub(1)];
        Reader {
            text: self.clone(),
            next: mark,
            chunk: String::new(),
            at: 0,
            skip: start - mark.character,
        }
    }

    /// The chunk that begins at `mark`, or none at the end.
    fn chunk(&self, mut mark: Mark) -> Result<Option<Chunk>, Error> {
        loop {
            let Some(part) = self.parts.get(mark.part) else {
                return Ok(None);
            };
            if mark.byte < part.length {
                break;
            }
            mark = Mark {
                part: mark.part + 1,
                byte: 0,
                ..mark
            };
        }
        let part = &self.parts[mark.part];
        let bytes = part.read(mark.byte)?;
        let ends_part = mark.byte + bytes.len() as u64 >= part.length;
        // A character or line end at the end of the chunk belongs to the next chunk if it is incomplete.
        let whole = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() && !ends_part => {
                std::str::from_utf8(&bytes[..error.valid_up_to()])
                    .expect("these bytes are valid UTF-8")
            }
            Err(error) => return Err(part.not_utf8(mark.byte + error.valid_up_to() as u64)),
        };
        let whole = match whole.strip_suffix('\r') {
            Some(shorter) if !ends_part && !shorter.is_empty() => shorter,
            _ => whole,
        };
        let byte = mark.byte + whole.len() as u64;
        let text = match mark.byte {
            0 => whole.strip_prefix('\u{feff}').unwrap_or(whole),
            _ => whole,
        };
        let mut text = text.replace("\r\n", "\n");
        if ends_part && mark.part + 1 < self.parts.len() && !text.ends_with('\n') {
            text.push('\n');
        }
        let next = Mark {
            character: mark.character + text.chars().count(),
            byte,
            ..mark
        };
        Ok(Some(Chunk { text, next }))
    }
}

struct Chunk {
    text: String,
    next: Mark,
}

impl Part {
    /// Up to [`CHUNK`] bytes from `start`.
    fn read(&self, start: u64) -> Result<Vec<u8>, Error> {
        let length = CHUNK.min((self.length - start) as usize);
        match &self.source {
            Source::Memory(text) => {
                let start = start as usize;
                Ok(text.as_bytes()[start..start + length].to_vec())
            }
            // A folder may have more files than a process may open.
            Source::File(path) => {
                let failed = |source| Error::ReadText {
                    path: path.clone(),
                    source,
                };
                let mut bytes = vec![0; length];
                let mut file = File::open(path).map_err(failed)?;
                file.seek(SeekFrom::Start(start)).map_err(failed)?;
                file.read_exact(&mut bytes)
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => Error::Changed { path: path.clone() },
                        _ => failed(error),
                    })?;
                Ok(bytes)
            }
        }
    }

    fn not_utf8(&self, offset: u64) -> Error {
        match &self.source {
            Source::File(path) => Error::NotUtf8 {
                path: path.clone(),
                offset,
            },
            Source::Memory(_) => unreachable!("a string is UTF-8"),
        }
    }
}

/// Iterates over the characters of a text.
pub struct Reader {
    text: Text,
    next: Mark,
    chunk: String,
    at: usize,
    skip: usize,
}

impl Reader {
    /// The next character, or none at the end.
    pub fn read(&mut self) -> Result<Option<char>, Error> {
        loop {
            if let Some(c) = self.chunk[self.at..].chars().next() {
                self.at += c.len_utf8();
                if self.skip == 0 {
                    return Ok(Some(c));
                }
                self.skip -= 1;
                continue;
            }
            match self.text.chunk(self.next)? {
                Some(chunk) => {
                    self.chunk = chunk.text;
                    self.next = chunk.next;
                    self.at = 0;
                }
                None => return Ok(None),
            }
        }
    }
}

/// A named file, or the `.txt` files of a folder. Links in a folder are followed to files only, because links to folders
/// may form a circle.
fn collect(path: &Path, named: bool, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::ReadText {
        path: path.to_path_buf(),
        source,
    };
    if !named && path.is_symlink() && !path.is_file() {
        return Ok(());
    }
    let kind = fs::metadata(path).map_err(failed)?;
    if kind.is_dir() {
        let entries = fs::read_dir(path).map_err(failed)?;
        let entries: Result<Vec<PathBuf>, _> = entries.map(|e| e.map(|e| e.path())).collect();
        let mut entries = entries.map_err(failed)?;
        entries.sort();
        return entries.iter().try_for_each(|e| collect(e, false, files));
    }
    if named || path.extension().is_some_and(|e| e == "txt") {
        files.push(path.to_path_buf());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("char-gru-text-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn rest(text: &Text, start: usize) -> String {
        let mut reader = text.read_from(start);
        std::iter::from_fn(|| reader.read().unwrap()).collect()
    }

    #[test]
    fn every_place_of_a_long_text_is_found() {
        // Characters of one to four bytes, and line ends, across every boundary of two chunks.
        let long: String = (0..9000)
            .map(|i| ["a", "é", "→", "𝄞", "\r\n", "b\r"][((i * 2_654_435_761) >> 7) % 6])
            .collect();
        let expected: Vec<char> = long.replace("\r\n", "\n").chars().collect();
        let folder = folder("long");
        let path = folder.join("a.txt");
        fs::write(&path, &long).unwrap();
        let (text, vocabulary) = Text::open(&[path]).unwrap();
        assert!(text.marks.len() > 1, "expected several chunks");
        assert_eq!(text.characters(), expected.len());
        assert_eq!(vocabulary.len(), 7);
        for start in (0..=expected.len()).step_by(613) {
            let expected: String = expected[start..].iter().collect();
            assert_eq!(rest(&text, start), expected, "from {start}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_and_folders_are_one_text() {
        let folder = folder("parts");
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("b.txt"), "\u{feff}two\r\n").unwrap();
        fs::write(folder.join("a.txt"), "one").unwrap();
        fs::write(folder.join("sub").join("c.txt"), "").unwrap();
        fs::write(folder.join("sub").join("d.txt"), "three\r").unwrap();
        fs::write(folder.join("picture.png"), [0xff, 0xd8]).unwrap();
        #[cfg(unix)]
        for (to, link) in [(".", "circle"), ("missing", "gone.txt")] {
            std::os::unix::fs::symlink(to, folder.join(link)).unwrap();
        }
        let (text, _) = Text::open(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(rest(&text, 0), "one\ntwo\nthree\r");
        assert_eq!(rest(&text, 5), "wo\nthree\r");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn invalid_texts_are_rejected() {
        let folder = folder("wrong");
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            Text::open(&[path]).unwrap_err().to_string()
        };
        assert!(
            file("latin", b"caf\xe9 au lait").contains("byte 3 is not the start of a character")
        );
        assert!(file("cut", "caf\u{e9}".as_bytes().split_last().unwrap().1).contains("byte 3"));
        let mut long = "x".repeat(3 * CHUNK).into_bytes();
        long.push(0xff);
        assert!(file("late", &long).contains(&format!("byte {}", 3 * CHUNK)));
        assert!(file("empty", b"").contains("empty"));
        assert!(file("mark", "\u{feff}".as_bytes()).contains("empty"));
        assert!(file("one", "aaaa".as_bytes()).contains("one distinct character"));
        let none = Text::open(&[folder.join("missing")]).unwrap_err();
        assert!(none.to_string().contains("missing"));
        fs::create_dir_all(folder.join("bare")).unwrap();
        assert!(Text::open(&[folder.join("bare")]).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
