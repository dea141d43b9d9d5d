//! Compares every kernel and launch configuration with float64 at odd sizes: the problems of gru-cube's
//! own tests.

use std::collections::BTreeMap;

use cubecl::{features::TypeUsage, prelude::*};
use gru_cube::{PlanError, Schedule, Strategy};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, read, table};
use crate::report::Report;

/// Problems, their float64 results and the tolerances.
#[path = "../../../crates/gru-cube/tests/support/mod.rs"]
mod support;

use support::{
    FORWARD, GRADIENT, Upload,
    catalogue::{self, Case},
    client, oracle,
};

/// Tolerance for float16. gru-cube's tests explain the value.
const HALF: f64 = 10.0 / 2048.0;

#[derive(Serialize, Deserialize)]
struct Row {
    /// `f32` or `f16`.
    dtype: String,
    kind: String,
    n: usize,
    t: usize,
    h: usize,
    spec: String,
    cut: String,
    /// `right`, or a description of the error.
    end: String,
    /// The largest share of the tolerance that a tensor uses, if all tensors are right.
    share: f64,
}

impl Row {
    fn is_rejected(&self) -> bool {
        self.end.starts_with("rejected")
    }

    fn is_wrong(&self) -> bool {
        self.end != "right" && !self.is_rejected()
    }
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let has_half = f16::supported_uses(&client()).contains(TypeUsage::Buffer);
    let mut wrong = 0;
    let mut add = |row: Row| {
        wrong += usize::from(row.is_wrong());
        rows.add(&row)
    };
    // TF32 has as many mantissa bits as float16.
    let in_half = (HALF, HALF);
    let cases = single().into_iter().map(|case| (case, (FORWARD, GRADIENT)));
    let by_matrices = matrix_cases().into_iter().map(|case| (case, in_half));
    for (index, (case, tolerance)) in cases.chain(by_matrices).enumerate() {
        clock.check(|| format!("after {index} problems of float32"))?;
        add(row::<f32>(&case, "f32", tolerance))?;
    }
    if has_half {
        let cases = catalogue::sixteen_bits().cases.into_iter();
        for (index, case) in cases.chain(matrix_cases()).enumerate() {
            clock.check(|| format!("after {index} problems of float16"))?;
            add(row::<f16>(&case, "f16", in_half))?;
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} problems are wrong").into()),
    }
}

pub fn page(rows: &[Value], _: &Report) -> String {
    let rows = read::<Row>(rows);
    let mut counts = BTreeMap::<(&str, &str), ([usize; 3], f64)>::new();
    for row in &rows {
        let (count, share) = counts.entry((&row.kind, &row.dtype)).or_default();
        *share = share.max(row.share);
        let column = match row {
            row if row.is_wrong() => 2,
            row if row.is_rejected() => 1,
            _ => 0,
        };
        count[column] += 1;
    }
    let lines = counts
        .into_iter()
        .map(|((kind, dtype), ([right, rejected, wrong], share))| {
            vec![
                kind.to_owned(),
                dtype.to_owned(),
                right.to_string(),
                rejected.to_string(),
                wrong.to_string(),
                format!("{share:.3}"),
            ]
        });
    let mut text = table(
        &[
            "cut",
            "type",
            "right",
            "rejected by the device",
            "wrong",
            "share of the tolerance",
        ],
        lines,
    );
    let wrong = rows.iter().filter(|row| row.is_wrong());
    for row in wrong.take(20) {
        let Row {
            dtype,
            n,
            t,
            h,
            spec,
            cut,
            end,
            ..
        } = row;
        text += &format!("\nWrong: {dtype}, N {n}, T {t}, H {h}, {cut}, {spec}: {end}\n");
    }
    text
}

fn row<F: Upload>(case: &Case, dtype: &str, tolerance: (f64, f64)) -> Row {
    let (n, t, h) = case.size;
    let end = caught(|| {
        let problem = case.problem::<F>();
        let strategies = (case.strategy, case.strategy);
        match support::run::<F>(&client(), &problem, strategies, case.mode.in_place) {
            Ok(got) => match got.compare(&oracle(&problem), tolerance) {
                Ok(share) => ("right".to_owned(), share),
                Err(wrong) => (wrong, 0.0),
            },
            Err(PlanError::TimedOut) => ("the grid barrier timed out".to_owned(), 0.0),
            Err(error) => (format!("rejected: {error}"), 0.0),
        }
    });
    let (end, share) = end.unwrap_or_else(|panic| (format!("panicked: {panic}"), 0.0));
    let cut = case.strategy.to_string();
    let mut kind = cut.split(' ').next().unwrap_or_default().to_owned();
    if cut.ends_with("matrix") {
        kind += " matrix";
    }
    Row {
        dtype: dtype.to_owned(),
        kind,
        n,
        t,
        h,
        spec: format!("{:?}", case.spec),
        cut,
        end,
        share,
    }
}

/// The cases of gru-cube's tests, small sizes first, and the inferred configurations for larger states.
fn single() -> Vec<Case> {
    let lists = [
        catalogue::inferred(),
        catalogue::walks(),
        catalogue::steps(),
        catalogue::persistent(),
    ];
    let mut cases: Vec<Case> = lists.into_iter().flat_map(|list| list.cases).collect();
    cases.extend(catalogue::activations());
    for strategy in [Strategy::Inferred, Strategy::Persistent] {
        for h in [128, 257, 513, 1025] {
            cases.extend(catalogue::large(h, strategy));
        }
    }
    cases
}

fn matrix_cases() -> Vec<Case> {
    let steps = catalogue::matrices("steps", Schedule::Steps);
    let persistent = catalogue::matrices("persistent", Schedule::Persistent);
    [steps.cases, persistent.cases].concat()
}
