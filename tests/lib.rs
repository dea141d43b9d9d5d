//! All tests that need Burn, as one list of trials: one id per problem and backend. The test `gru` runs
//! it, and so does the kit of `benches/gpu-kit`, on a machine that has no checkout.

/// The chapters of the book, whose code is compiled as documentation tests.
#[cfg(doctest)]
mod book {
    macro_rules! chapters {
        ($($name:ident: $file:literal,)*) => {$(
            #[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/", $file, ".md"))]
            mod $name {}
        )*};
    }

    chapters! {
        introduction: "introduction",
        getting_started: "getting-started",
        migrating: "migrating",
        cookbook: "cookbook",
        backends: "backends",
        troubleshooting: "troubleshooting",
        status: "status",
        performance: "performance",
        numerics: "numerics",
        models: "models",
        compatibility: "compatibility",
        comparison: "comparison",
        architecture: "architecture",
        custom_operator: "custom-operator",
        checks: "checks",
        glossary: "glossary",
    }

    /// The chapter on troubleshooting quotes these messages.
    ///
    /// ```
    /// use burn::{nn::{activation::ActivationConfig, gru::GruConfig}, tensor::{DType, Device, Distribution, Tensor}};
    /// use gru_convert::{StateDict, pytorch};
    /// use gru_op::{GruBlock, GruBlockConfig, Reset, SequenceOptions};
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/troubleshooting.md"));
    /// let quoted = |message: String| assert!(page.contains(&message), "not quoted: {message}");
    /// let panics = |work: &dyn Fn()| {
    ///     let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("expected a panic");
    ///     quoted(panic.downcast_ref::<String>().expect("a panic has a message").clone());
    /// };
    ///
    /// let device = Device::flex();
    /// let random = |shape| Tensor::<3>::random(shape, Distribution::Default, &device);
    /// let (x, config) = (random([3, 9, 8]), GruBlockConfig::new(8, 16));
    /// let gru = config.init(&device);
    /// panics(&|| drop(gru.forward(x.clone(), Some(random([2, 3, 16])))));
    /// panics(&|| drop(gru.forward(random([3, 9, 7]), None)));
    /// panics(&|| drop(gru.forward_with(x.clone(), SequenceOptions::new().lengths(&[10, 9, 1]))));
    /// panics(&|| drop(gru.forward(x.clone().cast(DType::BF16), None)));
    ///
    /// let x_t = Tensor::<2>::zeros([3, 8], &device);
    /// let both = config.clone().with_bidirectional(true).init(&device);
    /// panics(&|| drop(both.step(x_t.clone(), None)));
    /// let training = device.clone().autodiff();
    /// let hidden = config.clone().with_recurrent_dropout(0.2).init(&training);
    /// panics(&|| drop(hidden.step(Tensor::zeros([3, 8], &training), None)));
    ///
    /// quoted(config.clone().with_dropout(1.0).validate().unwrap_err().to_string());
    /// quoted(GruBlockConfig::new(8, 0).validate().unwrap_err().to_string());
    /// let gelu = GruConfig::new(3, 5, true).with_hidden_activation(ActivationConfig::Gelu);
    /// quoted(GruBlockConfig::try_from(&gelu).unwrap_err().to_string());
    ///
    /// let mut dict = StateDict::new();
    /// dict.insert("gru.weight_ih_l0", x.into_data());
    /// quoted(pytorch::config(&dict, "encoder.").unwrap_err().to_string());
    /// let before = config.clone().with_reset(Reset::BeforeMatmul).init(&device);
    /// quoted(pytorch::export(&before, "").unwrap_err().to_string());
    ///
    /// // The page calls each file model.bpk.
    /// let path = std::env::temp_dir().join(format!("gru-op-book-{}.bpk", std::process::id()));
    /// let of_file = |message: String| quoted(message.replace(&path.display().to_string(), "model.bpk"));
    /// before.save_with_config(&path).unwrap();
    /// of_file(gru.clone().load_checked(&path).unwrap_err().to_string());
    /// burn::module::Module::save_file(gru, &path).unwrap();
    /// of_file(GruBlock::from_file(&path, &device).unwrap_err().to_string());
    /// std::fs::remove_file(&path).unwrap();
    /// ```
    mod messages {}
}
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
mod suite;

use std::{
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use libtest_mimic::Trial;

pub use suite::backends::{self, TestBackend};
#[cfg(feature = "remote")]
pub use suite::server::serve_if_asked;
pub use suite::user::{child_if_asked, process_trials};

/// Makes its trials for all backends.
type Suite = fn(&[TestBackend]) -> Vec<Trial>;

const SUITES: &[Suite] = &[
    suite::oracle::trials,
    suite::gradient::trials,
    suite::gates::trials,
    suite::clips::trials,
    suite::empty::trials,
    suite::agreement::trials,
    |_| suite::half::trials(),
    suite::conformance::trials,
    suite::options::trials,
    suite::long::trials,
    suite::sums::trials,
    suite::zoneout_nan::trials,
    suite::pytorch_model::trials,
    suite::models::trials,
    suite::keras_model::trials,
    |_| suite::convert::trials(),
    |_| suite::files::trials(),
    suite::onnx_file::trials,
    suite::noise::trials,
    suite::nonfinite::trials,
    suite::properties::trials,
    suite::tracking::trials,
    suite::block::trials,
    suite::packed::trials,
    suite::saving::trials,
    suite::gradcheck::trials,
    suite::burn_gru::trials,
    suite::misuse::trials,
    suite::train::trials,
    suite::replay::trials,
    suite::user::trials,
    #[cfg(feature = "remote")]
    suite::remote::trials,
];

/// Every trial, on these backends.
pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    SUITES.iter().flat_map(|suite| suite(backends)).collect()
}

/// Where the recorded files lie: in this crate's folder, or in a copy that `GRU_TESTS` names.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let copy = env::var_os("GRU_TESTS").map(PathBuf::from);
        copy.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
    })
}
