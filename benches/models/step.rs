//! The parts of the time of one step: N = T = 1, I = H.
//!
//! The lines from `Gru::forward` on read their weights in place, the lines before have them packed. In both groups each
//! line does the work of the previous line and something more. All lines are interleaved in one process.

use std::{hint::black_box, sync::Arc, time::Instant};

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use gru_cpu::{Gru, Inputs, PackedWeights, Sequence, Stream, Weights, spec::Sizes};
use gru_op::{GruBlock, GruBlockConfig, GruSpec, GruWeights, gru_cell};

use crate::{pool, times::median};

const UNITS: [usize; 3] = [256, 400, 600];
/// Rounds, and calls per sample.
const TURNS: usize = 41;
const CALLS: usize = 50;

/// Prints medians in microseconds, on one thread and on two.
pub fn run() {
    println!("one step, N = T = 1, I = H, median of {TURNS} samples of {CALLS} calls, µs\n");
    println!("{:64} {:>8} {:>8} {:>8}", "", "H 256", "H 400", "H 600");
    for threads in [1, 2] {
        let columns = pool(threads).install(|| UNITS.map(|h| Step::new(h).measure()));
        println!("threads: {threads}");
        for (line, (name, _)) in columns[0].iter().enumerate() {
            print!("{name:64}");
            columns
                .iter()
                .for_each(|all| print!(" {:8.2}", all[line].1));
            println!();
        }
    }
}

type Call<'a> = Box<dyn FnMut() + 'a>;

struct Step {
    h: usize,
    spec: GruSpec,
    device: Device,
    flat: Flat,
    /// Weights in row-major order, and weights as an importer leaves them: transposed views.
    dense: GruWeights,
    transposed: GruWeights,
    dense_block: GruBlock,
    transposed_block: GruBlock,
}

struct Flat {
    x: Vec<f32>,
    w_ih: Vec<f32>,
    w_hh: Vec<f32>,
    b_ih: Vec<f32>,
    b_hh: Vec<f32>,
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data();
    data.try_into_vec().expect("weights are float32")
}

impl Step {
    fn new(h: usize) -> Self {
        let device = Device::flex();
        let spread = Distribution::Normal(0.0, 1.0 / (h as f64).sqrt());
        let rows = || Tensor::<2>::random([3 * h, h], spread, &device);
        let bias = || Some(Tensor::<1>::random([3 * h], spread, &device));
        let transposed = GruWeights::new(rows().transpose(), rows().transpose())
            .with_b_ih(bias())
            .with_b_hh(bias());
        let copy = |view: &Tensor<2>| {
            let data: TensorData = view.clone().into_data();
            Tensor::<2>::from_data(data, &device)
        };
        let mut dense = transposed.clone();
        dense.w_ih = transposed.w_ih.as_ref().map(copy);
        dense.w_hh = copy(&transposed.w_hh);
        let block = |weights: &GruWeights| {
            let made = GruBlockConfig::new(h, h).init_with(vec![weights.clone()]);
            made.expect("the shapes match the configuration")
        };
        let flat = Flat {
            x: floats(Tensor::<1>::random([h], Distribution::Default, &device)),
            w_ih: floats(dense.w_ih.clone().expect("the layer has one")),
            w_hh: floats(dense.w_hh.clone()),
            b_ih: floats(dense.b_ih.clone().expect("the layer has one")),
            b_hh: floats(dense.b_hh.clone().expect("the layer has one")),
        };
        Self {
            h,
            spec: GruSpec::default(),
            flat,
            dense_block: block(&dense),
            transposed_block: block(&transposed),
            dense,
            transposed,
            device,
        }
    }

    fn measure(&self) -> Vec<(&'static str, f64)> {
        let (h, spec, flat) = (self.h, self.spec, &self.flat);
        let zeros = vec![0.0; h];
        let packed = PackedWeights::new(
            &spec,
            h,
            h,
            Weights {
                b_ih: Some(&flat.b_ih),
                b_hh: Some(&flat.b_hh),
                ..Weights::new(Some(&flat.w_ih), &flat.w_hh)
            },
        );
        let packed = Arc::new(packed);
        let mut stream = Stream::new(packed.clone(), 1);
        let mut states = vec![0.0; h];
        let mut unpacked_states = vec![0.0; h];
        let x = Tensor::<1>::from_data(TensorData::new(flat.x.clone(), [h]), &self.device);
        let x: Tensor<2> = x.unsqueeze();
        let state = Tensor::<2>::zeros([1, h], &self.device);
        let block_state: Tensor<3> = state.clone().unsqueeze();
        let cell = |weights: &GruWeights| {
            let new = gru_cell(x.clone(), Some(state.clone()), weights, &spec);
            drop(black_box(new));
        };
        let step = |block: &GruBlock| {
            drop(black_box(block.step(x.clone(), Some(block_state.clone()))));
        };
        let sequence: Tensor<3> = x.clone().unsqueeze();
        let mut lines: Vec<(&'static str, Call<'_>)> = vec![
            (
                "gru_cpu::Stream::step: arithmetic",
                Box::new(|| {
                    black_box(stream.step(&flat.x));
                }),
            ),
            (
                "gru_cpu::PackedWeights::forward: + scratch memory, threads",
                Box::new(|| {
                    let sequence = Sequence {
                        h0: Some(&zeros),
                        ..Sequence::new(&flat.x)
                    };
                    packed.forward(1, 1, sequence, &mut states);
                }),
            ),
            (
                "gru_cpu::Gru::forward: weights not packed",
                Box::new(|| {
                    let inputs = Inputs {
                        sequence: Sequence {
                            h0: Some(&zeros),
                            ..Sequence::new(&flat.x)
                        },
                        weights: Weights {
                            b_ih: Some(&flat.b_ih),
                            b_hh: Some(&flat.b_hh),
                            ..Weights::new(Some(&flat.w_ih), &flat.w_hh)
                        },
                    };
                    let sizes = Sizes {
                        n: 1,
                        t: 1,
                        i: h,
                        h,
                    };
                    Gru::new(sizes, spec).forward(&inputs, &mut unpacked_states, None);
                }),
            ),
            ("gru_cell: + Burn's tensors", Box::new(|| cell(&self.dense))),
            (
                "GruBlock::step: + the module",
                Box::new(|| step(&self.dense_block)),
            ),
            (
                "GruBlock::forward, T = 1",
                Box::new(|| {
                    let state = Some(block_state.clone());
                    drop(black_box(self.dense_block.forward(sequence.clone(), state)));
                }),
            ),
            (
                "gru_cell, transposed views as weights",
                Box::new(|| cell(&self.transposed)),
            ),
            (
                "GruBlock::step, from transposed views",
                Box::new(|| step(&self.transposed_block)),
            ),
        ];
        let mut samples = vec![Vec::with_capacity(TURNS); lines.len()];
        for turn in 0..=TURNS {
            for (samples, (_, call)) in samples.iter_mut().zip(&mut lines) {
                let start = Instant::now();
                (0..CALLS).for_each(|_| call());
                let each = start.elapsed().as_secs_f64() * 1e6 / CALLS as f64;
                // The first round warms up.
                if turn > 0 {
                    samples.push(each);
                }
            }
        }
        let names = lines.iter().map(|(name, _)| *name);
        names.zip(samples.into_iter().map(median)).collect()
    }
}
