//! The arguments and the descriptor of a case.

use crate::conformance::{constant, leaf};
use burn::tensor::{Device, Tensor};
use gru_op::{
    Activation, Update,
    mps_graph::{Gradients, GruDescriptor, HARD_SIGMOID, RecurrentWeight, gru, gru_gradients},
};
use gru_testkit::conformance::{Case, CaseSpec};
use serde_json::Value;

/// The arguments of both operators.
#[derive(Clone)]
pub struct Arguments {
    pub source: Tensor<3>,
    pub recurrent_weight: RecurrentWeight,
    pub input_weight: Option<Tensor<2>>,
    pub bias: Option<Tensor<1>>,
    pub init_state: Option<Tensor<2>>,
    pub mask: Option<Tensor<2>>,
    pub secondary_bias: Option<Tensor<1>>,
}

impl Arguments {
    /// Without optional arguments.
    pub fn new(source: Tensor<3>, recurrent_weight: impl Into<RecurrentWeight>) -> Self {
        Self {
            source,
            recurrent_weight: recurrent_weight.into(),
            input_weight: None,
            bias: None,
            init_state: None,
            mask: None,
            secondary_bias: None,
        }
    }

    pub fn gru(&self, descriptor: &GruDescriptor) -> Vec<Tensor<3>> {
        let all = self.clone();
        gru(
            all.source,
            all.recurrent_weight,
            all.input_weight,
            all.bias,
            all.init_state,
            all.mask,
            all.secondary_bias,
            descriptor,
        )
    }

    pub fn gradients(
        self,
        source_gradient: Tensor<3>,
        z_state: Tensor<3>,
        output_fwd: Tensor<3>,
        state_gradient: Option<Tensor<2>>,
        descriptor: &GruDescriptor,
    ) -> Gradients {
        gru_gradients(
            self.source,
            self.recurrent_weight,
            source_gradient,
            z_state,
            output_fwd,
            state_gradient,
            self.input_weight,
            self.bias,
            self.init_state,
            self.mask,
            self.secondary_bias,
            descriptor,
        )
    }
}

pub fn arguments(case: &Case, device: &Device, track: bool) -> Arguments {
    fn of<const D: usize>(
        case: &Case,
        name: &str,
        device: &Device,
        track: bool,
    ) -> Option<Tensor<D>> {
        let array = case.get(&format!("in.{name}"))?;
        Some(if track {
            leaf(array, device)
        } else {
            constant(array, device)
        })
    }
    let recurrent = "recurrentWeight";
    let recurrent_weight = match case.tensor(&format!("in.{recurrent}")).shape.len() {
        2 => of::<2>(case, recurrent, device, track).map(RecurrentWeight::from),
        _ => of::<3>(case, recurrent, device, track).map(RecurrentWeight::from),
    };
    Arguments {
        source: of(case, "source", device, track).expect("every case has a source"),
        recurrent_weight: recurrent_weight.expect("every case has one"),
        input_weight: of(case, "inputWeight", device, track),
        bias: of(case, "bias", device, track),
        init_state: of(case, "initState", device, track),
        mask: of(case, "mask", device, false),
        secondary_bias: of(case, "secondaryBias", device, track),
    }
}

pub fn descriptor(spec: &CaseSpec) -> GruDescriptor {
    let flag = |name: &str| spec.flag(name) == Some(true);
    let update = match spec.option("update_rule").as_str() {
        Some("z*h+(1-z)*o") => Update::Keeps,
        Some("(1-z)*h+z*o") => Update::Takes,
        other => panic!("{}: update_rule {other:?}", spec.name()),
    };
    let mut descriptor = GruDescriptor::new(update);
    descriptor.reverse = flag("reverse");
    descriptor.bidirectional = flag("bidirectional");
    descriptor.training = true;
    descriptor.reset_gate_first = flag("resetGateFirst");
    descriptor.reset_after = flag("resetAfter");
    descriptor.update_gate_activation = activation(
        spec,
        "updateGateActivation",
        descriptor.update_gate_activation,
    );
    descriptor.reset_gate_activation = activation(
        spec,
        "resetGateActivation",
        descriptor.reset_gate_activation,
    );
    descriptor.output_gate_activation = activation(
        spec,
        "outputGateActivation",
        descriptor.output_gate_activation,
    );
    descriptor
}

/// The activation of a gate in a case.
fn activation(spec: &CaseSpec, gate: &str, default: Activation) -> Activation {
    let parameter = |index: usize| spec.option("hardSigmoid")[index].as_f64();
    match spec.option(gate) {
        Value::Null => default,
        Value::String(name) => match name.as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "none" => Activation::Identity,
            "hardSigmoid" => match (parameter(0), parameter(1)) {
                (Some(alpha), Some(beta)) => Activation::HardSigmoid { alpha, beta },
                _ => HARD_SIGMOID,
            },
            other => panic!("{}: activation {other}", spec.name()),
        },
        other => panic!("{}: activation {other}", spec.name()),
    }
}
