//! Where results go.

use crate::{Element, pages::ask_for_large_pages};

/// A buffer of zeros, for states or gates.
///
/// A large one comes fresh from the system each time, and its first writes wait for every page. On
/// Linux one of 8 MiB or more asks for pages of 2 MiB, so that there are fewer.
pub fn buffer<E: Element>(len: usize) -> Vec<E> {
    let buffer = vec![E::zero(); len];
    ask_for_large_pages(&buffer);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_size_are_zeros_that_can_be_written() {
        for len in [0, 1, 1 << 21, (1 << 22) + 12_345] {
            let mut zeros = buffer::<f32>(len);
            assert_eq!(zeros.len(), len);
            assert!(zeros.iter().all(|&v| v == 0.0));
            zeros.fill(1.0);
            assert!(zeros.iter().all(|&v| v == 1.0));
        }
    }
}
