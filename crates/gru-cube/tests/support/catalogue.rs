//! The test cases: conventions, sizes, optional tensors and schedules, in covering arrays of pairs.

use super::{
    Given, Ignored, Mode, Problem, Ran, Upload, Zoneout, client, inference, kink_distance,
    not_allowed, oracle, run, sequence, tile,
};
use cubecl::features::TypeUsage;
use gru_cube::{Schedule, Starts, StepTile, Strategy};
use gru_spec::{Direction, GruSpec, Layout, Order, Reset, Update};
use gru_testkit::{activations::ACTIVATIONS, close::Tolerance, cover::cover};

/// One problem, and how it runs.
#[derive(Debug, Clone)]
pub struct Case {
    /// N, T and H.
    pub size: (usize, usize, usize),
    pub spec: GruSpec,
    pub order: Order,
    pub given: Given,
    pub strategy: Strategy,
    pub mode: Mode,
    /// Rows have different lengths, and padding is left out.
    pub lengths: bool,
    pub seed: u64,
}

/// Cases in which every pair of options occurs.
pub struct Cases {
    pub name: &'static str,
    pub cases: Vec<Case>,
}

/// How many values each option of a case may take, in the order of a row of [`Cases::new`].
pub type Options = [usize; 14];

/// All values of all options.
pub const ALL: Options = [2, 2, 2, 2, 4, 2, 2, 2, 2, 2, 3, 2, 2, 3];

/// All values except clips. At a clip the gradient is discontinuous, and rounding to 16 bits decides.
pub const WITHOUT_CLIPS: Options = {
    let mut options = ALL;
    options[4] = 1;
    options
};

/// More than the rounding of a pre-activation in float32.
const KINK_DISTANCE: f64 = 3e-6;

const CLIPS: [(Option<f64>, Option<f64>); 4] = [
    (None, None),
    (Some(0.8), None),
    (None, Some(0.35)),
    (Some(0.7), Some(0.4)),
];

const ZONEOUTS: [Zoneout; 3] = [Zoneout::None, Zoneout::PerStep, Zoneout::PerUnit];

const STARTS: [Starts; 3] = [Starts::None, Starts::FromZeros, Starts::FromState];

fn spec(row: &[usize]) -> GruSpec {
    let (clip_gates, clip_state) = CLIPS[row[4]];
    GruSpec::default()
        .with_reset([Reset::AfterMatmul, Reset::BeforeMatmul][row[0]])
        .with_update([Update::Keeps, Update::Takes][row[3]])
        .with_clip_gates(clip_gates)
        .with_clip_state(clip_state)
}

fn order(row: &[usize]) -> Order {
    Order {
        direction: [Direction::Forward, Direction::Reverse][row[1]],
        layout: [Layout::BatchMajor, Layout::TimeMajor][row[2]],
    }
}

impl Cases {
    fn new(
        name: &'static str,
        sizes: &[(usize, usize, usize)],
        strategies: Vec<Strategy>,
        options: Options,
    ) -> Self {
        let factors = [sizes.len(), strategies.len()];
        let rows = cover(&[&options[..], &factors].concat(), 2);
        let case = |(seed, row): (usize, &Vec<usize>)| {
            // A value that no field takes would be an unused variable.
            let [
                b_ih,
                b_hh,
                h0,
                recurrent_mask,
                step_mask,
                zoneout,
                in_place,
                inference,
                starts,
                size,
                strategy,
            ] = row[5..]
            else {
                panic!("{row:?}");
            };
            Case {
                size: sizes[size],
                spec: spec(row),
                order: order(row),
                given: Given {
                    b_ih: b_ih == 1,
                    b_hh: b_hh == 1,
                    h0: h0 == 1,
                    recurrent_mask: recurrent_mask == 1,
                    step_mask: step_mask == 1,
                    zoneout: ZONEOUTS[zoneout],
                    starts: STARTS[starts],
                },
                strategy: strategies[strategy],
                mode: Mode {
                    in_place: in_place == 1,
                    inference: inference == 1,
                },
                lengths: false,
                seed: seed as u64,
            }
        };
        let cases = rows.iter().enumerate().map(case).collect();
        Self { name, cases }
    }
}

impl Case {
    /// Sizes and strategy.
    pub fn id(&self) -> String {
        let (n, t, h) = self.size;
        format!("{:02}-N{n}-T{t}-H{h}-{}", self.seed, self.strategy).replace(' ', "-")
    }

    /// The first problem whose values all have some distance from clips and kinks. At a clip rounding decides on the
    /// gradient, and compilers round differently.
    pub fn problem<F: Upload>(&self) -> Problem {
        let draw = |k: u64| {
            let seed = self.seed + 1000 * k;
            let problem = Problem::of::<F>(self.size, self.spec, self.given, seed);
            let problem = problem.with_order(self.order);
            if self.lengths {
                problem.with_lengths()
            } else {
                problem
            }
        };
        let problems = (0..100).map(draw);
        let mut far = problems.filter(|problem| kink_distance(problem) > KINK_DISTANCE);
        far.next().expect("a problem without values at a clip")
    }

    /// Runs the case and compares it with float64. A configuration that the device does not allow is ignored.
    pub fn check<F: Upload>(&self, tolerance: Tolerance) -> Ran {
        let (client, strategy) = (client(), self.strategy);
        if !F::supported_uses(&client).contains(TypeUsage::Buffer) {
            let reason = format!("no buffers of {:?}", F::elem_type_native());
            return Err(Ignored(reason));
        }
        let problem = self.problem::<F>();
        let got = run::<F>(&client, &problem, strategy, self.mode.in_place).map_err(not_allowed)?;
        if let Err(message) = got.compare(&oracle(&problem), tolerance) {
            panic!("{self:?}: {message}");
        }
        if self.mode.inference {
            let states = inference::<F>(&client, &problem, strategy).map_err(not_allowed)?;
            assert_eq!(states, got.states, "{self:?}: states without gates");
        }
        Ok(())
    }
}

/// The conventions of a sequence, clips included, in pairs.
pub fn conventions() -> Vec<(GruSpec, Order)> {
    cover(&ALL[..5], 2)
        .iter()
        .map(|row| (spec(row), order(row)))
        .collect()
}

/// Every activation as every gate, clipped and not, by either reset and update.
pub fn activations() -> Vec<Case> {
    let rows = cover(&[ACTIVATIONS.len(), 2, 2, 2], 2);
    let case = |(seed, row): (usize, &Vec<usize>)| {
        let of = |k: usize| ACTIVATIONS[(row[0] + k) % ACTIVATIONS.len()];
        let clips = [0, 1][row[3]];
        Case {
            size: (2, 4, 5),
            spec: spec(&[row[1], 0, 0, row[2], clips]).with_activations([0, 5, 7].map(of).into()),
            order: Order::default(),
            given: Given::ALL,
            strategy: Strategy::Inferred,
            mode: Mode::default(),
            lengths: false,
            seed: seed as u64,
        }
    };
    rows.iter().enumerate().map(case).collect()
}

/// Inferred schedules for small and odd sizes.
pub fn inferred() -> Cases {
    let sizes = [
        (1, 1, 3),
        (3, 2, 1),
        (5, 7, 7),
        (13, 2, 16),
        (1, 7, 17),
        (3, 5, 33),
        (5, 3, 65),
        (2, 2, 130),
    ];
    Cases::new("inferred", &sizes, vec![Strategy::Inferred], ALL)
}

/// Forced sequence kernels: sizes with remainders, one k-split and several, with and without a resident weight.
pub fn sequences() -> Cases {
    let strategies = [
        sequence(1, 1, 8, 1, true),
        sequence(1, 1, 32, 4, false),
        sequence(2, 2, 16, 3, true),
        sequence(4, 4, 5, 1, false),
        sequence(4, 4, 64, 2, true),
        sequence(4, 2, 40, 2, false),
        sequence(8, 4, 16, 4, true),
        sequence(3, 1, 16, 2, false),
    ];
    let strategies = strategies.map(Strategy::Forced).to_vec();
    Cases::new("sequence", &[(5, 3, 33), (1, 4, 7)], strategies, ALL)
}

/// Forced step kernels: one cube per row and several, one block of K and several.
pub fn steps() -> Cases {
    let tiles = [
        tile(1, 1, 32, 1, 4, 64),
        tile(4, 4, 16, 2, 2, 16),
        tile(8, 4, 8, 1, 1, 33),
        tile(2, 2, 5, 3, 3, 7),
        tile(4, 2, 64, 1, 1, 256),
    ];
    let sizes = [(1, 1, 1), (3, 2, 3), (13, 2, 16), (1, 7, 65), (5, 4, 33)];
    let strategies = tiles.map(|tile| Strategy::Forced(Schedule::Steps(tile)));
    Cases::new("steps", &sizes, strategies.to_vec(), ALL)
}

/// Persistent kernels: one cube per row and several; one block of K and several; one tile of rows and
/// several; fewer units than pairs and more.
pub fn persistent() -> Cases {
    let tiles = [
        tile(4, 4, 17, 1, 3, 64),
        tile(2, 1, 8, 3, 2, 16),
        tile(1, 1, 33, 1, 1, 33),
        tile(4, 2, 9, 2, 4, 20),
        tile(2, 2, 9, 1, 5, 20),
    ];
    let strategies = tiles.map(|tile| Strategy::Forced(Schedule::Persistent(tile)));
    let sizes = [(5, 7, 33), (6, 150, 33)];
    Cases::new("persistent", &sizes, strategies.to_vec(), ALL)
}

/// One matrix and several along rows and columns, one plane and several, one k-split and several; blocks of K
/// with and without a remainder. For matrices of 8 and 16, planes of 8 and 32.
pub fn matrices(name: &'static str, schedule: fn(StepTile) -> Schedule) -> Cases {
    let tiles = [
        tile(16, 1, 64, 2, 1, 128),
        tile(32, 1, 32, 1, 2, 32),
        tile(16, 1, 64, 1, 2, 48),
        tile(48, 1, 32, 1, 1, 16),
    ];
    let forced = |tile| {
        Strategy::Forced(schedule(StepTile {
            matrix: true,
            ..tile
        }))
    };
    let sizes = [
        (5, 4, 48),
        (1, 1, 16),
        (17, 3, 32),
        (50, 2, 80),
        (3, 5, 112),
    ];
    let strategies = tiles.map(forced).to_vec();
    Cases::new(name, &sizes, strategies, WITHOUT_CLIPS)
}

/// 16-bit types, by sequence kernels and step kernels.
pub fn sixteen_bits() -> Cases {
    let steps = Schedule::Steps(tile(4, 4, 16, 2, 2, 16));
    let strategies = vec![Strategy::Inferred, Strategy::Forced(steps)];
    let sizes = [(3, 5, 7), (5, 4, 33)];
    Cases::new("sixteen-bits", &sizes, strategies, WITHOUT_CLIPS)
}

/// A state of H units, with both resets.
pub fn large(h: usize, strategy: Strategy) -> [Case; 2] {
    [Reset::AfterMatmul, Reset::BeforeMatmul].map(|reset| Case {
        size: (5, 3, h),
        spec: GruSpec::default().with_reset(reset),
        order: Order::default(),
        given: Given::ALL,
        strategy,
        mode: Mode::default(),
        lengths: false,
        seed: 1,
    })
}

/// A case of each strategy and reset, in forward order, with rows of different lengths.
pub fn lengths(cases: Cases) -> Vec<Case> {
    let mut ragged: Vec<Case> = Vec::new();
    for case in cases.cases {
        let is_alike =
            |other: &Case| (other.strategy, other.spec.reset) == (case.strategy, case.spec.reset);
        if !ragged.iter().any(is_alike) {
            let ((n, t, h), order) = (case.size, case.order);
            ragged.push(Case {
                size: (n.max(13), t.max(7), h),
                order: Order {
                    direction: Direction::Forward,
                    ..order
                },
                lengths: true,
                ..case
            });
        }
    }
    ragged
}
