//! Room for translated records: what has been made for readers of the other protocol and is still alive,
//! in the caches or in answers that a client has not taken yet.
//!
//! Promises: the bytes stay below `translated_bytes_max`, beyond which at most one translation per
//! worker overshoots; costly translations leave a worker free for everybody else.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// How long a reader who has nothing yet waits for room.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Room {
    max: usize,
    used: AtomicUsize,
    freed: Notify,
    /// Costly translations at one time.
    costly: Semaphore,
}

/// Bytes that count until the last slice of them is gone.
struct Held {
    bytes: Bytes,
    room: Arc<Room>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes.len(), Ordering::AcqRel);
        self.room.freed.notify_waiters();
    }
}

impl Room {
    pub(super) fn new(max: usize) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            max,
            used: AtomicUsize::new(0),
            freed: Notify::new(),
            costly: Semaphore::new((cores / 2).max(1)),
        })
    }

    /// Waits until there is room, at most 5 s. False: there is none.
    pub(super) async fn ready(&self) -> bool {
        let deadline = Instant::now() + WAIT;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.free() {
                return true;
            }
            if timeout_at(deadline, freed).await.is_err() {
                return false;
            }
        }
    }

    /// Whether there is room now.
    pub(super) fn free(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.max
    }

    /// The turn of a costly translation.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.costly.acquire().await.ok()
    }

    /// Counts these bytes until the last slice of what is returned is gone.
    pub(super) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.used.fetch_add(bytes.len(), Ordering::AcqRel);
        Bytes::from_owner(Held {
            bytes,
            room: Arc::clone(self),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_count_until_their_last_slice_is_gone() {
        let room = Room::new(100);
        let slice = room.hold(Bytes::from(vec![1; 150])).slice(3..5);
        assert!(!room.free());
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(slice);
        assert!(waiting.await.unwrap());
        assert!(room.free());
    }
}
