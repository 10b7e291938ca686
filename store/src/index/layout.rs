//! The bytes of an index run: pages, records and section tags. FORMAT.md, "Index run".
//!
//! A file is a row of pages of 4096 bytes: 4080 bytes of records of one size, then the section's tag,
//! the page's number in the section, the count of its records, and the CRC-32C of all before it.
//! Page 0 is the head with the table of sections. Everything is little-endian.

use crate::index::Row;
use crate::run::{Flags, Kind};
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a page that hold records.
pub(super) const BODY_BYTES: usize = 4080;
/// First bytes of the head.
pub(super) const MAGIC: &[u8; 8] = b"TMQINDEX";
/// The layout's version.
pub(super) const VERSION: u32 = 1;
/// Bytes of the head before the table of sections.
pub(super) const HEAD_BYTES: usize = 48;
/// Bytes of a line of the table of sections.
pub(super) const SECTION_BYTES: usize = 32;
/// Most sections.
pub(super) const SECTIONS_MAX: usize = (BODY_BYTES - HEAD_BYTES) / SECTION_BYTES;

/// A section's name.
pub(super) type Tag = [u8; 4];
/// The head page.
pub(super) const HEAD: Tag = *b"HEAD";
/// Rows, by queue number, then base.
pub(super) const ROWS: Tag = *b"ROWS";
/// The queue table, by queue number.
pub(super) const QUEUES: Tag = *b"QUEU";
/// First queue number of each page of the queue table.
pub(super) const KEYS: Tag = *b"KEYS";
/// Entry starts, rising.
pub(super) const STARTS: Tag = *b"STRT";
/// Aborted transactions, by queue number, then marker.
pub(super) const ABORTED: Tag = *b"ABRT";
/// Reigns known at the end of the stretch, rising.
pub(super) const REIGNS: Tag = *b"REGN";

/// A record of a section: fixed size, decoded from exactly that many bytes.
pub(super) trait Record: Sized {
    /// Its bytes.
    const BYTES: usize;
    /// Records on a full page.
    const PER_PAGE: usize = BODY_BYTES / Self::BYTES;
    /// Writes it. `into` has exactly `BYTES`.
    fn encode(&self, into: &mut Bytes<'_>);
    /// Reads it; `None` when a value has no meaning.
    fn decode(from: &mut Bytes<'_>) -> Option<Self>;
}

/// A cursor over a record's bytes, for both directions.
pub(super) struct Bytes<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }
    fn next<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let from = self.at;
        self.at += N;
        self.bytes.get_mut(from..from + N)?.try_into().ok()
    }
    pub(super) fn put<const N: usize>(&mut self, value: [u8; N]) {
        match self.next() {
            Some(place) => *place = value,
            None => debug_assert!(false, "a record is longer than its size"),
        }
    }
    pub(super) fn put_u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }
    pub(super) fn put_u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.next().map(|b| u32::from_le_bytes(*b))
    }
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.next().map(|b| u64::from_le_bytes(*b))
    }
    pub(super) fn i64(&mut self) -> Option<i64> {
        self.next().map(|b| i64::from_le_bytes(*b))
    }
}

/// A row as it stands on disk: 40 bytes, the queue known from the queue table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DiskRow {
    pub(super) base: QueueOffset,
    pub(super) at: LogOffset,
    pub(super) record_time: Timestamp,
    /// Milliseconds since the run's time.
    pub(super) delta: u32,
    /// Size / 8 in bits 6 to 31, kind in 4 and 5, flags in 0 to 3.
    pub(super) packed: u32,
    pub(super) span: u32,
    pub(super) tag_hash: u32,
}

/// The flags a row keeps, by bit.
const ROW_FLAGS: [Flags; 4] = [
    Flags::TRANSACTIONAL,
    Flags::COMMIT_MARKER,
    Flags::ABORT_MARKER,
    Flags::MIXED_TAGS,
];

impl DiskRow {
    /// `None` when the row does not fit: size not a multiple of 8 or 512 MiB and more, or a store
    /// time below `time` or more than 49 days above.
    pub(super) fn of(row: &Row, time: Timestamp) -> Option<Self> {
        if !row.size.is_multiple_of(8) || row.size >= 1 << 29 {
            return None;
        }
        let delta = row.store_time.0.checked_sub(time.0)?;
        let mut packed = (row.size / 8) << 6 | u32::from(row.kind as u8) << 4;
        for (bit, flag) in ROW_FLAGS.iter().enumerate() {
            packed |= u32::from(row.flags.has(*flag)) << bit;
        }
        Some(Self {
            base: row.base,
            at: row.at,
            record_time: row.record_time,
            delta: u32::try_from(delta).ok()?,
            packed,
            span: row.span,
            tag_hash: row.tag_hash.cast_unsigned(),
        })
    }

    pub(super) fn row(&self, queue: QueueNumber, time: Timestamp) -> Option<Row> {
        let kind = match self.packed >> 4 & 3 {
            0 => Kind::Control,
            1 => Kind::Message,
            2 => Kind::Batch,
            _ => return None,
        };
        let mut flags = Flags::default();
        for (bit, flag) in ROW_FLAGS.iter().enumerate() {
            if self.packed >> bit & 1 == 1 {
                flags = flags.with(*flag);
            }
        }
        self.base.0.checked_add(u64::from(self.span))?;
        Some(Row {
            queue,
            base: self.base,
            at: self.at,
            record_time: self.record_time,
            store_time: self.store_time(time),
            size: (self.packed >> 6) * 8,
            kind,
            flags,
            span: self.span,
            tag_hash: self.tag_hash.cast_signed(),
        })
    }

    pub(super) fn store_time(&self, time: Timestamp) -> Timestamp {
        Timestamp(time.0.saturating_add(i64::from(self.delta)))
    }
}

impl Record for DiskRow {
    const BYTES: usize = 40;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u64(self.base.0);
        into.put_u64(self.at.0);
        into.put(self.record_time.0.to_le_bytes());
        into.put_u32(self.delta);
        into.put_u32(self.packed);
        into.put_u32(self.span);
        into.put_u32(self.tag_hash);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            base: QueueOffset(from.u64()?),
            at: LogOffset(from.u64()?),
            record_time: Timestamp(from.i64()?),
            delta: from.u32()?,
            packed: from.u32()?,
            span: from.u32()?,
            tag_hash: from.u32()?,
        })
    }
}

/// A line of the queue table: what a run knows of one live queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueLine {
    /// The queue.
    pub(crate) queue: QueueNumber,
    /// Its first row in the run.
    pub(crate) first_row: u32,
    /// How many rows it has in the run.
    pub(crate) rows: u32,
    /// Its next offset where the stretch starts.
    pub(crate) start: QueueOffset,
    /// Its next offset where the stretch ends.
    pub(crate) end: QueueOffset,
    /// Highest record time of its rows here; [`Timestamp::UNKNOWN`] without rows.
    pub(crate) record_time: Timestamp,
    /// Bytes of its entries here.
    pub(crate) bytes: u64,
}

impl Record for QueueLine {
    const BYTES: usize = 48;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u32(self.queue.0);
        into.put_u32(self.first_row);
        into.put_u32(self.rows);
        into.put_u32(0);
        into.put_u64(self.start.0);
        into.put_u64(self.end.0);
        into.put(self.record_time.0.to_le_bytes());
        into.put_u64(self.bytes);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        let queue = QueueNumber(from.u32()?);
        let (first_row, rows, _) = (from.u32()?, from.u32()?, from.u32()?);
        first_row.checked_add(rows)?;
        Some(Self {
            queue,
            first_row,
            rows,
            start: QueueOffset(from.u64()?),
            end: QueueOffset(from.u64()?),
            record_time: Timestamp(from.i64()?),
            bytes: from.u64()?,
        })
    }
}

/// An aborted transaction and its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AbortedLine(pub(super) QueueNumber, pub(super) Aborted);

impl Record for AbortedLine {
    const BYTES: usize = 32;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u32(self.0.0);
        into.put_u32(0);
        into.put_u64(self.1.producer);
        into.put_u64(self.1.first.0);
        into.put_u64(self.1.last.0);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        let (queue, _) = (QueueNumber(from.u32()?), from.u32()?);
        let aborted = Aborted {
            producer: from.u64()?,
            first: QueueOffset(from.u64()?),
            last: QueueOffset(from.u64()?),
        };
        Some(Self(queue, aborted))
    }
}

impl Record for LogOffset {
    const BYTES: usize = 8;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u64(self.0);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        from.u64().map(Self)
    }
}

impl Record for QueueNumber {
    const BYTES: usize = 4;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u32(self.0);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        from.u32().map(Self)
    }
}

impl Record for (Reign, LogOffset) {
    const BYTES: usize = 16;
    fn encode(&self, into: &mut Bytes<'_>) {
        into.put_u32(self.0.0);
        into.put_u32(0);
        into.put_u64(self.1.0);
    }
    fn decode(from: &mut Bytes<'_>) -> Option<Self> {
        let (reign, _) = (Reign(from.u32()?), from.u32()?);
        Some((reign, LogOffset(from.u64()?)))
    }
}

/// Writes the trailer of a page whose body is complete.
pub(super) fn seal_page(page: &mut [u8], tag: Tag, number: u32, records: u32) {
    page[BODY_BYTES..BODY_BYTES + 4].copy_from_slice(&tag);
    page[BODY_BYTES + 4..BODY_BYTES + 8].copy_from_slice(&number.to_le_bytes());
    page[BODY_BYTES + 8..BODY_BYTES + 12].copy_from_slice(&records.to_le_bytes());
    let sum = crc32c::crc32c(&page[..BODY_BYTES + 12]);
    page[BODY_BYTES + 12..PAGE_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// True if the page is the one that the trailer should say, and whole.
pub(super) fn page_is_sound(page: &[u8; PAGE_BYTES], tag: Tag, number: u32, records: u32) -> bool {
    let mut trailer = [0; 16];
    trailer[..4].copy_from_slice(&tag);
    trailer[4..8].copy_from_slice(&number.to_le_bytes());
    trailer[8..12].copy_from_slice(&records.to_le_bytes());
    trailer[12..].copy_from_slice(&crc32c::crc32c(&page[..BODY_BYTES + 12]).to_le_bytes());
    page[BODY_BYTES..] == trailer
}
