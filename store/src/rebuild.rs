//! Builds what the lane and the readers know from entries: ledger, rows, transactions, reigns.
//!
//! Promises: the same functions as live; a run counts whole or not at all. Leaves out finding the entries.

use crate::chain::Known;
use crate::entry::{Header, le_u32, le_u64};
use crate::error::OpenError;
use crate::firsts;
use crate::index::rows::Pen;
use crate::index::seal::{LEDGER, Seal};
use crate::lane::{self, CONTROL_REIGN};
use crate::ledger::Ledger;
use crate::ledger_image::QueueImage;
use crate::queues::QUEUES_MAX;
use crate::recovery::Recovered;
use crate::run::Flags;
use crate::scan::Scan;
use crate::snapshot;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

/// Bounds of what is kept in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Index rows beyond which the scan seals on the way.
    pub(crate) rows: u64,
    /// Producers per queue.
    pub(crate) producers: usize,
}

/// What is built from entries.
#[derive(Debug)]
pub(crate) struct Built {
    seal: Seal,
    ledger: Ledger,
    pen: Pen,
    pub(crate) end: LogOffset,
    store_time: Timestamp,
    reigns: Vec<(Reign, LogOffset)>,
    rows: u64,
    rows_max: u64,
    /// Below this, rows are in sealed runs.
    sealed: LogOffset,
    /// What a queue's producers are known up to, from the ledger's snapshot.
    known: HashMap<QueueNumber, QueueOffset>,
}

impl Built {
    /// Begins at `from`; `store_time` is that of the entry before.
    pub(crate) fn new(
        seal: Seal,
        from: LogOffset,
        store_time: Timestamp,
        bounds: Bounds,
        known: Known,
    ) -> Self {
        let mut built = Self {
            ledger: Ledger::new(bounds.producers),
            pen: Pen::default(),
            end: from,
            store_time: store_time.max(Timestamp(0)),
            reigns: known.reigns,
            rows: 0,
            rows_max: bounds.rows,
            sealed: seal.start(),
            known: HashMap::new(),
            seal,
        };
        for (number, first) in known.firsts {
            if let Some(queue) = built.seal.queues.entry(number) {
                queue.raise_first(first);
            }
        }
        for (number, end) in known.ends {
            if let Some(queue) = built.seal.queues.entry(number) {
                queue.seal(end);
                built.ledger.get_mut(number).next = end;
            }
        }
        for image in known.images {
            image.restore(&mut built.ledger, &built.seal.queues);
            built.known.insert(image.queue, image.next);
        }
        built
    }

    /// The reign of the last entry.
    pub(crate) fn reign(&self) -> Reign {
        self.reigns.last().map_or(Reign(0), |(reign, _)| *reign)
    }

    pub(crate) fn finish(mut self) -> Recovered {
        self.go_on();
        for (_, queue) in self.seal.queues.iter() {
            queue.forget_aborted(self.sealed);
        }
        Recovered {
            seal: self.seal,
            ledger: self.ledger,
            pen: self.pen,
            end: self.end,
            store_time: self.store_time,
            reigns: self.reigns,
            rows: self.rows,
        }
    }

    /// A queue of which nothing is left but what the ledger's snapshot or a raised first offset tells
    /// goes on where it stopped: no offset is given twice.
    fn go_on(&mut self) {
        for (number, queue) in self.seal.queues.iter() {
            let image = self.known.get(&number).copied();
            let next = image.unwrap_or_default().max(queue.first());
            if next > QueueOffset(0) && !queue.dropped() {
                let state = self.ledger.get_mut(number);
                if state.next == QueueOffset(0) {
                    state.next = next;
                    queue.adopt(next);
                }
            }
        }
    }

    /// Builds from the entries up to `limit`, checking payload sums from `verify` on; stops before the
    /// first run that is not sound.
    pub(crate) fn apply(
        &mut self,
        scan: &mut Scan<'_>,
        verify: LogOffset,
        limit: LogOffset,
    ) -> Result<(), OpenError> {
        let mut run: Vec<Header> = Vec::new();
        while self.end < limit {
            let Some((header, sums)) = scan.next()? else {
                return Ok(());
            };
            if header.log_offset >= verify && !scan.sound(&header, sums)? {
                return Ok(());
            }
            let last = header.flags.has(Flags::LAST_OF_RUN);
            run.push(header);
            if !last {
                continue;
            }
            if !self.follows(&run) {
                return Ok(());
            }
            for header in run.drain(..) {
                self.one(scan, &header)?;
                // Also where the entry that began the reign is gone and no index tells of it.
                let newest = self.reigns.last();
                if newest.is_none_or(|(newest, _)| *newest < header.reign) {
                    self.reigns.push((header.reign, header.log_offset));
                }
            }
            self.end = header.end();
            self.store_time = header.store_time;
            if self.rows >= self.rows_max && self.end <= verify {
                self.seal();
            }
        }
        Ok(())
    }

    /// True if every entry has the next base of its queue.
    fn follows(&self, run: &[Header]) -> bool {
        let mut nexts = HashMap::new();
        run.iter().all(|header| {
            if header.queue == QueueNumber::CONTROL || header.log_offset < self.sealed {
                return true;
            }
            if header.queue.0 >= QUEUES_MAX {
                return false;
            }
            let state = self.ledger.get(header.queue);
            if state.is_some_and(|state| state.dropped) {
                return true; // sealed without it, so that its next offset is not known
            }
            let known = state.map_or(QueueOffset(0), |state| state.next);
            let next = nexts.entry(header.queue).or_insert(known);
            // A queue that neither snapshot nor index knows begins where it is found: it was
            // dropped after this and before the index was sealed, or the index is lost.
            let fits = *next == header.base || *next == QueueOffset(0);
            *next = header.next();
            fits
        })
    }

    fn one(&mut self, scan: &mut Scan<'_>, header: &Header) -> Result<(), OpenError> {
        let segment = scan.segment.clone();
        if header.queue == QueueNumber::CONTROL {
            if let Some(segment) = &segment {
                segment.note_start(header.log_offset);
            }
            return self.control(scan, header);
        }
        let queues = Arc::clone(&self.seal.queues);
        let Some(queue) = queues.entry(header.queue) else {
            return Ok(());
        };
        let known = self.known.get(&header.queue);
        if known.is_some_and(|known| header.base < *known) {
            let state = self.ledger.get_mut(header.queue);
            state.next = state.next.max(header.next());
        } else {
            let state = self.ledger.get(header.queue);
            if state.is_some_and(|state| state.dropped) {
                return Ok(());
            }
            let fresh = state.is_none_or(|state| state.next == QueueOffset(0));
            if fresh && header.base > QueueOffset(0) {
                queue.adopt(header.base);
            }
            if let Some(turn) = self.ledger.replay(header) {
                // Whoever reads after the opening sees all of this.
                queue.turn(turn, header.log_offset, header.base, header.log_offset);
            }
        }
        if let Some(segment) = &segment
            && header.log_offset >= self.sealed
        {
            lane::note(&queues, &mut self.pen, segment, header);
            self.rows += 1;
        }
        if header.queue == QueueNumber::FIRST_OFFSETS
            && let Some(payload) = scan.payload(header)?
        {
            match firsts::decode(payload) {
                Some(change) => firsts::apply(&change, &queues, &mut self.ledger),
                None => tracing::warn!(at = %header.log_offset, "unreadable first offsets"),
            }
        }
        Ok(())
    }

    fn control(&mut self, scan: &mut Scan<'_>, header: &Header) -> Result<(), OpenError> {
        let Some(payload) = scan.payload(header)? else {
            return Ok(());
        };
        if payload.first() == Some(&CONTROL_REIGN) {
            let listed = payload.get(8..).unwrap_or_default();
            for item in listed.chunks_exact(16) {
                let reign = (Reign(le_u32(item, 0)), LogOffset(le_u64(item, 8)));
                if self.reigns.last().is_none_or(|last| last.0 < reign.0) {
                    self.reigns.push(reign);
                }
            }
        }
        Ok(())
    }

    /// Seals what has been built so far: an index lost altogether does not fill the memory.
    fn seal(&mut self) {
        let mut bytes = Vec::new();
        for (number, queue) in self.seal.queues.iter() {
            let image = QueueImage::of(number, &self.ledger, queue, self.sealed);
            if let Some(image) = image {
                image.encode(&mut bytes);
            }
        }
        let disk = &*self.seal.disk;
        let snapshots = &self.seal.paths.snapshots;
        let sealed = snapshot::write(disk, snapshots, LEDGER, self.end, &bytes)
            .and_then(|()| self.seal.write(self.end, &self.reigns));
        match sealed {
            Ok(end) => {
                let all = 0..self.ledger.bound();
                self.rows -= self.seal.release(all, end, &mut self.pen).min(self.rows);
                self.sealed = end;
            }
            Err(error) => {
                tracing::warn!(%error, "an index run could not be written while recovering");
                self.rows_max = u64::MAX;
            }
        }
    }
}
