//! Waiting for records in several queues, of which some show what is written and others what is on
//! disk.

use crate::catalog::Topic;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use twinmq_store::{QueueNumber, Store, Upto};

/// Interest in queues; dropping it costs nothing.
#[derive(Debug)]
pub struct Watch {
    written: Option<twinmq_store::Watch>,
    synced: Option<twinmq_store::Watch>,
}

impl Watch {
    pub(super) fn new(store: &Store, queues: &[(&Topic, u32)], committed: bool) -> Self {
        let of = |synced: bool| {
            let numbers: Vec<QueueNumber> = queues
                .iter()
                .filter(|(topic, _)| topic.resolved.flush_sync == synced)
                .filter_map(|(topic, queue)| topic.queue(*queue))
                .collect();
            (!numbers.is_empty()).then(|| store.watch(&numbers, Upto { synced, committed }))
        };
        Self {
            written: of(false),
            synced: of(true),
        }
    }

    /// Resolves at once if something was added since the watch was made or last resolved. May be
    /// dropped and called again.
    pub async fn changed(&mut self) {
        match (&mut self.written, &mut self.synced) {
            (Some(one), None) | (None, Some(one)) => one.changed().await,
            (None, None) => pending().await,
            (Some(written), Some(synced)) => {
                let (mut written, mut synced) = (pin!(written.changed()), pin!(synced.changed()));
                poll_fn(|cx| {
                    if written.as_mut().poll(cx).is_ready() || synced.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    Poll::Pending
                })
                .await;
            }
        }
    }
}
