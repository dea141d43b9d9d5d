//! Both passes without a framework, on one thread and on all threads of the pool: milliseconds, GFLOP/s and the share
//! of the machine's sgemm rate, which is measured in the same run.
//!
//! - `denormal`: the slowdown of both passes if every input, state and gradient is subnormal.
//! - `starts`: the slowdown if 3% of the steps start a new sequence, interleaved with the same passes without starts.
//!
//!     cargo bench -p gru-cpu --bench passes [-- SHAPE... --isa V3]
//!
//! `--isa` forces an instruction set, a name of `gru_cpu::testing::Isa`. It has no effect on sgemm.

use gru_cpu::{
    Gru, Inputs, buffer,
    spec::{self, GruSpec, Layout, Order, Reset, Sizes},
    testing::Isa,
};
use std::time::Instant;

const SHAPES: [(&str, [usize; 4]); 20] = [
    ("char-s", [32, 64, 128, 256]),
    ("dense512", [32, 64, 256, 512]),
    ("head128", [32, 64, 256, 128]),
    ("dense1k", [16, 64, 256, 1024]),
    ("head256", [16, 64, 256, 256]),
    ("char-l", [64, 100, 256, 512]),
    ("big", [64, 50, 1024, 1024]),
    ("speech", [16, 400, 80, 512]),
    ("long", [8, 2048, 64, 64]),
    ("stream", [1, 128, 64, 128]),
    ("audio", [1, 2048, 1, 32]),
    ("cell", [1, 1, 64, 128]),
    ("cell-256", [1, 1, 256, 256]),
    ("cell-384", [1, 1, 384, 384]),
    ("rl", [128, 128, 64, 256]),
    ("torchrl-cpu", [64, 32, 32, 128]),
    ("wide", [1, 500, 1024, 64]),
    ("wide-16", [16, 8, 2048, 32]),
    // Only if named: whether a step of a long sequence takes longer than a step of a short one.
    ("long-512", [8, 512, 64, 64]),
    ("long-16k", [8, 16384, 64, 64]),
];
const ON_REQUEST: &str = "long-";

fn main() {
    let mut chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let isa = chosen.iter().position(|a| a == "--isa").map(|at| {
        let name = chosen.drain(at..).nth(1).expect("--isa has a name");
        let isa = Isa::ALL.into_iter().find(|isa| format!("{isa:?}") == name);
        isa.unwrap_or_else(|| panic!("{name} is none of {:?}", Isa::ALL))
    });
    let names = SHAPES.map(|(name, _)| name);
    if let Some(unknown) = chosen.iter().find(|name| !names.contains(&name.as_str())) {
        panic!("unknown shape {unknown}, expected some of {names:?}");
    }
    let mut counts = vec![1, rayon::current_num_threads()];
    counts.dedup();
    for threads in counts {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(|| match isa {
            Some(isa) => isa.run(|| measure(threads, &chosen)),
            None => measure(threads, &chosen),
        });
    }
}

fn measure(threads: usize, chosen: &[String]) {
    let rate = sgemm_rate(threads);
    println!("\nthreads {threads}, sgemm {rate:.0} GFLOP/s");
    println!(
        "shape        reset   inference ms GFLOP/s share   fwd+bwd ms GFLOP/s share   lean ms   \
             denormal   starts"
    );
    for (name, [n, t, i, h]) in SHAPES {
        let is_chosen = match chosen {
            [] => !name.starts_with(ON_REQUEST),
            names => names.iter().any(|c| c == name),
        };
        if !is_chosen {
            continue;
        }
        for (reset, label) in [
            (Reset::AfterMatmul, "after "),
            (Reset::BeforeMatmul, "before"),
        ] {
            let spec = GruSpec::default().with_reset(reset);
            let gru = Gru {
                order: Order {
                    layout: Layout::TimeMajor,
                    ..Order::default()
                },
                ..Gru::new(Sizes { n, t, i, h }, spec)
            };
            let problem = Problem::new(&gru, 1.0);
            let times = problem.times();
            let denormal = Problem::new(&gru, 1e-40).times();
            let starts = problem.starts_ratio();
            let flops = (2 * n * t * (i + h) * 3 * h) as f64;
            let gflops = |ms: f64, passes: f64| passes * flops / (ms * 1e6);
            let of = |ms: f64, passes: f64| {
                let g = gflops(ms, passes);
                format!("{ms:10.3} {g:8.0} {:5.0}%", 100.0 * g / rate)
            };
            println!(
                "{name:11}  {label}  {}   {}   {:8.3}   {:8.2}   {starts:6.3}",
                of(times.inference, 1.0),
                of(times.training, 3.0),
                times.lean,
                denormal.training / times.training,
            );
        }
    }
}

/// Milliseconds of one shape.
struct Times {
    inference: f64,
    /// Forward and backward, with kept gates.
    training: f64,
    /// The same with recomputed gates.
    lean: f64,
}

/// The numbers of one shape.
struct Problem<'a> {
    gru: &'a Gru,
    inputs: spec::Inputs<Vec<f32>>,
    d_states: Vec<f32>,
}

impl<'a> Problem<'a> {
    /// All inputs except the weights have about the magnitude `size`, and so do states and gradients.
    fn new(gru: &'a Gru, size: f32) -> Self {
        let Sizes { n, t, i, h } = gru.sizes;
        let scale = 1.0 / (h as f32).sqrt();
        let bias = || Some(noise(3 * h, scale * size));
        let starts = noise(n * t, 1.0).into_iter().map(|v| f32::from(v < -0.94));
        Self {
            gru,
            inputs: spec::Inputs {
                sequence: spec::Sequence {
                    h0: Some(noise(n * h, 0.5 * size)),
                    starts: Some(starts.collect()),
                    ..spec::Sequence::new(noise(n * t * i, size))
                },
                weights: spec::Weights {
                    b_ih: bias(),
                    b_hh: bias(),
                    ..spec::Weights::new(Some(noise(i * 3 * h, scale)), noise(h * 3 * h, scale))
                },
            },
            d_states: noise(n * t * h, size),
        }
    }

    fn inputs(&self, has_starts: bool) -> Inputs<'_, f32> {
        let mut inputs = self.inputs.as_ref().map(|of| &of[..]);
        inputs.sequence.starts = inputs.sequence.starts.filter(|_| has_starts);
        inputs
    }

    fn times(&self) -> Times {
        let inputs = self.inputs(false);
        let Sizes { n, t, h, .. } = self.gru.sizes;
        Times {
            inference: median(|| {
                let mut states = buffer(n * t * h);
                self.gru.forward(&inputs, &mut states, None);
            }),
            training: median(|| self.train(&inputs, false)),
            lean: median(|| self.train(&inputs, true)),
        }
    }

    /// Both passes with starts, divided by both without: the median of pairs.
    fn starts_ratio(&self) -> f64 {
        let (with, without) = (self.inputs(true), self.inputs(false));
        let time = |inputs| {
            let start = Instant::now();
            self.train(inputs, false);
            start.elapsed().as_secs_f64()
        };
        let mut ratios: Vec<f64> = (0..31).map(|_| time(&with) / time(&without)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    /// Forward and backward, with kept gates or recomputed ones.
    fn train(&self, inputs: &Inputs<'_, f32>, recompute: bool) {
        let Sizes { n, t, h, .. } = self.gru.sizes;
        let mut states = buffer(n * t * h);
        let gates = n * t * h * self.gru.spec.saved_per_unit();
        let mut saved = (!recompute).then(|| buffer(gates));
        self.gru.forward(inputs, &mut states, saved.as_deref_mut());
        let mut d = inputs
            .differentiable()
            .map(|of| of.map(|of| buffer(of.len())));
        let to = d.as_mut().map(|d| d.as_deref_mut());
        let saved = saved.as_deref();
        self.gru
            .backward(inputs, &states, saved, &self.d_states, to);
    }
}

fn noise(len: usize, scale: f32) -> Vec<f32> {
    (0..len)
        .map(|k| scale * ((k * 2654435761 % 1000) as f32 / 500.0 - 1.0))
        .collect()
}

/// Milliseconds, the median of at least 7 runs and at least half a second.
fn median(mut run: impl FnMut()) -> f64 {
    run();
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 7 || start.elapsed().as_secs_f64() < 0.5 {
        let t = Instant::now();
        run();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn sgemm_rate(threads: usize) -> f64 {
    let size = 2048;
    let (a, b) = (vec![0.5f32; size * size], vec![0.25f32; size * size]);
    let mut c = vec![0.0f32; size * size];
    let parallelism = match threads {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    let ms = median(|| {
        let (s, one) = (size as isize, 1isize);
        // SAFETY: three dense matrices of size², the first one written.
        unsafe {
            gemm::gemm(
                size,
                size,
                size,
                c.as_mut_ptr(),
                one,
                s,
                false,
                a.as_ptr(),
                one,
                s,
                b.as_ptr(),
                one,
                s,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
    });
    2.0 * (size as f64).powi(3) / (ms * 1e6)
}
