//! How much a compressed file may claim to hold.

/// How many times the file's size its arrays may be together, beyond [`SMALL`]. Trained weights
/// hardly compress; zeros do, a thousand times.
const COMPRESSED: u64 = 16;
/// What the arrays of any file may be together, in bytes.
const SMALL: u64 = 64 << 20;

/// Refuses what together claims more bytes than a file of `held` bytes of weights can hold.
pub(super) fn check(held: u64, claimed: u64) -> Result<(), String> {
    let largest = held.saturating_mul(COMPRESSED).saturating_add(SMALL);
    if claimed <= largest {
        Ok(())
    } else {
        Err(format!(
            "it holds {held} bytes, but its arrays claim {claimed}, expected {largest} at most"
        ))
    }
}
