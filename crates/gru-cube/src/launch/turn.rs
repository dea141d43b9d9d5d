//! Which stream may fill a device with cubes that wait for each other.
//!
//! They must all run at the same time. Of two such launches on two streams each could hold places
//! that the other one waits for, so one stream of a device at a time makes them, and the others take
//! a cut without meetings.

use cubecl::{client::Client, ir::PhysicalDevice};
use cubecl_environment::stream::StreamId;
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// After so long without a launch the turn is free: longer than what a stream has queued lasts.
const QUIET: Duration = Duration::from_secs(30);

static TURNS: Mutex<Turns> = Mutex::new(Turns(Vec::new()));

/// Whether the current stream may launch cubes that wait for each other now. If so, it has the turn.
pub(super) fn is_ours(client: &Client) -> bool {
    let device = &client.properties().identity.physical;
    let mut turns = TURNS.lock().unwrap_or_else(|broken| broken.into_inner());
    turns.take(device, StreamId::current(), Instant::now())
}

struct Turn {
    device: Option<PhysicalDevice>,
    stream: StreamId,
    last: Instant,
}

/// At most one for each device.
struct Turns(Vec<Turn>);

impl Turns {
    fn take(&mut self, device: &Option<PhysicalDevice>, stream: StreamId, now: Instant) -> bool {
        let Some(turn) = self.0.iter_mut().find(|turn| turn.device == *device) else {
            self.0.push(Turn {
                device: device.clone(),
                stream,
                last: now,
            });
            return true;
        };
        let is_ours = turn.stream == stream || now.duration_since(turn.last) > QUIET;
        if is_ours {
            (turn.stream, turn.last) = (stream, now);
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_at_a_time() {
        let [a, b] = [1, 2].map(|value| StreamId { value });
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut turns = Turns(Vec::new());
        assert!(turns.take(&None, a, after(0)));
        assert!(!turns.take(&None, b, after(10)));
        assert!(turns.take(&None, a, after(20)));
        assert!(!turns.take(&None, b, after(50)));
        assert!(turns.take(&None, b, after(51)));
        assert!(!turns.take(&None, a, after(60)));
        let other = Some(PhysicalDevice::default());
        assert!(turns.take(&other, a, after(60)));
    }
}
