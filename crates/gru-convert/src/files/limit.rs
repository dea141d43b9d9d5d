//! A limit for the claimed size of compressed files.

/// The arrays of a file may be this many times as large as the file, in addition to [`SMALL`]. Trained
/// weights hardly compress. Zeros compress a thousand times.
const COMPRESSED: u64 = 16;
/// The size in bytes that arrays of any file may have.
const SMALL: u64 = 64 << 20;

/// The bytes that the arrays of a file of `held` bytes can have.
pub(super) fn largest(held: u64) -> u64 {
    held.saturating_mul(COMPRESSED).saturating_add(SMALL)
}

/// Returns an error if the arrays claim more bytes than a file of `held` bytes can contain.
pub(super) fn check(held: u64, claimed: u64) -> Result<(), String> {
    let largest = largest(held);
    if claimed <= largest {
        Ok(())
    } else {
        Err(format!(
            "it holds {held} bytes, but its arrays claim {claimed}, expected {largest} at most"
        ))
    }
}
