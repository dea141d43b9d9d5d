//! Measures every schedule that the device allows. `GRU_CUBE_FORWARD` and `GRU_CUBE_BACKWARD` force the
//! fastest one for a program.

mod candidates;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use cubecl::{client::Client, features::TypeUsage, ir::ElemType, prelude::*, server::Handle};
use gru_cube::{
    BackwardInputs, BackwardOutputs, Call, ForwardInputs, ForwardOutputs, PlanError, Starts,
    Strategy,
};
use gru_spec::{GruSpec, Order};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, alone, caught, read, share};
use candidates::candidates;

/// Default N, T, H: one for each design that can be the fastest.
const SIZES: [[usize; 3]; 5] = [
    [32, 64, 256],
    [64, 100, 512],
    [64, 50, 1024],
    [1, 128, 128],
    [512, 20, 512],
];

#[derive(Clone, Serialize, Deserialize)]
struct Row {
    device: String,
    /// `f32` or `f16`.
    dtype: String,
    n: usize,
    t: usize,
    h: usize,
    cut: String,
    /// Milliseconds, medians. None if the device rejects the configuration.
    forward: Option<f64>,
    backward: Option<f64>,
    /// Milliseconds of the first call of each pass, which compiles its kernels.
    first: [Option<f64>; 2],
    /// Kernel launches of each pass.
    launches: [Option<u64>; 2],
    /// Why it failed, if the driver did not reject it.
    panic: Option<String>,
}

impl Row {
    /// A row without times.
    fn new(client: &Client, call: &Call, strategy: Strategy, panic: Option<String>) -> Self {
        let is_single = call.dtype == f32::elem_type_native();
        Self {
            device: client.properties().identity.name.clone(),
            dtype: if is_single { "f32" } else { "f16" }.to_owned(),
            n: call.n,
            t: call.t,
            h: call.h,
            cut: strategy.to_string(),
            forward: None,
            backward: None,
            first: [None; 2],
            launches: [None; 2],
            panic,
        }
    }
}

/// `more` is empty, or N, T, H and words that a configuration must contain, or a share of the configurations.
pub fn run(rows: &mut Rows, clock: &Clock, more: &[String]) -> Result<(), Stop> {
    let numbers = more.iter().filter_map(|word| word.parse().ok());
    let numbers: Vec<usize> = numbers.collect();
    let words: Vec<&String> = more
        .iter()
        .filter(|word| word.parse::<usize>().is_err())
        .collect();
    let (sizes, (first, step)) = match numbers[..] {
        [n, t, h] => (vec![[n, t, h]], (0, 1)),
        _ => (SIZES.to_vec(), share(more)?),
    };
    let client = cubecl::Device::default().client();
    let single = sizes.iter().map(|&size| (size, f32::elem_type_native()));
    // Sizes where the product is large enough for matrix units.
    let half = sizes
        .iter()
        .filter(|[n, _, h]| *n >= 16 && *h >= 256)
        .map(|&size| (size, f16::elem_type_native()))
        .filter(|_| f16::supported_uses(&client).contains(TypeUsage::Buffer));
    let lists: Vec<_> = single
        .chain(half)
        .map(|([n, t, h], dtype)| {
            let call = Call {
                n,
                t,
                h,
                spec: GruSpec::default(),
                order: Order::default(),
                starts: Starts::None,
                dtype,
                self_test: false,
            };
            let mut cuts = candidates(&call);
            cuts.retain(|cut| {
                let text = cut.to_string();
                words.iter().all(|word| text.contains(*word))
            });
            (call, cuts)
        })
        .collect();
    // One configuration per size in each round, so that all sizes get the same number when the time is
    // over.
    let rounds = lists.iter().map(|(_, cuts)| cuts.len()).max();
    let rounds = rounds.unwrap_or_default();
    let tried = (0..rounds).flat_map(|round| {
        let of =
            move |(call, cuts): &'_ (Call, Vec<Strategy>)| Some((round, *call, *cuts.get(round)?));
        lists.iter().filter_map(of)
    });
    for (round, call, strategy) in tried.skip(first).step_by(step).skip(rows.earlier) {
        let Call { n, h, .. } = call;
        clock.check(|| format!("after {round} of {rounds} configurations of each size"))?;
        let timed = caught(|| row(&client, &call, strategy));
        let panic = timed.as_ref().err().cloned();
        let row = timed.unwrap_or_else(|panic| Row::new(&client, &call, strategy, Some(panic)));
        println!(
            "{}  N {n:3}  H {h:5}  {:>9} {:>9}  {strategy}",
            row.dtype,
            ms(row.forward),
            ms(row.backward)
        );
        rows.add(&row)?;
        if let Some(panic) = panic {
            return Err(format!("N {n}, H {h}, {strategy}: {panic}").into());
        }
    }
    Ok(())
}

fn ms(time: Option<f64>) -> String {
    time.map_or("rejected".to_owned(), |ms| format!("{ms:.3}"))
}

pub fn page(rows: &[Value]) -> String {
    let mut sizes = BTreeMap::<(String, [usize; 3]), Vec<Row>>::new();
    let rows = read::<Row>(rows);
    let failed = |row: &Row| {
        let panic = row.panic.as_ref()?;
        let Row {
            dtype, n, h, cut, ..
        } = row;
        Some(format!("\nFailed: {dtype}, N {n}, H {h}, {cut}: {panic}\n"))
    };
    let failed: String = rows.iter().filter_map(failed).collect();
    for row in rows {
        let key = (row.dtype.clone(), [row.h, row.n, row.t]);
        sizes.entry(key).or_default().push(row);
    }
    // Rows in the form of benches/results.
    let mut csv = "device,type,n,t,h,pass,tried,inferred_ms,best_ms,launches,best\n".to_owned();
    for ((dtype, [h, n, t]), rows) in sizes {
        let inferred = Strategy::Inferred.to_string();
        let inferred = rows.iter().find(|row| row.cut == inferred);
        let tried = rows.len();
        for (pass, time) in [("forward", 0), ("backward", 1)] {
            let ms_of = |row: &Row| [row.forward, row.backward][time];
            let timed = rows.iter().filter_map(|row| Some((ms_of(row)?, row)));
            let Some((best, row)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                continue;
            };
            let inferred = ms(inferred.and_then(ms_of));
            let launches = row.launches[time].unwrap_or_default();
            let Row { device, cut, .. } = row;
            csv += &format!(
                "{device:?},{dtype},{n},{t},{h},{pass},{tried},{inferred},{best:.3},{launches},{cut}\n"
            );
        }
    }
    format!("```csv\n{csv}```\n{failed}")
}

struct Buffers {
    forward: (ForwardInputs, ForwardOutputs),
    backward: (BackwardInputs, BackwardOutputs),
}

fn buffers(client: &Client, call: &Call) -> Buffers {
    let Call { n, t, h, dtype, .. } = *call;
    let width = call.spec.saved_per_unit() * h;
    let empty = |len: usize| client.empty(len * dtype.size());
    let numbers = |len, scale| numbers(client, dtype, len, scale);
    let w_hh = numbers(3 * h * h, 1.0 / (h as f32).sqrt());
    let (states, gates) = (empty(n * t * h), empty(n * t * width));
    Buffers {
        forward: (
            ForwardInputs {
                steps: 0..t,
                p: numbers(n * t * 3 * h, 1.0),
                w_hh: w_hh.clone(),
                b_ih: None,
                b_hh: Some(numbers(3 * h, 0.1)),
                h0: None,
                recurrent_mask: None,
                step_mask: None,
                zoneout: None,
                lengths: None,
            },
            ForwardOutputs {
                states: states.clone(),
                gates: Some(gates.clone()),
            },
        ),
        backward: (
            BackwardInputs {
                d_states: numbers(n * t * h, 1.0),
                states,
                gates,
                w_hh,
                h0: None,
                recurrent_mask: None,
                step_mask: None,
                zoneout: None,
                lengths: None,
            },
            BackwardOutputs {
                d_gates: Some(empty(n * t * width)),
                d_h0: client.empty(n * h * size_of::<f32>()),
            },
        ),
    }
}

fn numbers(client: &Client, dtype: ElemType, len: usize, scale: f32) -> Handle {
    // A multiplicative congruential generator is good enough for timing.
    let mut x = 1u32;
    let data = (0..len).map(|_| {
        x = x.wrapping_mul(1664525).wrapping_add(1013904223);
        ((x >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
    });
    if dtype == f32::elem_type_native() {
        let data: Vec<f32> = data.collect();
        client.create_from_slice(f32::as_bytes(&data))
    } else {
        let data: Vec<f16> = data.map(f16::from_f32).collect();
        client.create_from_slice(f16::as_bytes(&data))
    }
}

fn row(client: &Client, call: &Call, strategy: Strategy) -> Row {
    let Buffers { forward, backward } = buffers(client, call);
    let wait = numbers(client, call.dtype, 1, 1.0);
    let forward = time(client, &wait, || {
        gru_cube::forward(client, call, &forward.0, &forward.1, strategy)
    });
    let backward = time(client, &wait, || {
        gru_cube::backward(client, call, &backward.0, &backward.1, strategy)
    });
    // A pass has no times if the device rejects it.
    let passes = [forward.ok(), backward.ok()];
    let [forward, backward] = passes
        .each_ref()
        .map(|pass| pass.as_ref().map(|p| p.median));
    Row {
        forward,
        backward,
        first: passes.each_ref().map(|pass| pass.as_ref().map(|p| p.first)),
        launches: passes
            .each_ref()
            .map(|pass| pass.as_ref().map(|p| p.launches)),
        ..Row::new(client, call, strategy, None)
    }
}

struct Timed {
    /// Milliseconds of the first run, including compilation.
    first: f64,
    /// Milliseconds of the other runs.
    median: f64,
    /// Kernel launches of one run.
    launches: u64,
}

fn time(
    client: &Client,
    wait: &Handle,
    run: impl Fn() -> Result<(), PlanError>,
) -> Result<Timed, PlanError> {
    let once = || {
        let start = Instant::now();
        run()?;
        // A read waits for all earlier launches.
        client.read_one_unchecked(wait.clone());
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let before = gru_cube::launches();
    let first = once()?;
    let launches = gru_cube::launches() - before;
    let mut times = alone(|| {
        let mut times = Vec::new();
        let begin = Instant::now();
        while times.len() < 3 || (times.len() < 15 && begin.elapsed() < Duration::from_millis(100))
        {
            times.push(once()?);
        }
        Ok(times)
    })?;
    times.sort_by(f64::total_cmp);
    Ok(Timed {
        first,
        median: times[times.len() / 2],
        launches,
    })
}
