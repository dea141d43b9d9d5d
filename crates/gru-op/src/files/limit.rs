//! One rule for all readers: time and memory are at most proportional to the file, plus 64 MiB.

/// The arrays of a file may be this many times as large as the file, in addition to [`SMALL`]. Trained weights hardly
/// compress. Zeros compress a thousand times.
const FACTOR: u64 = 16;
/// The size in bytes that the arrays of any file may have.
const SMALL: u64 = 64 << 20;

/// The maximum number of dimensions of an array. The weights of oneDNN have five.
pub const RANK: usize = 8;
/// The maximum depth of groups, dictionaries and modules. Models nest layers in layers, but not hundreds of times.
pub const DEPTH: usize = 64;

/// The bytes that arrays and names of one file claim.
#[derive(Debug, Clone)]
pub struct Limit {
    held: u64,
    claimed: u64,
}

impl Limit {
    /// The limit of a file of `held` bytes.
    pub fn new(held: u64) -> Self {
        Self { held, claimed: 0 }
    }

    /// The bytes of the file.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The largest number of bytes that can be claimed.
    pub fn largest(&self) -> u64 {
        self.held.saturating_mul(FACTOR).saturating_add(SMALL)
    }

    /// Counts bytes before they are allocated or read.
    ///
    /// # Errors
    /// If all claims together exceed [`largest`](Self::largest). The rejected bytes are not counted.
    pub fn claim(&mut self, bytes: u64) -> Result<(), String> {
        let (claimed, largest) = (self.claimed.saturating_add(bytes), self.largest());
        if claimed <= largest {
            self.claimed = claimed;
            return Ok(());
        }
        Err(format!(
            "it holds {} bytes, but its arrays claim {claimed}, expected {largest} at most",
            self.held
        ))
    }

    /// Counts an array of `bytes` bytes. Its work is also proportional to its rank.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), or if it has more than [`RANK`] dimensions.
    pub fn claim_array(&mut self, rank: usize, bytes: u64) -> Result<(), String> {
        check_rank(rank)?;
        self.claim(bytes)
    }
}

/// Checks the number of dimensions of an array.
///
/// # Errors
/// If it is above [`RANK`].
pub fn check_rank(rank: usize) -> Result<(), String> {
    if rank <= RANK {
        Ok(())
    } else {
        Err(format!("expected at most {RANK} dimensions, got {rank}"))
    }
}
