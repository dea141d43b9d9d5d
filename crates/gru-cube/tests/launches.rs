//! How many kernels a pass launches. Alone in its process, because the counter is the process's.

#[macro_use]
mod support;

use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{BackwardInputs, BackwardOutputs, ForwardOutputs, Limits, Strategy, launches};
use support::{Given, OnDevice, Problem, client, on_device, poisoned};

/// Launches of a forward and of a backward pass.
fn count((n, t, h): (usize, usize, usize), spec: GruSpec) -> (u64, u64) {
    let client = client();
    let problem = Problem::new((n, t, h), spec, Given::ALL, 1);
    let call = problem.call::<f32>();
    let width = spec.saved_per_unit() * h;
    let OnDevice { forward, d_states } = on_device::<f32>(&client, &problem);
    let outputs = ForwardOutputs {
        states: poisoned::<f32>(&client, n * t * h),
        gates: Some(poisoned::<f32>(&client, n * t * width)),
    };
    let start = launches();
    gru_cube::forward(&client, &call, &forward, &outputs, Strategy::Inferred).unwrap();
    let middle = launches();
    let inputs = BackwardInputs {
        d_states,
        states: outputs.states,
        gates: outputs.gates.unwrap(),
        w_hh: forward.w_hh,
        h0: forward.h0,
        mask: forward.mask,
        valid: forward.valid,
        take: forward.take,
    };
    let outputs = BackwardOutputs {
        d_gates: None,
        d_h0: poisoned::<f32>(&client, n * h),
    };
    gru_cube::backward(&client, &call, &inputs, &outputs, Strategy::Inferred).unwrap();
    (middle - start, launches() - middle)
}

fn a_walk_is_one_launch_and_products_are_one_each() {
    let before = GruSpec::default().with_reset(Reset::BeforeMatmul);
    for t in [3, 9] {
        for h in [16, 64, 128] {
            assert_eq!(count((5, t, h), GruSpec::default()), (1, 1), "T{t} H{h}");
            assert_eq!(count((5, t, h), before), (1, 1), "T{t} H{h} reset before");
        }
        // The weight is read anew at every step, and backward wants it transposed.
        assert_eq!(count((5, t, 256), GruSpec::default()), (1, 2), "T{t}");
        // Where the device holds the weight in 38 cubes of 16 columns, all steps are one launch.
        let limits = Limits::of(&client());
        let one_launch = !limits.cpu && limits.together >= 38;
        for (spec, products) in [(GruSpec::default(), t as u64), (before, 2 * t as u64)] {
            let expected = match one_launch {
                true => (1, 3),
                false => (products, products + 2),
            };
            assert_eq!(count((5, t, 600), spec), expected, "{spec:?}");
        }
    }
}

trials!(a_walk_is_one_launch_and_products_are_one_each);
