//! Every kernel and cut against float64, at odd sizes: the problems of gru-cube's own tests.

use std::collections::BTreeMap;

use cubecl::{features::TypeUsage, prelude::*};
use gru_cpu::spec::{GruSpec, Reset};
use gru_cube::{Cut, PlanError, StepTile, Strategy, WalkTile};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, read, table};
use crate::report::Report;

/// Problems, their float64 truth and the tolerances.
#[path = "../../../crates/gru-cube/tests/support/mod.rs"]
mod support;

use support::{FORWARD, GRADIENT, Given, Problem, Upload, catalogue, client, oracle, tile};

/// Of float16, as gru-cube's tests argue for it.
const HALF: f64 = 10.0 / 2048.0;

#[derive(Serialize, Deserialize)]
struct Row {
    /// `f32` or `f16`.
    dtype: String,
    /// The cut's kind.
    kind: String,
    n: usize,
    t: usize,
    h: usize,
    spec: String,
    cut: String,
    /// `right`, or what is not.
    end: String,
    /// The largest share of a tolerance that a tensor used, if it is right.
    share: f64,
}

impl Row {
    fn is_refused(&self) -> bool {
        self.end.starts_with("refused")
    }

    fn is_wrong(&self) -> bool {
        self.end != "right" && !self.is_refused()
    }
}

pub fn run(rows: &mut Rows, clock: &Clock, _: &[String]) -> Result<(), Stop> {
    let has_half = f16::supported_uses(&client()).contains(TypeUsage::Buffer);
    let mut wrong = 0;
    let mut add = |row: Row| {
        wrong += usize::from(row.is_wrong());
        rows.add(&row)
    };
    for (index, case) in cases().into_iter().enumerate() {
        clock.check(|| format!("after {index} problems"))?;
        let by_matrices = case.strategy.to_string().ends_with("matrix");
        // TF32 has the bits of float16.
        let single = if by_matrices {
            (HALF, HALF)
        } else {
            (FORWARD, GRADIENT)
        };
        add(case.row::<f32>("f32", single, index))?;
        // Clips cut a gradient off where the state is at the clip, which a rounding decides.
        let some = by_matrices || index.is_multiple_of(4);
        if has_half && some && case.spec.clip_state.is_none() {
            add(case.row::<f16>("f16", (HALF, HALF), index))?;
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
            row if row.is_refused() => 1,
            _ => 0,
        };
        count[column] += 1;
    }
    let lines = counts
        .into_iter()
        .map(|((kind, dtype), ([right, refused, wrong], share))| {
            vec![
                kind.to_owned(),
                dtype.to_owned(),
                right.to_string(),
                refused.to_string(),
                wrong.to_string(),
                format!("{share:.3}"),
            ]
        });
    let mut text = table(
        &[
            "cut",
            "type",
            "right",
            "refused by the device",
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

struct Case {
    size: (usize, usize, usize),
    spec: GruSpec,
    given: Given,
    strategy: Strategy,
}

impl Case {
    fn row<F: Upload>(&self, dtype: &str, tolerance: (f64, f64), seed: usize) -> Row {
        let (n, t, h) = self.size;
        let end = caught(|| {
            let problem = Problem::of::<F>(self.size, self.spec, self.given, seed as u64);
            let strategies = (self.strategy, self.strategy);
            let in_place = seed.is_multiple_of(2);
            match support::run::<F>(&client(), &problem, strategies, in_place) {
                Ok(got) => match got.compare(&oracle(&problem), tolerance) {
                    Ok(share) => ("right".to_owned(), share),
                    Err(wrong) => (wrong, 0.0),
                },
                Err(PlanError::GaveUp) => ("the cubes did not meet".to_owned(), 0.0),
                Err(refused) => (format!("refused: {refused}"), 0.0),
            }
        });
        let (end, share) = end.unwrap_or_else(|panic| (format!("panicked: {panic}"), 0.0));
        let cut = self.strategy.to_string();
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
            spec: format!("{:?}", self.spec),
            cut,
            end,
            share,
        }
    }
}

/// Conventions and cuts on small sizes first, large ones after.
fn cases() -> Vec<Case> {
    let conventions = catalogue::conventions();
    let mut cases = Vec::new();
    let mut case = |size, spec, strategy| {
        let given = Given::bits(31 - cases.len() * 7 % 32);
        cases.push(Case {
            size,
            spec,
            given,
            strategy,
        });
    };
    for spec in &conventions {
        case((3, 5, 7), *spec, Strategy::Inferred);
    }
    let specs = [GruSpec::default(), conventions[9]];
    for cut in cuts() {
        for spec in specs {
            case((5, 4, 33), spec, Strategy::Forced(cut));
        }
    }
    for (index, cut) in matrix_cuts().into_iter().enumerate() {
        let reset = [Reset::AfterMatmul, Reset::BeforeMatmul][index % 2];
        let spec = GruSpec::default().with_reset(reset);
        case((17, 4, 80), spec, Strategy::Forced(cut));
    }
    for reset in [Reset::AfterMatmul, Reset::BeforeMatmul] {
        for h in [33, 65, 130, 257, 513, 1025] {
            let spec = GruSpec::default().with_reset(reset);
            case((5, 7, h), spec, Strategy::Inferred);
            case((5, 7, h), spec, Strategy::Persistent);
        }
    }
    for (index, h) in [1, 3, 16, 17, 64, 100, 128, 200].into_iter().enumerate() {
        for (k, (n, t)) in [(1, 1), (1, 7), (3, 2), (13, 2), (65, 3)]
            .into_iter()
            .enumerate()
        {
            let spec = conventions[(index * 5 + k) % conventions.len()];
            case((n, t, h), spec, Strategy::Inferred);
        }
    }
    for (index, spec) in catalogue::activations().into_iter().enumerate() {
        case((2, 4, 5 + index % 3), spec, Strategy::Inferred);
    }
    cases
}

/// Of every kind: remainders on every side, one split and several, weights resident and not.
fn cuts() -> Vec<Cut> {
    let walks = [
        (1, 1, 8, 1),
        (1, 1, 32, 4),
        (2, 2, 16, 3),
        (4, 4, 64, 2),
        (8, 4, 16, 4),
        (3, 3, 16, 2),
    ];
    let walk = |(rows, width, lanes, splits): (usize, usize, usize, usize), resident| {
        Cut::Walk(WalkTile {
            rows,
            width,
            lanes,
            splits,
            resident,
        })
    };
    let steps: [StepTile; 5] = [
        tile(1, 1, 32, 1, 4, 64),
        tile(4, 4, 16, 2, 2, 16),
        tile(8, 4, 8, 1, 1, 33),
        tile(2, 2, 5, 3, 3, 7),
        tile(4, 2, 64, 1, 1, 256),
    ];
    let persistent = [
        tile(4, 4, 17, 1, 3, 64),
        tile(2, 1, 8, 3, 2, 16),
        tile(1, 1, 33, 1, 1, 33),
        tile(4, 2, 9, 2, 4, 20),
    ];
    let walks = walks
        .into_iter()
        .flat_map(|tile| [walk(tile, true), walk(tile, false)]);
    let steps = steps.into_iter().map(Cut::Steps);
    walks
        .chain(steps)
        .chain(persistent.into_iter().map(Cut::Persistent))
        .collect()
}

/// Remainders of rows, several matrices of rows and of columns, one split and several.
fn matrix_cuts() -> Vec<Cut> {
    let tiles = [
        tile(16, 1, 32, 2, 1, 128),
        tile(32, 1, 32, 1, 2, 32),
        tile(16, 1, 64, 1, 2, 48),
        tile(48, 1, 32, 1, 1, 16),
    ];
    let by_matrices = tiles.map(|tile| StepTile {
        matrix: true,
        ..tile
    });
    let steps = by_matrices.map(Cut::Steps);
    steps
        .into_iter()
        .chain(by_matrices.map(Cut::Persistent))
        .collect()
}
