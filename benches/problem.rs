//! The benchmarked shapes, and the numbers that all peers of a row share.

use std::{fs, io, path::Path};

use clap::ValueEnum;

/// The timed work.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Mode {
    /// Inference.
    Infer,
    /// Forward and backward: gradients of x, the initial state, all weights and biases.
    #[value(name = "fwd_bwd")]
    ForwardBackward,
}

impl Mode {
    /// The mode's name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::ForwardBackward => "fwd_bwd",
        }
    }
}

/// What a row of the batch contains.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// All steps belong to one sequence.
    Dense,
    /// Each step starts a new sequence with this probability, in percent.
    Starts(u32),
    /// The rows are the packed `documents`, cut into rows of T steps. Every document starts a sequence.
    Documents,
    /// Row lengths are uniform between this percentage of T and T. The rest is padding.
    Lengths(u32),
    /// Row lengths are uniform between 1 and T, and their sum is N·(T+1)/2. The rows follow each other without padding.
    Packed,
}

/// A row of the benchmark.
pub struct Shape {
    /// The name in records.
    pub name: &'static str,
    /// N, T, I, H, layers, directions.
    pub sizes: [usize; 6],
    /// What the rows contain.
    pub kind: Kind,
}

const fn shape(name: &'static str, sizes: [usize; 6], kind: Kind) -> Shape {
    Shape { name, sizes, kind }
}

/// All shapes.
pub const SHAPES: &[Shape] = &[
    shape("cell", [1, 1, 64, 128, 1, 1], Kind::Dense),
    shape("stream", [1, 128, 64, 128, 1, 1], Kind::Dense),
    shape("audio", [1, 2048, 1, 32, 1, 1], Kind::Dense),
    shape("long", [8, 2048, 64, 64, 1, 1], Kind::Dense),
    shape("char-s", [32, 64, 128, 256, 1, 1], Kind::Dense),
    shape("char-l", [64, 100, 256, 512, 1, 1], Kind::Dense),
    shape("speech", [16, 400, 80, 512, 1, 1], Kind::Dense),
    shape("big", [64, 50, 1024, 1024, 1, 1], Kind::Dense),
    shape("bi-char", [32, 64, 128, 256, 1, 2], Kind::Dense),
    shape("deep-char", [32, 64, 128, 256, 3, 1], Kind::Dense),
    shape("rl", [128, 128, 64, 256, 1, 1], Kind::Dense),
    shape("rl-starts", [128, 128, 64, 256, 1, 1], Kind::Starts(3)),
    shape("torchrl-cpu", [64, 32, 32, 128, 1, 1], Kind::Dense),
    shape(
        "torchrl-cpu-starts",
        [64, 32, 32, 128, 1, 1],
        Kind::Starts(3),
    ),
    shape("rltools", [32, 64, 32, 64, 1, 1], Kind::Dense),
    shape("ragged", [32, 400, 80, 512, 1, 1], Kind::Lengths(30)),
    shape("documents", [64, 63, 128, 256, 1, 1], Kind::Packed),
    shape(
        "documents-starts",
        [16, 128, 128, 256, 1, 1],
        Kind::Documents,
    ),
    shape("medaka", [100, 1000, 10, 128, 2, 2], Kind::Dense),
    shape("ocr", [100, 256, 256, 256, 1, 2], Kind::Dense),
    shape("subband", [33, 1, 8, 8, 1, 1], Kind::Dense),
    shape("subband-frequency", [1, 33, 8, 4, 1, 1], Kind::Dense),
    shape("rnnoise2", [1, 1, 384, 384, 3, 1], Kind::Dense),
    shape("nsnet2", [1, 400, 400, 400, 2, 1], Kind::Dense),
    shape("nsnet2-frame", [1, 1, 400, 400, 2, 1], Kind::Dense),
];

impl Shape {
    /// The shape with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// The number of inputs of each layer.
    fn layer_inputs(&self) -> impl Iterator<Item = usize> {
        let [_, _, i, h, layers, directions] = self.sizes;
        (0..layers).map(move |layer| if layer == 0 { i } else { h * directions })
    }

    /// The number of weights of each direction of each layer: `w_ih`, `w_hh`, `b_ih`, `b_hh`, stored one after the other.
    pub fn weight_sizes(&self) -> Vec<[usize; 4]> {
        let [.., h, _, directions] = self.sizes;
        let each = self.layer_inputs();
        each.flat_map(|i| vec![[3 * h * i, 3 * h * h, 3 * h, 3 * h]; directions])
            .collect()
    }

    /// Floating-point operations of the matrix products of the valid steps.
    pub fn flops(&self, mode: Mode) -> f64 {
        let [n, t, _, h, _, directions] = self.sizes;
        let steps = match self.kind {
            Kind::Lengths(_) | Kind::Packed => lengths(self).iter().sum(),
            _ => n * t,
        };
        let forward: usize = self
            .layer_inputs()
            .map(|i| 2 * steps * (i + h) * 3 * h * directions)
            .sum();
        let passes = if mode == Mode::Infer { 1 } else { 3 };
        (forward * passes) as f64
    }
}

/// The numbers of a row, equal for all peers. Everything is batch-major. Weights have PyTorch's layout: gates r, z, n in
/// rows, `[3H,I]` and `[3H,H]`.
pub struct Problem {
    /// The row.
    pub shape: &'static Shape,
    /// Starts `[N,T]` as 0 and 1, lengths `[N]`, or nothing.
    pub marks: Vec<i32>,
    /// `[N,T,I]`, zero past the end of a row.
    pub x: Vec<f32>,
    /// `[L·D,N,H]`.
    pub h0: Vec<f32>,
    /// `[N,T,D·H]`, the gradient of the output, zero past the end of a row.
    pub upstream: Vec<f32>,
    /// Weights of each direction of each layer, as [`Shape::weight_sizes`].
    pub weights: Vec<[Vec<f32>; 4]>,
}

impl Problem {
    /// Draws the numbers. They depend on the shape only.
    pub fn new(shape: &'static Shape) -> Self {
        let [n, t, i, h, layers, directions] = shape.sizes;
        let mut draw = Draw(1);
        let scale = 1.0 / (h as f32).sqrt();
        let mut x = draw.floats(n * t * i, 1.0);
        let mut upstream = draw.floats(n * t * directions * h, 1.0);
        let marks: Vec<i32> = match shape.kind {
            Kind::Dense => Vec::new(),
            Kind::Starts(percent) => (0..n * t)
                .map(|_| i32::from(draw.uniform() < f64::from(percent) / 100.0))
                .collect(),
            Kind::Documents => {
                let documents = Shape::find("documents").expect("the shape is listed");
                let mut starts: Vec<i32> = (0..n * t).map(|k| i32::from(k % t == 0)).collect();
                let mut begin = 0;
                for length in lengths(documents) {
                    starts[begin] = 1;
                    begin += length;
                }
                starts
            }
            Kind::Lengths(_) | Kind::Packed => {
                let lengths = lengths(shape);
                for (row, length) in lengths.iter().enumerate() {
                    x[(row * t + length) * i..(row + 1) * t * i].fill(0.0);
                    let width = directions * h;
                    upstream[(row * t + length) * width..(row + 1) * t * width].fill(0.0);
                }
                lengths.into_iter().map(|length| length as i32).collect()
            }
        };
        let h0 = draw.floats(layers * directions * n * h, 0.5);
        let sizes = shape.weight_sizes().into_iter();
        let weights = sizes.map(|each| each.map(|size| draw.floats(size, scale)));
        Self {
            shape,
            marks,
            x,
            h0,
            upstream,
            weights: weights.collect(),
        }
    }

    /// The lengths of the rows, if they have lengths.
    pub fn lengths(&self) -> Option<Vec<usize>> {
        match self.shape.kind {
            Kind::Lengths(_) | Kind::Packed => {
                Some(self.marks.iter().map(|&length| length as usize).collect())
            }
            _ => None,
        }
    }

    /// The names of all outputs, and gradients of a backward pass.
    pub fn outputs(&self, mode: Mode) -> Vec<String> {
        let mut names: Vec<String> = ["y", "h_n"].map(String::from).into();
        if mode == Mode::ForwardBackward {
            names.extend(["d_x", "d_h0"].map(String::from));
            let of_direction =
                |k| ["d_w_ih", "d_w_hh", "d_b_ih", "d_b_hh"].map(|name| format!("{name}.{k}"));
            names.extend((0..self.weights.len()).flat_map(of_direction));
        }
        names
    }

    /// Writes a file for the peers: N, T, I, H, layers, directions, kind (0 dense, 1 starts, 2 lengths, 3 packed) and the
    /// number of marks as `i32`, then the marks as `i32` and all other fields in their order as `f32`, little-endian.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let kind = match self.shape.kind {
            Kind::Dense => 0,
            Kind::Starts(_) | Kind::Documents => 1,
            Kind::Lengths(_) => 2,
            Kind::Packed => 3,
        };
        let mut bytes = Vec::new();
        let head = self.shape.sizes.iter().map(|&size| size as i32);
        for number in head
            .chain([kind, self.marks.len() as i32])
            .chain(self.marks.iter().copied())
        {
            bytes.extend(number.to_le_bytes());
        }
        let weights = self.weights.iter().flatten();
        for floats in [&self.x, &self.h0, &self.upstream]
            .into_iter()
            .chain(weights)
        {
            bytes.extend(floats.iter().flat_map(|float| float.to_le_bytes()));
        }
        fs::write(path, bytes)
    }
}

fn lengths(shape: &Shape) -> Vec<usize> {
    let [n, t, ..] = shape.sizes;
    let mut draw = Draw(2);
    match shape.kind {
        Kind::Lengths(percent) => (0..n)
            .map(|_| {
                let share = f64::from(percent) / 100.0;
                (t as f64 * (share + (1.0 - share) * draw.uniform())).round() as usize
            })
            .collect(),
        // Pairs whose sum is T + 1.
        _ => (0..n / 2)
            .flat_map(|_| {
                let length = 1 + (draw.uniform() * t as f64) as usize;
                [length, t + 1 - length]
            })
            .collect(),
    }
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn floats(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count)
            .map(|_| (2.0 * self.uniform() as f32 - 1.0) * scale)
            .collect()
    }
}
