//! Records that cross: batches opened for native readers, messages framed for Kafka readers. Each
//! result is kept for the next reader. A record's content is always the same; the borders of framed
//! batches are not promised.

use super::room::Room;
use super::{ConsumeError, untranslatable};
use crate::cache::Cache;
use crate::catalog::Topic;
use crate::metrics::CoreMetrics;
use crate::payload;
use crate::produce::Producing;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;
use twinmq_records::translate::{Slot, Translated};
use twinmq_store::{Kind, LogOffset, QueueOffset, Stored};

/// Most bytes of messages framed into one batch.
const FRAME_BYTES: usize = 1 << 20;

/// A batch made from messages.
#[derive(Clone, Debug)]
pub(super) struct Framed {
    pub(super) bytes: Bytes,
    /// How many message entries it holds.
    pub(super) entries: usize,
    /// The offset after its last record.
    pub(super) next: QueueOffset,
    /// It ended at a limit, another kind or another reign: looking further would not make it longer.
    pub(super) full: bool,
}

/// Both directions, with their caches.
#[derive(Debug)]
pub(super) struct Crossing {
    /// By entry and the offset delta that the piece begins with.
    pub(super) opened: Cache<(LogOffset, u32), Translated>,
    pub(super) framed: Cache<LogOffset, Framed>,
    pub(super) producing: Arc<Producing>,
    pub(super) decompressed_max: u64,
    pub(super) room: Arc<Room>,
    pub(super) metrics: CoreMetrics,
}

impl Crossing {
    /// A batch entry's records in RocketMQ's layout, from an offset delta on: all of them, but for
    /// very large batches, whose next piece begins at `Translated::next`. `must`: the reader has
    /// nothing yet, so he waits for room; else he is told [`ConsumeError::Busy`] at once.
    pub(super) async fn opened(
        &self,
        topic: &Topic,
        ordinal: u32,
        stored: &Stored,
        from: u32,
        must: bool,
    ) -> Result<Arc<Translated>, ConsumeError> {
        let key = (stored.header.log_offset, from);
        if let Some(opened) = self.opened.get(key, |_| true) {
            return Ok(opened);
        }
        let _turn = self
            .admit(must, payload::is_costly(std::slice::from_ref(stored)))
            .await?;
        if let Some(opened) = self.opened.get(key, |_| true) {
            return Ok(opened); // made while this reader waited
        }
        let name = topic.native.as_ref().unwrap_or_else(|| topic.key());
        let host = self.producing.store_host();
        let mut opened = payload::opened(stored, name, ordinal, host, from, self.decompressed_max)
            .map_err(|reason| untranslatable(stored, reason))?;
        self.metrics
            .opened_records
            .inc_by(opened.slots.len() as u64);
        opened.bytes = self.room.hold(opened.bytes);
        let opened = Arc::new(opened);
        let size = opened.bytes.len() + opened.slots.len() * size_of::<Slot>();
        self.opened.put(key, Arc::clone(&opened), size);
        Ok(opened)
    }

    /// One record of a batch entry, by its offset delta.
    pub(super) async fn record(
        &self,
        topic: &Topic,
        ordinal: u32,
        stored: &Stored,
        delta: u32,
    ) -> Result<Option<Bytes>, ConsumeError> {
        let mut from = 0;
        loop {
            let opened = self.opened(topic, ordinal, stored, from, true).await?;
            let slot = opened
                .slots
                .binary_search_by_key(&delta, |slot| slot.offset_delta);
            match (slot, opened.next) {
                (Ok(place), _) => return Ok(opened.slots.get(place).map(|s| opened.message(s))),
                (Err(_), Some(next)) if next <= delta => from = next,
                _ => return Ok(None),
            }
        }
    }

    /// Room, and for a costly translation its turn.
    async fn admit(
        &self,
        must: bool,
        costly: bool,
    ) -> Result<Option<SemaphorePermit<'_>>, ConsumeError> {
        let turn = if costly { self.room.turn().await } else { None };
        if self.room.free() || (must && self.room.ready().await) {
            Ok(turn)
        } else {
            Err(ConsumeError::Busy)
        }
    }

    /// The batch that begins with the first of these entries, which is a message. `must`: as above.
    pub(super) async fn framed(
        &self,
        entries: &[Stored],
        bytes_max: u32,
        must: bool,
    ) -> Result<Framed, ConsumeError> {
        let Some(first) = entries.first() else {
            return Err(ConsumeError::NoSuchQueue(0));
        };
        let limit = FRAME_BYTES.min(bytes_max as usize);
        let (taken, full) = extent(entries, limit);
        let good =
            |framed: &Framed| framed.entries == taken || (framed.full && framed.entries < taken);
        let key = first.header.log_offset;
        if let Some(framed) = self.framed.get(key, good) {
            return Ok(Framed::clone(&framed));
        }
        let _turn = self
            .admit(must, payload::is_costly(&entries[..taken]))
            .await?;
        if let Some(framed) = self.framed.get(key, good) {
            return Ok(Framed::clone(&framed)); // made while this reader waited
        }
        let (batch, framed) = payload::framed(&entries[..taken], self.decompressed_max, limit)
            .map_err(|reason| untranslatable(first, reason))?;
        self.metrics.framed_records.inc_by(framed as u64);
        let framed = Framed {
            bytes: self.room.hold(batch),
            entries: framed,
            next: entries[..framed].last().unwrap_or(first).header.next(),
            full: full || framed < taken,
        };
        let size = framed.bytes.len();
        self.framed.put(key, Arc::new(framed.clone()), size);
        Ok(framed)
    }
}

/// How many of these entries make one batch, and whether something ended it.
fn extent(entries: &[Stored], limit: usize) -> (usize, bool) {
    let mut bytes = 0_usize;
    let mut taken = 0;
    let reign = entries.first().map(|first| first.header.reign);
    for stored in entries {
        let other = stored.header.kind != Kind::Message || Some(stored.header.reign) != reign;
        let length = stored.payload.len();
        if taken > 0 && (other || bytes.saturating_add(length) > limit) {
            return (taken, true);
        }
        bytes += length;
        taken += 1;
    }
    (taken, false)
}
