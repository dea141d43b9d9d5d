//! Speech enhancement with GTCRN, in frames of 16 ms.
//!
//! [`Enhancer`] is the stream: samples in, samples out. It needs the model, which `build.rs` generates.

#[cfg(gtcrn)]
mod enhancer;
mod error;
pub mod wav;

#[cfg(gtcrn)]
pub use enhancer::Enhancer;
pub use error::Error;

/// Samples per second.
pub const RATE: u32 = 16_000;
/// Samples from one frame to the next. A frame has twice as many samples.
pub const HOP: usize = 256;

/// Enhances a whole signal. The result has no delay and the length of the signal. Also returns the seconds of
/// each frame.
#[cfg(gtcrn)]
pub fn enhance(samples: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let mut enhancer = Enhancer::default();
    let (mut enhanced, mut seconds) = (Vec::new(), Vec::new());
    // The first frame ends with the first samples, and its output belongs to the time before them.
    for at in (0..samples.len() + HOP).step_by(HOP) {
        let rest = samples.get(at..).unwrap_or_default();
        let mut hop = [0.0; HOP];
        let whole = rest.len().min(HOP);
        hop[..whole].copy_from_slice(&rest[..whole]);
        let start = std::time::Instant::now();
        enhanced.extend(enhancer.push(&hop));
        seconds.push(start.elapsed().as_secs_f64());
    }
    enhanced.drain(..HOP);
    enhanced.truncate(samples.len());
    (enhanced, seconds)
}
