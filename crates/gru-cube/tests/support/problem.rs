//! Problems in float64, and the oracle that solves them.

use super::{Outcome, Upload};
use cubecl::client::Client;
use gru_cube::{Recurrence, Starts, ZoneoutKind};
use gru_spec::{GruSpec, Inputs, Layout, Order, Reset, Sequence, Sizes, Weights};
use gru_testkit::oracle;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Shape of the zoneout tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zoneout {
    None,
    PerStep,
    PerUnit,
}

/// Which optional tensors a problem has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    pub b_ih: bool,
    pub b_hh: bool,
    pub h0: bool,
    pub recurrent_mask: bool,
    pub step_mask: bool,
    pub zoneout: Zoneout,
    pub starts: Starts,
}

impl Given {
    /// All except zoneout and starts.
    pub const ALL: Self = Self::bits(31);
    pub const NONE: Self = Self::bits(0);

    pub const fn bits(bits: usize) -> Self {
        Self {
            b_ih: bits & 1 != 0,
            b_hh: bits & 2 != 0,
            h0: bits & 4 != 0,
            recurrent_mask: bits & 8 != 0,
            step_mask: bits & 16 != 0,
            zoneout: Zoneout::None,
            starts: Starts::None,
        }
    }
}

/// A problem in float64. Every value is exact in the type of its test.
#[derive(Debug, Clone)]
pub struct Problem {
    pub n: usize,
    pub t: usize,
    pub h: usize,
    pub spec: GruSpec,
    pub order: Order,
    pub p: Vec<f64>,
    pub w_hh: Vec<f64>,
    pub b_ih: Option<Vec<f64>>,
    pub b_hh: Option<Vec<f64>>,
    pub h0: Option<Vec<f64>>,
    pub recurrent_mask: Option<Vec<f64>>,
    pub step_mask: Option<Vec<f64>>,
    /// The share of the previous state that is kept, for each step or each unit.
    pub zoneout: Option<Vec<f64>>,
    /// 1 if the row starts at this time.
    pub starts: Option<Vec<f64>>,
    pub start_state: Option<Vec<f64>>,
    /// Steps of each row, if the kernels leave out padding.
    pub lengths: Option<Vec<usize>>,
    pub d_states: Vec<f64>,
}

impl Problem {
    pub fn new(size: (usize, usize, usize), spec: GruSpec, given: Given, seed: u64) -> Self {
        Self::of::<f32>(size, spec, given, seed)
    }

    /// A problem whose values are exact in `F`.
    pub fn of<F: Upload>(
        (n, t, h): (usize, usize, usize),
        spec: GruSpec,
        given: Given,
        seed: u64,
    ) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut normal = |len: usize, scale: f64| -> Vec<f64> {
            (0..len)
                .map(|_| {
                    let x: f64 = (0..4).map(|_| rng.random_range(-1.0..1.0)).sum();
                    F::narrow(x * scale).wide()
                })
                .collect()
        };
        let p = normal(n * t * 3 * h, 0.9);
        let w_hh = normal(3 * h * h, 0.9 / (h as f64).sqrt());
        let b_ih = given.b_ih.then(|| normal(3 * h, 0.3));
        let b_hh = given.b_hh.then(|| normal(3 * h, 0.3));
        let h0 = given.h0.then(|| normal(n * h, 0.6));
        let d_states = normal(n * t * h, 0.9);
        let mask = given.recurrent_mask.then(|| {
            (0..n * h)
                .map(|_| [0.0, 1.25][usize::from(rng.random_bool(0.8))])
                .collect()
        });
        let valid = given.step_mask.then(|| {
            (0..n * t)
                .map(|_| f64::from(u8::from(rng.random_bool(0.7))))
                .collect()
        });
        let per_step = match given.zoneout {
            Zoneout::None => None,
            Zoneout::PerStep => Some(1),
            Zoneout::PerUnit => Some(h),
        };
        let mut share = || F::narrow(rng.random_range(0.0..1.0)).wide();
        let zoneout = per_step.map(|per_step| (0..n * t * per_step).map(|_| share()).collect());
        let starts = (given.starts != Starts::None).then(|| {
            (0..n * t)
                .map(|_| f64::from(u8::from(rng.random_bool(0.4))))
                .collect()
        });
        let mut normal = || F::narrow(rng.random_range(-1.0..1.0)).wide();
        let start_state =
            (given.starts == Starts::FromState).then(|| (0..n * h).map(|_| normal()).collect());
        Self {
            n,
            t,
            h,
            spec,
            order: Order::default(),
            p,
            w_hh,
            b_ih,
            b_hh,
            h0,
            recurrent_mask: mask,
            step_mask: valid,
            zoneout,
            starts,
            start_state,
            lengths: None,
            d_states,
        }
    }

    /// The same problem with rows of different lengths, from T steps to none. Steps after them are skipped, without
    /// starts and upstream gradients.
    pub fn with_lengths(mut self) -> Self {
        let (n, t, h) = (self.n, self.t, self.h);
        let lengths: Vec<_> = (0..n)
            .map(|row| (n - 1 - row) * t / (n - 1).max(1))
            .collect();
        let mut step_mask = self.step_mask.take().unwrap_or(vec![1.0; n * t]);
        for (row, step) in (0..n).flat_map(|row| (lengths[row]..t).map(move |step| (row, step))) {
            let at = self.row(row, step);
            step_mask[at] = 0.0;
            self.starts.iter_mut().for_each(|starts| starts[at] = 0.0);
            self.d_states[at * h..][..h].fill(0.0);
        }
        self.step_mask = Some(step_mask);
        self.lengths = Some(lengths);
        self
    }

    /// Whether a step is padding.
    pub fn is_padding(&self, n: usize, t: usize) -> bool {
        let lengths = self.lengths.as_ref();
        lengths.is_some_and(|lengths| t >= lengths[n])
    }

    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    pub fn rows(&self) -> usize {
        self.n * self.t
    }

    /// The problem on a device.
    pub fn recurrence<F: Upload>(&self, client: &Client) -> Recurrence {
        let up = |data: &Vec<f64>| super::upload::<F>(client, data);
        Recurrence {
            sizes: self.sizes(),
            spec: self.spec,
            order: self.order,
            dtype: F::elem_type_native(),
            inputs: Inputs {
                sequence: Sequence {
                    h0: self.h0_and_start().as_ref().map(up),
                    recurrent_mask: self.recurrent_mask.as_ref().map(up),
                    step_mask: self.codes().as_ref().map(up),
                    zoneout: self.zoneout.as_ref().map(up),
                    ..Sequence::new(up(&self.p))
                },
                weights: Weights {
                    b_ih: self.b_ih.as_ref().map(up),
                    b_hh: self.b_hh.as_ref().map(up),
                    ..Weights::new(None, up(&self.w_hh))
                },
            },
            starts: match (&self.starts, &self.start_state) {
                (None, _) => Starts::None,
                (Some(_), None) => Starts::FromZeros,
                (Some(_), Some(_)) => Starts::FromState,
            },
            zoneout: match &self.zoneout {
                None => ZoneoutKind::None,
                Some(zoneout) if zoneout.len() == self.rows() => ZoneoutKind::OfRow,
                Some(_) => ZoneoutKind::OfUnit,
            },
            lengths: self.lengths.clone(),
        }
    }

    pub fn sizes(&self) -> Sizes {
        let Self { n, t, h, .. } = *self;
        Sizes { n, t, i: 3 * h, h }
    }

    /// Whether a row starts before this step, in the order of computation.
    pub fn starts(&self, n: usize, step: usize) -> bool {
        let boundary = self.order.direction.boundary(step, self.t);
        let starts = self.starts.as_ref().zip(boundary);
        starts.is_some_and(|(starts, boundary)| starts[self.row(n, boundary)] != 0.0)
    }

    /// The state before a step, in the order of computation.
    pub fn before(&self, states: &[f64], n: usize, step: usize, j: usize) -> f64 {
        let initial = |state: &Option<Vec<f64>>| {
            let state = state.as_ref();
            state.map_or(0.0, |state| state[n * self.h + j])
        };
        if self.starts(n, step) {
            return initial(&self.start_state);
        }
        match step {
            0 => initial(&self.h0),
            _ => {
                let time = self.order.direction.time(step - 1, self.t);
                states[self.row(n, time) * self.h + j]
            }
        }
    }

    /// The recurrent mask of a unit.
    pub fn mask(&self, n: usize, j: usize) -> f64 {
        let mask = self.recurrent_mask.as_ref();
        mask.map_or(1.0, |mask| mask[n * self.h + j])
    }

    /// The step mask of the kernels.
    pub fn codes(&self) -> Option<Vec<f64>> {
        if self.starts.is_none() {
            return self.step_mask.clone();
        }
        let mut codes = self.step_mask.clone().unwrap_or(vec![1.0; self.rows()]);
        for (n, step) in (0..self.n).flat_map(|n| (0..self.t).map(move |step| (n, step))) {
            if self.starts(n, step) {
                codes[self.row(n, self.order.direction.time(step, self.t))] += 2.0;
            }
        }
        Some(codes)
    }

    /// The initial state of the kernels, with the start state behind it.
    pub fn h0_and_start(&self) -> Option<Vec<f64>> {
        let Some(start_state) = &self.start_state else {
            return self.h0.clone();
        };
        let h0 = self.h0.clone().unwrap_or(vec![0.0; self.n * self.h]);
        Some([h0, start_state.clone()].concat())
    }

    /// Row in the order of the states, of a row of the batch and a step.
    pub fn row(&self, n: usize, t: usize) -> usize {
        match self.order.layout {
            Layout::BatchMajor => n * self.t + t,
            Layout::TimeMajor => t * self.n + n,
        }
    }
}

/// Runs the oracle. Initial state and recurrent bias are always given, so that their gradients exist.
fn truth(problem: &Problem) -> oracle::Forward {
    let Problem {
        n,
        t,
        h,
        spec,
        order,
        ..
    } = *problem;
    let (p, w_hh) = (problem.p.clone(), problem.w_hh.clone());
    let or_zeros = |tensor: &Option<Vec<f64>>, len| tensor.clone().unwrap_or(vec![0.0; len]);
    let call = oracle::Call {
        order,
        h0: Some(or_zeros(&problem.h0, n * h)),
        b_ih: problem.b_ih.clone(),
        b_hh: Some(or_zeros(&problem.b_hh, 3 * h)),
        recurrent_mask: problem.recurrent_mask.clone(),
        zoneout: problem.zoneout.clone(),
        step_mask: problem.step_mask.clone(),
        starts: problem.starts.clone(),
        start_state: problem.start_state.clone(),
        ..oracle::Call::new(spec, [n, t, h], p, w_hh)
    };
    call.forward()
}

/// The smallest distance of a value from a clip, or from a kink of an activation.
pub fn kink_distance(problem: &Problem) -> f64 {
    truth(problem).kink_distance()
}

/// States of the float64 oracle, and gates as the kernels save them.
pub fn oracle_forward(problem: &Problem) -> (Vec<f64>, Vec<f64>) {
    let h = problem.h;
    let oracle::Forward { y, gates, q_n, .. } = truth(problem);
    let [r, z, n] = &gates;
    let kept = match problem.spec.reset {
        Reset::AfterMatmul => vec![r, z, n, &q_n],
        Reset::BeforeMatmul => vec![r, z, n],
    };
    let row = |row: usize| kept.iter().flat_map(move |gate| &gate[row * h..][..h]);
    let gates = (0..problem.rows()).flat_map(row).copied().collect();
    (y, gates)
}

/// The results of the float64 oracle.
pub fn oracle(problem: &Problem) -> Outcome {
    let forward = truth(problem);
    let mut gradients = forward.gradients(&problem.d_states, &[]);
    let mut of = |name| gradients.remove(name).expect("every tensor is there");
    Outcome {
        d_p: of("x"),
        d_h0: of("h0"),
        d_start: match problem.start_state {
            Some(_) => of("start_state"),
            None => Vec::new(),
        },
        d_w_hh: of("w_hh"),
        d_b_hh: of("b_hh"),
        states: forward.y,
    }
}
