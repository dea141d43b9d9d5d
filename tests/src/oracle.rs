//! Compares the oracle itself with recorded vectors of other frameworks. All other suites rely on the
//! oracle.

use gru_op::{
    Direction, Layout, Order,
    spec::{Inputs, Sequence, Sizes, Weights},
};
use gru_testkit::{
    close::{Tolerance, close},
    conformance::{Case, CaseSpec},
    oracle::{Call, Skipped},
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    conformance::{mps_graph, onnx, text},
    vectors,
};

pub fn trials(_: &[TestBackend]) -> Vec<Trial> {
    let of = |kind, check: fn(&Case) -> Result<(), String>| {
        let specs = vectors::of_kind(kind).into_iter();
        specs.map(move |spec| trial(spec, check))
    };
    of("grad_f64", check_grad_f64)
        .chain(of("onnx_gru", check_onnx))
        .chain(of("mpsgraph_gru", check_mps))
        .collect()
}

fn trial(spec: CaseSpec, check: fn(&Case) -> Result<(), String>) -> Trial {
    Trial::test(format!("oracle/{}", spec.name()), move || {
        Ok(check(&spec.load(vectors::directory()))?)
    })
}

fn check_grad_f64(case: &Case) -> Result<(), String> {
    let (drawn, expected) = vectors::grad_f64(case, ".f64");
    drawn.expected().compare(&expected, Tolerance::F64)
}

/// Part `d` of `directions` of every row.
fn part(data: &[f64], rows: usize, d: usize, directions: usize) -> Vec<f64> {
    let len = data.len() / (rows * directions);
    let parts = data.chunks_exact(len).skip(d).step_by(directions);
    parts.flatten().copied().collect()
}

/// All of ONNX: activations with parameters, clip, lengths, both reset forms, directions and layouts.
fn check_onnx(case: &Case) -> Result<(), String> {
    let attributes = onnx::attributes(&case.spec);
    let all_directions = attributes.directions().map_err(text)?;
    let directions = all_directions.len();
    let layout = attributes.layout().map_err(text)?;
    let batch_major = layout == Layout::BatchMajor;
    let sizes = vectors::sizes(&case.spec);
    let Sizes { n, t, h, .. } = sizes;
    let specs = attributes.specs().map_err(text)?;
    for (d, (spec, &direction)) in specs.into_iter().zip(all_directions).enumerate() {
        // Batch-major ONNX has D after N, time-major has D before N. Outputs also have D after T.
        let (state_rows, y_rows) = if batch_major { (n, n * t) } else { (1, t) };
        let of = |name: &str, rows| Some(part(&case.get(name)?.data, rows, d, directions));
        let columns = |rows: &[f64]| vectors::columns(rows, 3 * h, [1, 0, 2]);
        let weight = |name| columns(&of(name, 1).expect("every case has weights"));
        let bias = |half: usize| of("in.B", 1).map(|b| columns(&b[half * 3 * h..][..3 * h]));
        let valid = case.get("in.sequence_lens").map(|lens| {
            let steps = (0..t).flat_map(|time| lens.data.iter().map(move |&len| len > time as f64));
            steps.map(f64::from).collect::<Vec<f64>>()
        });
        let inputs = Inputs {
            sequence: Sequence {
                h0: of("in.initial_h", state_rows),
                step_mask: valid,
                ..Sequence::new(case.tensor("in.X").data.clone())
            },
            weights: Weights {
                w_ih: Some(weight("in.W")),
                w_hh: weight("in.R"),
                b_ih: bias(0),
                b_hh: bias(1),
            },
        };
        let call = Call {
            skipped: Skipped::Zero,
            order: Order { layout, direction },
            ..Call::new(sizes, spec, inputs)
        };
        let run = call.forward();
        let tolerance = case.tolerance().forward;
        for (name, got, rows) in [("Y", run.y, y_rows), ("Y_h", run.h_t, state_rows)] {
            let expected = of(&format!("out.{name}"), rows).expect("every case has outputs");
            close(name, &got, &expected, tolerance)?;
        }
    }
    Ok(())
}

/// Both update rules, one activation per gate, both gate orders, reverse, bidirectional, recurrent
/// masks, projected sources. The records include the gates.
fn check_mps(case: &Case) -> Result<(), String> {
    let descriptor = mps_graph::descriptor(&case.spec);
    let sizes = vectors::sizes(&case.spec);
    let Sizes { n, t, h, .. } = sizes;
    let mut order = vectors::TIME_MAJOR;
    let gates = if descriptor.reset_gate_first {
        [0, 1, 2]
    } else {
        [1, 0, 2]
    };
    let directions = if descriptor.bidirectional { 2 } else { 1 };
    for d in 0..directions {
        if descriptor.reverse || d == 1 {
            order.direction = Direction::Reverse;
        }
        let of = |name: &str, rows| Some(part(&case.get(name)?.data, rows, d, directions));
        let columns = |name: &str| Some(vectors::columns(&of(name, 1)?, 3 * h, gates));
        let w_ih = columns("in.inputWeight");
        let x = match w_ih {
            Some(_) => case.tensor("in.source").data.clone(),
            None => {
                let source = of("in.source", t * n).expect("every case has a source");
                let rows = source.chunks_exact(3 * h);
                rows.flat_map(|row| gates.map(|gate| &row[gate * h..][..h]).concat())
                    .collect()
            }
        };
        let inputs = Inputs {
            sequence: Sequence {
                h0: of("in.initState", n),
                recurrent_mask: of("in.mask", n),
                ..Sequence::new(x)
            },
            weights: Weights {
                w_ih,
                w_hh: columns("in.recurrentWeight").expect("every case has one"),
                b_ih: columns("in.bias"),
                // The secondary bias is of the candidate.
                b_hh: of("in.secondaryBias", 1).map(|b| [vec![0.0; 2 * h], b].concat()),
            },
        };
        let call = Call {
            order,
            ..Call::new(sizes, descriptor.spec(), inputs)
        };
        let run = call.forward();
        let [r, z, candidate] = run.gates;
        for (name, got) in [
            ("out.h", run.y),
            ("aux.r", r),
            ("aux.z", z),
            ("aux.o", candidate),
        ] {
            let expected = of(name, t * n).expect("every case has states and gates");
            close(name, &got, &expected, case.tolerance().forward)?;
        }
    }
    Ok(())
}
