//! Times cuts of the walks on the default device and prints the best of each shape.
//!
//! `cargo run --release --example tune -- N T H [reset-before]`, for example `-- 32 64 256`. Further
//! words, such as `Inferred`, `Steps` or `rows: 8,`, choose the cuts whose text has them all.

use cubecl::{Device, client::Client, prelude::*, server::Handle};
use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{
    BackwardInputs, BackwardOutputs, Call, Cut, ForwardInputs, ForwardOutputs, PlanError, StepTile,
    Strategy, WalkTile,
};
use std::time::{Duration, Instant};

struct Buffers {
    forward: (ForwardInputs, ForwardOutputs),
    backward: (BackwardInputs, BackwardOutputs),
}

fn numbers(client: &Client, len: usize, scale: f32) -> Handle {
    // A multiplicative congruence: any spread of numbers will do for timing.
    let mut x = 1u32;
    let data: Vec<f32> = (0..len)
        .map(|_| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            ((x >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
        })
        .collect();
    client.create_from_slice(f32::as_bytes(&data))
}

fn buffers(client: &Client, call: &Call) -> Buffers {
    let Call { n, t, h, .. } = *call;
    let width = call.spec.saved_per_unit() * h;
    let empty = |len: usize| client.empty(len * size_of::<f32>());
    let w_hh = numbers(client, 3 * h * h, 1.0 / (h as f32).sqrt());
    let (states, gates) = (empty(n * t * h), empty(n * t * width));
    Buffers {
        forward: (
            ForwardInputs {
                steps: 0..t,
                p: numbers(client, n * t * 3 * h, 1.0),
                w_hh: w_hh.clone(),
                b_ih: None,
                b_hh: Some(numbers(client, 3 * h, 0.1)),
                h0: None,
                mask: None,
                valid: None,
            },
            ForwardOutputs {
                states: states.clone(),
                gates: Some(gates.clone()),
            },
        ),
        backward: (
            BackwardInputs {
                d_states: numbers(client, n * t * h, 1.0),
                states,
                gates,
                w_hh,
                h0: None,
                mask: None,
                valid: None,
            },
            BackwardOutputs {
                d_gates: Some(empty(n * t * width)),
                d_h0: empty(n * h),
            },
        ),
    }
}

/// Time of the first run, with compilation, and the median of the others.
fn time(
    client: &Client,
    wait: &Handle,
    run: impl Fn() -> Result<(), PlanError>,
) -> Result<(Duration, Duration), PlanError> {
    let once = || {
        let start = Instant::now();
        run()?;
        // A read waits for all that was launched before it.
        client.read_one_unchecked(wait.clone());
        Ok(start.elapsed())
    };
    let first = once()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || (times.len() < 15 && begin.elapsed() < Duration::from_secs(1)) {
        times.push(once()?);
    }
    times.sort();
    Ok((first, times[times.len() / 2]))
}

fn walk(rows: usize, lanes: usize, splits: usize, resident: bool) -> Strategy {
    Strategy::Forced(Cut::Walk(WalkTile {
        rows,
        width: rows.min(4),
        lanes,
        splits,
        resident,
    }))
}

fn steps(rows: usize, lanes: usize, per_lane: usize, splits: usize, stage: usize) -> Strategy {
    Strategy::Forced(Cut::Steps(StepTile {
        rows,
        width: rows.min(4),
        lanes,
        per_lane,
        splits,
        stage,
    }))
}

fn persistent(rows: usize, lanes: usize, splits: usize) -> Strategy {
    Strategy::Forced(Cut::Persistent(StepTile {
        rows,
        width: rows.min(4),
        lanes,
        per_lane: 1,
        splits,
        stage: 512,
    }))
}

/// The inferred cut first, then cuts around it.
fn candidates(call: &Call) -> Vec<Strategy> {
    let h = call.h;
    let rows_up_to = |most: usize| {
        let most = most.min(call.n.next_power_of_two());
        [1, 2, 4, 8, 16, 32, 64]
            .into_iter()
            .filter(move |&r| r <= most)
    };
    let mut all = vec![Strategy::Inferred];
    for rows in rows_up_to(16) {
        for (lanes, splits) in [(h, 1), (h, 2), (h, 4), (h / 2, 1), (h / 4, 1), (64, 2)] {
            let lanes = lanes.max(1);
            // More terms than this take a driver many seconds to compile.
            if 3 * h.div_ceil(splits) * h.div_ceil(lanes) <= 200 {
                all.push(walk(rows, lanes, splits, true));
            }
            all.push(walk(rows, lanes, splits, false));
        }
    }
    if call.spec.reset == Reset::AfterMatmul {
        for rows in rows_up_to(64) {
            for (lanes, per_lane, splits, stage) in [
                (32, 1, 4, 128),
                (32, 1, 8, 128),
                (64, 2, 1, 128),
                (64, 4, 1, 128),
                (64, 4, 1, 256),
                (32, 8, 1, 256),
                (128, 4, 1, 256),
                (32, 16, 1, 64),
                (64, 8, 1, 64),
                (16, 8, 1, 64),
                (8, 16, 1, 64),
            ] {
                all.push(steps(rows, lanes, per_lane, splits, stage));
            }
            for (lanes, splits) in [(8, 64), (16, 16), (16, 32), (32, 8), (32, 16), (64, 8)] {
                if 3 * h.div_ceil(splits) <= 200 {
                    all.push(persistent(rows, lanes, splits));
                }
            }
        }
    }
    all
}

fn main() {
    let mut sizes = Vec::new();
    let mut spec = GruSpec::default();
    let mut words = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "reset-before" => spec = spec.with_reset(Reset::BeforeMatmul),
            other => match other.parse() {
                Ok(size) => sizes.push(size),
                Err(_) => words.push(argument),
            },
        }
    }
    let [n, t, h] = sizes[..] else {
        panic!("tune: expected sizes N T H, got {sizes:?}");
    };
    let client = Device::default().client();
    let call = Call {
        n,
        t,
        h,
        spec,
        dtype: f32::elem_type_native(),
    };
    let Buffers { forward, backward } = buffers(&client, &call);
    let limits = gru_cube::Limits::of(&client);
    println!("N {n}  T {t}  H {h}  {:?}  {limits:?}", spec.reset);
    println!("forward ms (first)   backward ms (first)   cut");
    let wait = numbers(&client, 1, 1.0);
    let mut best = [(Duration::MAX, Strategy::Inferred); 2];
    for strategy in candidates(&call) {
        let text = format!("{strategy:?}");
        if !words.iter().all(|word| text.contains(word)) {
            continue;
        }
        let results = [
            time(&client, &wait, || {
                gru_cube::forward(&client, &call, &forward.0, &forward.1, strategy)
            }),
            time(&client, &wait, || {
                gru_cube::backward(&client, &call, &backward.0, &backward.1, strategy)
            }),
        ];
        let mut line = String::new();
        for (result, best) in results.into_iter().zip(&mut best) {
            match result {
                Ok((first, median)) => {
                    let ms = |d: Duration| d.as_secs_f64() * 1e3;
                    line += &format!("{:9.2} ({:7.1})  ", ms(median), ms(first));
                    if median < best.0 {
                        *best = (median, strategy);
                    }
                }
                Err(_) => line += "  refused            ",
            }
        }
        println!("{line}  {text}");
    }
    println!("best forward:  {:?}", best[0]);
    println!("best backward: {:?}", best[1]);
}
