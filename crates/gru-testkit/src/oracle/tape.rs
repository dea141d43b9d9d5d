//! Reverse-mode differentiation: a Wengert list in float64. Each entry is a rule for whole vectors.
//!
//! A tape gives all gradients in one sweep. Dual numbers would need one pass per differentiated value,
//! and weights have thousands of values.
//!
//! NaN and infinities follow IEEE 754: every derivative is multiplied, including by zero. Only a clip
//! selects: a clipped value has no gradient.

/// A range of the tape's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    start: usize,
    len: usize,
}

impl Vector {
    /// `len` values from index `from`.
    pub fn slice(self, from: usize, len: usize) -> Self {
        assert!(from + len <= self.len, "slice {from}+{len} of {self:?}");
        Self {
            start: self.start + from,
            len,
        }
    }

    fn at(self, index: usize) -> usize {
        self.start + index
    }
}

/// How the values of an entry follow from earlier values, element by element.
#[derive(Debug)]
enum Rule {
    /// `a + b`.
    Add(Vector, Vector),
    /// `a · b`.
    Mul(Vector, Vector),
    /// `z · a + (1 − z) · b`.
    Mix(Vector, Vector, Vector),
    /// A function of one variable, with its slope at each element.
    Map(Vector, Vec<f64>),
    /// `clamp(a, −c, c)`.
    Clip(Vector, f64),
    /// `row · matrix`: `row.len` rows with a distance of `stride` values, and as many columns as the
    /// entry has values.
    Product {
        row: Vector,
        matrix: Vector,
        stride: usize,
    },
}

#[derive(Debug)]
struct Entry {
    out: Vector,
    rule: Rule,
}

/// The values of a computation in the order of their computation, and the rule of each entry.
#[derive(Debug)]
pub struct Tape {
    values: Vec<f64>,
    entries: Vec<Entry>,
    round: Option<Round>,
}

/// Rounds the result of every operation.
pub type Round = fn(f64) -> f64;

fn rounded(round: Option<Round>, value: f64) -> f64 {
    match round {
        Some(round) => round(value),
        None => value,
    }
}

impl Tape {
    /// An empty tape in float64, or with every result rounded by `round`.
    pub fn new(round: Option<Round>) -> Self {
        Self {
            values: Vec::new(),
            entries: Vec::new(),
            round,
        }
    }

    /// The values of a vector.
    pub fn get(&self, vector: Vector) -> &[f64] {
        &self.values[vector.start..][..vector.len]
    }

    /// A vector without a rule: an input or a constant.
    pub fn leaf(&mut self, values: impl IntoIterator<Item = f64>) -> Vector {
        let start = self.values.len();
        self.values.extend(values);
        let len = self.values.len() - start;
        Vector { start, len }
    }

    pub fn add(&mut self, a: Vector, b: Vector) -> Vector {
        assert_eq!(a.len, b.len, "sum of {a:?} and {b:?}");
        self.push(a.len, Rule::Add(a, b), |v, k| v[a.at(k)] + v[b.at(k)])
    }

    pub fn mul(&mut self, a: Vector, b: Vector) -> Vector {
        assert_eq!(a.len, b.len, "product of {a:?} and {b:?}");
        self.push(a.len, Rule::Mul(a, b), |v, k| v[a.at(k)] * v[b.at(k)])
    }

    /// `z · a + (1 − z) · b` as one rule, so that `z` gets `d · (a − b)`. Two products would give `d · a
    /// − d · b`, which is NaN for an infinite `d`.
    pub fn mix(&mut self, z: Vector, a: Vector, b: Vector) -> Vector {
        assert!(z.len == a.len && a.len == b.len, "{z:?}, {a:?}, {b:?}");
        self.push(z.len, Rule::Mix(z, a, b), |v, k| {
            let z = v[z.at(k)];
            z * v[a.at(k)] + (1.0 - z) * v[b.at(k)]
        })
    }

    /// A function that returns its value and its slope.
    pub fn map(&mut self, a: Vector, function: impl FnMut(f64) -> (f64, f64)) -> Vector {
        let pairs = self.get(a).iter().copied().map(function);
        let (values, slopes): (Vec<f64>, Vec<f64>) = pairs.unzip();
        self.push(a.len, Rule::Map(a, slopes), |_, k| values[k])
    }

    /// `clamp(a, −bound, bound)`, NaN if `a` is NaN.
    pub fn clip(&mut self, a: Vector, bound: f64) -> Vector {
        self.push(a.len, Rule::Clip(a, bound), |v, k| clip(v[a.at(k)], bound))
    }

    /// `row · matrix` for `columns` columns of a row-major matrix with a row distance of `stride`.
    /// `matrix` starts at the first of these columns.
    pub fn product(
        &mut self,
        row: Vector,
        matrix: Vector,
        columns: usize,
        stride: usize,
    ) -> Vector {
        let out = self.leaf(std::iter::repeat_n(0.0, columns));
        let round = self.round;
        let (before, sums) = self.values.split_at_mut(out.start);
        for k in 0..row.len {
            let left = before[row.at(k)];
            let weights = &before[matrix.at(k * stride)..][..columns];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = rounded(round, *sum + rounded(round, left * weight));
            }
        }
        let rule = Rule::Product {
            row,
            matrix,
            stride,
        };
        self.entries.push(Entry { out, rule });
        out
    }

    fn push(&mut self, len: usize, rule: Rule, value: impl Fn(&[f64], usize) -> f64) -> Vector {
        let start = self.values.len();
        for k in 0..len {
            let value = value(&self.values, k);
            self.values.push(rounded(self.round, value));
        }
        let out = Vector { start, len };
        self.entries.push(Entry { out, rule });
        out
    }

    /// The gradient of `Σ seed · value` by every value of the tape, for given seeds of some vectors.
    pub fn sweep<'a>(&self, seeds: impl IntoIterator<Item = (Vector, &'a [f64])>) -> Gradients {
        let mut d = vec![0.0; self.values.len()];
        for (vector, seed) in seeds {
            assert_eq!(vector.len, seed.len(), "seed of {vector:?}");
            for (k, seed) in seed.iter().enumerate() {
                d[vector.at(k)] += seed;
            }
        }
        for Entry { out, rule } in self.entries.iter().rev() {
            self.back(*out, rule, &mut d);
        }
        Gradients(d)
    }

    /// Adds the gradient of an entry to the gradients of its inputs.
    fn back(&self, out: Vector, rule: &Rule, d: &mut [f64]) {
        let (value, round) = (&self.values, self.round);
        let add = |to: &mut f64, term: f64| *to = rounded(round, *to + rounded(round, term));
        if let Rule::Product {
            row,
            matrix,
            stride,
        } = *rule
        {
            for i in 0..row.len {
                let mut sum = 0.0;
                for k in 0..out.len {
                    let (g, weight) = (d[out.at(k)], matrix.at(i * stride + k));
                    add(&mut sum, g * value[weight]);
                    add(&mut d[weight], g * value[row.at(i)]);
                }
                add(&mut d[row.at(i)], sum);
            }
            return;
        }
        for k in 0..out.len {
            let g = d[out.at(k)];
            match rule {
                Rule::Add(a, b) => {
                    add(&mut d[a.at(k)], g);
                    add(&mut d[b.at(k)], g);
                }
                Rule::Mul(a, b) => {
                    add(&mut d[a.at(k)], g * value[b.at(k)]);
                    add(&mut d[b.at(k)], g * value[a.at(k)]);
                }
                Rule::Mix(z, a, b) => {
                    let [share, left, right] = [z, a, b].map(|of| value[of.at(k)]);
                    add(&mut d[z.at(k)], g * (left - right));
                    add(&mut d[a.at(k)], g * share);
                    add(&mut d[b.at(k)], g * (1.0 - share));
                }
                Rule::Map(a, slopes) => add(&mut d[a.at(k)], g * slopes[k]),
                Rule::Clip(a, bound) => {
                    let is_clipped = value[a.at(k)].abs() > *bound;
                    if !is_clipped {
                        add(&mut d[a.at(k)], g);
                    }
                }
                Rule::Product { .. } => unreachable!("handled above"),
            }
        }
    }
}

/// `clamp(a, −bound, bound)`, NaN if `a` is NaN.
pub fn clip(a: f64, bound: f64) -> f64 {
    if a.abs() > bound {
        bound.copysign(a)
    } else {
        a
    }
}

/// The result of [`Tape::sweep`].
#[derive(Debug)]
pub struct Gradients(Vec<f64>);

impl Gradients {
    /// The gradient by a vector.
    pub fn of(&self, vector: Vector) -> &[f64] {
        &self.0[vector.start..][..vector.len]
    }
}
