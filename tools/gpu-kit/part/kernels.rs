//! Compares every kernel and launch configuration with float64 at odd sizes: the problems of gru-cube's
//! own tests.

use std::{collections::BTreeMap, thread};

use cubecl::{client::Client, features::TypeUsage};
use gru_cube::{Schedule, StepTile, Strategy};
use gru_testkit::close::Tolerance;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clock, Rows, Stop, caught, read, share, table};

/// Problems, their float64 results and the tolerances.
#[path = "../../../crates/gru-cube/tests/support/mod.rs"]
pub(super) mod support;

use support::{
    F16, F32, Upload,
    catalogue::{self, Case},
    client, oracle,
};

/// Bfloat16 has three mantissa bits less than float16.
const BF16: Tolerance = F16.times(8.0);

/// Schedules that can use matrix units.
const BY_MATRICES: [fn(StepTile) -> Schedule; 2] = [Schedule::Persistent, Schedule::Steps];

/// Kernels that most drivers reject. The page names those that did not run.
const SPECIAL: [(&str, &str); 6] = [
    ("persistent", "f32"),
    (STREAMS, "f32"),
    ("persistent matrix", "f16"),
    ("persistent matrix", "bf16"),
    ("steps matrix", "f16"),
    ("steps matrix", "bf16"),
];

/// Persistent kernels of several streams at the same time.
const STREAMS: &str = "persistent streams";

#[derive(Serialize, Deserialize)]
struct Row {
    /// `f32`, `f16` or `bf16`.
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

/// A case in one type, with its tolerances.
struct Job {
    case: Case,
    run: fn(&Case, &str, Tolerance) -> Row,
    dtype: &'static str,
    tolerance: Tolerance,
}

fn jobs<F: Upload>(cases: Vec<Case>, dtype: &'static str, tolerance: Tolerance) -> Vec<Job> {
    let job = |case| Job {
        case,
        run: row::<F>,
        dtype,
        tolerance,
    };
    cases.into_iter().map(job).collect()
}

/// `more` is empty, or a share of the problems.
pub fn run(rows: &mut Rows, clock: &Clock, more: &[String]) -> Result<(), Stop> {
    let client = client();
    let mut wrong = 0;
    let (first, step) = share(more)?;
    let jobs: Vec<_> = all(&client).into_iter().skip(first).step_by(step).collect();
    let count = jobs.len();
    for (index, job) in jobs.into_iter().enumerate().skip(rows.earlier) {
        clock.check(|| format!("after {index} of {count} problems"))?;
        let row = (job.run)(&job.case, job.dtype, job.tolerance);
        wrong += usize::from(row.is_wrong());
        rows.add(&row)?;
        if row.end.starts_with("panicked") && is_lost(&client) {
            return Err("a problem lost the device".to_owned().into());
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} problems are wrong").into()),
    }
}

/// Whether nothing more runs on the device, as after an invalid access.
fn is_lost(client: &Client) -> bool {
    let copied = caught(|| client.read_one_unchecked(client.create_from_slice(&[0; 4])));
    copied.is_err()
}

pub fn page(rows: &[Value]) -> String {
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
        .iter()
        .map(|((kind, dtype), ([right, rejected, wrong], share))| {
            vec![
                (*kind).to_owned(),
                (*dtype).to_owned(),
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
    for (kind, dtype) in SPECIAL {
        let count = counts.get(&(kind, dtype));
        if count.is_none_or(|([right, _, wrong], _)| right + wrong == 0) {
            let of = |row: &&Row| row.kind == kind && row.dtype == dtype;
            let reason = rows
                .iter()
                .find(of)
                .map_or("not tried", |row| row.end.as_str());
            text += &format!("\n**Did not run**: {kind}, {dtype}: {reason}\n");
        }
    }
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

fn row<F: Upload>(case: &Case, dtype: &str, tolerance: Tolerance) -> Row {
    let (n, t, h) = case.size;
    let end = caught(|| {
        let problem = case.problem::<F>();
        match support::run::<F>(&client(), &problem, case.strategy, case.mode.in_place) {
            Ok(got) => match got.compare(&oracle(&problem), tolerance) {
                Ok(share) => ("right".to_owned(), share),
                Err(wrong) => (wrong, 0.0),
            },
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

/// A problem from four threads at the same time. Each has its own stream. The result is the worst of the four.
fn streams<F: Upload>(case: &Case, dtype: &str, tolerance: Tolerance) -> Row {
    let rows: Vec<Row> = thread::scope(|scope| {
        let one = || row::<F>(case, dtype, tolerance);
        let threads = [(); 4].map(|()| scope.spawn(one));
        let rows = threads.map(|thread| thread.join().expect("a panic is a row"));
        rows.into()
    });
    let worst = rows
        .into_iter()
        .max_by_key(|row| (row.is_wrong(), row.is_rejected()));
    let mut row = worst.expect("four rows");
    row.kind = STREAMS.to_owned();
    row
}

/// All problems, one of each kind in each round, so that all kinds run when the time is over. The first kinds run on
/// no other language.
fn all(client: &Client) -> Vec<Job> {
    let large = [128, 257, 513, 1025].into_iter();
    let large = large.flat_map(|h| catalogue::large(h, Strategy::Inferred));
    let mut together = catalogue::persistent().cases;
    together.truncate(1);
    // Long enough to overlap.
    together.iter_mut().for_each(|case| case.size.1 = 50);
    let together = jobs::<f32>(together, "f32", F32);
    let together = together.into_iter().map(|job| Job {
        run: streams::<f32>,
        ..job
    });
    let lists = [
        catalogue::persistent().cases,
        large.collect(),
        catalogue::inferred().cases,
        catalogue::sequences().cases,
        catalogue::steps().cases,
        catalogue::lengths(catalogue::persistent()),
        catalogue::lengths(catalogue::sequences()),
        catalogue::lengths(catalogue::steps()),
        catalogue::activations(),
    ];
    let lists = lists.map(|cases| jobs::<f32>(cases, "f32", F32));
    let mut lists: Vec<_> = lists.into();
    lists.push(together.collect());
    lists.extend(sixteen_bits::<f16>(client, "f16", F16));
    lists.extend(sixteen_bits::<bf16>(client, "bf16", BF16));
    // TF32 has as many mantissa bits as float16.
    lists.extend(BY_MATRICES.map(|schedule| {
        let cases = catalogue::matrices("matrices", schedule).cases;
        jobs::<f32>(cases, "f32", F16)
    }));
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

/// The problems of a 16-bit type, if the device has it.
fn sixteen_bits<F: Upload>(
    client: &Client,
    dtype: &'static str,
    tolerance: Tolerance,
) -> Vec<Vec<Job>> {
    if !F::supported_uses(client).contains(TypeUsage::Buffer) {
        return Vec::new();
    }
    let matrices = |schedule| catalogue::matrices("matrices", schedule).cases;
    // More rows than the cubes of an inferred persistent kernel compute at the same time.
    let large = catalogue::large(1024, Strategy::Inferred).map(|case| Case {
        size: (72, 2, 1024),
        ..case
    });
    let mut lists = vec![catalogue::sixteen_bits().cases, large.into()];
    lists.extend(BY_MATRICES.map(matrices));
    let jobs = |cases| jobs::<F>(cases, dtype, tolerance);
    lists.into_iter().map(jobs).collect()
}
