//! Records that cross: batches opened for native readers, messages framed for Kafka readers. Each
//! result is kept for the next reader. A record's content is always the same; the borders of framed
//! batches are not promised.

use super::{ConsumeError, untranslatable};
use crate::cache::Cache;
use crate::catalog::Topic;
use crate::metrics::CoreMetrics;
use crate::payload;
use crate::produce::Producing;
use bytes::Bytes;
use std::sync::Arc;
use twinmq_store::{Kind, LogOffset, QueueOffset, Stored};

/// Most bytes of messages framed into one batch.
const FRAME_BYTES: usize = 1 << 20;

/// A batch's records in RocketMQ's layout, one after the other.
#[derive(Debug)]
pub(crate) struct OpenedBatch {
    /// All of them.
    pub(crate) bytes: Bytes,
    /// Per record: end in `bytes`, offset delta, tag hash.
    pub(crate) rows: Vec<(u32, u32, i32)>,
}

/// One record of an opened batch.
pub(super) struct OpenedRecord {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) delta: u32,
    pub(super) tag_hash: i32,
}

impl OpenedBatch {
    pub(super) fn records(&self) -> impl Iterator<Item = OpenedRecord> {
        let mut start = 0;
        self.rows.iter().map(move |(end, delta, tag_hash)| {
            let record = OpenedRecord {
                start,
                end: *end as usize,
                delta: *delta,
                tag_hash: *tag_hash,
            };
            start = record.end;
            record
        })
    }

    /// The record with this offset delta: an address counts in offsets.
    pub(super) fn at_delta(&self, delta: u32) -> Option<Bytes> {
        let record = self.records().find(|record| record.delta == delta)?;
        Some(self.bytes.slice(record.start..record.end))
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<(u32, u32, i32)>()
    }
}

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
    pub(super) opened: Cache<LogOffset, OpenedBatch>,
    pub(super) framed: Cache<LogOffset, Framed>,
    pub(super) producing: Arc<Producing>,
    pub(super) decompressed_max: u64,
    pub(super) metrics: CoreMetrics,
}

impl Crossing {
    /// A batch entry's records in RocketMQ's layout.
    pub(super) fn opened(
        &self,
        topic: &Topic,
        ordinal: u32,
        stored: &Stored,
    ) -> Result<Arc<OpenedBatch>, ConsumeError> {
        let key = stored.header.log_offset;
        if let Some(opened) = self.opened.get(key, |_| true) {
            return Ok(opened);
        }
        let name = topic.native.as_ref().unwrap_or_else(|| topic.key());
        let host = self.producing.store_host();
        let opened = payload::opened(stored, name, ordinal, host, self.decompressed_max)
            .map_err(|reason| untranslatable(stored, reason))?;
        self.metrics.opened_records.inc_by(opened.rows.len() as u64);
        let opened = Arc::new(opened);
        self.opened.put(key, Arc::clone(&opened), opened.size());
        Ok(opened)
    }

    /// The batch that begins with the first of these entries, which is a message.
    pub(super) fn framed(
        &self,
        entries: &[Stored],
        bytes_max: u32,
    ) -> Result<Framed, ConsumeError> {
        let Some(first) = entries.first() else {
            return Err(ConsumeError::NoSuchQueue(0));
        };
        let limit = FRAME_BYTES.min(bytes_max as usize);
        let (taken, bytes, full) = extent(entries, limit);
        let good =
            |framed: &Framed| framed.entries == taken || (framed.full && framed.entries < taken);
        let key = first.header.log_offset;
        if let Some(framed) = self.framed.get(key, good) {
            return Ok(Framed::clone(&framed));
        }
        let group = &entries[..taken];
        let batch = payload::framed(group, bytes, self.decompressed_max)
            .map_err(|reason| untranslatable(first, reason))?;
        self.metrics.framed_records.inc_by(taken as u64);
        let framed = Framed {
            bytes: batch,
            entries: taken,
            next: group.last().unwrap_or(first).header.next(),
            full,
        };
        let size = framed.bytes.len();
        self.framed.put(key, Arc::new(framed.clone()), size);
        Ok(framed)
    }
}

/// How many of these entries make one batch, their bytes, and whether something ended it.
fn extent(entries: &[Stored], limit: usize) -> (usize, usize, bool) {
    let mut bytes = 0_usize;
    let mut taken = 0;
    let reign = entries.first().map(|first| first.header.reign);
    for stored in entries {
        let other = stored.header.kind != Kind::Message || Some(stored.header.reign) != reign;
        let length = stored.payload.len();
        if taken > 0 && (other || bytes.saturating_add(length) > limit) {
            return (taken, bytes, true);
        }
        bytes += length;
        taken += 1;
    }
    (taken, bytes, false)
}
