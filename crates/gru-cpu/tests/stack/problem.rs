//! Layers with random weights, and the inputs of a sequence.

use gru_cpu::{
    Gru, Sequence, Stack, StackInputs, StackLayer, Weights,
    spec::{Direction, GruSpec, Layout, Lengths, Order, Precision, Reset, Sizes, Update},
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

/// L layers in D directions, and the inputs of a sequence.
#[derive(Clone)]
pub struct Problem {
    pub sizes: Sizes,
    pub directions: usize,
    pub layout: Layout,
    pub layers: Vec<Owned>,
    pub x: Vec<f32>,
    pub state: Option<Vec<f32>>,
    pub step_mask: Option<Vec<f32>>,
    pub starts: Option<Vec<f32>>,
    pub start_state: Option<Vec<f32>>,
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
            state: optional(all * n * h),
            step_mask: flag(optional(n * t), -0.4),
            starts: flag(optional(n * t), 0.3),
            start_state: optional(all * n * h),
            x: draw(n * t * i),
            lengths: Lengths::All,
        }
    }

    /// The row of memory of a row of the batch at a time.
    pub fn at(&self, row: usize, time: usize) -> usize {
        let Sizes { n, t, .. } = self.sizes;
        match self.layout {
            Layout::BatchMajor => row * t + time,
            Layout::TimeMajor => time * n + row,
        }
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

    pub fn inputs(&self) -> StackInputs<'_> {
        StackInputs {
            x: &self.x,
            lengths: &self.lengths,
            state: self.state.as_deref(),
            step_mask: self.step_mask.as_deref(),
            starts: self.starts.as_deref(),
            start_state: self.start_state.as_deref(),
        }
    }

    /// Outputs and final states.
    pub fn run(&self, stack: &Stack) -> [Vec<f32>; 2] {
        let Sizes { n, t, h, .. } = self.sizes;
        let places = self.lengths.in_memory(self.sizes).rows();
        // What is past the end of a row is not written.
        let from = match self.lengths {
            Lengths::All => f32::NAN,
            _ => 0.0,
        };
        let mut y = vec![from; places * self.directions * h];
        let mut last = vec![f32::NAN; self.layers.len() * n * h];
        stack.forward(self.layout, [n, t], self.inputs(), &mut y, &mut last);
        [y, last]
    }

    /// The same from a function that runs a layer: outputs are concatenated, and the last states found.
    pub fn by(
        &self,
        mut run: impl FnMut(&Owned, Gru, Sequence<'_, f32>) -> Vec<f32>,
    ) -> [Vec<f32>; 2] {
        let Sizes { n, t, h, i } = self.sizes;
        let (mut x, mut features, mut lasts) = (self.x.clone(), i, Vec::new());
        for (l, layer) in self.layers.chunks(self.directions).enumerate() {
            let mut states = Vec::new();
            for (d, owned) in layer.iter().enumerate() {
                let k = l * self.directions + d;
                let of = |all: &'_ Option<Vec<f32>>| {
                    all.as_ref().map(|all| all[k * n * h..][..n * h].to_vec())
                };
                let (h0, start_state) = (of(&self.state), of(&self.start_state));
                let zoneout = vec![owned.zoneout; n * t * h];
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
                let sequence = Sequence {
                    h0: h0.as_deref(),
                    step_mask: self.step_mask.as_deref(),
                    zoneout: (owned.zoneout > 0.0).then_some(&zoneout),
                    starts: self.starts.as_deref(),
                    start_state: start_state.as_deref(),
                    ..Sequence::new(&x)
                };
                let y = run(owned, gru, sequence);
                let end = owned.direction.time(t - 1, t);
                for row in 0..n {
                    let at = self.at(row, end);
                    lasts.extend_from_slice(&y[at * h..][..h]);
                }
                states.push(y);
            }
            x = (0..n * t)
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
        let state = Some(vec![0.25; 4 * h]);
        all.push(Problem {
            state,
            ..Problem::new(sizes, 2, 2, &specs, false)
        });
        // Zoneout has no such kernel.
        let mut kept = Problem::new(sizes, 2, 2, &specs, false);
        kept.layers[1].zoneout = 0.25;
        all.push(kept);
    }
    all
}
