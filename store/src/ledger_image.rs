//! The ledger in a snapshot: producers, open and late aborted transactions, first offsets, dropped queues.
//!
//! Layout, little-endian (FORMAT.md, "Snapshot `ledger`"): per queue: number u32, dropped u8, three zero bytes, next
//! offset u64, first offset u64, count of producers u32, count of aborted u32; per producer: id u64, epoch i16, kept u8,
//! open u8 (1 = a transaction is open), four zero bytes, open's first offset u64, store time of its last entry i64, then `kept` batches: first i32,
//! last i32, base u64, store time i64; per aborted transaction whose marker lies at or after the snapshot's offset:
//! marker's log offset u64, producer u64, first u64, last u64.
//!
//! Promises: decoding refuses what does not add up. Leaves out sums: the snapshot file has them.

use crate::ledger::{Batch, Ledger, ProducerState};
use crate::queues::{QUEUES_MAX, Queue, Queues};
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};

/// One queue's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueImage {
    pub(crate) queue: QueueNumber,
    pub(crate) dropped: bool,
    pub(crate) next: QueueOffset,
    pub(crate) first: QueueOffset,
    pub(crate) producers: Vec<(u64, ProducerState)>,
    pub(crate) aborted: Vec<(LogOffset, Aborted)>,
}

impl QueueImage {
    /// A queue as it is now, under the lane's lock; `None` when there is nothing to tell. Aborted
    /// transactions below `at` are left out: a sealed run has them.
    pub(crate) fn of(
        number: QueueNumber,
        ledger: &Ledger,
        queue: &Queue,
        at: LogOffset,
    ) -> Option<Self> {
        let state = ledger.get(number)?;
        let mut aborted = queue.aborted();
        aborted.retain(|(marker, _)| *marker >= at);
        let image = Self {
            queue: number,
            dropped: state.dropped,
            next: state.next,
            first: queue.first(),
            producers: state.producers().map(|(id, p)| (id, *p)).collect(),
            aborted,
        };
        let tells = image.dropped
            || image.first > QueueOffset(0)
            || !image.producers.is_empty()
            || !image.aborted.is_empty();
        tells.then_some(image)
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        out.extend_from_slice(&self.queue.0.to_le_bytes());
        out.extend_from_slice(&[u8::from(self.dropped), 0, 0, 0]);
        out.extend_from_slice(&self.next.0.to_le_bytes());
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.extend_from_slice(&count(self.producers.len()));
        out.extend_from_slice(&count(self.aborted.len()));
        for (id, state) in &self.producers {
            let batches = state.batches();
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&state.epoch.to_le_bytes());
            out.extend_from_slice(&[state.kept, u8::from(state.open.is_some()), 0, 0, 0, 0]);
            out.extend_from_slice(&state.open.unwrap_or_default().0.to_le_bytes());
            out.extend_from_slice(&state.seen.0.to_le_bytes());
            for batch in batches {
                out.extend_from_slice(&batch.first.to_le_bytes());
                out.extend_from_slice(&batch.last.to_le_bytes());
                out.extend_from_slice(&batch.base.0.to_le_bytes());
                out.extend_from_slice(&batch.stored.0.to_le_bytes());
            }
        }
        for (at, aborted) in &self.aborted {
            for word in [at.0, aborted.producer, aborted.first.0, aborted.last.0] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Puts the queue as the image has it.
    pub(crate) fn restore(&self, ledger: &mut Ledger, queues: &Queues) {
        let Some(queue) = queues.entry(self.queue) else {
            return;
        };
        queue.raise_first(self.first);
        let state = ledger.get_mut(self.queue);
        for (id, producer) in &self.producers {
            state.restore(*id, *producer);
            if let Some(first) = producer.open {
                queue.restore_open(*id, first);
            }
        }
        queue.restore_aborted(&self.aborted);
        if self.dropped {
            queue.set_dropped();
            state.drop_queue();
        }
    }
}

/// Reads what `QueueImage::encode` wrote; `None` if it does not add up.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<QueueImage>> {
    let mut images = Vec::new();
    while !bytes.is_empty() {
        images.push(decode_one(&mut bytes)?);
    }
    Some(images)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*front)
}

fn u64_of(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

fn decode_one(bytes: &mut &[u8]) -> Option<QueueImage> {
    let queue = QueueNumber(u32::from_le_bytes(take(bytes)?));
    let [dropped, 0, 0, 0] = take::<4>(bytes)? else {
        return None;
    };
    if queue.0 >= QUEUES_MAX || dropped > 1 {
        return None;
    }
    let next = QueueOffset(u64_of(bytes)?);
    let first = QueueOffset(u64_of(bytes)?);
    let producers = u32::from_le_bytes(take(bytes)?);
    let aborted = u32::from_le_bytes(take(bytes)?);
    // Nothing is reserved for claimed counts: what is not there ends the loop.
    let producers = (0..producers)
        .map(|_| producer(bytes))
        .collect::<Option<_>>()?;
    let aborted = (0..aborted)
        .map(|_| {
            let at = LogOffset(u64_of(bytes)?);
            let producer = u64_of(bytes)?;
            let first = QueueOffset(u64_of(bytes)?);
            let last = QueueOffset(u64_of(bytes)?);
            let aborted = Aborted {
                producer,
                first,
                last,
            };
            Some((at, aborted))
        })
        .collect::<Option<_>>()?;
    Some(QueueImage {
        queue,
        dropped: dropped == 1,
        next,
        first,
        producers,
        aborted,
    })
}

fn producer(bytes: &mut &[u8]) -> Option<(u64, ProducerState)> {
    let id = u64_of(bytes)?;
    let mut state = ProducerState::new(i16::from_le_bytes(take(bytes)?));
    let [kept, open, 0, 0, 0, 0] = take::<6>(bytes)? else {
        return None;
    };
    let first = QueueOffset(u64_of(bytes)?);
    state.open = (open == 1).then_some(first);
    state.seen = Timestamp(i64::from_le_bytes(take(bytes)?));
    if usize::from(kept) > state.batches.len() || open > 1 {
        return None;
    }
    for _ in 0..kept {
        state.remember(Batch {
            first: i32::from_le_bytes(take(bytes)?),
            last: i32::from_le_bytes(take(bytes)?),
            base: QueueOffset(u64_of(bytes)?),
            stored: Timestamp(i64::from_le_bytes(take(bytes)?)),
        });
    }
    Some((id, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn images_come_back() {
        let mut state = ProducerState::new(4);
        for n in 0..7 {
            let (first, last) = (n * 2, n * 2 + 1);
            let (base, stored) = (QueueOffset(77), Timestamp(5));
            state.remember(Batch {
                first,
                last,
                base,
                stored,
            });
        }
        state.open = Some(QueueOffset(70));
        let aborted = Aborted {
            producer: 3,
            first: QueueOffset(1),
            last: QueueOffset(2),
        };
        let image = QueueImage {
            queue: QueueNumber(20),
            dropped: false,
            next: QueueOffset(90),
            first: QueueOffset(3),
            producers: vec![(8, state), (9, ProducerState::new(0))],
            aborted: vec![(LogOffset(800), aborted)],
        };
        let mut bytes = Vec::new();
        image.encode(&mut bytes);
        image.encode(&mut bytes);
        assert_eq!(decode(&bytes), Some(vec![image.clone(), image]));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
