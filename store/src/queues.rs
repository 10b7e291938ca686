//! What lane and readers share of each queue: its rows, its ends, who waits for it, its
//! transactions.
//!
//! Promises: readers find a queue without a lock. Written by the lane under its lock, but for the
//! first offset (retention) and the count of waiters. Leaves out names and settings: core has them.

use crate::index::rows::Rows;
use crate::ledger::Turn;
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Queues in a page.
const PAGE_QUEUES: usize = 512;
/// Pages: with the above, the highest queue number plus one is 4,194,304.
const PAGES: usize = 8192;

/// One past the highest queue number that a store takes.
pub(crate) const QUEUES_MAX: u32 = 4_194_304;

/// A closed transaction whose marker stands at `at`.
#[derive(Clone, Copy, Debug)]
struct Closing {
    first: QueueOffset,
    at: LogOffset,
}

/// An open transaction.
#[derive(Clone, Copy, Debug)]
struct Open {
    producer: u64,
    first: QueueOffset,
    /// Where its first entry stands; 0 when a snapshot told of it.
    at: LogOffset,
}

/// Transactions of one queue that a reader must know.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    open: Vec<Open>,
    /// Closed, but perhaps not yet for readers whose mark has not reached the marker.
    closing: Vec<Closing>,
    /// Aborted ones of the newest stretch, with their marker's place, in log order.
    aborted: Vec<(LogOffset, Aborted)>,
}

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Index rows of the newest stretch.
    pub(crate) rows: Rows,
    first: AtomicU64,
    sealed_end: AtomicU64,
    /// Where the queue began when it was found without any index.
    adopted: AtomicU64,
    waiters: AtomicU32,
    dropped: AtomicBool,
    transactions: OnceLock<Box<Mutex<Transactions>>>,
}

impl Queue {
    /// First offset that may be read.
    pub(crate) fn first(&self) -> QueueOffset {
        QueueOffset(self.first.load(Ordering::Acquire))
    }

    /// Raises the first offset; lower values change nothing.
    pub(crate) fn raise_first(&self, first: QueueOffset) {
        self.first.fetch_max(first.0, Ordering::AcqRel);
    }

    /// The queue's end in the sealed runs.
    pub(crate) fn sealed_end(&self) -> QueueOffset {
        QueueOffset(self.sealed_end.load(Ordering::Acquire))
    }

    /// Moves the sealed end, before rows go from memory.
    pub(crate) fn seal(&self, end: QueueOffset) {
        self.sealed_end.fetch_max(end.0, Ordering::AcqRel);
    }

    /// Where the queue began when it was found without any index; 0 as a rule.
    pub(crate) fn adopted(&self) -> QueueOffset {
        QueueOffset(self.adopted.load(Ordering::Relaxed))
    }

    /// The queue was found without any index, beginning here.
    pub(crate) fn adopt(&self, base: QueueOffset) {
        self.adopted.store(base.0, Ordering::Relaxed);
        self.raise_first(base);
    }

    /// The end as seen from `mark`.
    pub(crate) fn end_at(&self, mark: LogOffset) -> QueueOffset {
        // Rows first: whoever drops rows has moved the sealed end before.
        let end = self.rows.end_at(mark);
        end.unwrap_or_else(|| self.sealed_end())
    }

    /// The last stable offset as seen from `mark`, given the end seen from there.
    pub(crate) fn stable_at(&self, mark: LogOffset, end: QueueOffset) -> QueueOffset {
        let Some(transactions) = self.transactions.get() else {
            return end;
        };
        let transactions = transactions.lock();
        let open = transactions.open.iter().map(|open| open.first);
        let closing = transactions.closing.iter().filter(|c| c.at >= mark);
        open.chain(closing.map(|c| c.first))
            .fold(end, QueueOffset::min)
    }

    /// True while a transaction is open that began below `end`: what an append up to there added is then not
    /// stable. One that began later says nothing about it.
    pub(crate) fn in_transaction_at(&self, end: LogOffset) -> bool {
        self.transactions
            .get()
            .is_some_and(|all| all.lock().open.iter().any(|open| open.at < end))
    }

    /// Notes a transaction's turn by the entry at `at` whose offset is `marker`. `synced` bounds what
    /// readers may still not see.
    pub(crate) fn turn(&self, turn: Turn, at: LogOffset, marker: QueueOffset, synced: LogOffset) {
        let mut all = self.transactions.get_or_init(Box::default).lock();
        match turn {
            Turn::Opened { producer, first } => all.open.push(Open {
                producer,
                first,
                at,
            }),
            Turn::Closed {
                producer,
                first,
                aborted,
            } => {
                all.open.retain(|open| open.producer != producer);
                all.closing.retain(|closing| closing.at >= synced);
                all.closing.push(Closing { first, at });
                if aborted {
                    all.aborted.push((
                        at,
                        Aborted {
                            producer,
                            first,
                            last: marker,
                        },
                    ));
                }
            }
        }
    }

    /// Puts aborted transactions as a snapshot has them.
    pub(crate) fn restore_aborted(&self, aborted: &[(LogOffset, Aborted)]) {
        if !aborted.is_empty() {
            let all = self.transactions.get_or_init(Box::default);
            all.lock().aborted.extend_from_slice(aborted);
        }
    }

    /// Puts an open transaction as a snapshot has it.
    pub(crate) fn restore_open(&self, producer: u64, first: QueueOffset) {
        let all = self.transactions.get_or_init(Box::default);
        all.lock().open.push(Open {
            producer,
            first,
            at: LogOffset(0),
        });
    }

    /// Aborted transactions in memory, with their marker's place.
    pub(crate) fn aborted(&self) -> Vec<(LogOffset, Aborted)> {
        let all = self.transactions.get();
        all.map(|all| all.lock().aborted.clone())
            .unwrap_or_default()
    }

    /// Forgets aborted transactions whose marker lies below `at`: a sealed run has them.
    pub(crate) fn forget_aborted(&self, at: LogOffset) {
        if let Some(all) = self.transactions.get() {
            all.lock().aborted.retain(|(marker, _)| *marker >= at);
        }
    }

    /// True if someone may wait for this queue.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Counts a waiter in.
    pub(crate) fn add_waiter(&self) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a waiter out.
    pub(crate) fn remove_waiter(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// True once the queue was dropped.
    pub(crate) fn dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the queue dropped, for ever.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

/// Every queue, by number.
#[derive(Debug)]
pub(crate) struct Queues {
    pages: Box<[OnceLock<Box<[Queue]>>]>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            pages: (0..PAGES).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Queues {
    /// The queue, if its page was ever touched.
    pub(crate) fn get(&self, queue: QueueNumber) -> Option<&Queue> {
        let number = queue.0 as usize;
        self.pages
            .get(number / PAGE_QUEUES)?
            .get()?
            .get(number % PAGE_QUEUES)
    }

    /// The queue, made if need be; `None` for a number of [`QUEUES_MAX`] or more.
    pub(crate) fn entry(&self, queue: QueueNumber) -> Option<&Queue> {
        let number = queue.0 as usize;
        let page = self.pages.get(number / PAGE_QUEUES)?;
        let page = page.get_or_init(|| (0..PAGE_QUEUES).map(|_| Queue::default()).collect());
        page.get(number % PAGE_QUEUES)
    }

    /// Every queue whose page was touched.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (QueueNumber, &Queue)> {
        self.pages.iter().enumerate().flat_map(|(page, queues)| {
            queues
                .get()
                .into_iter()
                .flat_map(|queues| queues.iter())
                .enumerate()
                .filter_map(move |(slot, queue)| {
                    let number = u32::try_from(page * PAGE_QUEUES + slot).ok()?;
                    Some((QueueNumber(number), queue))
                })
        })
    }
}
