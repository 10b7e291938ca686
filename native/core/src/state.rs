//! Snapshot plus replay: the one way to build derived state.
//!
//! A state machine lives behind a lock. Live, [`transact`] decides, appends and applies under that
//! lock, and leaves it before anything is waited for; at opening (and later on a replica) [`replay`]
//! feeds the same apply function from the log. A snapshot holds, besides the machine's bytes, the
//! next queue offset of each of its queues, so that replay goes on exactly where it ends.

use crate::config::OpenError;
use parking_lot::Mutex;
use std::sync::Arc;
use twinmq_store::{
    Ack, AppendError, Draft, LogOffset, QueueNumber, QueueOffset, Receipts, Store, Stored, Upto,
    Window,
};

/// What a machine wants to append, and what it will apply once that is in the log.
pub(crate) struct Plan<C> {
    /// All of it in one run.
    pub(crate) run: Vec<Draft>,
    /// The change, applied right after the append, under the same lock.
    pub(crate) change: C,
}

/// Decides under the machine's lock, appends, applies, and leaves the lock. Where the log has no room
/// at this moment the lock is left, room awaited, and the decision taken anew. `None` from `decide`
/// means that there is nothing to do.
pub(crate) async fn transact<M, C, R, E: From<AppendError>>(
    store: &Store,
    machine: &Mutex<M>,
    mut decide: impl FnMut(&mut M) -> Result<Option<Plan<C>>, E>,
    mut apply: impl FnMut(&mut M, C, &Receipts) -> R,
) -> Result<Option<R>, E> {
    loop {
        {
            let mut machine = machine.lock();
            let Some(plan) = decide(&mut machine)? else {
                return Ok(None);
            };
            if let Some(receipts) = store.try_append(&plan.run)? {
                return Ok(Some(apply(&mut machine, plan.change, &receipts)));
            }
        }
        store.room().await?;
    }
}

/// The end of a run: what to wait for.
pub(crate) fn run_end(receipts: &Receipts) -> LogOffset {
    receipts.last().map_or(LogOffset(0), |receipt| receipt.end)
}

const REPLAY_BYTES: u32 = 8 << 20;
const REPLAY_ENTRIES: u32 = 4096;

/// Reads a queue from `from` to its end and hands each entry to `each`. Returns the end.
pub(crate) async fn replay(
    store: &Store,
    part: &'static str,
    queue: QueueNumber,
    from: QueueOffset,
    mut each: impl FnMut(&Stored) -> Result<(), String>,
) -> Result<QueueOffset, OpenError> {
    let fail = |reason: String| OpenError { part, reason };
    let upto = Upto::default();
    let ends = store.ends(queue, upto);
    if from < ends.first {
        return Err(fail(format!(
            "queue {queue} starts at {}, but the state goes only to {from}: a snapshot is missing",
            ends.first
        )));
    }
    if from > ends.end {
        return Err(fail(format!(
            "the snapshot goes to {from} of queue {queue}, the log only to {}",
            ends.end
        )));
    }
    let mut next = from;
    while next < store.ends(queue, upto).end {
        let page = store
            .read(Window {
                queue,
                from: next,
                bytes_max: REPLAY_BYTES,
                entries_max: REPLAY_ENTRIES,
                scan_max: REPLAY_ENTRIES,
                upto,
                pass: None,
            })
            .await
            .map_err(|error| fail(format!("queue {queue} from {next}: {error}")))?;
        for stored in &page.entries {
            each(stored).map_err(|reason| {
                fail(format!(
                    "queue {queue}, offset {}: {reason}",
                    stored.header.base
                ))
            })?;
        }
        if page.next <= next {
            return Err(fail(format!("queue {queue} cannot be read past {next}")));
        }
        next = page.next;
    }
    Ok(next)
}

/// A machine's state, taken under its lock.
pub(crate) struct Image {
    /// Name of the machine's snapshots.
    pub(crate) name: &'static str,
    /// Everything of the machine's queues below is in `bytes`.
    pub(crate) at: LogOffset,
    /// The end of the log after it was taken: nothing in `bytes` lies above.
    pub(crate) upto: LogOffset,
    /// The state.
    pub(crate) bytes: Vec<u8>,
}

/// Writes an image once everything in it is on disk and readable.
pub(crate) async fn save(store: &Store, image: Image) -> Result<(), String> {
    store
        .wait(image.upto, Ack::Synced)
        .await
        .map_err(|error| error.to_string())?;
    let store = store.clone();
    tokio::task::spawn_blocking(move || store.write_snapshot(image.name, image.at, &image.bytes))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

/// Where the time comes from; shared by the parts.
pub(crate) type SharedClock = Arc<dyn twinmq_store::Clock>;
