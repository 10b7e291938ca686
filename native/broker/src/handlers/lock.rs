//! LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): leases on queues for ordered consumption.

use crate::error::Refusal;
use crate::queue_locks::{LockKey, QueueLocks};
use parking_lot::Mutex;
use std::sync::Arc;
use twinmq_remoting::bodies::MessageQueue;
use twinmq_remoting::bodies::lock::{LockQueues, LockedQueues};
use twinmq_remoting::code::response;
use twinmq_remoting::{Command, Outcome};

/// What locking needs.
#[derive(Debug)]
pub(crate) struct Locking {
    pub(crate) locks: Arc<Mutex<QueueLocks>>,
    pub(crate) broker_name: Arc<str>,
    pub(crate) queues_max: usize,
}

impl Locking {
    /// 41: Answers the queues that the client holds now, of those it asked for, just as it named them.
    pub(crate) fn lock(&self, request: &Command) -> Result<Outcome, Refusal> {
        let asked = self.asked(request)?;
        let (ours, keys) = self.ours(&asked);
        let held = self.locks.lock().lock(
            &asked.consumer_group,
            &asked.client_id,
            &keys,
            crate::now_ms(),
        );
        let held: std::collections::HashSet<LockKey> = held.into_iter().collect();
        let answer = LockedQueues {
            locked: ours
                .into_iter()
                .zip(keys)
                .filter(|(_, key)| held.contains(key))
                .map(|(queue, _)| queue)
                .collect(),
        };
        Ok(crate::table::json(request, &answer))
    }

    /// Code 42.
    pub(crate) fn unlock(&self, request: &Command) -> Result<Outcome, Refusal> {
        let asked = self.asked(request)?;
        let (_, keys) = self.ours(&asked);
        self.locks
            .lock()
            .unlock(&asked.consumer_group, &asked.client_id, &keys);
        Ok(Outcome::Reply(Command::response_to(
            request,
            response::SUCCESS,
        )))
    }

    fn asked(&self, request: &Command) -> Result<LockQueues, Refusal> {
        let asked: LockQueues = crate::table::body(request)?;
        if asked.mq_set.len() > self.queues_max {
            return Err(Refusal::parameter(format!(
                "{} queues in one request, more than native.heartbeat_entries_max = {}",
                asked.mq_set.len(),
                self.queues_max
            )));
        }
        Ok(asked)
    }

    fn ours(&self, asked: &LockQueues) -> (Vec<MessageQueue>, Vec<LockKey>) {
        asked
            .mq_set
            .iter()
            .filter(|queue| *queue.broker_name == *self.broker_name)
            .map(|queue| {
                let key = LockKey {
                    topic: queue.topic.to_string(),
                    queue: queue.queue_id,
                };
                (queue.clone(), key)
            })
            .unzip()
    }
}
