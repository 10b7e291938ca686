//! Which entries and records a native reader gets: tags, transactions, limits. Pure.

use super::{Filter, Messages};
use bytes::Bytes;
use twinmq_records::translate::Translated;
use twinmq_store::{Aborted, Flags, Kind, Page, QueueOffset, Row, Stored};

/// Whether an entry can hold anything for the reader, judged by its row alone.
pub(super) fn passes(row: &Row, filter: &Filter) -> bool {
    if row.kind == Kind::Control || row.flags.is_marker() {
        return false;
    }
    match filter {
        Filter::All => true,
        Filter::Tags(tags) => row.flags.has(Flags::MIXED_TAGS) || tags.contains(&row.tag_hash),
    }
}

pub(super) fn is_marker(stored: &Stored) -> bool {
    stored.header.flags.is_marker()
}

pub(super) fn transactional(stored: &Stored) -> bool {
    stored.header.flags.has(Flags::TRANSACTIONAL) && !is_marker(stored)
}

/// Whether an entry belongs to an aborted transaction.
pub(super) fn is_aborted(stored: &Stored, aborted: &[Aborted]) -> bool {
    let header = &stored.header;
    let Some(producer) = header.producer.filter(|_| transactional(stored)) else {
        return false;
    };
    aborted.iter().any(|aborted| {
        aborted.producer == producer.id && (aborted.first..=aborted.last).contains(&header.base)
    })
}

/// Messages picked so far.
pub(super) struct Picked<'a> {
    from: QueueOffset,
    count_max: u32,
    bytes_max: usize,
    filter: &'a Filter,
    chunks: Vec<Bytes>,
    count: u32,
    bytes: usize,
    /// Set when a limit ended the reading inside the page.
    stopped: Option<QueueOffset>,
}

impl<'a> Picked<'a> {
    pub(super) fn new(
        from: QueueOffset,
        count_max: u32,
        bytes_max: u32,
        filter: &'a Filter,
    ) -> Self {
        Self {
            from,
            count_max: count_max.max(1),
            bytes_max: bytes_max as usize,
            filter,
            chunks: Vec::new(),
            count: 0,
            bytes: 0,
            stopped: None,
        }
    }

    /// Whether nothing has been picked.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the reading before the record at `at`.
    pub(super) fn stop(&mut self, at: QueueOffset) {
        self.stopped = Some(at.max(self.from));
    }

    /// Whether one more message of this size may come; else the reading stops at `at`.
    fn room(&mut self, bytes: usize, at: QueueOffset) -> bool {
        let room = self.count == 0
            || (self.count < self.count_max && self.bytes.saturating_add(bytes) <= self.bytes_max);
        if !room {
            self.stopped = Some(at);
        }
        room
    }

    /// Takes a message entry, which the row filter let through. False: stop.
    pub(super) fn message(&mut self, stored: &Stored) -> bool {
        if !self.room(stored.payload.len(), stored.header.base) {
            return false;
        }
        self.count += 1;
        self.bytes += stored.payload.len();
        self.chunks.push(stored.payload.clone());
        true
    }

    /// Takes an opened batch's records, neighbours in one chunk. False: stop.
    pub(super) fn batch(&mut self, stored: &Stored, opened: &Translated) -> bool {
        let look = match self.filter {
            Filter::Tags(tags) if stored.header.flags.has(Flags::MIXED_TAGS) => Some(tags),
            _ => None,
        };
        let mut run: Option<(usize, usize)> = None;
        let mut more = true;
        for record in &opened.slots {
            let offset = stored.header.base.plus(u64::from(record.offset_delta));
            if offset < self.from {
                continue;
            }
            if look.is_some_and(|tags| !tags.contains(&record.tag_hash)) {
                continue;
            }
            let length = record.end - record.start;
            if !self.room(length, offset) {
                more = false;
                break;
            }
            self.count += 1;
            self.bytes += length;
            run = match run {
                Some((start, end)) if end == record.start => Some((start, record.end)),
                Some((start, end)) => {
                    self.chunks.push(opened.bytes.slice(start..end));
                    Some((record.start, record.end))
                }
                None => Some((record.start, record.end)),
            };
        }
        if let Some((start, end)) = run {
            self.chunks.push(opened.bytes.slice(start..end));
        }
        more
    }

    pub(super) fn finish(self, page: &Page) -> Messages {
        Messages {
            chunks: self.chunks,
            count: self.count,
            next: self.stopped.unwrap_or(page.next),
            first: page.ends.first,
            end: page.ends.stable,
        }
    }
}
