//! The limits of a listener and of each of its connections.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of one listener. Every buffer, queue and wait of a connection is bounded by one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest frame, in bytes, its length field included. Default 16 MiB, as RocketMQ's
    /// `com.rocketmq.remoting.frameMaxLength`. 1 KiB to 1 GiB.
    pub frame_bytes_max: usize,
    /// Input, in bytes, of begun frames above 256 KiB each, over all connections of the listener. Who gets
    /// no share within 10 s is closed; so is, while shares are scarce, who has held one for longer than
    /// `stall_seconds_max`. Default 512 MiB. At least twice `frame_bytes_max`.
    pub input_bytes_total_max: usize,
    /// Open connections of the listener; one more is closed at once. Default 16,384.
    pub connections_max: usize,
    /// Unsent output, in bytes, at which the connection is no longer read. Default 1 MiB.
    pub unsent_bytes_max: usize,
    /// Output, in bytes, at which it is written though more requests wait. Default 256 KiB.
    pub flush_bytes: usize,
    /// Seconds without a byte in either direction after which a connection is closed. Default 120.
    pub idle_seconds_max: u64,
    /// Seconds without progress in writing after which a peer that does not read is closed. Default 60.
    pub stall_seconds_max: u64,
    /// Requests of one connection that wait for their answer. Default 32,768.
    pub waiting_max: usize,
    /// Commands queued for one connection by others than its own requests. Default 1,024.
    pub backlog_max: usize,
    /// Seconds that a stop waits for answers that are under way. Default 3.
    pub drain_seconds_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 16 << 20,
            input_bytes_total_max: 512 << 20,
            connections_max: 16_384,
            unsent_bytes_max: 1 << 20,
            flush_bytes: 256 << 10,
            idle_seconds_max: 120,
            stall_seconds_max: 60,
            waiting_max: 32_768,
            backlog_max: 1024,
            drain_seconds_max: 3,
        }
    }
}

impl Limits {
    /// Refuses values that contradict each other or make no sense.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub fn validate(&self) -> Result<(), String> {
        if !(1024..=1 << 30).contains(&self.frame_bytes_max) {
            return Err("frame_bytes_max must be 1 KiB to 1 GiB".into());
        }
        if self.input_bytes_total_max < 2 * self.frame_bytes_max {
            return Err("input_bytes_total_max must be at least twice frame_bytes_max".into());
        }
        if self.connections_max == 0 {
            return Err("connections_max must be at least 1".into());
        }
        if self.flush_bytes == 0 || self.flush_bytes > self.unsent_bytes_max {
            return Err("flush_bytes must be at least 1 and at most unsent_bytes_max".into());
        }
        if self.idle_seconds_max == 0 || self.stall_seconds_max == 0 {
            return Err("idle_seconds_max and stall_seconds_max must be at least 1".into());
        }
        if self.waiting_max == 0 || self.backlog_max == 0 {
            return Err("waiting_max and backlog_max must be at least 1".into());
        }
        Ok(())
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds_max)
    }

    pub(crate) fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_seconds_max)
    }

    pub(crate) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds_max)
    }
}
