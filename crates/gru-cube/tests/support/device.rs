//! The values of a case in buffers of a device.

use cubecl::{
    client::Client,
    ir::{ElemType, FloatKind},
    prelude::*,
    server::Handle,
};
use gru_cube::{Products, Recurrence, Starts, ZoneoutKind, gates, recurrent_inputs};
use gru_spec::{Direction, Inputs, Layout, Reset, Sequence, Sizes, Weights};
use gru_testkit::{draw::Drawn, oracle::Call};
use half::{bf16, f16};

/// A device, and the type of the buffers of a call.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    pub client: &'a Client,
    pub dtype: FloatKind,
}

impl<'a> Device<'a> {
    pub fn f32(client: &'a Client) -> Self {
        let dtype = FloatKind::F32;
        Self { client, dtype }
    }

    pub fn upload(&self, values: &[f64]) -> Handle {
        match self.dtype {
            FloatKind::F16 => self.upload_as(values, f16::from_f64),
            FloatKind::BF16 => self.upload_as(values, bf16::from_f64),
            _ => self.upload_as(values, |x| x as f32),
        }
    }

    fn upload_as<F: CubeElement>(&self, values: &[f64], narrow: fn(f64) -> F) -> Handle {
        let values: Vec<F> = values.iter().copied().map(narrow).collect();
        self.client.create_from_slice(F::as_bytes(&values))
    }

    pub fn download(&self, handle: &Handle) -> Vec<f64> {
        let bytes = self.client.read_one_unchecked(handle.clone());
        match self.dtype {
            FloatKind::F16 => wide(f16::from_bytes(&bytes)),
            FloatKind::BF16 => wide(bf16::from_bytes(&bytes)),
            _ => wide(f32::from_bytes(&bytes)),
        }
    }

    /// A buffer full of NaN, which shows values that a kernel does not write.
    pub fn poisoned(&self, len: usize) -> Handle {
        self.upload(&vec![f64::NAN; len])
    }

    /// The recurrence of a case.
    pub fn recurrence(&self, drawn: &Drawn) -> Recurrence {
        let Call {
            sizes,
            spec,
            order,
            inputs,
            ..
        } = &drawn.call;
        let Sequence {
            h0,
            recurrent_mask,
            zoneout,
            starts,
            start_state,
            ..
        } = &inputs.sequence;
        let up = |values: &Vec<f64>| self.upload(values);
        let both = start_state.as_ref().map(|start_state| {
            let h0 = h0.clone().unwrap_or(vec![0.0; start_state.len()]);
            [h0, start_state.clone()].concat()
        });
        let lengths = drawn.lengths.clone().filter(|lengths| {
            order.direction == Direction::Forward && lengths.is_sorted_by(|a, b| a >= b)
        });
        Recurrence {
            sizes: *sizes,
            spec: *spec,
            order: *order,
            dtype: ElemType::Float(self.dtype),
            starts: match (starts, start_state) {
                (None, _) => Starts::None,
                (Some(_), None) => Starts::FromZeros,
                (Some(_), Some(_)) => Starts::FromState,
            },
            zoneout: match zoneout {
                None => ZoneoutKind::None,
                Some(zoneout) if zoneout.len() == sizes.places() => ZoneoutKind::OfRow,
                Some(_) => ZoneoutKind::OfUnit,
            },
            lengths,
            inputs: Inputs {
                sequence: Sequence {
                    x: up(&inputs.sequence.x),
                    h0: both.as_ref().or(h0.as_ref()).map(up),
                    recurrent_mask: recurrent_mask.as_ref().map(up),
                    step_mask: codes(&drawn.call).as_ref().map(up),
                    zoneout: zoneout.as_ref().map(up),
                    starts: None,
                    start_state: None,
                },
                weights: Weights {
                    w_ih: None,
                    ..inputs.weights.as_ref().map(up)
                },
            },
        }
    }

    /// The lhs operand of the weight gradients.
    pub fn lhs(&self, call: &Recurrence, states: &Handle, gates: Option<&Handle>) -> Vec<f64> {
        let g = self.poisoned(call.sizes.places() * call.sizes.h);
        recurrent_inputs(self.client, call, states, gates, &g);
        self.download(&g)
    }

    /// Recomputes the gates from the states, by products in float64.
    pub fn recompute(&self, call: &Recurrence, w_hh: &[f64], states: &Handle, to: &Handle) {
        let h = call.sizes.h;
        let g = self.lhs(call, states, None);
        let make = |products: Products| gates(self.client, call, &products, to);
        let q = |g: &[f64], from: usize, columns: usize| {
            self.upload(&product(g, w_hh, h, from, columns))
        };
        match call.spec.reset {
            Reset::AfterMatmul => make(Products::All { q: q(&g, 0, 3) }),
            Reset::BeforeMatmul => {
                let times_r = self.upload(&g);
                make(Products::ResetAndUpdate {
                    q: q(&g, 0, 2),
                    g: times_r.clone(),
                });
                make(Products::Candidate {
                    q: q(&self.download(&times_r), 2, 1),
                });
            }
        }
    }
}

fn wide<F: Copy + Into<f64>>(values: &[F]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

/// `g · w_hh` for some gates, from gate `from` on.
fn product(g: &[f64], w_hh: &[f64], h: usize, from: usize, gates: usize) -> Vec<f64> {
    let columns = from * h..(from + gates) * h;
    let row = |g: &[f64]| {
        let sum = |c: usize| (0..h).map(|k| g[k] * w_hh[k * 3 * h + c]).sum();
        columns.clone().map(sum).collect::<Vec<f64>>()
    };
    g.chunks(h).flat_map(row).collect()
}

/// The step mask of the kernels: with starts, codes.
fn codes(call: &Call) -> Option<Vec<f64>> {
    let Sizes { n, t, .. } = call.sizes;
    let Sequence {
        step_mask, starts, ..
    } = &call.inputs.sequence;
    let Some(starts) = starts else {
        return step_mask.clone();
    };
    let row = |row, time| match call.order.layout {
        Layout::BatchMajor => row * t + time,
        Layout::TimeMajor => time * n + row,
    };
    let direction = call.order.direction;
    let mut codes = step_mask.clone().unwrap_or(vec![1.0; n * t]);
    for (k, step) in (0..n).flat_map(|k| (0..t).map(move |step| (k, step))) {
        if let Some(boundary) = direction.boundary(step, t) {
            codes[row(k, direction.time(step, t))] += 2.0 * starts[row(k, boundary)];
        }
    }
    Some(codes)
}
