//! Times cuts of the walks on the default device and prints the best of each shape.
//!
//! `cargo run --release --example tune -- N T H [reset-before]`, for example `-- 32 64 256`.

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

fn candidates(call: &Call) -> Vec<Strategy> {
    let mut all = vec![Strategy::Inferred];
    let walk = |rows: usize, lanes, splits, resident| {
        Strategy::Forced(Cut::Walk(WalkTile {
            rows,
            width: rows.min(4),
            lanes,
            splits,
            resident,
        }))
    };
    let h = call.h;
    for rows in [1, 4, 8, 16, 32] {
        if rows > call.n.next_power_of_two() {
            continue;
        }
        for (lanes, splits) in [(h, 1), (h, 2), (h, 4), (h / 2, 1), (h / 4, 1), (64, 2)] {
            for resident in [true, false] {
                let registers = 3 * h * h / (lanes * splits).max(1);
                if registers > 200 && resident {
                    continue;
                }
                all.push(walk(rows, lanes, splits, resident));
            }
        }
    }
    if call.spec.reset == Reset::AfterMatmul {
        for rows in [1, 4, 8, 16, 32] {
            if rows > call.n.next_power_of_two() {
                continue;
            }
            for (lanes, per_lane, splits) in
                [(32, 1, 4), (32, 2, 1), (64, 2, 1), (32, 4, 1), (8, 4, 1)]
            {
                for stage in [128] {
                    all.push(Strategy::Forced(Cut::Steps(StepTile {
                        rows,
                        width: rows.min(4),
                        lanes,
                        per_lane,
                        splits,
                        stage,
                    })));
                }
            }
        }
    }
    all
}

fn main() {
    let mut sizes = Vec::new();
    let mut spec = GruSpec::default();
    let mut only_inferred = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "reset-before" => spec = spec.with_reset(Reset::BeforeMatmul),
            "inferred" => only_inferred = true,
            size => sizes.push(size.parse().expect("a size is a number")),
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
    println!(
        "N {n}  T {t}  H {h}  {:?}  {:?}",
        spec.reset,
        gru_cube::Limits::of(&client)
    );
    println!("forward ms (first)   backward ms (first)   cut");
    let wait = numbers(&client, 1, 1.0);
    let mut best = [(Duration::MAX, Strategy::Inferred); 2];
    for strategy in candidates(&call) {
        if only_inferred && strategy != Strategy::Inferred {
            break;
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
                    *best = (*best).min_by_time(median, strategy);
                }
                Err(_) => line += "  refused            ",
            }
        }
        println!("{line}  {strategy:?}");
    }
    println!("best forward: {best:?}");
}

trait MinByTime {
    fn min_by_time(self, time: Duration, strategy: Strategy) -> Self;
}

impl MinByTime for (Duration, Strategy) {
    fn min_by_time(self, time: Duration, strategy: Strategy) -> Self {
        if time < self.0 {
            (time, strategy)
        } else {
            self
        }
    }
}
