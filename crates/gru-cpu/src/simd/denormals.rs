//! Numbers below the normal ones count as zero while a kernel runs, on x86-64.
//!
//! On many of these processors an operation that meets one takes far longer, and a state or gradient
//! that fades away spends hundreds of steps among them. On other targets they stay what they are.

/// The mode, on this thread, for the lifetime of this value; then it is again what it was.
///
/// The compiler takes the usual mode for granted. So whoever holds one stands in a function of its
/// own, and gives nothing but numbers to others: then all that this can change is what becomes of
/// denormal numbers.
pub(crate) struct Flush {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    before: u32,
}

impl Flush {
    #[inline(always)]
    pub(crate) fn set() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            /// Denormal operands are zero, denormal results become zero.
            const BOTH: u32 = 1 << 6 | 1 << 15;
            let before = mode();
            set_mode(before | BOTH);
            Self { before }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        Self {}
    }
}

impl Drop for Flush {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        set_mode(self.before);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: the instruction writes these four bytes and nothing else.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack)) };
    mode
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn set_mode(mode: u32) {
    // SAFETY: a value that was read there, with no other bits changed than `Flush::set` says: no
    // exception is unmasked, and no rounding is another.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_mode_ends_with_its_holder() {
        let half = || black_box(1e-40f32) * black_box(0.5);
        let before = half();
        assert!(before > 0.0);
        #[inline(never)]
        fn flushed(half: impl Fn() -> f32) -> f32 {
            let _flush = Flush::set();
            half()
        }
        let within = flushed(half);
        assert_eq!(within == 0.0, cfg!(all(target_arch = "x86_64", not(miri))));
        if cfg!(panic = "unwind") {
            let panicked = std::panic::catch_unwind(|| {
                let _flush = Flush::set();
                panic!("while it is set");
            });
            assert!(panicked.is_err());
        }
        assert_eq!(half(), before);
    }
}
