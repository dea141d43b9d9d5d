//! Burn's own layers.

use burn::{
    module::Param,
    nn::{
        Linear,
        gru::{BiGru, BiGruConfig, Gru, GruConfig},
    },
    tensor::{Bool, Device, Tensor},
};
use gru_op::GruWeights;

pub enum BurnLayer {
    One(Box<Gru>),
    Both(Box<BiGru>),
}

/// `gru`, one call for each step, because it cannot forget a state within a call.
pub fn each_step(gru: &Gru, x: Tensor<3>, h0: Tensor<2>, starts: &Tensor<2, Bool>) -> Tensor<3> {
    let [_, t, _] = x.dims();
    let mut state = h0;
    let steps = (0..t).map(|time| {
        let starts = starts.clone().narrow(1, time, 1).expand(state.dims());
        let fresh = state.clone().mask_fill(starts, 0);
        let y = gru.forward(x.clone().narrow(1, time, 1), Some(fresh));
        state = y.clone().squeeze_dim(1);
        y
    });
    Tensor::cat(steps.collect(), 1)
}

/// Burn's layer with the weights of one or two directions.
pub fn burn_layer(weights: &[GruWeights], device: &Device) -> BurnLayer {
    let [i, _] = weights[0].w_ih.as_ref().expect("an input").dims();
    let [h, _] = weights[0].w_hh.dims();
    if let [weights] = weights {
        let mut gru = GruConfig::new(i, h, true).init(device);
        fill(&mut gru, weights);
        return BurnLayer::One(Box::new(gru));
    }
    let config = BiGruConfig::new(i, h, true).with_batch_first(true);
    let mut gru: BiGru = config.init(device);
    fill(&mut gru.forward, &weights[0]);
    fill(&mut gru.reverse, &weights[1]);
    BurnLayer::Both(Box::new(gru))
}

fn fill(gru: &mut Gru, weights: &GruWeights) {
    let h = gru.d_hidden;
    let w_ih = weights.w_ih.as_ref().expect("an input");
    let [b_ih, b_hh] = [&weights.b_ih, &weights.b_hh].map(|b| b.as_ref().expect("a bias"));
    let gates = [&mut gru.reset_gate, &mut gru.update_gate, &mut gru.new_gate];
    for (gate, controller) in gates.into_iter().enumerate() {
        let set = |linear: &mut Linear, weight: &Tensor<2>, bias: &Tensor<1>| {
            // Copies, so that no gate is a view.
            let weight = weight.clone().narrow(1, gate * h, h).into_data();
            let bias = bias.clone().narrow(0, gate * h, h).into_data();
            linear.weight = Param::from_data(weight, &linear.weight.val().device());
            linear.bias = Some(Param::from_data(bias, &linear.weight.val().device()));
        };
        set(&mut controller.input_transform, w_ih, b_ih);
        set(&mut controller.hidden_transform, &weights.w_hh, b_hh);
    }
}
