//! Kernels with a fault, which must be reported: otherwise the silence of a sanitizer would prove nothing.

use super::{device::Sanitizer, on_each, support};
use cubecl::{
    cmma::{MatrixIdent, MatrixLayout},
    prelude::*,
};
use half::f16;
use libtest_mimic::Trial;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    None,
    /// A thread reads what another one writes, without a barrier between them.
    Barrier,
    /// Half of the units do not come to a barrier.
    Divergence,
    /// A write behind the end of a buffer.
    Bounds,
    /// A matrix in shared memory four bytes past an aligned address.
    Alignment,
    /// A cube reads what another one wrote before an atomic addition, without a fence.
    Fence,
}

/// Each of two cubes reverses 64 numbers in shared memory. The second cube waits for the first one, and adds the number
/// that the same unit of it wrote.
#[cube(launch_unchecked)]
fn reverse(input: &[f32], output: &mut [f32], counter: &[Atomic<u32>], #[comptime] fault: Fault) {
    let mut shared = Shared::<[f32]>::new_slice(64usize);
    let unit = UNIT_POS as usize;
    shared[unit] = input[ABSOLUTE_POS];
    if comptime!(fault == Fault::Divergence) {
        if unit < 32 {
            sync_cube();
        }
    } else if comptime!(fault != Fault::Barrier) {
        sync_cube();
    }
    let mut number = shared[63 - unit];
    if CUBE_POS == 0 {
        output[unit] = number;
    }
    if comptime!(fault != Fault::Fence) {
        sync_storage();
    }
    if unit == 0 {
        counter[0].fetch_add(1u32);
        while counter[0].load() < CUBE_COUNT_X {}
    }
    if comptime!(fault != Fault::Fence) {
        sync_storage();
    }
    if CUBE_POS == 1 {
        number += output[unit];
        let past = comptime!(if fault == Fault::Bounds { 1usize } else { 0 });
        output[64 + unit + past] = number;
    }
}

/// The product of two matrices, the first one in shared memory.
#[cube(launch_unchecked)]
fn multiply(input: &[f16], output: &mut [f32], #[comptime] fault: Fault) {
    let alignment = comptime!(if fault == Fault::Alignment {
        4usize
    } else {
        32
    });
    let mut first = Shared::<[f32]>::new_aligned_slice(1usize, alignment);
    let mut matrix = Shared::<[f16]>::new_aligned_slice(256usize, alignment);
    let unit = UNIT_POS as usize;
    if unit == 0 {
        first[0] = 1.0;
    }
    for i in 0..8usize {
        matrix[unit * 8 + i] = input[unit * 8 + i];
    }
    sync_cube();
    let rows = MatrixLayout::RowMajor;
    let a = cmma::Matrix::<f16>::from_slice(
        MatrixIdent::A,
        16usize,
        16usize,
        16usize,
        rows,
        &matrix[0..256],
        16u32,
    );
    let b = cmma::Matrix::<f16>::from_slice(
        MatrixIdent::B,
        16usize,
        16usize,
        16usize,
        rows,
        &input[256..512],
        16u32,
    );
    let sums = cmma::Matrix::<f32>::from_value(
        MatrixIdent::Accumulator,
        16usize,
        16usize,
        16usize,
        MatrixLayout::Undefined,
        first[0],
    );
    cmma::execute(&a, &b, &sums, &sums);
    cmma::store(&mut output[0..256], &sums, 16u32, MatrixLayout::RowMajor);
}

/// What a kernel wrote, or the report.
fn run(fault: Fault, multiplies: bool) -> Result<Vec<f32>, String> {
    let client = support::client();
    let numbers: Vec<f32> = (0..128u8).map(f32::from).collect();
    let input = client.create_from_slice(f32::as_bytes(&numbers));
    let ones = client.create_from_slice(f16::as_bytes(&[f16::ONE; 512]));
    let counter = client.create_from_slice(u32::as_bytes(&[0]));
    let len = if multiplies { 256 } else { 128 };
    let output = client.empty(len * size_of::<f32>());
    let cubes = |cubes| CubeCount::Static(cubes, 1, 1);
    // SAFETY: the lengths match the buffers. A fault stays within a process that the launch starts.
    unsafe {
        let out = BufferArg::from_raw_parts(output.clone(), len);
        if multiplies {
            let input = BufferArg::from_raw_parts(ones, 512);
            multiply::launch_unchecked(&client, cubes(1), CubeDim::new_1d(32), input, out, fault);
        } else {
            let input = BufferArg::from_raw_parts(input, 128);
            let counter = BufferArg::from_raw_parts(counter, 1);
            let units = CubeDim::new_1d(64);
            reverse::launch_unchecked(&client, cubes(2), units, input, out, counter, fault);
        }
    }
    let bytes = client.read_one(output).map_err(|error| error.to_string())?;
    Ok(f32::from_bytes(&bytes).to_vec())
}

fn nothing_is_reported() {
    let expected: Vec<f32> = (0..128u8)
        .map(|i| if i < 64 { 63 - i } else { 191 - i + 127 - i })
        .map(f32::from)
        .collect();
    assert_eq!(run(Fault::None, false).as_ref(), Ok(&expected));
    assert_eq!(run(Fault::None, true), Ok(vec![17.0; 256]));
}

pub fn trials() -> Vec<Trial> {
    let mut trials = on_each("faults/None", &Sanitizer::ALL, nothing_is_reported);
    for (fault, sanitizer, report) in [
        (
            Fault::Barrier,
            Sanitizer::Thread,
            "depends on a read that races",
        ),
        (
            Fault::Divergence,
            Sanitizer::Address,
            "wait at different barriers",
        ),
        (Fault::Bounds, Sanitizer::Address, "heap-buffer-overflow"),
        (
            Fault::Alignment,
            Sanitizer::Address,
            "bytes past a multiple of 32",
        ),
        (
            Fault::Fence,
            Sanitizer::Thread,
            "depends on a read that races",
        ),
    ] {
        let name = format!("faults/{fault:?}");
        trials.extend(on_each(&name, &[sanitizer], move || {
            let got = run(fault, fault == Fault::Alignment);
            assert!(
                got.as_ref().is_err_and(|error| error.contains(report)),
                "{got:?}"
            );
        }));
    }
    trials
}
