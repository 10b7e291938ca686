//! The way out: which window, who may read what, in whose layout.

mod crossing;
mod native;
mod room;
mod search;
mod watch;

use crate::cache::Cache;
use crate::catalog::{Catalog, Topic};
use crate::config::CoreConfig;
use crate::lag::at_once;
use crate::metrics::CoreMetrics;
use crate::produce::Producing;
use bytes::Bytes;
use crossing::Crossing;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;
use twinmq_store::{
    Aborted, Address, Ends, Kind, Page, QueueNumber, QueueOffset, ReadError, Reign, Store, Stored,
    Timestamp, Window,
};
pub use watch::Watch;

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum ConsumeError {
    /// No such queue in the topic.
    #[error("topic has no queue {0}")]
    NoSuchQueue(u32),
    /// The log's answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Too many translated records wait for slow readers (`translated_bytes_max`); try again.
    #[error("too many translated records wait for their readers (broker.translated_bytes_max)")]
    Busy,
    /// A stored record cannot be shown in the other layout.
    #[error("offset {at}: {reason}")]
    Untranslatable {
        /// Which.
        at: QueueOffset,
        /// Why.
        reason: String,
    },
}

/// Record batches of one queue.
#[derive(Clone, Debug)]
pub struct Batches {
    /// Whole batches, in order; send them one after the other.
    pub chunks: Vec<Bytes>,
    /// Sum of their lengths.
    pub bytes: usize,
    /// Where to go on.
    pub next: QueueOffset,
    /// Ends of the queue.
    pub ends: Ends,
    /// Aborted transactions overlapping what is returned; filled for read_committed only.
    pub aborted: Vec<Aborted>,
}

/// Which messages a native reader wants.
#[derive(Clone, Debug)]
pub enum Filter {
    /// All.
    All,
    /// Those whose tag hash is among these (Java hash). Mixed batches are looked into.
    Tags(Vec<i32>),
}

/// How much a native reader takes at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    /// Messages.
    pub messages: u32,
    /// Bytes of all messages; the first may be longer.
    pub bytes: u32,
    /// Bytes of one message. A longer one, which no frame of the reader's would hold, is passed over.
    pub message_bytes: u32,
}

/// Messages of one queue in RocketMQ's stored layout.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Whole messages, in order; a chunk may hold several.
    pub chunks: Vec<Bytes>,
    /// How many messages.
    pub count: u32,
    /// Where to go on: after the last record examined, matching or not.
    pub next: QueueOffset,
    /// First and end as this reader sees them (`end` = last stable offset).
    pub first: QueueOffset,
    /// See `first`.
    pub end: QueueOffset,
}

/// The way out.
#[derive(Debug)]
pub struct Consuming {
    store: Store,
    catalog: Arc<Catalog>,
    crossing: Crossing,
    decompressed_max: u64,
}

/// Most entries of one read; a batch counts as one.
const ENTRIES_MAX: u32 = 16_384;
/// Most index rows examined in one native read when the filter lets few through.
const SCAN_MAX: u32 = 16_000;

impl Consuming {
    pub(crate) fn new(
        store: Store,
        config: &CoreConfig,
        catalog: Arc<Catalog>,
        producing: Arc<Producing>,
        metrics: CoreMetrics,
    ) -> Self {
        let bytes = config.translation_cache_bytes;
        let crossing = Crossing {
            opened: Cache::new(bytes / 2, metrics.clone()),
            framed: Cache::new(bytes / 2, metrics.clone()),
            producing,
            decompressed_max: config.decompressed_bytes_max,
            room: room::Room::new(config.translated_bytes_max),
            metrics,
        };
        Self {
            store,
            catalog,
            crossing,
            decompressed_max: config.decompressed_bytes_max,
        }
    }

    /// Reads as Kafka does: whole batches from the one that holds `from`; the first always comes when
    /// `first_regardless`. Messages are framed into batches.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn batches(
        &self,
        topic: &Topic,
        queue: u32,
        from: QueueOffset,
        bytes_max: u32,
        first_regardless: bool,
        committed: bool,
    ) -> Result<Batches, ConsumeError> {
        let number = queue_of(topic, queue)?;
        let window = Window {
            queue: number,
            from,
            bytes_max,
            entries_max: ENTRIES_MAX,
            scan_max: ENTRIES_MAX,
            upto: topic.upto(committed),
            pass: None,
        };
        let page = if first_regardless {
            self.store.read(window).await?
        } else {
            match self.store.try_read(window).await {
                // Whoever has something from other queues comes again.
                Err(ReadError::Busy) => Page {
                    entries: Vec::new(),
                    next: from,
                    ends: self.store.ends(number, topic.upto(committed)),
                },
                page => page?,
            }
        };
        let mut out = Batches {
            chunks: Vec::with_capacity(page.entries.len().min(64)),
            bytes: 0,
            next: from,
            ends: page.ends,
            aborted: Vec::new(),
        };
        let room = |out: &Batches, bytes: usize| {
            (out.chunks.is_empty() && first_regardless) || out.bytes + bytes <= bytes_max as usize
        };
        let mut rest = &page.entries[..];
        while let Some((first, others)) = rest.split_first() {
            let (bytes, next) = if first.header.kind == Kind::Message {
                let must = out.chunks.is_empty() && first_regardless;
                let framed = match self.crossing.framed(rest, bytes_max, must).await {
                    Err(ConsumeError::Busy) if !must => break,
                    framed => framed?,
                };
                rest = &rest[framed.entries.min(rest.len())..];
                (framed.bytes.clone(), framed.next)
            } else {
                rest = others;
                (first.payload.clone(), first.header.next())
            };
            if !room(&out, bytes.len()) {
                break;
            }
            out.bytes += bytes.len();
            out.chunks.push(bytes);
            out.next = next;
        }
        if committed && !out.chunks.is_empty() {
            out.aborted = self.store.aborted(number, from, out.next).await?;
        }
        Ok(out)
    }

    /// Reads as RocketMQ does: messages from `from` on, a portion at a time; batches are opened.
    /// Never sees aborted or pending records. Messages too long for the reader are passed over, with a
    /// line in the log: what follows them would never be reached otherwise.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn messages(
        &self,
        topic: &Topic,
        queue: u32,
        from: QueueOffset,
        portion: Portion,
        filter: &Filter,
    ) -> Result<Messages, ConsumeError> {
        let number = queue_of(topic, queue)?;
        let pass = |row: &twinmq_store::Row| native::passes(row, filter);
        let page = self
            .store
            .read(Window {
                queue: number,
                from,
                bytes_max: portion.bytes,
                entries_max: portion.messages.clamp(1, ENTRIES_MAX),
                scan_max: SCAN_MAX,
                upto: topic.upto(true),
                pass: Some(&pass),
            })
            .await?;
        let aborted = self.aborted_in(number, &page.entries).await?;
        let mut picked = native::Picked::new(from, portion, filter);
        for stored in &page.entries {
            if native::is_aborted(stored, &aborted) {
                continue;
            }
            let go_on = match stored.header.kind {
                Kind::Message => picked.message(stored),
                Kind::Batch => self.pick(&mut picked, topic, queue, stored).await?,
                Kind::Control => true,
            };
            if !go_on {
                break;
            }
        }
        if let Some((count, (first, bytes))) = picked.passed_over() {
            self.crossing.metrics.passed_over.inc_by(count);
            tracing::warn!(
                topic = %topic.key(), queue, count, offset = first.0, bytes,
                frame_holds = portion.message_bytes,
                "records too large for any frame of a RocketMQ client are passed over"
            );
        }
        Ok(picked.finish(&page))
    }

    /// Picks from a batch, piece by piece. False: stop.
    async fn pick(
        &self,
        picked: &mut native::Picked<'_>,
        topic: &Topic,
        queue: u32,
        stored: &Stored,
    ) -> Result<bool, ConsumeError> {
        let mut from = 0;
        loop {
            let must = picked.is_empty();
            let opened = self.crossing.opened(topic, queue, stored, from, must);
            let opened = match opened.await {
                Err(ConsumeError::Busy) if !must => {
                    picked.stop(stored.header.base.plus(u64::from(from)));
                    return Ok(false);
                }
                opened => opened?,
            };
            let more = picked.batch(stored, &opened);
            match opened.next {
                Some(next) if more => from = next,
                _ => return Ok(more),
            }
        }
    }

    /// Aborted transactions that touch these entries; asked for only where there are transactions.
    async fn aborted_in(
        &self,
        queue: QueueNumber,
        entries: &[Stored],
    ) -> Result<Vec<Aborted>, ConsumeError> {
        let mut transactional = entries
            .iter()
            .filter(|stored| native::transactional(stored));
        let Some(first) = transactional.next() else {
            return Ok(Vec::new());
        };
        let last = transactional.next_back().unwrap_or(first);
        let (from, to) = (first.header.base, last.header.next());
        Ok(self.store.aborted(queue, from, to).await?)
    }

    /// One message by address, in RocketMQ's layout.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn message_at(&self, address: Address) -> Result<Bytes, ConsumeError> {
        let (stored, place) = self.store.at(address).await?;
        let nothing = || ConsumeError::Read(ReadError::NoSuchAddress { at: address.0 });
        match stored.header.kind {
            Kind::Message if place == 0 => Ok(stored.payload),
            Kind::Batch => {
                let queue = stored.header.queue;
                let (topic, ordinal) = self.catalog.by_queue(queue).ok_or_else(nothing)?;
                let visible = self.store.ends(queue, topic.upto(true)).stable;
                let aborted = self
                    .aborted_in(queue, std::slice::from_ref(&stored))
                    .await?;
                let hidden = native::is_marker(&stored)
                    || stored.header.base >= visible
                    || native::is_aborted(&stored, &aborted);
                if hidden {
                    return Err(nothing());
                }
                let record = self
                    .crossing
                    .record(&topic, ordinal, &stored, place)
                    .await?;
                record.ok_or_else(nothing)
            }
            _ => Err(nothing()),
        }
    }

    /// The ends of a queue. `committed`: `end` is the last stable offset.
    #[must_use]
    pub fn ends(&self, topic: &Topic, queue: u32, committed: bool) -> Ends {
        let Some(number) = topic.queue(queue) else {
            return Ends::default();
        };
        let mut ends = self.store.ends(number, topic.upto(committed));
        if committed {
            ends.end = ends.stable;
        }
        ends
    }

    /// Register, then look, then await [`Watch::changed`]. Each queue tells as soon as its readers may
    /// see the record: with `flush.messages=1` when it is on disk.
    #[must_use]
    pub fn watch(&self, queues: &[(&Topic, u32)], committed: bool) -> Watch {
        Watch::new(&self.store, queues, committed)
    }

    /// Store time of the record at `offset`; `None` when there is none.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn store_time(
        &self,
        topic: &Topic,
        queue: u32,
        offset: QueueOffset,
    ) -> Result<Option<Timestamp>, ConsumeError> {
        let number = queue_of(topic, queue)?;
        Ok(self.store.store_time(number, offset).await?)
    }

    /// Whether the record at `offset` is near enough to the tail to be in memory: whether reading it
    /// would not wait for the disk. The end of a queue counts as hot.
    #[must_use]
    pub fn is_hot(&self, topic: &Topic, queue: u32, offset: QueueOffset) -> bool {
        let Some(number) = topic.queue(queue) else {
            return true;
        };
        let read = self.store.try_read(Window {
            queue: number,
            from: offset,
            bytes_max: 1,
            entries_max: 1,
            scan_max: 1,
            upto: topic.upto(true),
            pass: None,
        });
        at_once(read).is_some()
    }

    /// Bytes that a queue takes in the log. See `Store::queue_bytes`.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn bytes_of(&self, topic: &Topic, queue: u32) -> Result<u64, ConsumeError> {
        Ok(self.store.queue_bytes(queue_of(topic, queue)?).await?)
    }

    /// Where the log is, and total and free bytes of its disk where the system tells.
    #[must_use]
    pub fn log_dir(&self) -> (&Path, Option<(u64, u64)>) {
        (self.store.dir(), self.store.disk_room())
    }

    /// Kafka's OffsetForLeaderEpoch. See `Store::end_of_reign`.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn end_of_reign(
        &self,
        topic: &Topic,
        queue: u32,
        reign: Reign,
    ) -> Result<Option<(Reign, QueueOffset)>, ConsumeError> {
        let number = queue_of(topic, queue)?;
        Ok(self.store.end_of_reign(number, reign).await?)
    }

    /// The current reign: Kafka's leader epoch.
    #[must_use]
    pub fn reign(&self) -> Reign {
        self.store.reign()
    }
}

fn queue_of(topic: &Topic, queue: u32) -> Result<QueueNumber, ConsumeError> {
    topic.queue(queue).ok_or(ConsumeError::NoSuchQueue(queue))
}

fn untranslatable(stored: &Stored, reason: String) -> ConsumeError {
    ConsumeError::Untranslatable {
        at: stored.header.base,
        reason,
    }
}
