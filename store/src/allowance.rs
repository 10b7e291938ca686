//! How many bytes read from disk may be in memory at one time: on their way, or in pages that readers still
//! hold (answers that a client has not taken yet).
//!
//! Promises: the total is never passed, but for a single piece larger than it, which then is alone; who waits
//! is served in order. Leaves out what is read through the map: it takes no memory of its own.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const UNIT: u64 = 1024;
/// How long a reader who has nothing yet waits.
const WAIT: Duration = Duration::from_secs(5);

/// The bytes that may be held.
#[derive(Debug)]
pub(crate) struct Allowance {
    room: Arc<Semaphore>,
    /// All permits.
    total: u32,
}

/// A part of it, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share(OwnedSemaphorePermit);

/// Bytes that count until the last slice of them is gone.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Allowance {
    pub(crate) fn new(bytes: u64) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let total = u32::try_from(bytes / UNIT).unwrap_or(most).clamp(1, most);
        Self {
            room: Arc::new(Semaphore::new(total as usize)),
            total,
        }
    }

    /// A share for so many bytes. `None`: there is no room, with `wait` not even within 5 s.
    pub(crate) async fn take(&self, bytes: usize, wait: bool) -> Option<Share> {
        let permits = self.permits(bytes);
        let room = Arc::clone(&self.room);
        if let Ok(share) = room.try_acquire_many_owned(permits) {
            return Some(Share(share));
        }
        if !wait {
            return None;
        }
        let share = Arc::clone(&self.room).acquire_many_owned(permits);
        let share = tokio::time::timeout(WAIT, share).await.ok()?;
        share.ok().map(Share)
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from((bytes as u64).div_ceil(UNIT)).map_or(self.total, |n| n.min(self.total))
    }
}

impl Share {
    /// Counts `bytes`, of which there are no more than the share was taken for, until the last slice of
    /// what is returned is gone.
    pub(crate) fn hold(mut self, bytes: Bytes) -> Bytes {
        let needed = (bytes.len() as u64).div_ceil(UNIT);
        let spare = self.0.num_permits() as u64;
        let spare = usize::try_from(spare.saturating_sub(needed)).unwrap_or(0);
        drop(self.0.split(spare));
        Bytes::from_owner(Held {
            bytes,
            _share: self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_count_until_their_last_slice_is_gone() {
        let allowance = Allowance::new(10 << 10);
        let share = allowance.take(8 << 10, false).await.unwrap();
        // What was read in vain does not count.
        let slice = share.hold(Bytes::from(vec![1; 6 << 10])).slice(3..5);
        let rest = allowance.take(4 << 10, false).await.unwrap();
        assert!(allowance.take(1, false).await.is_none());
        let waits = allowance.take(5 << 10, true);
        let mut waits = std::pin::pin!(waits);
        let limit = Duration::from_millis(20);
        assert!(tokio::time::timeout(limit, &mut waits).await.is_err());
        drop(slice);
        assert!(waits.await.is_some());
        drop(rest);
    }

    #[tokio::test]
    async fn what_is_larger_than_everything_is_alone() {
        let allowance = Allowance::new(10 << 10);
        let small = allowance.take(1, false).await.unwrap();
        assert!(allowance.take(1 << 30, false).await.is_none());
        drop(small);
        let large = allowance.take(1 << 30, false).await.unwrap();
        assert!(allowance.take(1, false).await.is_none());
        drop(large.hold(Bytes::from_static(b"x")));
        assert!(allowance.take(10 << 10, false).await.is_some());
    }
}
