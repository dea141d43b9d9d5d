//! Bias gradients are sums over all rows and steps. In float32 their error must not grow with the number
//! of terms.

use burn::tensor::{DType, Device};
use gru_testkit::case::Case;
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    operator::{self, Way},
};

const N: usize = 8;
const T: usize = 4096;
const H: usize = 8;

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    // The CPU kernels have their own sums.
    for backend in backends.iter().filter(|backend| backend.slow) {
        for (mode, word) in [("speed", ""), ("lean", "lean")] {
            let case = Case::new(&format!("N{N} T{T} H{H} projected no-h0 {word}"));
            let id = format!("sums/biases-{mode}/{}", backend.name);
            trials.push(backend.trial(id, move |device| biases(device, &case)));
        }
    }
    trials
}

/// All rows are equal, so the rounding errors of their sum have one direction. Without `w_ih`, the
/// gradient of `b_ih` is the sum of the gradient of `x`.
fn biases(device: &Device, case: &Case) -> Result<(), String> {
    let mut drawn = case.draw();
    let x = &mut drawn.call.inputs.sequence.x;
    *x = x[..3 * H].repeat(N * T);
    drawn.d_y.fill(1.0);
    drawn.d_h_t.fill(0.0);
    let gradients = operator::run(device, DType::F32, &drawn, Way::of(case))?.gradients;
    let [d_x, d_ih, d_hh] = ["x", "b_ih", "b_hh"].map(|name| &gradients[name]);
    for column in 0..3 * H {
        let terms = d_x.iter().skip(column).step_by(3 * H);
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), d| (sum + d, size + d.abs()));
        let check = |name: &str, got: f64| {
            let off = (got - sum).abs() / size / f64::from(f32::EPSILON);
            if off <= 32.0 {
                Ok(())
            } else {
                Err(format!(
                    "{name}[{column}]: the error is {off:.0} ε of its terms"
                ))
            }
        };
        check("b_ih", d_ih[column])?;
        // In columns n, b_hh has a different gradient.
        if column < 2 * H {
            check("b_hh", d_hh[column])?;
        }
    }
    Ok(())
}
