//! The recorded vectors of other frameworks: one safetensors file per case.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::close::Tolerance;

/// A tensor of a case, of any type in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The shape.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub data: Vec<f64>,
}

/// The transpose of a row-major matrix.
pub fn transposed(data: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    assert_eq!(data.len(), rows * columns, "transposed: {rows}x{columns}");
    (0..columns)
        .flat_map(|column| (0..rows).map(move |row| data[row * columns + column]))
        .collect()
}

/// One line of `cases.json`: the description of a case, without its tensors.
#[derive(Debug, Clone)]
pub struct CaseSpec(Value);

impl CaseSpec {
    /// Every case of the table in `directory`.
    ///
    /// # Panics
    /// If the table cannot be read.
    pub fn all(directory: &Path) -> Vec<Self> {
        let path = directory.join("cases.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let cases: Vec<Value> =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        cases.into_iter().map(Self).collect()
    }

    /// The name of the case and of its file.
    pub fn name(&self) -> &str {
        self.0["name"].as_str().expect("every case has a name")
    }

    /// The kind of the case, such as `torch_gru`.
    pub fn kind(&self) -> &str {
        self.0["kind"].as_str().expect("every case has a kind")
    }

    /// An option, or null if the case does not set it.
    pub fn option(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// A number, such as a size.
    pub fn number(&self, name: &str) -> Option<usize> {
        Some(usize::try_from(self.0[name].as_u64()?).expect("sizes fit"))
    }

    /// A flag, if set.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.0[name].as_bool()
    }

    /// Reads the tensors.
    ///
    /// # Panics
    /// If the file in `directory` is missing or malformed, or belongs to another case.
    pub fn load(&self, directory: &Path) -> Case {
        let path = directory.join(format!("vectors/{}.safetensors", self.name()));
        let fail = |e: String| -> ! { panic!("{}: {e}", path.display()) };
        let bytes = fs::read(&path).unwrap_or_else(|e| fail(e.to_string()));
        let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|e| fail(e.to_string()));
        let (_, header) =
            SafeTensors::read_metadata(&bytes).unwrap_or_else(|e| fail(e.to_string()));
        let metadata = header.metadata().clone().unwrap_or_default();
        let tensors = file
            .iter()
            .map(|(name, view)| {
                let data = numbers(view.dtype(), view.data())
                    .unwrap_or_else(|| fail(format!("{name}: type {:?}", view.dtype())));
                let shape = view.shape().to_vec();
                (name.to_owned(), Array { shape, data })
            })
            .collect();
        let recorded: Value = serde_json::from_str(&metadata["spec"]).unwrap_or_default();
        if recorded != self.0 {
            fail(format!(
                "made from {recorded}, but the table has {}",
                self.0
            ));
        }
        Case {
            spec: self.clone(),
            metadata,
            tensors,
        }
    }
}

/// Little-endian values as float64, or none for an unused type.
fn numbers(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    let four = |f: fn([u8; 4]) -> f64| bytes.as_chunks().0.iter().map(|b| f(*b)).collect();
    match dtype {
        Dtype::F32 => Some(four(|b| f32::from_le_bytes(b).into())),
        Dtype::I32 => Some(four(|b| i32::from_le_bytes(b).into())),
        Dtype::F64 => Some(
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f64::from_le_bytes(*b))
                .collect(),
        ),
        _ => None,
    }
}

/// A case with its tensors: `in.*`, `up.*` (upstream gradients), `out.*`, `grad.*`.
#[derive(Debug, Clone)]
pub struct Case {
    /// The case's line in the table.
    pub spec: CaseSpec,
    /// The metadata of the file.
    pub metadata: HashMap<String, String>,
    tensors: BTreeMap<String, Array>,
}

impl Case {
    /// A tensor.
    ///
    /// # Panics
    /// If the case does not have it.
    pub fn tensor(&self, name: &str) -> &Array {
        self.get(name)
            .unwrap_or_else(|| panic!("{}: no tensor {name}", self.spec.name()))
    }

    /// A tensor, if the case has it.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.tensors.get(name)
    }

    /// The tensors whose names start with `prefix`, without the prefix.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Array)> {
        self.tensors
            .iter()
            .filter_map(move |(name, array)| Some((name.strip_prefix(prefix)?, array)))
    }

    /// The float32 tolerance of the file.
    ///
    /// # Panics
    /// If it is neither of the two tolerances of this crate.
    pub fn tolerance(&self) -> Tolerance {
        let number = |key: &str| self.metadata.get(key).and_then(|v| v.parse::<f64>().ok());
        let (forward, gradient) = (number("tol_forward"), number("tol_gradient"));
        [Tolerance::F32, Tolerance::F32_SATURATED]
            .into_iter()
            .find(|t| forward == Some(t.forward) && gradient.is_none_or(|g| g == t.gradient))
            .unwrap_or_else(|| panic!("{}: {forward:?}, {gradient:?}", self.spec.name()))
    }
}
