//! Named arrays of weights from a blob of RNNoise, which `rnnoise_weights.py` writes.
//!
//! A blob is a sequence of arrays with a head of 64 bytes and padding:
//!
//! ```text
//! "DNNw", version: i32, type: i32, size: i32, padded size: i32, name: [u8; 44]
//! ```

use std::collections::HashMap;

/// The maximum length of a file: four times the size of the blob of pyrnnoise 0.4.5.
pub const LONGEST: usize = 64 << 20;
const HEAD: usize = 64;

/// An error in a file of weights.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // The messages describe the variants.
pub enum ArraysError {
    #[error("expected a blob that starts with DNNw; rnnoise_weights.py writes one")]
    Kind,
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

/// Arrays by their names.
#[derive(Debug)]
pub struct Arrays<'a>(HashMap<&'a [u8], &'a [u8]>);

impl<'a> Arrays<'a> {
    /// Reads a blob.
    ///
    /// # Errors
    /// If the bytes are no blob, or are malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ArraysError> {
        if !bytes.starts_with(b"DNNw") {
            return Err(ArraysError::Kind);
        }
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
