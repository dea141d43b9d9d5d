//! Inference with few rows packs the weights once and keeps the packed weights. A call always uses the
//! current weights, whatever changes them.

use burn::{
    module::{Module, ModuleMapper, Param},
    optim::{GradientsParams, SgdConfig},
    tensor::{Device, Distribution, Tensor},
};
use gru_op::{GruBlock, GruBlockConfig, GruWeights};
use libtest_mimic::Trial;

use super::{backends::TestBackend, runs::values};

const N: usize = 2;
const I: usize = 3;
const H: usize = 6;

type Change = fn(GruBlock, &Device) -> GruBlock;

const CHANGES: &[(&str, Change)] = &[
    ("nothing", |gru, _| gru),
    ("mapped", |gru, _| gru.map(&mut Add)),
    ("in-place", |mut gru, _| {
        // Burn writes in place if no other handle exists.
        let layer = &mut gru.layers[0];
        layer.w_hh = layer.w_hh.clone().map(|w| w + 0.25);
        gru
    }),
    ("assigned", |mut gru, device| {
        let row = Tensor::<2>::ones([1, 3 * H], device);
        let layer = &mut gru.layers[0];
        let w_ih = layer.w_ih.clone();
        layer.w_ih = w_ih.map(|w| w.slice_assign([1..2, 0..3 * H], row));
        gru
    }),
    ("bias", |mut gru, _| {
        let layer = &mut gru.layers[0];
        layer.b_hh = layer.b_hh.take().map(|b| b.map(|b| b * 3.0));
        gru
    }),
    ("no-bias", |mut gru, _| {
        gru.layers[0].b_hh = None;
        gru
    }),
    ("trained", |gru, device| {
        let autodiff = device.clone().autodiff();
        let gru = gru.to_device(&autodiff).train();
        let x = Tensor::<3>::ones([N, 2, I], &autodiff);
        let gradients = gru.forward(x, None).0.sum().backward();
        let gradients = GradientsParams::from_grads(gradients, &gru);
        SgdConfig::new().init().step(0.5, gru, gradients).valid()
    }),
    ("another", |_, device| {
        // Possibly in the memory of the previous weights.
        GruBlockConfig::new(I, H).init(device)
    }),
];

struct Add;

impl ModuleMapper for Add {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor + 0.5)
    }
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends.iter().filter(|backend| !backend.samples_modes()) {
        for &(name, change) in CHANGES {
            let id = format!("packed/{name}/{}", backend.name);
            trials.push(backend.trial(id, move |device| changed(change, device)));
        }
    }
    trials
}

fn changed(change: Change, device: &Device) -> Result<(), String> {
    let x = Tensor::<2>::random([N, I], Distribution::Default, device);
    let mut gru = GruBlockConfig::new(I, H).init(device);
    for round in 0..4 {
        // The first call packs. The second call uses the packed weights.
        for _ in 0..2 {
            let (got, _) = gru.step(x.clone(), None);
            let (expected, _) = fresh(&gru, device).step(x.clone(), None);
            if values(got) != values(expected) {
                return Err(format!(
                    "round {round}: expected the results of the current weights"
                ));
            }
        }
        gru = change(gru, device);
    }
    Ok(())
}

/// A block with equal weights in new tensors.
fn fresh(gru: &GruBlock, device: &Device) -> GruBlock {
    fn copy<const D: usize>(tensor: &Tensor<D>, device: &Device) -> Tensor<D> {
        Tensor::from_data(tensor.to_data(), device)
    }
    let of = gru.layers[0].weights();
    let weights = GruWeights::new(
        of.w_ih.as_ref().map(|w| copy(w, device)),
        copy(&of.w_hh, device),
    )
    .with_b_ih(of.b_ih.as_ref().map(|b| copy(b, device)))
    .with_b_hh(of.b_hh.as_ref().map(|b| copy(b, device)));
    let config = GruBlockConfig::new(I, H);
    config.init_with(vec![weights]).expect("the same shapes")
}
