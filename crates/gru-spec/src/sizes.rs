//! The sizes of a call, and a check that they fit in memory.

/// The sizes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// N, the batch size.
    pub n: usize,
    /// T, the number of steps.
    pub t: usize,
    /// I, the number of input features.
    pub i: usize,
    /// H, the number of hidden units.
    pub h: usize,
}

/// Buffers are padded to at most this size: a vector of units, or a tile of rows.
const PADDING: usize = 64;
/// A factor for products of padded sizes: the bytes of an element, and two matrices in one allocation.
/// On 32 bits the limit is 2²⁷ elements, half a gigabyte of float32.
const MARGIN: usize = 16;

impl Sizes {
    /// N·T: the steps of all rows.
    pub fn places(&self) -> usize {
        self.n * self.t
    }

    /// Whether the length in bytes of every buffer of a call fits in memory. The number of
    /// multiplications may overflow even so.
    #[doc(hidden)]
    pub fn fit_in_memory(&self) -> bool {
        let Self { n, t, i, h } = *self;
        let padded = |size: usize| size.checked_next_multiple_of(PADDING);
        let times =
            |a: Option<usize>, b: Option<usize>| a.zip(b).and_then(|(a, b)| a.checked_mul(b));
        let fits = |product: Option<usize>| {
            times(product, Some(MARGIN)).is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        let (features, units) = (padded(i), padded(h));
        let larger = |a: Option<usize>, b: Option<usize>| a.zip(b).map(|(a, b)| a.max(b));
        let widest = larger(times(units, Some(4)), features);
        let rows = n.checked_mul(t).and_then(padded);
        let sequence = times(rows, widest);
        let step = times(padded(n.max(1)), widest);
        let weights = times(times(units, Some(3)), larger(units, features));
        [rows, sequence, step, weights].into_iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also on 32 bits.
    #[test]
    fn usual_sizes_fit() {
        for (n, t, i, h) in [
            (0, 0, 0, 0),
            (1, 1, 0, 1),
            (64, 100, 256, 512),
            (16, 400, 80, 512),
            (8, 2048, 64, 64),
            (64, 50, 1024, 1024),
            (1, 1 << 18, 1, 32),
        ] {
            assert!(Sizes { n, t, i, h }.fit_in_memory());
        }
    }

    #[test]
    fn no_size_hides_another() {
        let most = usize::MAX;
        for (n, t, i, h) in [
            (1, 1, most, 1),
            (1, 1, 1, most),
            (1, 1, most, most),
            (most, 1, 1, 1),
        ] {
            assert!(!Sizes { n, t, i, h }.fit_in_memory());
        }
    }
}
