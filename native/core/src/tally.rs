//! Counters that only grow, and what they grew by in the last minutes.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Messages and bytes since the start.
#[derive(Debug)]
pub struct Tally {
    /// Messages.
    pub messages: AtomicU64,
    /// Payload bytes.
    pub bytes: AtomicU64,
    /// Per minute: (minute since 1970, messages, bytes at its start); the last 61.
    minutes: Mutex<VecDeque<(i64, u64, u64)>>,
    minute: AtomicI64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            minutes: Mutex::new(VecDeque::new()),
            minute: AtomicI64::new(i64::MIN),
        }
    }
}

impl Tally {
    /// Counts some more, at `now_ms` since 1970.
    pub fn add(&self, messages: u64, bytes: u64, now_ms: i64) {
        let minute = now_ms.div_euclid(60_000);
        if self.minute.load(Ordering::Relaxed) != minute {
            self.turn(minute);
        }
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether nothing was ever counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.load(Ordering::Relaxed) == 0
    }

    fn turn(&self, minute: i64) {
        let mut minutes = self.minutes.lock();
        if self.minute.load(Ordering::Relaxed) == minute {
            return;
        }
        minutes.push_back((
            minute,
            self.messages.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        ));
        while minutes.len() > 61 {
            minutes.pop_front();
        }
        self.minute.store(minute, Ordering::Relaxed);
    }

    /// Messages and bytes counted in the last so many minutes, the running one included.
    #[must_use]
    pub fn within(&self, minutes: i64, now_ms: i64) -> (u64, u64) {
        let since = now_ms.div_euclid(60_000) - minutes + 1;
        let total = (
            self.messages.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        );
        let marks = self.minutes.lock();
        match marks.iter().find(|(minute, _, _)| *minute >= since) {
            Some((_, messages, bytes)) => (total.0 - messages, total.1 - bytes),
            None => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_knows_its_last_minutes() {
        let tally = Tally::default();
        tally.add(5, 50, 0);
        tally.add(1, 10, 61_000);
        tally.add(2, 20, 119_000);
        assert_eq!(tally.within(1, 119_000), (3, 30));
        assert_eq!(tally.within(2, 119_000), (8, 80));
        assert_eq!(tally.within(1, 600_000), (0, 0));
    }
}
