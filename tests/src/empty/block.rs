//! Blocks on empty batches.

use super::{Call, H, I, counted, expect_gradient};
use crate::runs::{expect_shape, values};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, Layout, Precision, SequenceOptions};

/// Every parameter of a module has a gradient of zeros.
struct ZeroGradients<'a> {
    gradients: &'a Gradients,
    seen: usize,
    failed: Option<String>,
}

impl ModuleVisitor for ZeroGradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.seen += 1;
        let name = format!("parameter {} of {D} dimensions", self.seen);
        let found = expect_gradient(&name, &param.val(), self.gradients, 0.0);
        self.failed = self.failed.take().or(found.err());
    }
}

pub fn expect_zero_gradients_of(block: &GruBlock, gradients: &Gradients) -> Result<(), String> {
    let mut visitor = ZeroGradients {
        gradients,
        seen: 0,
        failed: None,
    };
    block.visit(&mut visitor);
    visitor.failed.map_or(Ok(()), Err)
}

/// One layer, and two bidirectional layers, without noise and with every kind of noise.
fn blocks(call: &Call) -> Vec<GruBlock> {
    let config = GruBlockConfig::new(I, H).with_batch_first(call.layout == Layout::BatchMajor);
    let deep = config.clone().with_num_layers(2).with_bidirectional(true);
    let noisy = deep
        .clone()
        .with_dropout(0.5)
        .with_recurrent_dropout(0.25)
        .with_zoneout(0.125);
    [config, deep, noisy]
        .map(|config| config.init(&call.device))
        .into()
}

fn run_blocks(
    call: &Call,
    op: impl Fn(&GruBlock, Tensor<3>, Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>),
) -> Result<(), String> {
    for block in blocks(call) {
        for (with_state, of_y) in [(true, true), (true, false), (false, true), (false, false)] {
            let entries = block.layers.len();
            let x = call.x();
            let state = with_state.then(|| counted([entries, call.n, H], &call.device));
            let (y, last) = op(&block, x.clone(), state.clone());
            expect_shape("y", &y, call.shape(H * block.directions()))?;
            expect_shape("the final state", &last, [entries, call.n, H])?;
            let loss = if of_y { y.sum() } else { last.clone().sum() };
            if !loss.is_tracked() {
                return Err(format!(
                    "expected tracked outputs, got state {with_state}, y {of_y}"
                ));
            }
            let gradients = loss.backward();
            expect_zero_gradients_of(&block, &gradients)?;
            if let Some(state) = state {
                if !of_y {
                    expect_gradient("state", &state, &gradients, 1.0)?;
                }
                if values(last) != values(state) {
                    return Err("expected the final state to equal the initial state".into());
                }
            }
        }
    }
    Ok(())
}

pub fn forward(call: Call) -> Result<(), String> {
    run_blocks(&call, |block, x, state| block.forward(x, state))
}

pub fn lengths(call: Call) -> Result<(), String> {
    let lengths = vec![0; call.n];
    run_blocks(&call, |block, x, state| {
        block.forward_with(x, SequenceOptions::new().state(state).lengths(&lengths))
    })
}

pub fn masked(call: Call) -> Result<(), String> {
    run_blocks(&call, |block, x, state| {
        block.forward_with(x, SequenceOptions::new().state(state).mask(call.mask()))
    })
}

/// Of a block and of a prepared block.
pub fn starts(call: Call) -> Result<(), String> {
    let start_state = |block: &GruBlock| counted([block.layers.len(), 1, H], &call.device);
    for block in blocks(&call) {
        let options = SequenceOptions::new()
            .starts(call.mask().to_device(&call.device.clone().inner()))
            .start_state(start_state(&block).inner());
        let prepared = block.prepare(Precision::Full);
        let (y, last) = prepared.forward_with(call.x().inner(), options);
        expect_shape("y", &y, call.shape(H * block.directions()))?;
        expect_shape("the final state", &last, [block.layers.len(), call.n, H])?;
    }
    run_blocks(&call, |block, x, state| {
        let options = SequenceOptions::new().state(state).starts(call.mask());
        block.forward_with(x, options.start_state(start_state(block)))
    })
}

pub fn gates(call: Call) -> Result<(), String> {
    for block in blocks(&call) {
        for gates in block.gates(call.x(), None) {
            expect_shape("states", &gates.states, call.shape(H))?;
            expect_shape("update", &gates.update, call.shape(H))?;
        }
    }
    Ok(())
}

pub fn step(device: &Device) -> Result<(), String> {
    let config = GruBlockConfig::new(I, H).with_num_layers(2);
    for block in [config.clone(), config.with_zoneout(0.5)].map(|c| c.init(device)) {
        for state in [None, Some(counted([2, 0, H], device))] {
            let (y, state) = block.step(counted([0, I], device), state);
            expect_shape("y", &y, [0, H])?;
            expect_shape("the new state", &state, [2, 0, H])?;
            let gradients = (y.sum() + state.sum()).backward();
            expect_zero_gradients_of(&block, &gradients)?;
        }
    }
    Ok(())
}
