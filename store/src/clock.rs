//! The clock as a parameter. Drivers hold one; pure code is given `now`.

use crate::types::Timestamp;
use std::fmt::Debug;

/// Where the time comes from. The store never lets a store time fall, whatever the clock does.
pub trait Clock: Send + Sync + Debug {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
