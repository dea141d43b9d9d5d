//! Files of Keras: `.h5` and `.weights.h5`, which are HDF5, and `.keras`, a zip archive that contains such
//! a file.

use super::{failed, text};
use crate::{error::ConvertError, state_dict::StateDict};
use burn::tensor::{Element, TensorData, bf16, f16};
use gru_op::files::{self, DEPTH, KERAS, Limit};
use hdf5_pure::{
    DType, Dataset, Datatype, DatatypeByteOrder, Error, File, FloatingPointLayout, FormatError,
    Group, Source,
};
use std::{
    io::{Cursor, Read},
    panic,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use zip::{ZipArchive, result::ZipError};

/// The name of the weights in a `.keras` file.
const WEIGHTS: &str = "model.weights.h5";
/// The first bytes of a zip archive.
const ZIP: &[u8] = b"PK";
/// Bytes of the stack on which a file is read. The reader calls itself for each level of a tree or a type, and a file may
/// claim 65,535.
const STACK: usize = 256 << 20;
/// The advice for a group that cannot be read.
const LINKS: &str = "a file from model.save_weights has no links";
/// The advice for an array that cannot be read.
const COMPRESSION: &str = "arrays without compression can be read";
/// How many bytes each read counts at least.
const READ: u64 = 256;

impl StateDict {
    /// Reads the arrays of a `.weights.h5`, `.keras` or `.h5` file, with their paths in the file as
    /// names. For example, the arrays of a model's second GRU are `layers/gru_1/cell/vars/0` to `2`,
    /// whatever the layer's name. So `layers/gru_1/` is the prefix for [`keras`](crate::keras), and
    /// `layers/bidirectional/` is the prefix of the first `Bidirectional`.
    ///
    /// A `.h5` file of Keras 2 contains names of layers, such as `model_weights/gru/gru/gru_cell/kernel:0`.
    /// There `model_weights/gru/` is the prefix of the layer `gru`.
    ///
    /// Numbers keep their type.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), gru_convert::ConvertError> {
    /// use gru_convert::{StateDict, keras};
    ///
    /// let dict = StateDict::from_keras("model.keras")?;
    /// let config = keras::config(&dict, "layers/gru/")?;
    /// let gru = keras::import(&dict, "layers/gru/", &config, &burn::tensor::Device::flex())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the file is invalid, or if its groups are nested too deep or contain each other.
    pub fn from_keras(path: impl AsRef<Path>) -> Result<Self, ConvertError> {
        let path = path.as_ref();
        let bytes = files::read(path).map_err(|e| failed(path, e))?;
        Self::from_keras_bytes(path, bytes)
    }

    /// [`from_keras`](Self::from_keras) for the bytes of a file. Errors use `name` as its path.
    ///
    /// # Errors
    /// As [`from_keras`](Self::from_keras).
    pub fn from_keras_bytes(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self, ConvertError> {
        let name = name.as_ref().display().to_string();
        let mut limit = Limit::new(bytes.len() as u64);
        let bytes = if bytes.starts_with(ZIP) {
            inside(&name, &bytes, &mut limit)
        } else {
            Ok(bytes)
        };
        let dict = bytes.and_then(|bytes| on_large_stack(|| read(&name, bytes, limit)));
        dict.map_err(|reason| failed(&name, files::invalid(reason)))
    }
}

/// Calls `f` on a thread with a stack of [`STACK`] bytes; on this thread where there are no threads, as in a browser.
fn on_large_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let mut f = Some(f);
    let mut call = || f.take().map(|f| f());
    let result = thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK);
        let started = builder.spawn_scoped(scope, &mut call);
        let joined = started.ok().map(|thread| thread.join());
        joined.and_then(|result| result.unwrap_or_else(|panic| panic::resume_unwind(panic)))
    });
    match result {
        Some(result) => result,
        None => call().expect("no thread has called it"),
    }
}

/// The weights in a `.keras` file.
fn inside(file: &str, bytes: &[u8], limit: &mut Limit) -> Result<Vec<u8>, String> {
    let of = |reason: &dyn std::fmt::Display| format!("{WEIGHTS}: {reason}");
    let other = |error: ZipError| files::mismatch(KERAS, file, &mut Cursor::new(bytes), error);
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(other)?;
    let entry = archive.by_name(WEIGHTS).map_err(other)?;
    let size = entry.size();
    limit.claim(size)?;
    let mut weights = Vec::new();
    let mut entry = entry.take(size.saturating_add(1));
    entry.read_to_end(&mut weights).map_err(|e| of(&e))?;
    if weights.len() as u64 == size {
        Ok(weights)
    } else {
        Err(of(&format!("expected {size} bytes, got {}", weights.len())))
    }
}

fn read(name: &str, bytes: Vec<u8>, limit: Limit) -> Result<StateDict, String> {
    let start = bytes[..bytes.len().min(512)].to_vec();
    let source = Limited {
        left: AtomicU64::new(limit.largest()),
        bytes,
    };
    let file = File::from_source(source)
        .map_err(|e| files::mismatch(KERAS, name, &mut Cursor::new(start), e))?;
    let dict = StateDict::new();
    let mut traversal = Traversal { limit, dict };
    traversal.group(&file.root(), "", 0)?;
    Ok(traversal.dict)
}

/// A file that can be read a limited number of times. Groups can contain each other, and reading them would take hours.
struct Limited {
    bytes: Vec<u8>,
    /// How many bytes can still be read.
    left: AtomicU64,
}

impl Source for Limited {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        let size = buffer.len() as u64;
        let left = |left: u64| left.checked_sub(size.max(READ));
        let order = Ordering::Relaxed;
        if self.left.fetch_update(order, order, left).is_err() {
            let reason = "groups contain each other, so reading takes too long";
            return Err(FormatError::Source(reason.into()));
        }
        let part = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..start.checked_add(buffer.len())?));
        let part = part.ok_or(FormatError::UnexpectedEof {
            expected: buffer.len(),
            available: self.bytes.len(),
        })?;
        buffer.copy_from_slice(part);
        Ok(())
    }
}

/// Whether an error is not the one of an array or a group, but of the file.
fn is_damage(error: &Error) -> bool {
    use FormatError::{Source, UnexpectedEof};
    matches!(error, Error::Format(UnexpectedEof { .. } | Source(_)))
}

/// The state of the traversal.
struct Traversal {
    limit: Limit,
    dict: StateDict,
}

impl Traversal {
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err(format!("expected groups {DEPTH} deep at most, got {path}"));
        }
        let datasets = group.iter_datasets();
        let members = datasets.and_then(|datasets| Ok((datasets, group.iter_groups()?)));
        let (datasets, groups) = match members {
            Ok(members) => members,
            Err(error) if depth == 0 || is_damage(&error) => return Err(text(error)),
            // A link that the reader does not know makes a group unreadable, but not the others.
            Err(error) => {
                let reason = format!("its group cannot be read, {error}; {LINKS}");
                self.dict.insert_read(path, Err(reason));
                return Ok(());
            }
        };
        for (name, dataset) in datasets {
            let name = self.name(path, &name)?;
            let array = match self.array(&dataset) {
                Err(error) if is_damage(&error) => return Err(format!("{name}: {error}")),
                Err(error) => Err(format!("{error}; {COMPRESSION}")),
                Ok(array) => array,
            };
            self.dict.insert_read(&name, array);
        }
        for (name, inner) in groups {
            let name = self.name(path, &name)?;
            self.group(&inner, &format!("{name}/"), depth + 1)?;
        }
        Ok(())
    }

    /// The path of a group or an array. Long paths of many arrays would be larger than the file.
    fn name(&mut self, path: &str, name: &str) -> Result<String, String> {
        self.limit.claim((path.len() + name.len()) as u64)?;
        Ok(format!("{path}{name}"))
    }

    /// The values of a dataset. The inner error is an array that is left out.
    fn array(&mut self, dataset: &Dataset) -> Result<Result<TensorData, String>, Error> {
        let sizes = dataset.shape()?;
        let element = dataset.element_size()?;
        let bytes = sizes.iter().try_fold(element, |n, &m| n.checked_mul(m));
        let claimed = match bytes {
            Some(bytes) => self.limit.claim_array(sizes.len(), bytes),
            None => Err(format!("no memory holds shape {sizes:?}")),
        };
        if let Err(reason) = claimed {
            return Ok(Err(reason));
        }
        let shape = sizes.into_iter().map(|size| size as usize).collect();
        match dataset.dtype()? {
            DType::F32 => data(shape, dataset.read_f32()),
            DType::F64 => data(shape, dataset.read_f64()),
            DType::I8 => data(shape, dataset.read_i8()),
            DType::I16 => data(shape, dataset.read_i16()),
            DType::I32 => data(shape, dataset.read_i32()),
            DType::I64 => data(shape, dataset.read_i64()),
            DType::U8 => data(shape, dataset.read_u8()),
            DType::U16 => data(shape, dataset.read_u16()),
            DType::U32 => data(shape, dataset.read_u32()),
            DType::U64 => data(shape, dataset.read_u64()),
            DType::Other(kind) if is_bfloat16(&kind, dataset)? => {
                let bytes = dataset.read_raw()?;
                let number = |pair: &[u8]| bf16::from_le_bytes([pair[0], pair[1]]);
                data(shape, Ok(bytes.chunks_exact(2).map(number).collect()))
            }
            DType::Other(kind) => {
                let Some(order) = half(&kind) else {
                    let reason = format!("expected numbers of a usual type, got {kind:?}");
                    return Ok(Err(reason));
                };
                let bytes = dataset.read_raw()?;
                let number = |pair: &[u8]| match order {
                    DatatypeByteOrder::BigEndian => f16::from_be_bytes([pair[0], pair[1]]),
                    _ => f16::from_le_bytes([pair[0], pair[1]]),
                };
                data(shape, Ok(bytes.chunks_exact(2).map(number).collect()))
            }
            _ => Ok(Err("expected numbers, got another type".into())),
        }
    }
}

/// The byte order of IEEE 754's half precision, for which the reader has no name.
fn half(kind: &Datatype) -> Option<DatatypeByteOrder> {
    const HALF: FloatingPointLayout = FloatingPointLayout {
        bit_offset: 0,
        bit_precision: 16,
        exponent_location: 10,
        exponent_size: 5,
        mantissa_location: 0,
        mantissa_size: 10,
        exponent_bias: 15,
    };
    match kind {
        Datatype::FloatingPoint {
            size: 2,
            byte_order: order @ (DatatypeByteOrder::LittleEndian | DatatypeByteOrder::BigEndian),
            layout,
        } if *layout == HALF => Some(*order),
        _ => None,
    }
}

/// Whether numbers are bfloat16, for which HDF5 has no type. Keras names it in an attribute.
fn is_bfloat16(kind: &Datatype, dataset: &Dataset) -> Result<bool, Error> {
    if !matches!(kind, Datatype::Opaque { size: 2, .. }) {
        return Ok(false);
    }
    let attributes = dataset.attrs()?;
    let name = attributes.get("dtype").and_then(|name| name.as_str());
    Ok(name == Some("bfloat16"))
}

fn data<E: Element>(
    shape: Vec<usize>,
    numbers: Result<Vec<E>, hdf5_pure::Error>,
) -> Result<Result<TensorData, String>, Error> {
    let numbers = numbers?;
    // Values that the file does not store cannot be weights.
    Ok(if shape.iter().product::<usize>() == numbers.len() {
        Ok(TensorData::new(numbers, shape))
    } else {
        Err(format!("shape {shape:?}, but {} numbers", numbers.len()))
    })
}

#[cfg(test)]
mod tests;
