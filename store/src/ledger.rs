//! What the lane knows per queue: the next offset, per producer the last five batches, the open
//! transactions. Pure: no clock, no I/O, no lock.
//!
//! Promises: [`Ledger::admit`] (live) and [`Ledger::replay`] (recovery, replica) move the same
//! state by the same function, from what an entry's header says alone. Rules of sequences and epochs
//! are Kafka's (KIP-98, KIP-360). Leaves out who may write: that is core's.

use crate::entry::Header;
use crate::error::AppendError;
use crate::pages::Pages;
use crate::run::{Draft, Flags, Producer};
use crate::types::{QueueNumber, QueueOffset, Timestamp};
use std::collections::HashMap;

/// Batches remembered per producer and queue: Kafka clients have at most five in flight.
const BATCHES_KEPT: usize = 5;

/// One remembered batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) base: QueueOffset,
    pub(crate) stored: Timestamp,
}

/// What is known of a producer in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProducerState {
    pub(crate) epoch: i16,
    /// Batches known, oldest first.
    pub(crate) kept: u8,
    pub(crate) batches: [Batch; BATCHES_KEPT],
    /// First offset of its open transaction.
    pub(crate) open: Option<QueueOffset>,
    /// Store time of its last entry.
    pub(crate) seen: Timestamp,
}

impl ProducerState {
    /// One that has written nothing yet.
    pub(crate) fn new(epoch: i16) -> Self {
        Self {
            epoch,
            kept: 0,
            batches: [Batch::default(); BATCHES_KEPT],
            open: None,
            seen: Timestamp(0),
        }
    }

    /// The batches, oldest first.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches[..usize::from(self.kept).min(BATCHES_KEPT)]
    }

    /// Remembers a batch, forgetting the oldest beyond five.
    pub(crate) fn remember(&mut self, batch: Batch) {
        let kept = usize::from(self.kept).min(BATCHES_KEPT);
        if kept == BATCHES_KEPT {
            self.batches.copy_within(1.., 0);
            self.batches[BATCHES_KEPT - 1] = batch;
        } else {
            self.batches[kept] = batch;
            self.kept += 1;
        }
    }
}

/// What is known of a queue.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(crate) next: QueueOffset,
    pub(crate) dropped: bool,
    #[expect(
        clippy::box_collection,
        reason = "most queues have none: 8 bytes instead of 48"
    )]
    producers: Option<Box<HashMap<u64, ProducerState>>>,
}

impl QueueState {
    /// Producers known here.
    pub(crate) fn producers(&self) -> impl Iterator<Item = (u64, &ProducerState)> {
        self.producers
            .iter()
            .flat_map(|all| all.iter().map(|(id, state)| (*id, state)))
    }

    /// Puts a producer's state as a snapshot has it.
    pub(crate) fn restore(&mut self, id: u64, state: ProducerState) {
        self.producers.get_or_insert_default().insert(id, state);
    }

    /// Forgets producers without an open transaction that were last seen before `before`.
    pub(crate) fn expire(&mut self, before: Timestamp) {
        if let Some(all) = &mut self.producers {
            all.retain(|_, state| state.open.is_some() || state.seen >= before);
            if all.is_empty() {
                self.producers = None;
            }
        }
    }

    /// Takes no more entries, for ever.
    pub(crate) fn drop_queue(&mut self) {
        self.dropped = true;
        self.producers = None;
    }
}

/// What an entry means to the ledger; the same from a draft and from a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fact {
    queue: QueueNumber,
    span: u32,
    flags: Flags,
    producer: Option<Producer>,
}

impl From<&Draft> for Fact {
    fn from(draft: &Draft) -> Self {
        Self {
            queue: draft.queue,
            span: draft.span,
            flags: draft.flags,
            producer: draft.producer,
        }
    }
}

impl From<&Header> for Fact {
    fn from(header: &Header) -> Self {
        Self {
            queue: header.queue,
            span: header.span,
            flags: header.flags,
            producer: header.producer,
        }
    }
}

/// A transaction that an entry opened or closed in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Its first entry.
    Opened { producer: u64, first: QueueOffset },
    /// Its marker.
    Closed {
        producer: u64,
        first: QueueOffset,
        aborted: bool,
    },
}

/// What the ledger says to a draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Goes in at `base`.
    New {
        base: QueueOffset,
        turn: Option<Turn>,
    },
    /// Was appended before, at `base`.
    Duplicate {
        base: QueueOffset,
        stored: Timestamp,
    },
}

/// How to take back one move.
#[derive(Debug)]
pub(crate) struct Undo {
    queue: QueueNumber,
    next: QueueOffset,
    producer: Option<(u64, Option<ProducerState>)>,
}

/// The state of every queue.
#[derive(Debug)]
pub(crate) struct Ledger {
    queues: Pages<QueueState>,
    /// Producers kept per queue.
    producers_max: usize,
}

impl Ledger {
    /// Knows nothing yet; keeps `producers_max` producers per queue.
    pub(crate) fn new(producers_max: usize) -> Self {
        Self {
            queues: Pages::default(),
            producers_max,
        }
    }

    /// A queue's state, if it has any.
    pub(crate) fn get(&self, queue: QueueNumber) -> Option<&QueueState> {
        self.queues.get(queue)
    }

    /// A queue's state.
    pub(crate) fn get_mut(&mut self, queue: QueueNumber) -> &mut QueueState {
        self.queues.get_mut(queue)
    }

    /// One past the highest queue number with state.
    pub(crate) fn bound(&self) -> u32 {
        self.queues.bound()
    }

    /// Checks a draft and moves on; with `undo` the move can be taken back.
    pub(crate) fn admit(
        &mut self,
        fact: &Fact,
        now: Timestamp,
        undo: Option<&mut Vec<Undo>>,
    ) -> Result<Verdict, AppendError> {
        let state = self.queues.get_mut(fact.queue);
        if state.dropped {
            return Err(AppendError::QueueDropped { queue: fact.queue });
        }
        if let Some(producer) = &fact.producer
            && let Some(same) = check(state, fact, producer)?
        {
            return Ok(Verdict::Duplicate {
                base: same.base,
                stored: same.stored,
            });
        }
        if let Some(undo) = undo {
            let before = fact.producer.map(|p| {
                (
                    p.id,
                    state
                        .producers
                        .as_ref()
                        .and_then(|all| all.get(&p.id).copied()),
                )
            });
            undo.push(Undo {
                queue: fact.queue,
                next: state.next,
                producer: before,
            });
        }
        let base = state.next;
        let turn = move_on(state, base, fact, now, self.producers_max);
        Ok(Verdict::New { base, turn })
    }

    /// Takes moves back, newest first.
    pub(crate) fn undo(&mut self, moves: &mut Vec<Undo>) {
        for step in moves.drain(..).rev() {
            let state = self.queues.get_mut(step.queue);
            state.next = step.next;
            if let Some((id, before)) = step.producer
                && let Some(all) = &mut state.producers
            {
                match before {
                    Some(before) => all.insert(id, before),
                    None => all.remove(&id),
                };
            }
        }
    }

    /// Moves on by an entry that is in the log and was checked to follow.
    pub(crate) fn replay(&mut self, header: &Header) -> Option<Turn> {
        let state = self.queues.get_mut(header.queue);
        let (fact, now) = (Fact::from(header), header.store_time);
        move_on(state, header.base, &fact, now, self.producers_max)
    }
}

/// Sequence numbers run from 0 to 2147483647 and wrap to 0.
fn sequence_plus(sequence: i32, records: u32) -> i32 {
    let sum = (i64::from(sequence) + i64::from(records)) & i64::from(i32::MAX);
    i32::try_from(sum).unwrap_or(0)
}

/// Kafka's rules for one entry of an idempotent producer; `Some` for one known already.
fn check(
    state: &QueueState,
    fact: &Fact,
    producer: &Producer,
) -> Result<Option<Batch>, AppendError> {
    let Some(known) = state
        .producers
        .as_ref()
        .and_then(|all| all.get(&producer.id))
    else {
        return Ok(None);
    };
    if producer.epoch < known.epoch {
        return Err(AppendError::ProducerFenced {
            epoch: producer.epoch,
            current: known.epoch,
        });
    }
    if fact.flags.is_marker() {
        return Ok(None);
    }
    let first = producer.first_sequence;
    let last = sequence_plus(first, fact.span - 1);
    if producer.epoch == known.epoch
        && let Some(same) = known
            .batches()
            .iter()
            .find(|batch| batch.first == first && batch.last == last)
    {
        return Ok(Some(*same));
    }
    if known.open.is_some() && !fact.flags.has(Flags::TRANSACTIONAL) {
        return Err(AppendError::InvalidTransactionState);
    }
    let newest = known.batches().last().map_or(-1, |batch| batch.last);
    let expected = if producer.epoch > known.epoch || newest < 0 {
        0
    } else {
        sequence_plus(newest, 1)
    };
    if first == expected {
        Ok(None)
    } else {
        Err(AppendError::OutOfOrderSequence {
            first,
            last: newest,
        })
    }
}

/// The one place where an entry changes a queue's state.
fn move_on(
    state: &mut QueueState,
    base: QueueOffset,
    fact: &Fact,
    now: Timestamp,
    producers_max: usize,
) -> Option<Turn> {
    state.next = state.next.max(base.plus(u64::from(fact.span)));
    let producer = fact.producer?;
    let all = state.producers.get_or_insert_default();
    if all.len() >= producers_max && !all.contains_key(&producer.id) {
        forget_idle(all, producers_max);
    }
    let known = all
        .entry(producer.id)
        .or_insert_with(|| ProducerState::new(producer.epoch));
    if known.epoch != producer.epoch {
        known.epoch = producer.epoch;
        known.kept = 0;
    }
    known.seen = now;
    if fact.flags.is_marker() {
        let first = known.open.take()?;
        return Some(Turn::Closed {
            producer: producer.id,
            first,
            aborted: fact.flags.has(Flags::ABORT_MARKER),
        });
    }
    if producer.first_sequence >= 0 {
        known.remember(Batch {
            first: producer.first_sequence,
            last: sequence_plus(producer.first_sequence, fact.span - 1),
            base,
            stored: now,
        });
    }
    if fact.flags.has(Flags::TRANSACTIONAL) && known.open.is_none() {
        known.open = Some(base);
        return Some(Turn::Opened {
            producer: producer.id,
            first: base,
        });
    }
    None
}

/// Forgets a sixteenth of the producers, those idle for longest, so that looking for them is paid for by
/// many newcomers. One with an open transaction stays.
fn forget_idle(all: &mut HashMap<u64, ProducerState>, producers_max: usize) {
    let idle = all.iter().filter(|(_, state)| state.open.is_none());
    let mut idle: Vec<(Timestamp, u64)> = idle.map(|(id, state)| (state.seen, *id)).collect();
    idle.sort_unstable();
    for (_, id) in idle.iter().take((producers_max / 16).max(1)) {
        all.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(epoch: i16, first: i32, span: u32, flags: Flags) -> Fact {
        Fact {
            queue: QueueNumber(16),
            span,
            flags,
            producer: Some(Producer {
                id: 9,
                epoch,
                first_sequence: first,
            }),
        }
    }

    fn admit(ledger: &mut Ledger, fact: &Fact) -> Result<Verdict, AppendError> {
        ledger.admit(fact, Timestamp(1), None)
    }

    const PLAIN: Flags = Flags(0);

    #[test]
    fn sequences_follow_kafkas_rules() {
        let mut ledger = Ledger::new(100);
        // Nothing known: any sequence.
        let first = admit(&mut ledger, &fact(1, 7, 3, PLAIN)).unwrap();
        let base = QueueOffset(0);
        assert_eq!(first, Verdict::New { base, turn: None });
        // The same again: a duplicate with the original base.
        let again = admit(&mut ledger, &fact(1, 7, 3, PLAIN)).unwrap();
        let stored = Timestamp(1);
        assert_eq!(again, Verdict::Duplicate { base, stored });
        assert!(admit(&mut ledger, &fact(1, 10, 1, PLAIN)).is_ok());
        assert_eq!(
            admit(&mut ledger, &fact(1, 12, 1, PLAIN)),
            Err(AppendError::OutOfOrderSequence {
                first: 12,
                last: 10
            })
        );
        // A newer epoch starts at 0.
        assert!(admit(&mut ledger, &fact(2, 11, 1, PLAIN)).is_err());
        assert!(admit(&mut ledger, &fact(2, 0, 1, PLAIN)).is_ok());
        assert_eq!(
            admit(&mut ledger, &fact(1, 11, 1, PLAIN)),
            Err(AppendError::ProducerFenced {
                epoch: 1,
                current: 2
            })
        );
    }

    #[test]
    fn the_producers_idle_for_longest_are_forgotten() {
        let mut ledger = Ledger::new(32);
        let mut by = |id, flags| {
            let mut fact = fact(0, 0, 1, flags);
            fact.producer.as_mut().unwrap().id = id;
            let now = Timestamp(i64::try_from(id).unwrap());
            ledger.admit(&fact, now, None).unwrap()
        };
        by(0, Flags::TRANSACTIONAL);
        for id in 1..1000 {
            by(id, PLAIN);
        }
        assert!(matches!(by(999, PLAIN), Verdict::Duplicate { .. }));
        let state = ledger.get(QueueNumber(16)).unwrap();
        let ids: Vec<u64> = state.producers().map(|(id, _)| id).collect();
        assert!(ids.len() <= 32, "{} producers", ids.len());
        assert!(ids.contains(&0), "its transaction is open");
        assert!((980..1000).all(|id| ids.contains(&id)));
    }

    #[test]
    fn five_batches_are_remembered() {
        let mut ledger = Ledger::new(100);
        for n in 0..6 {
            assert!(admit(&mut ledger, &fact(0, n, 1, PLAIN)).is_ok());
        }
        assert!(admit(&mut ledger, &fact(0, 0, 1, PLAIN)).is_err());
        assert!(matches!(
            admit(&mut ledger, &fact(0, 1, 1, PLAIN)),
            Ok(Verdict::Duplicate {
                base: QueueOffset(1),
                ..
            })
        ));
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut ledger = Ledger::new(100);
        assert!(admit(&mut ledger, &fact(0, i32::MAX - 1, 2, PLAIN)).is_ok());
        assert!(admit(&mut ledger, &fact(0, 0, 1, PLAIN)).is_ok());
        assert_eq!(sequence_plus(i32::MAX, 2), 1);
    }

    #[test]
    fn transactions_open_and_close() {
        let mut ledger = Ledger::new(100);
        let open = admit(&mut ledger, &fact(0, 0, 2, Flags::TRANSACTIONAL)).unwrap();
        let producer = 9;
        let first = QueueOffset(0);
        assert!(matches!(
            open,
            Verdict::New {
                turn: Some(Turn::Opened { .. }),
                ..
            }
        ));
        assert_eq!(
            admit(&mut ledger, &fact(0, 2, 1, PLAIN)),
            Err(AppendError::InvalidTransactionState)
        );
        let abort = Flags::TRANSACTIONAL.with(Flags::ABORT_MARKER);
        let closed = admit(&mut ledger, &fact(0, -1, 1, abort)).unwrap();
        let aborted = true;
        let turn = Some(Turn::Closed {
            producer,
            first,
            aborted,
        });
        let base = QueueOffset(2);
        assert_eq!(closed, Verdict::New { base, turn });
        assert!(admit(&mut ledger, &fact(0, 2, 1, PLAIN)).is_ok());
    }

    #[test]
    fn moves_are_taken_back() {
        let mut ledger = Ledger::new(100);
        assert!(admit(&mut ledger, &fact(0, 0, 1, PLAIN)).is_ok());
        let mut undo = Vec::new();
        for n in 1..4 {
            let step = fact(0, n, 1, PLAIN);
            assert!(ledger.admit(&step, Timestamp(1), Some(&mut undo)).is_ok());
        }
        ledger.undo(&mut undo);
        assert_eq!(ledger.get(QueueNumber(16)).unwrap().next, QueueOffset(1));
        assert!(admit(&mut ledger, &fact(0, 1, 1, PLAIN)).is_ok());
    }
}
