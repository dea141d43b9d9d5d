//! The messages of an ONNX file, as far as a GRU needs them. The field numbers are from
//! [`onnx.proto`](https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).
//!
//! An empty entry of a list is two bytes of a file, and 24 or 32 bytes of a `Vec`. So the lists of a graph are read with
//! [`fields`], and messages with [`decode`].

use prost::{
    DecodeError, Message,
    bytes::{Buf, Bytes},
    encoding::{self, DecodeContext, WireType},
};
use std::iter;

/// The number of lists' entries in a node, an attribute or a tensor. A GRU has six inputs, two outputs and nine attributes.
const ENTRIES: usize = 64;

/// The fields of a message that are messages, texts or bytes, each with its number.
pub fn fields(mut message: Bytes) -> impl Iterator<Item = Result<(u32, Bytes), DecodeError>> {
    iter::from_fn(move || {
        while message.has_remaining() {
            match field(&mut message) {
                Ok(None) => {}
                Ok(Some(field)) => return Some(Ok(field)),
                Err(error) => {
                    message.clear();
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

fn field(message: &mut Bytes) -> Result<Option<(u32, Bytes)>, DecodeError> {
    let (number, wire) = encoding::decode_key(message)?;
    if wire != WireType::LengthDelimited {
        encoding::skip_field(wire, number, message, DecodeContext::default())?;
        return Ok(None);
    }
    let mut content = Bytes::new();
    encoding::bytes::merge(wire, &mut content, message, DecodeContext::default())?;
    Ok(Some((number, content)))
}

/// A node, an attribute or a tensor.
pub fn decode<M: Message + Default>(message: &Bytes) -> Result<M, String> {
    if fields(message.clone()).nth(ENTRIES).is_some() {
        return Err(format!(
            "expected at most {ENTRIES} inputs, outputs, attributes and texts"
        ));
    }
    M::decode(message.clone()).map_err(|error| error.to_string())
}

/// A file.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
}

/// The operator set and its version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A graph. Its lists are bytes.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    /// [`Node`]s.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub node: Vec<Bytes>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// [`Tensor`]s.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub initializer: Vec<Bytes>,
    /// Each is a `ValueInfo`.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub input: Vec<Bytes>,
    /// Each is a `ValueInfo`.
    #[prost(bytes = "bytes", repeated, tag = "12")]
    pub output: Vec<Bytes>,
}

/// Only the operator name of a [`Node`].
#[derive(Clone, PartialEq, Message)]
pub struct NodeKind {
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

/// A node of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// [`Attribute`]s.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub attribute: Vec<Bytes>,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A [`Tensor`].
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub t: Option<Bytes>,
    /// A `SparseTensor`.
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub sparse_tensor: Option<Bytes>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// One of [`kind`].
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// The type of an [`Attribute`]'s value.
pub mod kind {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
}

/// Only the name of a [`Tensor`].
#[derive(Clone, PartialEq, Message)]
pub struct TensorName {
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
}

/// A tensor.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// One of [`element`].
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// The bits of 16-bit floats, one value per entry.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<Entry>,
    /// 1: in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// A tensor with few values that are not zero.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensor {
    /// A [`Tensor`] of K values.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub values: Option<Bytes>,
    /// A [`Tensor`] of K places, or of K indices for each dimension.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub indices: Option<Bytes>,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub dims: Vec<i64>,
}

/// The element type of a [`Tensor`].
pub mod element {
    pub const FLOAT: i32 = 1;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const DOUBLE: i32 = 11;
    pub const BFLOAT16: i32 = 16;
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// An input or output of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

/// The type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    /// One of [`element`].
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// The dimensions of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dim>,
}

/// A dimension: a size, or a name for a size that each call defines.
#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub param: Option<String>,
}
