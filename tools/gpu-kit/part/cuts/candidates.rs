//! The schedules that are measured.

use crate::part::kernels::support::{sequence, tile};
use cubecl::prelude::*;
use gru_cube::{Call, Schedule, StepTile, Strategy};

/// The inferred schedule first, then a few of each kind, then their neighbours. Float32 does not use matrix
/// units, which may round to TF32.
pub fn candidates(call: &Call) -> Vec<Strategy> {
    let Call { n, h, dtype, .. } = *call;
    let most = n.next_power_of_two();
    let rows_up_to = |limit: usize| {
        let rows = [4, 8, 16, 1, 2, 32, 64].into_iter();
        rows.filter(|&rows| rows <= limit.min(most)).collect()
    };
    let mut kinds = [
        sequences(rows_up_to(16), h),
        steps(rows_up_to(64)),
        persistent(rows_up_to(16), h),
        vec![],
    ];
    if dtype != f32::elem_type_native() {
        kinds[3] = of_matrices();
    }
    // One configuration of each kind in each round, so that all kinds are tried when the time is over.
    let rounds = kinds.iter().map(Vec::len).max().unwrap_or_default();
    let mut all = vec![Strategy::Inferred];
    for round in 0..rounds {
        let cuts = kinds.iter().filter_map(|kind| kind.get(round));
        all.extend(cuts.map(|cut| Strategy::Forced(*cut)));
    }
    all
}

fn sequences(rows: Vec<usize>, h: usize) -> Vec<Schedule> {
    let shapes = [
        (h, 1),
        (h, 2),
        (h, 4),
        (h.div_ceil(2), 1),
        (h.div_ceil(4), 1),
        (64, 2),
    ];
    let mut cuts = Vec::new();
    for rows in rows {
        for (n_threads, k_splits) in shapes {
            let tile = |resident| sequence(rows, rows.min(4), n_threads, k_splits, resident);
            // With more terms, drivers take many seconds to compile.
            if 3 * h.div_ceil(k_splits) * h.div_ceil(n_threads) <= 200 {
                cuts.push(tile(true));
            }
            cuts.push(tile(false));
        }
    }
    cuts
}

fn steps(rows: Vec<usize>) -> Vec<Schedule> {
    let mut cuts = Vec::new();
    for rows in rows {
        for (n_threads, n_per_thread, k_splits, block_k) in [
            (32, 1, 4, 128),
            (64, 4, 1, 128),
            (32, 1, 8, 128),
            (128, 4, 1, 256),
            (64, 2, 1, 128),
            (64, 4, 1, 256),
            (32, 8, 1, 256),
            (32, 16, 1, 64),
            (64, 8, 1, 64),
            (16, 8, 1, 64),
            (8, 16, 1, 64),
        ] {
            let width = rows.min(4);
            let tile = tile(rows, width, n_threads, n_per_thread, k_splits, block_k);
            cuts.push(Schedule::Steps(tile));
        }
    }
    cuts
}

fn persistent(rows: Vec<usize>, h: usize) -> Vec<Schedule> {
    let mut cuts = Vec::new();
    for rows in rows {
        for (n_threads, n_per_thread, k_splits) in [
            (16, 2, 16),
            (8, 4, 32),
            (32, 1, 8),
            (16, 1, 16),
            (8, 2, 32),
            (16, 4, 16),
            (32, 2, 8),
            (16, 1, 32),
            (32, 1, 16),
        ] {
            // The weight registers of the forward pass, and of the backward pass.
            if 3 * n_per_thread * h.div_ceil(k_splits) <= 200 {
                let width = rows.min(4);
                let tile = tile(rows, width, n_threads, n_per_thread, k_splits, 512);
                cuts.push(Schedule::Persistent(tile));
            }
        }
    }
    cuts
}

fn of_matrices() -> Vec<Schedule> {
    let mut cuts = Vec::new();
    for (rows, n_threads, n_per_thread, k_splits, block_k) in [
        (16, 32, 1, 8, 512),
        (16, 64, 1, 4, 512),
        (16, 32, 2, 4, 128),
        (16, 32, 2, 8, 512),
        (16, 32, 1, 4, 512),
        (32, 32, 1, 8, 512),
    ] {
        let tile = StepTile {
            matrix: true,
            ..tile(rows, 1, n_threads, n_per_thread, k_splits, block_k)
        };
        cuts.extend([Schedule::Steps(tile), Schedule::Persistent(tile)]);
    }
    cuts
}
