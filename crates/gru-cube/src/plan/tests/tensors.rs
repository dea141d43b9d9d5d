//! Tensors within the limits of a device.

use super::*;
use crate::plan::tensor::{Tensor, check_tensors};

#[test]
fn tensors_beyond_the_limits_are_errors() {
    let limits = Limits {
        buffers: 7,
        buffer_bytes: 4000,
        elements: 1500,
        ..WEBGPU
    };
    let tensor = |elements, size, bound| Tensor {
        elements,
        size,
        ..gates(bound)
    };
    let error = |tensors: &[Tensor]| {
        let error = check_tensors(&limits, tensors, false).err();
        error.map(|error| error.to_string())
    };
    let largest = [
        tensor(1000, 4, true),
        tensor(1500, 2, true),
        tensor(0, 4, true),
    ];
    assert_eq!(error(&largest), None);
    assert_eq!(error(&vec![tensor(5000, 4, false); 9]), None, "not bound");
    for (tensors, expected) in [
        (
            vec![tensor(1001, 4, true)],
            "bytes of gates: expected at most 4000, got 4004",
        ),
        (
            vec![tensor(1501, 2, true)],
            "elements of gates: expected at most 1500, got 1501",
        ),
        (
            vec![tensor(1, 4, true); 8],
            "buffers of a kernel: expected at most 7, got 8",
        ),
        (
            vec![small(&tensor(800, 4, true)); 8],
            "elements of small tensors: expected at most 1500, got 6400",
        ),
    ] {
        assert_eq!(error(&tensors).as_deref(), Some(expected));
    }
}

/// A tensor of one element.
fn gates(bound: bool) -> Tensor {
    Tensor {
        name: "gates",
        handle: None,
        bound,
        elements: 1,
        size: 4,
        small: false,
        from: 0,
        alias: None,
    }
}

fn small(tensor: &Tensor) -> Tensor {
    Tensor {
        small: true,
        ..tensor.clone()
    }
}

#[test]
fn small_tensors_share_a_buffer_if_a_kernel_would_bind_more_than_seven() {
    let shares_with = |persistent, large, small_tensors, limit| {
        let mut tensors = vec![gates(true); large];
        tensors.extend(vec![small(&gates(true)); small_tensors]);
        tensors.push(small(&gates(false)));
        let limits = Limits {
            buffers: limit,
            ..WEBGPU
        };
        check_tensors(&limits, &tensors, persistent).map_err(|error| error.to_string())
    };
    let shares = |large, small, limit| shares_with(false, large, small, limit);
    assert_eq!(shares(3, 4, 7), Ok(false));
    assert_eq!(shares(3, 5, 7), Ok(true));
    assert_eq!(shares(3, 5, 30), Ok(true), "on every device");
    assert_eq!(shares(6, 6, 7), Ok(true));
    let error = |limit, needed| {
        let error = format!("buffers of a kernel: expected at most {limit}, got {needed}");
        Err::<bool, _>(error)
    };
    assert_eq!(shares(7, 2, 7), error(7, 8));
    assert_eq!(shares(7, 2, 8), Ok(true));
    assert_eq!(shares(7, 1, 8), Ok(false), "a buffer for itself");
    // Other kernels of the call need seven.
    assert_eq!(shares(3, 0, 6), error(6, 7));
    // The counters of a persistent kernel are one more.
    assert_eq!(shares_with(true, 3, 4, 8), Ok(false));
    assert_eq!(shares_with(true, 3, 4, 7), error(7, 8));
    assert_eq!(shares_with(true, 3, 5, 8), Ok(true));
}
