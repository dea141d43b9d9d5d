use super::*;
use crate::kernel::{
    rule::{Rule, Starts},
    sequence::SequenceKernel,
    steps::{Phase, Phases, Steps},
    threads::Threads,
};
use gru_spec::{
    Activation, Activations, Direction, GruSpec, Inputs, Layout, Order, Reset, Sequence, Sizes,
    Update, Weights,
};
use gru_testkit::{close::close, cover::cover, oracle};

const H: usize = 5;

/// Reset, update, clips, direction, layout, starts, zoneout, tensors, activations.
const OPTIONS: [usize; 9] = [2, 2, 2, 2, 2, 3, 3, 2, 2];

fn small(row: &[usize], dtype: FloatKind) -> Small {
    sized(row, dtype, H)
}

fn sized(row: &[usize], dtype: FloatKind, h: usize) -> Small {
    let at = |i: usize| row[i] == 1;
    let activations = Activations {
        reset: Activation::HardSigmoid {
            alpha: 0.3,
            beta: 0.5,
        },
        update: Activation::Softsign,
        candidate: Activation::Elu { alpha: 0.5 },
    };
    let clip = at(2).then_some(0.6);
    let spec = GruSpec::default()
        .with_reset([Reset::AfterMatmul, Reset::BeforeMatmul][row[0]])
        .with_update([Update::Keeps, Update::Takes][row[1]])
        .with_clip_gates(clip)
        .with_clip_state(clip)
        .with_activations([Activations::default(), activations][row[8]]);
    let starts = [Starts::None, Starts::FromZeros, Starts::FromState][row[5]];
    let call = Call {
        n: 100,
        t: 100,
        h,
        spec,
        order: Order {
            direction: [Direction::Forward, Direction::Reverse][row[3]],
            layout: [Layout::BatchMajor, Layout::TimeMajor][row[4]],
        },
        starts,
        dtype: ElemType::Float(dtype),
        self_test: true,
    };
    let given = Given {
        b_ih: at(7),
        b_hh: at(7),
        h0: at(7) || starts == Starts::FromState,
        recurrent_mask: at(7),
        step_mask: at(7) || starts != Starts::None,
        zoneout: [None, Some(1), Some(h)][row[6]],
    };
    Small::new(&call, given)
}

fn oracle_of(small: &Small) -> oracle::Forward {
    let call = small.call;
    let h = call.h;
    let codes = small.step_mask.as_ref();
    let of_codes = |f: &dyn Fn(f64) -> bool| -> Option<Vec<f64>> {
        let value = |&code: &f64| f64::from(u8::from(f(code)));
        Some(codes?.iter().map(value).collect())
    };
    let h0 = small.h0.clone().unwrap_or(vec![0.0; N * h]);
    let mut starts = of_codes(&|code| code >= 2.0).filter(|_| call.starts != Starts::None);
    if let (Some(starts), Direction::Reverse) = (&mut starts, call.order.direction) {
        // In reverse, the step at time t − 1 comes after the start at time t.
        starts.rotate_right(match call.order.layout {
            Layout::BatchMajor => 1,
            Layout::TimeMajor => N,
        });
    }
    let inputs = Inputs {
        sequence: Sequence {
            x: small.p.clone(),
            start_state: (call.starts == Starts::FromState).then(|| h0[N * h..].to_vec()),
            h0: Some(h0[..N * h].to_vec()),
            recurrent_mask: small.recurrent_mask.clone(),
            zoneout: small.zoneout.clone(),
            step_mask: of_codes(&|code| code % 2.0 == 1.0),
            starts,
        },
        weights: Weights {
            b_ih: small.b_ih.clone(),
            b_hh: small.b_hh.clone(),
            ..Weights::new(None, small.w_hh.clone())
        },
    };
    let sizes = Sizes {
        n: N,
        t: T,
        i: 3 * h,
        h,
    };
    let call = oracle::Call {
        order: call.order,
        ..oracle::Call::new(sizes, call.spec, inputs)
    };
    call.forward()
}

#[test]
fn the_reference_is_the_oracle() {
    let rows = cover(&OPTIONS, 3);
    let large = rows.iter().take(4).map(|row| (row, 130));
    for (row, h) in rows.iter().map(|row| (row, H)).chain(large) {
        let small = sized(row, FloatKind::F32, h);
        let expected = oracle_of(&small);
        let close = |name, got: &[f64], expected: &[f64]| {
            if let Err(message) = close(name, got, expected, 1e-12) {
                panic!("{row:?} H{h}: {message}");
            }
        };
        close("states", &small.forward().states, &expected.y);
        let saved = small.call.spec.saved_per_unit();
        let gates = small.forward().gates;
        for (i, gate) in gates.chunks(h).enumerate() {
            let (row, gate_index) = (i / saved, i % saved);
            if !small.is_skipped(row) {
                let of = expected.gates.get(gate_index).unwrap_or(&expected.q_n);
                close("gates", gate, &of[row * h..][..h]);
            }
        }
        let mut gradients = expected.gradients(&small.d_states, &[]);
        let got = small.backward();
        let d_p: Vec<f64> = got
            .d_gates
            .chunks(saved * h)
            .flat_map(|row| &row[..3 * h])
            .copied()
            .collect();
        close("d_p", &d_p, &gradients.remove("x").unwrap());
        close("d_h0", &got.d_h0[..N * h], &gradients.remove("h0").unwrap());
        if small.call.starts == Starts::FromState {
            let d_start = gradients.remove("start_state").unwrap();
            close("d_start", &got.d_h0[N * h..], &d_start);
        }
    }
}

/// Whether a result passes in which one value is `change` of what it should be.
fn passes(small: &Small, at: usize, change: impl Fn(f64) -> f64) -> bool {
    let expected = small.backward().d_gates;
    let mut got = expected.clone();
    got[at] = change(got[at]);
    let may_jump = small.may_jump(Pass::Backward);
    judge(small, "d_gates", &got, &expected, may_jump, |i| i == 1).is_ok()
}

#[test]
fn one_wrong_value_fails() {
    let smooth = [0; 9];
    for (dtype, rounding, error) in [
        (FloatKind::F32, 1e-3, 0.02),
        (FloatKind::F16, 1e-2, 0.1),
        (FloatKind::BF16, 0.1, 0.5),
    ] {
        let small = small(&smooth, dtype);
        for at in [0, N * T * 4 * H - 1] {
            assert!(passes(&small, at, |x| x + rounding), "{dtype:?}");
            assert!(!passes(&small, at, |x| x + error), "{dtype:?}");
            assert!(!passes(&small, at, |_| f64::NAN), "{dtype:?}");
        }
        assert!(passes(&small, 1, |_| f64::NAN), "an undefined value");
    }
}

/// A rounding error decides on which side of a clip a value is.
#[test]
fn a_few_gradients_at_a_clip_may_differ() {
    let clipped = [0, 0, 1, 0, 0, 0, 0, 0, 0];
    for dtype in [FloatKind::F32, FloatKind::F16] {
        let small = small(&clipped, dtype);
        assert!(passes(&small, 0, |x| x + 0.5));
        assert!(!passes(&small, 0, |_| f64::NAN));
    }
    let small = small(&clipped, FloatKind::F32);
    let expected = small.backward().d_gates;
    let got: Vec<f64> = expected.iter().map(|x| x + 0.5).collect();
    assert!(judge(&small, "d_gates", &got, &expected, true, |_| false).is_err());
}

/// A clip and a kink leave no state far from its right value, but a jump does.
#[test]
fn states_may_differ_at_a_jump_only() {
    let mut small = small(&[0, 0, 1, 0, 0, 0, 0, 0, 1], FloatKind::F16);
    let expected = small.forward().states;
    let mut got = expected.clone();
    got[0] += 0.5;
    let passes = |small: &Small| {
        let may_jump = small.may_jump(Pass::Forward);
        judge(small, "states", &got, &expected, may_jump, |_| false).is_ok()
    };
    assert!(!passes(&small));
    small.call.spec.activations.candidate = Activation::ThresholdedRelu { alpha: 0.5 };
    assert!(passes(&small));
}

fn rule() -> Rule {
    let call = small(&[0; 9], FloatKind::F32).call;
    Rule::new(&call.spec, call.order, H, 0.0)
}

fn threads(rows: usize) -> Threads {
    Threads {
        rows,
        width: 1,
        n_threads: 8,
        k_splits: 1,
        columns: H,
        matrices: None,
    }
}

fn sequence(rows: usize) -> Plan {
    Plan::Sequence(SequenceKernel {
        rule: rule(),
        threads: threads(rows),
        resident: true,
        buffers: 1,
    })
}

/// Another program may keep a persistent kernel from running. Only a forced schedule is an error.
#[test]
fn another_kernel_replaces_a_persistent_one_that_fails() {
    let steps = |persistent| {
        Plan::Steps(Steps {
            rule: rule(),
            threads: threads(1),
            block_k: 8,
            persistent,
            phases: Phases::One(Phase::Whole),
        })
    };
    let failed = |plan: Plan| PlanError::FailedTest {
        schedule: plan.schedule(),
        reason: "NaN".to_owned(),
    };
    let of = |persistent| if persistent { steps(true) } else { sequence(1) };
    let passing = |strategy, test: &dyn Fn(Plan) -> bool| {
        let test = |plan| {
            if test(plan) {
                Ok(())
            } else {
                Err(failed(plan))
            }
        };
        passing(strategy, |persistent| Ok(of(persistent)), test)
    };
    let inferred = Strategy::Inferred;
    assert_eq!(passing(inferred, &|_| true), Ok(steps(true)));
    let not_persistent = |plan: Plan| !plan.is_persistent();
    assert_eq!(passing(inferred, &not_persistent), Ok(sequence(1)));
    assert_eq!(passing(inferred, &|_| false), Err(failed(sequence(1))));
    let forced = Strategy::Forced(steps(true).schedule());
    assert_eq!(passing(forced, &not_persistent), Err(failed(steps(true))));
}

#[test]
fn a_kernel_is_tested_once() {
    let key = |rows| Key {
        device: ServiceId::of::<()>(cubecl::device::DeviceId::new(0, 0)),
        pass: Pass::Forward,
        plan: sequence(rows),
        dtype: ElemType::Float(FloatKind::F32),
        address: AddressType::U32,
        given: Given::default(),
        gates: true,
    };
    let failed = verdict(key(1), || Err(Failure::OfKernel("all wrong".to_owned())));
    let message = failed.as_ref().unwrap_err().to_string();
    assert_eq!(
        message,
        "self-test of the kernel sequence rows=1 width=1 n_threads=8 k_splits=1 resident: all wrong"
    );
    assert_eq!(verdict(key(1), || unreachable!("tested before")), failed);
    assert_eq!(verdict(key(2), || Ok(())), Ok(()));
    assert_eq!(verdict(key(2), || unreachable!("tested before")), Ok(()));
    let long = Key {
        address: AddressType::U64,
        ..key(2)
    };
    assert!(verdict(long, || Err(Failure::OfKernel(String::new()))).is_err());
    // A full memory may be free later.
    let full = || Err(Failure::OutOfMemory("full".to_owned()));
    assert!(verdict(key(3), full).is_err());
    assert_eq!(verdict(key(3), || Ok(())), Ok(()));
}
