//! The published models over their recorded inputs, generated with `GruBlock` and with Burn's own GRU.

use burn::tensor::{Device, Tensor, TensorData};
use gru_testkit::close::close;
use safetensors::SafeTensors;
use std::{fs, path::Path};

/// Largest allowed difference from ONNX Runtime, relative to `max(1, largest value)`. ONNX Runtime 1.32 differs
/// from itself by up to 1.8e-6 between its optimized and its unoptimized graph (`record.py --noise`), after 63
/// frames of GTCRN. Five times this value allows other orders of summation in all layers, and no approximation.
const TOLERANCE: f64 = 1e-5;

/// The recorded inputs and outputs of a model.
pub struct Recorded(Vec<u8>);

impl Recorded {
    /// Reads `recorded/NAME.safetensors`.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
        Self(fs::read(folder.join(format!("{name}.safetensors"))).expect("the record is readable"))
    }

    /// A tensor of the file.
    ///
    /// # Panics
    /// If it is missing or has another rank.
    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let values = view
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_le_bytes(b));
        let data = TensorData::new(values.collect::<Vec<_>>(), view.shape().to_vec());
        Tensor::from_data(data, device)
    }

    /// Compares an output with the recorded one.
    ///
    /// # Errors
    /// If the shape or a value differs.
    pub fn compare<const D: usize>(&self, name: &str, got: Tensor<D>) -> Result<(), String> {
        let expected: Tensor<D> = self.tensor(&format!("out.{name}"), &got.device());
        if expected.dims() != got.dims() {
            return Err(format!(
                "{name}: expected shape {:?}, got {:?}",
                expected.dims(),
                got.dims()
            ));
        }
        let values = |tensor: Tensor<D>| tensor.into_data().iter::<f64>().collect::<Vec<_>>();
        close(name, &values(got), &values(expected), TOLERANCE)
    }
}

/// The generated forms of a model: `gru_op`, `int8`, `burn_gru`, and `rest`, whose GRUs return zeros.
macro_rules! generated {
    ($($name:ident),*) => {$(
        #[cfg($name)]
        #[allow(clippy::all, missing_docs, unused)]
        pub mod $name {
            form!($name, gru_op);
            form!($name, int8);
            form!($name, burn_gru);
            form!($name, rest);
        }
    )*};
}

/// One form, and its weights. `Model::default` would use Burn's default device.
#[allow(unused_macros)]
macro_rules! form {
    ($name:ident, $form:ident) => {
        pub mod $form {
            include!(concat!(
                env!("OUT_DIR"),
                "/",
                stringify!($form),
                "/",
                stringify!($name),
                ".rs"
            ));

            pub fn load(device: &Device) -> Model {
                let folder = concat!(env!("OUT_DIR"), "/", stringify!($form), "/");
                Model::from_file(format!("{folder}{}.bpk", stringify!($name)), device)
            }
        }
    };
}

generated!(gtcrn, nsnet2, df_enc, df_erb_dec, df_dec);
