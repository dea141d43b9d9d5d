//! `quantize_weights`: a block whose weights have eight bits.

use super::{
    H, I, N, Test, equal, expect, input,
    runs::{self, Dequantize},
    values,
};
use burn::{
    module::Module,
    tensor::{DType, Device},
};
use gru_op::{GruBlockConfig, Precision, SequenceOptions};

pub const TESTS: &[(&str, Test)] = &[("quantized", quantized)];

/// Forward, step, gates and the prepared form of a quantized block equal the results of a block with the dequantized
/// weights, which differ from the original weights.
fn quantized(device: &Device) -> Result<(), String> {
    let block = GruBlockConfig::new(I, H).with_num_layers(2).init(device);
    let quantized = runs::quantized(block.clone(), device);
    let dtype = quantized.layers[0].w_hh.val().dtype();
    expect("quantized", matches!(dtype, DType::QFloat(_)), true)?;
    let kept = quantized.clone().map(&mut Dequantize);

    let x = input(device);
    let run = |block: &gru_op::GruBlock| {
        let (y, state) = block.forward(x.clone(), None);
        let (step, _) = block.step(x.clone().narrow(1, 0, 1).reshape([N, I]), None);
        let reset = block
            .gates(x.clone(), SequenceOptions::new())
            .remove(1)
            .reset;
        let (prepared, _) = block.prepare(Precision::Full).forward(x.clone(), None);
        let [y, prepared] = [y, prepared].map(values);
        [y, values(state), values(step), values(reset), prepared]
    };
    let (got, expected, exact) = (run(&quantized), run(&kept), run(&block));
    for (name, (got, expected)) in ["y", "state", "step", "reset", "prepared"]
        .into_iter()
        .zip(got.iter().zip(&expected))
    {
        equal(name, got, expected)?;
    }
    let off = |(a, b): (&f64, &f64)| (a - b).abs();
    let off = got[0].iter().zip(&exact[0]).map(off).fold(0.0, f64::max);
    // Weights differ by at most 1/127 of the largest weight, in sums of at most ten terms.
    if off == 0.0 || off > 0.1 {
        return Err(format!("outputs differ by {off} from the original weights"));
    }
    Ok(())
}
