//! What the connections of one listener share: limits, metrics, the room for input, and the log.
//!
//! Promises: input of all connections together stays bounded; a flood of bad peers is a few log lines a
//! second.

use crate::{FrameError, Limits, ListenerMetrics};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Input bytes of a connection that need no share.
const FREE: usize = 256 << 10;
/// How long a connection waits for a share.
pub(crate) const ROOM_WAIT: Duration = Duration::from_secs(10);
/// How often it asks.
pub(crate) const ROOM_ASK: Duration = Duration::from_millis(20);
/// Log lines a second about connections that were closed for what they did.
const LINES_PER_SECOND: u32 = 10;

/// One listener's.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) metrics: ListenerMetrics,
    /// KiB of input above [`FREE`].
    room: Arc<Semaphore>,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    second: Instant,
    written: u32,
    silent: u64,
}

impl Shared {
    pub(crate) fn new(limits: Limits, metrics: ListenerMetrics) -> Self {
        let kib = (limits.input_bytes_total_max / 1024).min(Semaphore::MAX_PERMITS);
        Self {
            limits,
            metrics,
            room: Arc::new(Semaphore::new(kib)),
            lines: Mutex::new(Lines {
                second: Instant::now(),
                written: 0,
                silent: 0,
            }),
        }
    }

    /// Whether less than a frame's room is left.
    fn scarce(&self) -> bool {
        self.room.available_permits() < self.limits.frame_bytes_max / 1024
    }

    /// Whether a line may be written now, and how many were not since the last.
    pub(crate) fn may_say(&self) -> Option<u64> {
        let mut lines = self.lines.lock();
        if lines.second.elapsed() >= Duration::from_secs(1) {
            lines.second = Instant::now();
            lines.written = 0;
        }
        if lines.written >= LINES_PER_SECOND {
            lines.silent += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.silent))
    }

    /// Says that what came is no frame.
    pub(crate) fn no_frame(&self, remote: SocketAddr, error: &FrameError) {
        if let Some(more_like_it) = self.may_say() {
            tracing::warn!(%remote, more_like_it, "connection closed: {error}");
        }
    }
}

/// A connection's share of the room.
#[derive(Debug, Default)]
pub(crate) struct Share {
    held: Option<OwnedSemaphorePermit>,
    since: Option<Instant>,
    wanting: Option<Instant>,
}

/// What came of asking for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Reading may go on.
    Granted,
    /// Not yet.
    Wait,
    /// It has waited for long enough.
    Refused,
    /// It has held its share for long enough while others want one.
    TooSlow,
}

impl Share {
    /// Asks for room for `bytes` of input in all.
    pub(crate) fn claim(&mut self, shared: &Shared, bytes: usize) -> Claim {
        let kib = kib(bytes);
        let held = self
            .held
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        if self
            .since
            .is_some_and(|since| since.elapsed() >= shared.limits.stall())
            && shared.scarce()
        {
            return Claim::TooSlow;
        }
        if kib <= held {
            self.wanting = None;
            return Claim::Granted;
        }
        let more = u32::try_from(kib - held).unwrap_or(u32::MAX);
        if let Ok(more) = Arc::clone(&shared.room).try_acquire_many_owned(more) {
            match &mut self.held {
                Some(held) => held.merge(more),
                none => *none = Some(more),
            }
            self.since.get_or_insert_with(Instant::now);
            self.wanting = None;
            return Claim::Granted;
        }
        if self.wanting.get_or_insert_with(Instant::now).elapsed() >= ROOM_WAIT {
            Claim::Refused
        } else {
            Claim::Wait
        }
    }

    /// Gives back what `bytes` of input do not need; a frame was taken.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let Some(held) = &mut self.held else { return };
        let excess = held.num_permits().saturating_sub(kib(bytes));
        self.since = Some(Instant::now());
        drop(held.split(excess));
        if held.num_permits() == 0 {
            *self = Self::default();
        }
    }
}

fn kib(bytes: usize) -> usize {
    bytes.saturating_sub(FREE).div_ceil(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(input: usize) -> Shared {
        let limits = Limits {
            frame_bytes_max: 1 << 20,
            input_bytes_total_max: input,
            ..Limits::default()
        };
        Shared::new(limits, ListenerMetrics::detached())
    }

    #[test]
    fn input_of_all_connections_together_is_bounded() {
        let shared = shared(2 << 20);
        let mut shares: Vec<Share> = (0..4).map(|_| Share::default()).collect();
        assert_eq!(shares[0].claim(&shared, FREE), Claim::Granted);
        let granted: Vec<_> = shares
            .iter_mut()
            .map(|share| share.claim(&shared, FREE + (1 << 20)))
            .collect();
        let expected = [Claim::Granted, Claim::Granted, Claim::Wait, Claim::Wait];
        assert_eq!(granted, expected);
        shares[0].keep(10);
        assert_eq!(shares[2].claim(&shared, FREE + (1 << 20)), Claim::Granted);
        shares.pop();
        drop(shares);
        assert_eq!(shared.room.available_permits(), 2048);
    }

    #[test]
    fn a_flood_of_bad_peers_is_a_few_lines() {
        let shared = shared(2 << 20);
        let said = (0..1000).filter(|_| shared.may_say().is_some()).count();
        assert!((10..=40).contains(&said), "{said}");
    }
}
