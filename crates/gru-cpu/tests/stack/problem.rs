//! Layers with random weights, and the inputs of a sequence.

use gru_cpu::{
    Gru, Sequence, Stack, StackInputs, StackLayer, Weights,
    spec::{self, Direction, GruSpec, Layout, Lengths, Order, Precision, Reset, Sizes, Update},
};
use gru_testkit::random::SplitMix64;

/// The weights of a layer and direction.
#[derive(Clone)]
pub struct Owned {
    pub spec: GruSpec,
    pub direction: Direction,
    pub zoneout: f32,
    pub w_ih: Vec<f32>,
    pub w_hh: Vec<f32>,
    pub biases: Option<[Vec<f32>; 2]>,
}

impl Owned {
    pub fn layer(&self) -> StackLayer<'_> {
        let bias = |k: usize| self.biases.as_ref().map(|biases| &biases[k][..]);
        StackLayer {
            spec: self.spec,
            direction: self.direction,
            zoneout: self.zoneout,
            weights: Weights {
                b_ih: bias(0),
                b_hh: bias(1),
                ..Weights::new(Some(&self.w_ih), &self.w_hh)
            },
        }
    }
}

/// L layers in D directions, and the inputs of a sequence, with states `[L·D,N,H]`.
#[derive(Clone)]
pub struct Problem {
    pub sizes: Sizes,
    pub directions: usize,
    pub layout: Layout,
    pub layers: Vec<Owned>,
    pub sequence: spec::Sequence<Vec<f32>>,
    pub lengths: Lengths,
}

impl Problem {
    pub fn new(
        [n, t, i, h]: [usize; 4],
        layers: usize,
        directions: usize,
        specs: &[GruSpec],
        options: bool,
    ) -> Self {
        let mut random = SplitMix64(1);
        let mut draw =
            |len: usize| -> Vec<f32> { (0..len).map(|_| random.uniform(1.0) as f32).collect() };
        let all = layers * directions;
        let owned = (0..all)
            .map(|k| {
                let inputs = if k < directions { i } else { directions * h };
                let scale = 1.0 / (h as f32).sqrt().floor();
                let mut weight = |len| draw(len).into_iter().map(|w| w * scale).collect();
                Owned {
                    spec: specs[k % specs.len()],
                    direction: if k % directions == 1 {
                        Direction::Reverse
                    } else {
                        Direction::Forward
                    },
                    zoneout: if options && k == 0 { 0.25 } else { 0.0 },
                    w_ih: weight(inputs * 3 * h),
                    w_hh: weight(h * 3 * h),
                    biases: (k % 3 < 2).then(|| [(); 2].map(|()| draw(3 * h))),
                }
            })
            .collect();
        let mut optional = |len: usize| options.then(|| draw(len));
        let flag = |v: Option<Vec<f32>>, from: f32| {
            v.map(|v| v.into_iter().map(|v| f32::from(v > from)).collect())
        };
        Self {
            sizes: Sizes { n, t, i, h },
            directions,
            layout: if options {
                Layout::TimeMajor
            } else {
                Layout::BatchMajor
            },
            layers: owned,
            sequence: spec::Sequence {
                h0: optional(all * n * h),
                step_mask: flag(optional(n * t), -0.4),
                starts: flag(optional(n * t), 0.3),
                start_state: optional(all * n * h),
                ..spec::Sequence::new(draw(n * t * i))
            },
            lengths: Lengths::All,
        }
    }

    /// The number of steps of a row.
    pub fn len(&self, row: usize) -> usize {
        self.lengths.of_rows().map_or(self.sizes.t, |of| of[row])
    }

    /// The row of memory of a row of the batch at a time.
    pub fn at(&self, row: usize, time: usize) -> usize {
        let Sizes { n, t, .. } = self.sizes;
        match (&self.lengths, self.layout) {
            (Lengths::Packed(lengths), _) => lengths[..row].iter().sum::<usize>() + time,
            (_, Layout::BatchMajor) => row * t + time,
            (_, Layout::TimeMajor) => time * n + row,
        }
    }

    /// Rows of memory.
    pub fn places(&self) -> usize {
        self.lengths.in_memory(self.sizes).places()
    }

    /// The same rows with lengths, and values in the padding that change every result if they are read; or without
    /// padding.
    pub fn with_lengths(&self, lengths: Lengths) -> Self {
        let mut new = Self {
            lengths,
            ..self.clone()
        };
        let copy = |of: &[f32], padding: f32| {
            let width = of.len() / self.sizes.places();
            let mut copy = vec![padding; new.places() * width];
            for row in 0..self.sizes.n {
                for time in 0..new.len(row) {
                    let (from, to) = (self.at(row, time) * width, new.at(row, time) * width);
                    copy[to..][..width].copy_from_slice(&of[from..][..width]);
                }
            }
            copy
        };
        let flags = |of: &Option<Vec<f32>>| Some(copy(of.as_ref()?, 1.0));
        new.sequence = spec::Sequence {
            x: copy(&self.sequence.x, f32::NAN),
            step_mask: flags(&self.sequence.step_mask),
            starts: flags(&self.sequence.starts),
            ..self.sequence.clone()
        };
        new
    }

    pub fn stack(&self, precision: Precision) -> Stack {
        let layers: Vec<_> = self.layers.iter().map(Owned::layer).collect();
        Stack::new(
            precision,
            [self.sizes.i, self.sizes.h],
            self.directions,
            &layers,
        )
    }

    /// Outputs and final states. What is past the end of a row is not written, and 7.
    pub fn run(&self, stack: &Stack) -> [Vec<f32>; 2] {
        let Sizes { n, t, h, .. } = self.sizes;
        let sequence = self.sequence.as_ref().map(|values| &values[..]);
        let inputs = StackInputs {
            x: sequence.x,
            lengths: &self.lengths,
            state: sequence.h0,
            step_mask: sequence.step_mask,
            starts: sequence.starts,
            start_state: sequence.start_state,
        };
        let mut y = vec![7.0; self.places() * self.directions * h];
        let mut last = vec![7.0; self.layers.len() * n * h];
        stack.forward(self.layout, [n, t], inputs, &mut y, &mut last);
        [y, last]
    }

    /// The same from a function that runs a layer: outputs are concatenated, and the last states found.
    pub fn by(
        &self,
        mut run: impl FnMut(&Owned, Gru, Sequence<'_, f32>) -> Vec<f32>,
    ) -> [Vec<f32>; 2] {
        let Sizes { n, h, i, .. } = self.sizes;
        let (mut x, mut features, mut lasts) = (self.sequence.x.clone(), i, Vec::new());
        for (l, layer) in self.layers.chunks(self.directions).enumerate() {
            let mut states = Vec::new();
            for (d, owned) in layer.iter().enumerate() {
                let first = (l * self.directions + d) * n * h;
                let of_layer = |all: &'_ [f32]| all[first..][..n * h].to_vec();
                let of_layer = |all: &Option<Vec<f32>>| all.as_deref().map(of_layer);
                let zoneout = vec![owned.zoneout; self.places() * h];
                let sequence = spec::Sequence {
                    x: x.clone(),
                    h0: of_layer(&self.sequence.h0),
                    start_state: of_layer(&self.sequence.start_state),
                    zoneout: (owned.zoneout > 0.0).then_some(zoneout),
                    ..self.sequence.clone()
                };
                let gru = Gru {
                    sizes: Sizes {
                        i: features,
                        ..self.sizes
                    },
                    order: Order {
                        layout: self.layout,
                        direction: owned.direction,
                    },
                    spec: owned.spec,
                };
                let y = run(owned, gru, sequence.as_ref().map(|values| &values[..]));
                for row in 0..n {
                    match (self.len(row), &sequence.h0) {
                        (0, Some(h0)) => lasts.extend_from_slice(&h0[row * h..][..h]),
                        (0, None) => lasts.extend(vec![0.0; h]),
                        (len, _) => {
                            let at = self.at(row, owned.direction.time(len - 1, len));
                            lasts.extend_from_slice(&y[at * h..][..h]);
                        }
                    }
                }
                states.push(y);
            }
            x = (0..self.places())
                .flat_map(|at| states.iter().flat_map(move |y| y[at * h..][..h].to_vec()))
                .collect();
            features = self.directions * h;
        }
        [x, lasts]
    }
}

pub fn specs() -> Vec<GruSpec> {
    let after = GruSpec::default();
    let before = after.with_reset(Reset::BeforeMatmul);
    vec![
        after,
        before.with_update(Update::Takes).with_clip_gates(Some(0.7)),
        after.with_clip_state(Some(0.4)),
    ]
}

/// Sizes with every kind of tile, panel and group; more rows than a thread advances together; T > 1.
pub fn problems() -> Vec<Problem> {
    let mut all = Vec::new();
    for sizes in [
        [1, 1, 1, 5],
        [1, 9, 70, 33],
        [3, 4, 5, 65],
        [37, 3, 9, 17],
        [6, 40, 3, 50],
    ] {
        for (layers, directions) in [(1, 1), (3, 1), (2, 2)] {
            for options in [false, true] {
                all.push(Problem::new(sizes, layers, directions, &specs(), options));
            }
        }
    }
    // One row of small layers, whose directions are computed together.
    let after = GruSpec::default();
    let specs = [after, after.with_update(Update::Takes)];
    for (t, h) in [(1, 7), (9, 7), (9, 8), (9, 20)] {
        let sizes = [1, t, 5, h];
        all.push(Problem::new(sizes, 2, 2, &specs, false));
        let mut with_state = Problem::new(sizes, 2, 2, &specs, false);
        with_state.sequence.h0 = Some(vec![0.25; 4 * h]);
        all.push(with_state);
        // Zoneout has no such kernel.
        let mut kept = Problem::new(sizes, 2, 2, &specs, false);
        kept.layers[1].zoneout = 0.25;
        all.push(kept);
    }
    all
}
