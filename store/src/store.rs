//! The store: open, append, read, wait, close. Joins the rooms, holds no logic.

pub use crate::arrivals::Watch;
use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::disk::{Disk, RealDisk};
use crate::entry::Stored;
use crate::error::{AppendError, OpenError, ReadError, WaitError};
use crate::firsts::{self, Change};
use crate::index::Row;
use crate::metrics::StoreMetrics;
use crate::rooms::{self, Rooms};
use crate::run::{Ack, Draft, Receipt};
use crate::types::{Address, LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use crate::{housekeeping, recovery, snapshot};
use smallvec::SmallVec;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receipts of one run, in the order of its drafts.
pub type Receipts = SmallVec<[Receipt; 1]>;

/// How far a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Upto {
    /// Only what is on disk (readers of topics with `flush = "sync"`).
    pub synced: bool,
    /// Only below the queue's lowest open transaction (LSO).
    pub committed: bool,
}

/// A row filter: true lets the entry through. Runs before any payload is touched.
pub type Pass<'a> = &'a (dyn Fn(&Row) -> bool + Send + Sync);

/// What to read of one queue.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The queue.
    pub queue: QueueNumber,
    /// First wanted offset; the entry that holds it comes whole.
    pub from: QueueOffset,
    /// Payload bytes after which no further entry is taken. The first entry always comes.
    pub bytes_max: u32,
    /// Most entries returned.
    pub entries_max: u32,
    /// Most rows examined when `pass` lets few through.
    pub scan_max: u32,
    /// How far this reader sees.
    pub upto: Upto,
    /// Which entries to skip unread.
    pub pass: Option<Pass<'a>>,
}

impl std::fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("queue", &self.queue)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries, in queue order.
    pub entries: Vec<Stored>,
    /// Where to go on: after the last entry examined, passed or not.
    pub next: QueueOffset,
    /// The queue's ends at the time of the read.
    pub ends: Ends,
}

/// The ends of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    /// First offset that may be read.
    pub first: QueueOffset,
    /// End of what is readable (written, or synced where asked): Kafka's high watermark.
    pub end: QueueOffset,
    /// Last stable offset: the lowest open transaction's first offset, else `end`.
    pub stable: QueueOffset,
}

/// An aborted transaction of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aborted {
    /// Its producer.
    pub producer: u64,
    /// Its first offset in this queue.
    pub first: QueueOffset,
    /// The offset of its abort marker.
    pub last: QueueOffset,
}

/// Which side of a time is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// First offset whose store time is at or after it; the end if none.
    Lower,
    /// Last offset whose store time is at or before it; the first if none.
    Upper,
}

/// How long a queue's records are kept. `None` = without limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// Milliseconds of store time.
    pub ms: Option<u64>,
    /// Bytes of the queue's entries.
    pub bytes: Option<u64>,
}

/// A snapshot of a state machine.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Everything below is in it.
    pub at: LogOffset,
    /// The machine's own bytes.
    pub bytes: Vec<u8>,
}

/// How far the log has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// First byte still kept.
    pub head: LogOffset,
    /// End of what is written.
    pub written: LogOffset,
    /// End of what is on disk.
    pub synced: LogOffset,
    /// End of what readers see.
    pub readable: LogOffset,
}

/// One commitlog and its index. A cheap handle; opened once, closed once.
#[derive(Clone, Debug)]
pub struct Store {
    rooms: Arc<Rooms>,
}

impl Store {
    /// Opens or creates the store in `dir`, recovers it and starts its threads.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        dir: &Path,
        config: StoreConfig,
        clock: Arc<dyn Clock>,
        metrics: StoreMetrics,
    ) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), dir, config, clock, metrics)
    }

    /// Like [`Store::open`], on any disk: for tests on the simulated one.
    ///
    /// # Errors
    /// See [`OpenError`].
    #[doc(hidden)]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: StoreConfig,
        clock: Arc<dyn Clock>,
        metrics: StoreMetrics,
    ) -> Result<Self, OpenError> {
        config.validate()?;
        let rooms = rooms::open(disk, dir, config, clock, metrics)?;
        Ok(Self {
            rooms: Arc::new(rooms),
        })
    }

    /// Appends a run, all or nothing, without waiting: `Ok(None)` means that there is no room at
    /// this moment and [`Store::room`] tells when to try again. May be called under a caller's lock.
    ///
    /// # Errors
    /// See [`AppendError`]; never `Busy`.
    pub fn try_append(&self, run: &[Draft]) -> Result<Option<Receipts>, AppendError> {
        self.rooms.lane.try_append(run)
    }

    /// Resolves when an append may find room again.
    ///
    /// # Errors
    /// `Busy` after `append_wait_max_ms`; `Full`, `Closed`.
    pub async fn room(&self) -> Result<(), AppendError> {
        self.room_until(self.deadline(), false).await
    }

    async fn room_until(&self, deadline: Instant, privileged: bool) -> Result<(), AppendError> {
        let rooms = &*self.rooms;
        let began = Instant::now();
        loop {
            let mut told = pin!(rooms.room.made.notified());
            told.as_mut().enable();
            let reason = match rooms.lane.has_room(privileged)? {
                Ok(()) => break,
                Err(reason) => reason,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            rooms.threads.make_room();
            if tokio::time::timeout(left, told).await.is_err() {
                rooms.metrics.busy.inc();
                return Err(AppendError::Busy { reason });
            }
        }
        let waited = began.elapsed().as_secs_f64();
        rooms.metrics.append_wait_seconds.observe(waited);
        Ok(())
    }

    /// Appends a run, all or nothing, waiting for room up to `append_wait_max_ms`.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn append(&self, run: &[Draft]) -> Result<Receipts, AppendError> {
        let mut deadline = None;
        loop {
            if let Some(receipts) = self.rooms.lane.try_append(run)? {
                return Ok(receipts);
            }
            let deadline = *deadline.get_or_insert_with(|| self.deadline());
            self.room_until(deadline, false).await?;
        }
    }

    /// When an append that finds no room is answered busy.
    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.rooms.config.append_wait_max_ms)
    }

    /// Appends each draft as a run of its own; the lock is taken once per few drafts.
    pub async fn append_each(&self, drafts: &[Draft]) -> Vec<Result<Receipt, AppendError>> {
        let mut out = Vec::with_capacity(drafts.len());
        let deadline = self.deadline();
        loop {
            self.rooms
                .lane
                .try_append_each(&drafts[out.len()..], &mut out);
            if out.len() == drafts.len() {
                return out;
            }
            if let Err(error) = self.room_until(deadline, false).await {
                out.resize(drafts.len(), Err(error));
                return out;
            }
        }
    }

    /// Waits until the log up to `end` is as durable as asked, and readable.
    ///
    /// # Errors
    /// The lane closed before.
    pub async fn wait(&self, end: LogOffset, ack: Ack) -> Result<(), WaitError> {
        match ack {
            Ack::Written => Ok(()), // a receipt's end is written by the time it is given
            Ack::Synced => {
                let ring = || self.rooms.threads.flush();
                self.rooms.marks.wait_synced(end, ring).await
            }
        }
    }

    /// Reads a window of a queue. An empty page at the end is no error.
    ///
    /// # Errors
    /// See [`ReadError`]; `OutOfRange` when `from` is below the first or above the end.
    pub async fn read(&self, window: Window<'_>) -> Result<Page, ReadError> {
        self.rooms.reader.read(&window, true).await
    }

    /// The same for readers who have something already: where bytes from disk have no room, it does not
    /// wait for others to give up theirs.
    ///
    /// # Errors
    /// See [`Store::read`]; [`ReadError::Busy`].
    pub async fn try_read(&self, window: Window<'_>) -> Result<Page, ReadError> {
        self.rooms.reader.read(&window, false).await
    }

    /// The ends of a queue; all zero for one never written.
    #[must_use]
    pub fn ends(&self, queue: QueueNumber, upto: Upto) -> Ends {
        self.rooms.reader.sight(queue, upto).ends
    }

    /// Registers interest in `queues` before the caller looks; [`Watch::changed`] then resolves once
    /// anything a reader with `upto` may see has been added to one of them since.
    #[must_use]
    pub fn watch(&self, queues: &[QueueNumber], upto: Upto) -> Watch {
        let rooms = &*self.rooms;
        let watch = rooms.arrivals.watch(queues, upto);
        if upto.synced {
            rooms.arrivals.note_unsynced(queues, &rooms.marks);
        }
        watch
    }

    /// The record at an address: its entry and its place in it.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn at(&self, address: Address) -> Result<(Stored, u32), ReadError> {
        self.rooms.reader.at(address).await
    }

    /// Search by store time.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn offset_at(
        &self,
        queue: QueueNumber,
        time: Timestamp,
        boundary: Boundary,
        upto: Upto,
    ) -> Result<QueueOffset, ReadError> {
        self.rooms
            .reader
            .offset_at(queue, time, boundary, upto)
            .await
    }

    /// The first entry in queue order whose record time reaches `time`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn first_reaching(
        &self,
        queue: QueueNumber,
        time: Timestamp,
        upto: Upto,
    ) -> Result<Option<Stored>, ReadError> {
        self.rooms.reader.first_reaching(queue, time, upto).await
    }

    /// The first entry with the queue's highest record time.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn latest_record(
        &self,
        queue: QueueNumber,
        upto: Upto,
    ) -> Result<Option<Stored>, ReadError> {
        self.rooms.reader.latest_record(queue, upto).await
    }

    /// Store time of the entry that holds `offset`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn store_time(
        &self,
        queue: QueueNumber,
        offset: QueueOffset,
    ) -> Result<Option<Timestamp>, ReadError> {
        self.rooms.reader.store_time(queue, offset).await
    }

    /// Aborted transactions of a queue that overlap `from..to`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn aborted(
        &self,
        queue: QueueNumber,
        from: QueueOffset,
        to: QueueOffset,
    ) -> Result<Vec<Aborted>, ReadError> {
        self.rooms.reader.aborted(queue, from, to).await
    }

    /// The reign of this opening.
    #[must_use]
    pub fn reign(&self) -> Reign {
        self.rooms.lane.reign()
    }

    /// Kafka's end offset for a leader epoch: the largest known reign at or below `reign` that the
    /// queue has seen, and where the next one starts (the queue's end for the newest). `None` when
    /// `reign` is higher than the current one or the queue is unknown.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn end_of_reign(
        &self,
        queue: QueueNumber,
        reign: Reign,
    ) -> Result<Option<(Reign, QueueOffset)>, ReadError> {
        let rooms = &*self.rooms;
        let ended = rooms.reader.end_of_reign(&rooms.reigns, queue, reign);
        ended.await
    }

    /// Raises a queue's first offset, durably; lower values change nothing.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn raise_first(
        &self,
        queue: QueueNumber,
        first: QueueOffset,
    ) -> Result<(), AppendError> {
        let end = self.ends(queue, Upto::default()).end;
        let raise = Change::Raise(vec![(queue, first.min(end))]);
        self.change(&raise).await
    }

    /// Drops queues for ever; their numbers are never used again.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn drop_queues(&self, queues: &[QueueNumber]) -> Result<(), AppendError> {
        for some in queues.chunks(firsts::ITEMS_MAX) {
            self.change(&Change::Drop(some.to_vec())).await?;
        }
        Ok(())
    }

    /// One round of retention: moves first offsets by `keep`, drops files that nothing needs.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn retain(
        &self,
        keep: &(dyn Fn(QueueNumber) -> Keep + Send + Sync),
    ) -> Result<(), AppendError> {
        let now = self.rooms.clock.now();
        self.retain_round(keep, now).await
    }

    /// Writes a snapshot of the state machine `name`; the two newest are kept. `at` must be at or
    /// below both `synced` and `readable`. Blocking file I/O.
    ///
    /// # Errors
    /// The system's.
    pub fn write_snapshot(&self, name: &str, at: LogOffset, bytes: &[u8]) -> std::io::Result<()> {
        let rooms = &*self.rooms;
        let marks = &rooms.marks;
        if at > marks.synced() || at > marks.readable() {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        snapshot::write(&*rooms.disk, &rooms.paths.snapshots, name, at, bytes)
    }

    /// The newest sound snapshot of `name`.
    #[must_use]
    pub fn snapshot(&self, name: &str) -> Option<Snapshot> {
        let rooms = &*self.rooms;
        match snapshot::newest(&*rooms.disk, &rooms.paths.snapshots, name) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, name, "the snapshots cannot be read");
                None
            }
        }
    }

    /// How far the log has got.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let marks = &self.rooms.marks;
        Progress {
            head: marks.head(),
            written: marks.written(),
            synced: marks.synced(),
            readable: marks.readable(),
        }
    }

    /// Bytes that a queue's entries take in the log, as retention by size counts them: stretches of the
    /// log that hold a record at or above the queue's first offset count whole. 0 for an unknown queue.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn queue_bytes(&self, queue: QueueNumber) -> Result<u64, ReadError> {
        self.bytes_of(queue).await
    }

    /// Size of the store's disk and what is free on it for this process, in bytes. `None` where the system does not tell.
    #[must_use]
    pub fn disk_room(&self) -> Option<(u64, u64)> {
        let rooms = &*self.rooms;
        let usage = rooms.disk.usage(&rooms.paths.dir).ok()?;
        Some((usage.total, usage.available))
    }

    /// Where the store keeps its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.rooms.paths.dir
    }

    /// Used share of the store's disk in 0..=1, not counting space preallocated but unused.
    #[must_use]
    pub fn disk_used(&self) -> f64 {
        let rooms = &*self.rooms;
        housekeeping::used(
            &*rooms.disk,
            &rooms.paths.dir,
            &rooms.segments,
            &rooms.marks,
        )
        .unwrap_or(0.0)
    }

    /// Bytes of the store's disk that this process could use at most, and those still available.
    ///
    /// # Errors
    /// What the file system says.
    pub fn disk_bytes(&self) -> std::io::Result<(u64, u64)> {
        let usage = self.rooms.disk.usage(&self.rooms.paths.dir)?;
        Ok((usage.total, usage.available))
    }

    /// Store time of the oldest entry still in the log, `None` in an empty one.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn earliest(&self) -> Result<Option<Timestamp>, ReadError> {
        let entry = self.rooms.reader.entry_at(self.rooms.marks.head()).await?;
        Ok(entry.map(|entry| entry.header.store_time))
    }

    pub(crate) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Appends a change to first offsets and waits until it is on disk.
    pub(crate) async fn change(&self, change: &Change) -> Result<(), AppendError> {
        let deadline = self.deadline();
        let receipts = loop {
            match self.rooms.lane.try_change(change)? {
                Some(receipts) => break receipts,
                None => self.room_until(deadline, true).await?,
            }
        };
        let end = receipts.first().map_or(LogOffset(0), |receipt| receipt.end);
        let wait = self.wait(end, Ack::Synced).await;
        wait.map_err(|WaitError { reason }| AppendError::Closed { reason })
    }

    /// Takes no more appends, syncs everything, stops the threads. Reads still work until drop.
    /// Blocking.
    pub fn close(&self) {
        let rooms = &*self.rooms;
        if !rooms.threads.finish() {
            return; // closed before
        }
        rooms.marks.close("the store is stopping", false);
        rooms.room.tell();
        let end = rooms.lane.settle();
        if !rooms.threads.flusher.round() || rooms.marks.synced() < end {
            return; // told where it happened; the next opening recovers
        }
        if let Err(error) = recovery::write_clean(&*rooms.disk, &rooms.paths, end) {
            tracing::warn!(%error, "the clean stop could not be noted");
        }
    }
}
