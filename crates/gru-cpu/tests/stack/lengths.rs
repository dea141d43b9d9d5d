//! Rows of different lengths: each row gives the numbers of a batch of one.

use crate::{
    ALL, each_isa,
    problem::{Problem, problems},
};
use gru_cpu::spec::{Lengths, Precision, Sizes};

impl Problem {
    /// The first `len` steps of a row.
    fn alone(&self, row: usize, len: usize) -> Self {
        let Sizes { n, i, h, .. } = self.sizes;
        let states = |of: &Option<Vec<f32>>| {
            let of_row = |layer: usize| of.as_ref().unwrap()[(layer * n + row) * h..][..h].to_vec();
            let layers = 0..self.layers.len();
            of.as_ref().map(|_| layers.flat_map(of_row).collect())
        };
        let steps = |of: &Option<Vec<f32>>| {
            let flags = of.as_ref()?;
            let flags = (0..len).map(|time| flags[self.at(row, time)]);
            Some(flags.collect())
        };
        let x = (0..len).flat_map(|time| &self.x[self.at(row, time) * i..][..i]);
        Self {
            sizes: Sizes {
                n: 1,
                t: len,
                ..self.sizes
            },
            state: states(&self.state),
            step_mask: steps(&self.step_mask),
            starts: steps(&self.starts),
            start_state: states(&self.start_state),
            x: x.copied().collect(),
            layers: self.layers.clone(),
            lengths: Lengths::All,
            ..*self
        }
    }

    /// The same rows with lengths, and values in the padding that change every result if they are read.
    fn padded(&self, lengths: &[usize]) -> Self {
        let Sizes { t, i, .. } = self.sizes;
        let mut padded = Self {
            lengths: Lengths::Padded(lengths.into()),
            ..self.clone()
        };
        for (row, &len) in lengths.iter().enumerate() {
            for time in len..t {
                let at = self.at(row, time);
                padded.x[at * i..][..i].fill(f32::NAN);
                for flags in [&mut padded.step_mask, &mut padded.starts] {
                    flags.iter_mut().for_each(|flags| flags[at] = 1.0);
                }
            }
        }
        padded
    }

    /// The same rows without padding.
    fn packed(&self, lengths: &[usize]) -> Self {
        let i = self.sizes.i;
        let places = lengths.iter().enumerate();
        let places = places.flat_map(|(row, &len)| (0..len).map(move |time| (row, time)));
        let places: Vec<_> = places.map(|(row, time)| self.at(row, time)).collect();
        let steps = |of: &Option<Vec<f32>>| {
            let flags = of.as_ref()?;
            Some(places.iter().map(|&at| flags[at]).collect())
        };
        Self {
            lengths: Lengths::Packed(lengths.into()),
            x: places
                .iter()
                .flat_map(|&at| &self.x[at * i..][..i])
                .copied()
                .collect(),
            step_mask: steps(&self.step_mask),
            starts: steps(&self.starts),
            ..self.clone()
        }
    }
}

#[test]
fn each_row_is_as_if_it_were_alone() {
    for problem in problems() {
        let Sizes { n, t, h, .. } = problem.sizes;
        let width = problem.directions * h;
        // T itself, 0 and others; also no row with T steps.
        let any: Vec<usize> = (0..n).map(|row| (row * 7 + t) % (t + 1)).collect();
        for lengths in [any, vec![t / 2; n]] {
            let [padded, packed] = [problem.padded(&lengths), problem.packed(&lengths)];
            each_isa(|| {
                for precision in ALL {
                    let stack = problem.stack(precision);
                    let close = |what: &str, got: &[f32], expected: &[f32]| {
                        // float32 adds in an order that depends on the number of rows.
                        let most = match precision {
                            Precision::Full => 2e-6,
                            _ => 0.0,
                        };
                        let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs());
                        assert!(
                            off.clone().all(|off| off <= most),
                            "{precision:?}, {:?}, {what}: {:?}",
                            problem.sizes,
                            off.fold(0.0, f32::max)
                        );
                    };
                    let (of_padded, of_packed) = (padded.run(&stack), packed.run(&stack));
                    let mut begin = 0;
                    for (row, &len) in lengths.iter().enumerate() {
                        let [y, last] = problem.alone(row, len).run(&stack);
                        for time in 0..t {
                            let got = &of_padded[0][problem.at(row, time) * width..][..width];
                            if time >= len {
                                assert!(got.iter().all(|&v| v == 0.0), "padding is written");
                                continue;
                            }
                            close("y", got, &y[time * width..][..width]);
                            let got = &of_packed[0][(begin + time) * width..][..width];
                            close("packed y", got, &y[time * width..][..width]);
                        }
                        begin += len;
                        for (layer, last) in last.chunks_exact(h).enumerate() {
                            let at = (layer * n + row) * h;
                            close("last", &of_padded[1][at..][..h], last);
                            close("packed last", &of_packed[1][at..][..h], last);
                        }
                    }
                }
            });
        }
    }
}

#[test]
#[should_panic(
    expected = "gru_cpu::Stack::forward: lengths[1] must be at most T, expected 0 to 4, got 5"
)]
fn a_length_above_t_is_refused() {
    let problem = Problem::new([2, 4, 1, 3], 1, 1, &[Default::default()], false);
    let lengths = Lengths::Padded([4, 5].into());
    let problem = Problem { lengths, ..problem };
    problem.run(&problem.stack(Precision::Int8));
}
