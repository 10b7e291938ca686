//! Which entries and records a native reader gets: tags, transactions, limits. Pure.

use super::{Filter, Messages, Portion};
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
    portion: Portion,
    filter: &'a Filter,
    chunks: Vec<Bytes>,
    count: u32,
    bytes: usize,
    /// Set when a limit ended the reading inside the page.
    stopped: Option<QueueOffset>,
    /// Messages longer than any that the reader takes: how many, the first and its length.
    too_long: u64,
    first_too_long: Option<(QueueOffset, usize)>,
}

impl<'a> Picked<'a> {
    pub(super) fn new(from: QueueOffset, portion: Portion, filter: &'a Filter) -> Self {
        Self {
            from,
            portion,
            filter,
            chunks: Vec::new(),
            count: 0,
            bytes: 0,
            stopped: None,
            too_long: 0,
            first_too_long: None,
        }
    }

    /// How many messages were too long for the reader, the first of them and its bytes.
    pub(super) fn passed_over(&self) -> Option<(u64, (QueueOffset, usize))> {
        Some((self.too_long, self.first_too_long?))
    }

    /// Whether a message is longer than any that the reader takes.
    fn too_long(&mut self, bytes: usize, at: QueueOffset) -> bool {
        let too_long = bytes > self.portion.message_bytes as usize;
        if too_long {
            self.too_long += 1;
            self.first_too_long.get_or_insert((at, bytes));
        }
        too_long
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
            || (self.count < self.portion.messages
                && self.bytes.saturating_add(bytes) <= self.portion.bytes as usize);
        if !room {
            self.stopped = Some(at);
        }
        room
    }

    /// Takes a message entry, which the row filter let through. False: stop.
    pub(super) fn message(&mut self, stored: &Stored) -> bool {
        if self.too_long(stored.payload.len(), stored.header.base) {
            return true;
        }
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
            if self.too_long(length, offset) {
                continue;
            }
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
