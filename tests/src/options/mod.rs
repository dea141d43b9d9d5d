//! Options of a sequence: lengths, step masks, starts, recurrent mask, zoneout, projected input, forms of
//! biases and clips, and every convention. The reference is the equations step by step in float64,
//! differentiated by Burn.
//!
//! The CPU backends run all three-way combinations of option values. Other backends run all pairs. The
//! trials `options/coverage` fail if a combination is missing.

mod stepwise;

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use gru_op::{
    Checkpointing, Direction, GruSpec, GruWeights, Layout, Order, Reset, SequenceOptions, Update,
    gru_sequence_with,
};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    cover::{cover, missing},
    inputs::Inputs,
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, gradient, loss, values},
};
use stepwise::stepwise;

const N: usize = 5;
const T: usize = 6;
const I: usize = 3;
const H: usize = 7;

/// Unsorted, repeated, zero and full lengths.
const LENGTHS: [usize; N] = [4, 0, 6, 1, 4];

/// One combination. `true` is the less common value.
#[derive(Debug, Clone, Copy)]
struct Case {
    steps: Which,
    zoneout: Zoneout,
    biases: Biases,
    clip: Clip,
    starts: Starts,
    mask: bool,
    projected: bool,
    before: bool,
    takes: bool,
    reverse: bool,
    time_major: bool,
    lean: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Which {
    All,
    Lengths,
    Holes,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Zoneout {
    No,
    PerStep,
    PerUnit,
}

/// Starts, and their state.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Starts {
    No,
    /// With zeros.
    Zeros,
    /// With a state for each row.
    PerRow,
    /// With one state for all rows.
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Biases {
    None,
    Input,
    Recurrent,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Clip {
    None,
    Gates,
    State,
    Both,
}

const STEPS: [Which; 3] = [Which::All, Which::Lengths, Which::Holes];
const ZONEOUTS: [Zoneout; 3] = [Zoneout::No, Zoneout::PerStep, Zoneout::PerUnit];
const BIASES: [Biases; 4] = [Biases::None, Biases::Input, Biases::Recurrent, Biases::Both];
const CLIPS: [Clip; 4] = [Clip::None, Clip::Gates, Clip::State, Clip::Both];
const STARTS: [Starts; 4] = [Starts::No, Starts::Zeros, Starts::PerRow, Starts::Shared];

/// Options of a case, and the number of values of each.
const OPTIONS: [(&str, usize); 12] = [
    ("steps", STEPS.len()),
    ("zoneout", ZONEOUTS.len()),
    ("biases", BIASES.len()),
    ("clip", CLIPS.len()),
    ("starts", STARTS.len()),
    ("mask", 2),
    ("projected", 2),
    ("before", 2),
    ("takes", 2),
    ("reverse", 2),
    ("time_major", 2),
    ("lean", 2),
];
const SIZES: [usize; 12] = {
    let mut sizes = [0; 12];
    let mut k = 0;
    while k < sizes.len() {
        sizes[k] = OPTIONS[k].1;
        k += 1;
    }
    sizes
};

impl Case {
    /// Every option at its common value.
    const PLAIN: Self = Self {
        steps: Which::All,
        zoneout: Zoneout::No,
        biases: Biases::Both,
        clip: Clip::None,
        starts: Starts::No,
        mask: false,
        projected: false,
        before: false,
        takes: false,
        reverse: false,
        time_major: false,
        lean: false,
    };

    /// Few cases that cover every combination of values of any `strength` options.
    fn all(strength: usize) -> Vec<Self> {
        let case = |row: Vec<usize>| Self {
            steps: STEPS[row[0]],
            zoneout: ZONEOUTS[row[1]],
            biases: BIASES[row[2]],
            clip: CLIPS[row[3]],
            starts: STARTS[row[4]],
            mask: row[5] == 1,
            projected: row[6] == 1,
            before: row[7] == 1,
            takes: row[8] == 1,
            reverse: row[9] == 1,
            time_major: row[10] == 1,
            lean: row[11] == 1,
        };
        cover(&SIZES, strength).into_iter().map(case).collect()
    }

    /// The value of each of [`OPTIONS`] in the actual run, which may differ from the row that the case
    /// was made from.
    fn values(&self) -> Vec<usize> {
        let (spec, order) = (self.spec(), self.order());
        let clip = match (spec.clip_gates, spec.clip_state) {
            (None, None) => Clip::None,
            (Some(_), None) => Clip::Gates,
            (None, Some(_)) => Clip::State,
            (Some(_), Some(_)) => Clip::Both,
        };
        vec![
            self.steps as usize,
            self.zoneout as usize,
            self.biases as usize,
            clip as usize,
            self.starts as usize,
            usize::from(self.mask),
            usize::from(self.projected),
            usize::from(spec.reset == Reset::BeforeMatmul),
            usize::from(spec.update == Update::Takes),
            usize::from(order.direction == Direction::Reverse),
            usize::from(order.layout == Layout::TimeMajor),
            usize::from(self.lean),
        ]
    }

    fn id(&self) -> String {
        let flag = |set, name: &'static str| if set { name } else { "" };
        format!(
            "{:?}-zoneout{:?}-bias{:?}-clip{:?}-starts{:?}{}{}{}{}{}{}{}",
            self.steps,
            self.zoneout,
            self.biases,
            self.clip,
            self.starts,
            flag(self.mask, "-mask"),
            flag(self.projected, "-projected"),
            flag(self.before, "-before"),
            flag(self.takes, "-takes"),
            flag(self.reverse, "-reverse"),
            flag(self.time_major, "-time"),
            flag(self.lean, "-lean"),
        )
        .to_lowercase()
    }

    fn spec(&self) -> GruSpec {
        let clip_gates = matches!(self.clip, Clip::Gates | Clip::Both).then_some(0.75);
        let clip_state = matches!(self.clip, Clip::State | Clip::Both).then_some(0.25);
        GruSpec::default()
            .with_reset(if self.before {
                Reset::BeforeMatmul
            } else {
                Reset::AfterMatmul
            })
            .with_update(if self.takes {
                Update::Takes
            } else {
                Update::Keeps
            })
            .with_clip_gates(clip_gates)
            .with_clip_state(clip_state)
    }

    fn order(&self) -> Order {
        Order {
            direction: if self.reverse {
                Direction::Reverse
            } else {
                Direction::Forward
            },
            layout: if self.time_major {
                Layout::TimeMajor
            } else {
                Layout::BatchMajor
            },
        }
    }

    /// `[outer, inner, features]` from values in `[N,T,features]`.
    fn in_layout(&self, data: &[f64], features: usize) -> (Vec<f64>, [usize; 3]) {
        if !self.time_major {
            return (data.to_vec(), [N, T, features]);
        }
        let at = |n: usize, t: usize| &data[(n * T + t) * features..][..features];
        let steps = (0..T).flat_map(|t| (0..N).map(move |n| (n, t)));
        let data = steps.flat_map(|(n, t)| at(n, t)).copied().collect();
        (data, [T, N, features])
    }

    /// Whether step `t` of row `n` is valid.
    fn is_valid(&self, n: usize, t: usize) -> bool {
        match self.steps {
            Which::All => true,
            Which::Lengths => t < LENGTHS[n],
            // Row 1 has no valid step. Row 2 begins and ends with skipped steps.
            Which::Holes => {
                n != 1 && !(n == 2 && (t == 0 || t == T - 1)) && !(n + 2 * t).is_multiple_of(3)
            }
        }
    }
}

/// Whether row `n` starts a new sequence at time `t`. Row 0 starts at time 0, row 3 twice in a row.
fn is_start(n: usize, t: usize) -> bool {
    (n == 0 && t == 0) || (n == 3 && t == 2) || (n + t).is_multiple_of(4) && t > 0
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    let [pairs, triples] = [2, 3].map(Case::all);
    for &backend in backends {
        let (strength, cases) = if backend.samples_modes() {
            (2, &pairs)
        } else {
            (3, &triples)
        };
        for &case in cases {
            for dtype in backend.dtypes() {
                let id = format!("options/{}/{}", case.id(), backend.id(dtype));
                let tolerance = match dtype {
                    DType::F64 => Tolerance::F64,
                    _ => backend.tolerance(Tolerance::F32),
                };
                trials.push(backend.trial(id, move |device| {
                    let expected = run(case, &Device::flex(), DType::F64, stepwise, 0.0)?;
                    let got = run(case, device, dtype, operator, 0.0)?;
                    got.compare(&expected, tolerance)
                }));
            }
        }
        let ran: Vec<Vec<usize>> = cases.iter().map(Case::values).collect();
        let id = format!("options/coverage/{}", backend.name);
        trials.push(Trial::test(id, move || Ok(covers(&ran, strength)?)));
        let id = format!("options/nan-in-the-padding/{}", backend.name);
        trials.push(backend.trial(id, |device| {
            for steps in [Which::Lengths, Which::Holes] {
                let case = Case {
                    steps,
                    ..Case::PLAIN
                };
                let clean = run(case, device, DType::F32, operator, 0.0)?;
                let poisoned = run(case, device, DType::F32, operator, f64::NAN)?;
                if clean != poisoned {
                    return Err(format!("{steps:?}: expected the padding to be ignored"));
                }
            }
            Ok(())
        }));
    }
    trials
}

/// Returns an error that names a missing combination if the cases do not cover all values of any
/// `strength` options.
fn covers(cases: &[Vec<usize>], strength: usize) -> Result<(), String> {
    let missing = missing(cases, &SIZES, strength);
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let first = first.iter().map(|&(k, v)| format!("{}={v}", OPTIONS[k].0));
    let first: Vec<String> = first.collect();
    Err(format!(
        "no case has {} ({} other combinations are missing)",
        first.join(" with "),
        missing.len() - 1
    ))
}

/// The tensors of a case other than `x` and the weights.
struct Options {
    case: Case,
    h0: Tensor<2>,
    recurrent_mask: Option<Tensor<2>>,
    zoneout: Option<Tensor<3>>,
    /// Valid steps, in the layout of `x`.
    valid: Tensor<2, Bool>,
    /// Starts, in the layout of `x`.
    starts: Option<Tensor<2, Bool>>,
    /// `[N,H]` or `[1,H]`.
    start_state: Option<Tensor<2>>,
}

type Op = fn(Tensor<3>, &GruWeights, Options) -> (Tensor<3>, Tensor<2>);

fn operator(x: Tensor<3>, weights: &GruWeights, options: Options) -> (Tensor<3>, Tensor<2>) {
    let case = options.case;
    let order = case.order();
    let operator = SequenceOptions::new()
        .state(options.h0)
        .layout(order.layout)
        .direction(order.direction)
        .checkpointing(if case.lean {
            Checkpointing::Recompute
        } else {
            Checkpointing::KeepGates
        })
        .recurrent_mask(options.recurrent_mask)
        .zoneout(options.zoneout)
        .starts(options.starts)
        .start_state(options.start_state);
    let operator = match case.steps {
        Which::All => operator,
        Which::Lengths => operator.lengths(&LENGTHS),
        Which::Holes => operator.mask(options.valid),
    };
    gru_sequence_with(x, weights, &case.spec(), operator)
}

/// Runs `op` forward and backward. `padding` fills the skipped steps of `x`.
fn run(case: Case, device: &Device, dtype: DType, op: Op, padding: f64) -> Result<Outcome, String> {
    let device = &device.clone().autodiff();
    let features = if case.projected { 3 * H } else { I };
    let inputs = Inputs::random(&Problem::new(N, T, features, H));
    let places = || (0..N).flat_map(|n| (0..T).map(move |t| (n, t)));
    let valid: Vec<bool> = places().map(|(n, t)| case.is_valid(n, t)).collect();
    let starts: Vec<bool> = places().map(|(n, t)| is_start(n, t)).collect();
    let rows = inputs.x.chunks_exact(features).zip(&valid);
    let x: Vec<f64> = rows
        .flat_map(|(row, &is_valid)| row.iter().map(move |&v| if is_valid { v } else { padding }))
        .collect();
    let (x, shape) = case.in_layout(&x, features);
    let x: Tensor<3> = runs::tensor(&x, shape, device, dtype).require_grad();
    let matrix = |data: &[f64], rows, columns| -> Tensor<2> {
        runs::tensor(data, [rows, columns], device, dtype).require_grad()
    };
    let vector = |data: &[f64]| -> Tensor<1> {
        runs::tensor(data, [data.len()], device, dtype).require_grad()
    };
    let (b_ih, b_hh) = (inputs.b_ih.as_deref(), inputs.b_hh.as_deref());
    let (b_ih, b_hh) = (b_ih.expect("biases are on"), b_hh.expect("biases are on"));
    let weights = GruWeights::new(
        (!case.projected).then(|| matrix(&inputs.w_ih, I, 3 * H)),
        matrix(&inputs.w_hh, H, 3 * H),
    )
    .with_b_ih(matches!(case.biases, Biases::Input | Biases::Both).then(|| vector(b_ih)))
    .with_b_hh(matches!(case.biases, Biases::Recurrent | Biases::Both).then(|| vector(b_hh)));
    // Fixed values for the tensors without a gradient.
    let odd = |k: usize| ((k * 37 + 11) % 17) as f64 / 16.0;
    let mask: Vec<f64> = (0..N * H)
        .map(|k| if k % 4 == 0 { 0.0 } else { 0.5 + odd(k) })
        .collect();
    let zoneout_features = if case.zoneout == Zoneout::PerUnit {
        H
    } else {
        1
    };
    let zoneout: Vec<f64> = (0..N * T * zoneout_features).map(odd).collect();
    let (zoneout, shape) = case.in_layout(&zoneout, zoneout_features);
    let zoneout = || runs::tensor(&zoneout, shape, device, dtype);
    let flags = |flags: &[bool]| -> Tensor<2, Bool> {
        let numbers: Vec<f64> = flags.iter().map(|&v| f64::from(u8::from(v))).collect();
        let (numbers, [outer, inner, _]) = case.in_layout(&numbers, 1);
        let flags: Vec<bool> = numbers.iter().map(|&v| v != 0.0).collect();
        Tensor::from_data(TensorData::new(flags, [outer, inner]), device)
    };
    let start_rows = match case.starts {
        Starts::No | Starts::Zeros => None,
        Starts::PerRow => Some(N),
        Starts::Shared => Some(1),
    };
    let start_state = start_rows.map(|rows| {
        let numbers: Vec<f64> = (0..rows * H).map(|k| odd(k + 5) - 0.5).collect();
        matrix(&numbers, rows, H)
    });
    let h0 = matrix(inputs.h0.as_deref().expect("a state is on"), N, H);
    let options = Options {
        case,
        h0: h0.clone(),
        recurrent_mask: case
            .mask
            .then(|| runs::tensor(&mask, [N, H], device, dtype)),
        zoneout: (case.zoneout != Zoneout::No).then(zoneout),
        valid: flags(&valid),
        starts: (case.starts != Starts::No).then(|| flags(&starts)),
        start_state: start_state.clone(),
    };
    let (y, h_t) = op(x.clone(), &weights, options);
    let (d_y, _) = case.in_layout(&inputs.d_y, H);
    let gradients = (loss(&y, &d_y) + loss(&h_t, &inputs.d_h_t)).backward();
    let mut named = Tensors::from([
        ("x".into(), gradient("x", &x, &gradients)?),
        ("h0".into(), gradient("h0", &h0, &gradients)?),
        ("w_hh".into(), gradient("w_hh", &weights.w_hh, &gradients)?),
    ]);
    if let Some(start_state) = &start_state {
        let name = "start_state";
        let gradient = gradient(name, start_state, &gradients)?;
        named.insert(name.into(), gradient);
    }
    if let Some(w_ih) = &weights.w_ih {
        named.insert("w_ih".into(), gradient("w_ih", w_ih, &gradients)?);
    }
    for (name, bias) in [("b_ih", &weights.b_ih), ("b_hh", &weights.b_hh)] {
        if let Some(bias) = bias {
            named.insert(name.into(), gradient(name, bias, &gradients)?);
        }
    }
    Ok(Outcome {
        outputs: Tensors::from([("y".into(), values(y)), ("h_t".into(), values(h_t))]),
        gradients: named,
    })
}
