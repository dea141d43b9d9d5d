//! What a sequence may be given: lengths, masks of steps, recurrent mask, zoneout, projected
//! input, the forms of the biases. In all combinations, against the equations written step by
//! step in float64 and differentiated by Burn.

use burn::tensor::{DType, Device, Tensor, TensorData, activation::sigmoid};
use gru_op::{
    Direction, GruOptions, GruSpec, GruWeights, Layout, Memory, Reset, Steps, Update,
    gru_sequence_with,
};
use gru_testkit::{
    close::{Outcome, Tensors, Tolerance},
    inputs::Inputs,
    problem::Problem,
};
use libtest_mimic::Trial;

use super::{
    backends::TestBackend,
    runs::{self, gradient, loss, values},
};

const N: usize = 5;
const T: usize = 6;
const I: usize = 3;
const H: usize = 7;

/// Unsorted, repeated, zero, full.
const LENGTHS: [usize; N] = [4, 0, 6, 1, 4];

/// One combination. `true` is the unusual side.
#[derive(Debug, Clone, Copy)]
struct Case {
    steps: Which,
    mask: bool,
    take: Take,
    projected: bool,
    biases: Biases,
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
enum Take {
    No,
    PerStep,
    PerUnit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Biases {
    None,
    Input,
    InputAndCandidate,
    Both,
}

impl Case {
    /// The options that matter to each other in full; the rest spread over them.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        let biases = [
            Biases::None,
            Biases::Input,
            Biases::InputAndCandidate,
            Biases::Both,
        ];
        for steps in [Which::All, Which::Lengths, Which::Holes] {
            for take in [Take::No, Take::PerStep, Take::PerUnit] {
                for mask in [false, true] {
                    for before in [false, true] {
                        let k = all.len();
                        all.push(Self {
                            steps,
                            mask,
                            take,
                            before,
                            projected: k % 3 == 1,
                            biases: biases[k % 4],
                            takes: k % 5 < 2,
                            reverse: k % 7 % 2 == 1,
                            time_major: k % 11 % 2 == 1,
                            lean: k % 13 % 2 == 1,
                        });
                    }
                }
            }
        }
        all
    }

    fn id(&self) -> String {
        let flag = |set, name: &'static str| if set { name } else { "" };
        format!(
            "{:?}-take{:?}-bias{:?}{}{}{}{}{}{}{}",
            self.steps,
            self.take,
            self.biases,
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
        let pick = |unusual: bool, a, b| if unusual { b } else { a };
        GruSpec::default()
            .with_reset(match self.before {
                true => Reset::BeforeMatmul,
                false => Reset::AfterMatmul,
            })
            .with_update(match self.takes {
                true => Update::Takes,
                false => Update::Keeps,
            })
            .with_direction(match self.reverse {
                true => Direction::Reverse,
                false => Direction::Forward,
            })
            .with_layout(pick(self.time_major, Layout::BatchMajor, Layout::TimeMajor))
            .with_memory(match self.lean {
                true => Memory::Lean,
                false => Memory::Speed,
            })
    }

    /// `[outer, inner, features]` from numbers in `[N,T,features]`.
    fn in_layout(&self, data: &[f64], features: usize) -> (Vec<f64>, [usize; 3]) {
        match self.time_major {
            false => (data.to_vec(), [N, T, features]),
            true => {
                let at = |n: usize, t: usize| &data[(n * T + t) * features..][..features];
                let steps = (0..T).flat_map(|t| (0..N).map(move |n| (n, t)));
                let data = steps.flat_map(|(n, t)| at(n, t)).copied().collect();
                (data, [T, N, features])
            }
        }
    }

    /// Whether step `t` of row `n` counts.
    fn counts(&self, n: usize, t: usize) -> bool {
        match self.steps {
            Which::All => true,
            Which::Lengths => t < LENGTHS[n],
            // Row 1 has no step at all, row 2 begins and ends with a hole.
            Which::Holes => {
                n != 1 && !(n == 2 && (t == 0 || t == T - 1)) && !(n + 2 * t).is_multiple_of(3)
            }
        }
    }
}

pub fn trials(backends: &[TestBackend]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &backend in backends {
        // On a GPU, every third: shaders are compiled for each.
        let every = if backend.slow { 3 } else { 1 };
        for case in Case::all().into_iter().step_by(every) {
            for dtype in backend.dtypes() {
                if dtype == DType::F64 && !backend.float64_sigmoid && case.take != Take::No {
                    // Blended states run on Burn's own sigmoid there.
                    continue;
                }
                let id = format!("options/{}/{}", case.id(), backend.id(dtype));
                let tolerance = match dtype {
                    DType::F64 => Tolerance::F64,
                    _ => backend.tolerance(Tolerance::F32),
                };
                trials.push(backend.trial(id, move |device| {
                    let expected = run(case, &Device::flex(), DType::F64, stepwise, 0.0)?;
                    let got = run(case, device, dtype, gru_sequence_with, 0.0)?;
                    got.compare(&expected, tolerance)
                }));
            }
        }
        let id = format!("options/nan-in-the-padding/{}", backend.name);
        trials.push(backend.trial(id, |device| {
            for steps in [Which::Lengths, Which::Holes] {
                let case = Case {
                    steps,
                    ..Case::all()[0]
                };
                let clean = run(case, device, DType::F32, gru_sequence_with, 0.0)?;
                let poisoned = run(case, device, DType::F32, gru_sequence_with, f64::NAN)?;
                if clean != poisoned {
                    return Err(format!("{steps:?}: what the padding holds has an effect"));
                }
            }
            Ok(())
        }));
    }
    trials
}

type Op = fn(Tensor<3>, &GruWeights, &GruSpec, GruOptions) -> (Tensor<3>, Tensor<2>);

/// Runs `op` forward and backward; what does not count in `x` is `padding`.
fn run(case: Case, device: &Device, dtype: DType, op: Op, padding: f64) -> Result<Outcome, String> {
    let device = &device.clone().autodiff();
    let features = if case.projected { 3 * H } else { I };
    let inputs = Inputs::random(&Problem::new(N, T, features, H));
    let places = (0..N).flat_map(|n| (0..T).map(move |t| (n, t)));
    let valid: Vec<bool> = places.map(|(n, t)| case.counts(n, t)).collect();
    let rows = inputs.x.chunks_exact(features).zip(&valid);
    let x: Vec<f64> = rows
        .flat_map(|(row, &counts)| row.iter().map(move |&v| if counts { v } else { padding }))
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
    .with_b_ih((case.biases != Biases::None).then(|| vector(b_ih)))
    .with_b_hh(match case.biases {
        Biases::None | Biases::Input => None,
        Biases::InputAndCandidate => Some(vector(&b_hh[2 * H..])),
        Biases::Both => Some(vector(b_hh)),
    });
    // Some numbers of an order of their own, for what gets no gradient.
    let odd = |k: usize| ((k * 37 + 11) % 17) as f64 / 16.0;
    let mask: Vec<f64> = (0..N * H)
        .map(|k| if k % 4 == 0 { 0.0 } else { 0.5 + odd(k) })
        .collect();
    let take_features = if case.take == Take::PerUnit { H } else { 1 };
    let take: Vec<f64> = (0..N * T * take_features).map(odd).collect();
    let (take, take_shape) = case.in_layout(&take, take_features);
    let as_numbers: Vec<f64> = valid.iter().map(|&v| f64::from(u8::from(v))).collect();
    let (as_numbers, [outer, inner, _]) = case.in_layout(&as_numbers, 1);
    let steps: Vec<bool> = as_numbers.iter().map(|&v| v != 0.0).collect();
    let h0 = matrix(inputs.h0.as_deref().expect("a state is on"), N, H);
    let options = GruOptions::default()
        .with_h0(h0.clone())
        .with_mask(
            case.mask
                .then(|| runs::tensor(&mask, [N, H], device, dtype)),
        )
        .with_take((case.take != Take::No).then(|| runs::tensor(&take, take_shape, device, dtype)))
        .with_steps(match case.steps {
            Which::All => Steps::All,
            Which::Lengths => Steps::Lengths(LENGTHS.to_vec()),
            Which::Holes => Steps::Mask(Tensor::from_data(
                TensorData::new(steps, [outer, inner]),
                device,
            )),
        });
    let (y, h_t) = op(x.clone(), &weights, &case.spec(), options);
    let (d_y, _) = case.in_layout(&inputs.d_y, H);
    let gradients = (loss(&y, &d_y) + loss(&h_t, &inputs.d_h_t)).backward();
    let mut named = Tensors::from([
        ("x".into(), gradient("x", &x, &gradients)?),
        ("h0".into(), gradient("h0", &h0, &gradients)?),
        ("w_hh".into(), gradient("w_hh", &weights.w_hh, &gradients)?),
    ]);
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

/// The equations of the documentation, one row and one step after the other: rows are cut out,
/// not masked, so a step that does not count is one that is not there.
fn stepwise(
    x: Tensor<3>,
    weights: &GruWeights,
    spec: &GruSpec,
    options: GruOptions,
) -> (Tensor<3>, Tensor<2>) {
    let time_major = spec.layout == Layout::TimeMajor;
    let batch_first = |sequence: Tensor<3>| match time_major {
        true => sequence.swap_dims(0, 1),
        false => sequence,
    };
    let [_, h] = options.h0.as_ref().expect("a state is on").dims();
    let counts: Vec<Vec<bool>> = match &options.steps {
        Steps::All => vec![vec![true; T]; N],
        Steps::Lengths(lengths) => lengths
            .iter()
            .map(|&len| (0..T).map(|t| t < len).collect())
            .collect(),
        Steps::Mask(mask) => {
            let mask = match time_major {
                true => mask.clone().transpose(),
                false => mask.clone(),
            };
            let steps = values(mask.float());
            let rows = steps.chunks_exact(T);
            rows.map(|row| row.iter().map(|&v| v != 0.0).collect())
                .collect()
        }
        other => panic!("unknown: {other:?}"),
    };
    let past_the_end_is_zero = matches!(options.steps, Steps::Lengths(_));
    let place = (x.device(), x.dtype());
    let zeros = || Tensor::<2>::zeros([1, h], (&place.0, place.1));
    let x = batch_first(x);
    let take = options.take.map(batch_first);
    let block = |w: &Tensor<2>, k: usize| w.clone().narrow(1, k * h, h);
    let b_hh = weights.b_hh.clone().map(|b| match b.dims() {
        [len] if len == h => Tensor::cat(vec![zeros().squeeze(), zeros().squeeze(), b], 0),
        _ => b,
    });
    let bias = |b: &Option<Tensor<1>>, k: usize| match b {
        Some(b) => b.clone().narrow(0, k * h, h).unsqueeze(),
        None => zeros(),
    };
    let at = |sequence: &Tensor<3>, n: usize, t: usize| -> Tensor<2> {
        let row = sequence.clone().narrow(0, n, 1).narrow(1, t, 1);
        row.squeeze_dim(1)
    };
    let row_of = |rows: &Tensor<2>, n: usize| rows.clone().narrow(0, n, 1);

    let (mut outputs, mut finals) = (Vec::new(), Vec::new());
    for (n, counts) in counts.iter().enumerate() {
        let mut state = row_of(options.h0.as_ref().expect("a state is on"), n);
        let mut output = zeros();
        let mut row = vec![zeros(); T];
        let order: Vec<usize> = match spec.direction {
            Direction::Forward => (0..T).collect(),
            Direction::Reverse => (0..T).rev().collect(),
        };
        for t in order {
            if counts[t] {
                let x = at(&x, n, t);
                let p = |k: usize| {
                    let product = match &weights.w_ih {
                        Some(w) => x.clone().matmul(block(w, k)),
                        None => block(&x, k),
                    };
                    product + bias(&weights.b_ih, k)
                };
                let g = match &options.mask {
                    Some(mask) => state.clone() * row_of(mask, n),
                    None => state.clone(),
                };
                let q = |g: Tensor<2>, k| g.matmul(block(&weights.w_hh, k)) + bias(&b_hh, k);
                let r = sigmoid(p(0) + q(g.clone(), 0));
                let z = sigmoid(p(1) + q(g.clone(), 1));
                let recurrent = match spec.reset {
                    Reset::AfterMatmul => r * q(g, 2),
                    Reset::BeforeMatmul => q(r * g, 2),
                };
                let candidate = (p(2) + recurrent).tanh();
                let kept = match spec.update {
                    Update::Keeps => z,
                    Update::Takes => 1.0 - z,
                };
                let new = kept.clone() * state.clone() + (1.0 - kept) * candidate;
                state = match &take {
                    Some(take) => {
                        let take = at(take, n, t);
                        take.clone() * new + (1.0 - take) * state
                    }
                    None => new,
                };
                output = state.clone();
            } else if past_the_end_is_zero {
                output = zeros();
            }
            row[t] = output.clone();
        }
        let row: Tensor<2> = Tensor::cat(row, 0);
        outputs.push(row);
        finals.push(state);
    }
    let y: Tensor<3> = Tensor::stack(outputs, 0);
    (batch_first(y), Tensor::cat(finals, 0))
}
