//! What happens under the lane's lock: place, admit, write, roll.
//!
//! Promises: nothing changes before the whole run is admitted and has its place. Leaves out everything that
//! is done once the lock is free.

use super::{CONTROL_MARK, Lack, Lane, State, note};
use crate::entry::{Body, HEADER_BYTES, Header, SUMMED_BYTES_MAX, entry_bytes};
use crate::error::AppendError;
use crate::ledger::{Fact, Verdict};
use crate::run::{Draft, Flags, Kind, Receipt};
use crate::store::Receipts;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp, size};
use smallvec::SmallVec;

/// A synced mark goes into the log at most this often.
const MARK_MS: i64 = 100;
/// Bytes of a synced mark's entry.
const MARK_BYTES: u64 = 88;

impl State {
    /// Whether `bytes` (and a synced mark) have a place now: `Ok(true)` = after a roll.
    pub(super) fn place(
        &self,
        lane: &Lane,
        bytes: u64,
        privileged: bool,
    ) -> Result<Result<bool, Lack>, AppendError> {
        let around = &lane.around;
        if let Some(reason) = around.marks.closed() {
            return Err(AppendError::Closed {
                reason: reason.to_owned(),
            });
        }
        if around.room.refusing() && !privileged {
            return Err(AppendError::Full {
                reason: around.room.reason(),
            });
        }
        let tail = self.tail.0;
        if tail.saturating_sub(around.marks.synced().0) > lane.limits.dirty_bytes_max {
            return Ok(Err("more than store.dirty_bytes_max is not yet on disk"));
        }
        if around.room.rows() >= lane.limits.index_rows_max && !privileged {
            return Ok(Err("store.index_rows_max rows are not yet sealed"));
        }
        let bytes = bytes + MARK_BYTES;
        let header = HEADER_BYTES as u64;
        let rest = self.segment.end().0 - tail;
        if !privileged && self.next.is_none() && rest < bytes + lane.limits.reserve_bytes {
            return no_next(lane);
        }
        let populated = self.segment.populated().0;
        if rest == bytes || rest >= bytes + header {
            let ready = populated >= tail + bytes;
            return Ok(if ready {
                Ok(false)
            } else {
                Err("pages ahead are not yet prepared")
            });
        }
        if rest > 0 && populated < tail + header {
            return Ok(Err("pages ahead are not yet prepared"));
        }
        match &self.next {
            Some((next, _)) if next.populated().0 >= next.start().0 + bytes => Ok(Ok(true)),
            Some(_) => Ok(Err("the next file is not yet prepared")),
            None => no_next(lane),
        }
    }

    pub(super) fn append(
        &mut self,
        lane: &Lane,
        run: &[Draft],
        bytes: u64,
        now: Timestamp,
        privileged: bool,
    ) -> Result<Option<Receipts>, AppendError> {
        let Ok(roll) = self.place(lane, bytes, privileged)? else {
            lane.around.room.want(bytes);
            return Ok(None);
        };
        let now = self.store_time.max(now);
        let verdicts = self.admit(run, now)?;
        let last = verdicts
            .iter()
            .rposition(|v| matches!(v, Verdict::New { .. }));
        self.counted.duplicates += verdicts
            .iter()
            .filter(|v| matches!(v, Verdict::Duplicate { .. }))
            .count() as u64;
        let Some(last) = last else {
            return Ok(Some(self.receipts(lane.reign, &verdicts, &[])));
        };
        self.store_time = now;
        if roll {
            self.roll(lane.reign);
        }
        self.mark(lane);
        let mut places = SmallVec::<[LogOffset; 4]>::new();
        for (n, (draft, verdict)) in run.iter().zip(&verdicts).enumerate() {
            places.push(self.tail);
            if let Verdict::New { base, turn } = *verdict {
                let header = self.write(lane, draft, base, n == last);
                if let Some(turn) = turn
                    && let Some(queue) = lane.around.queues.entry(draft.queue)
                {
                    let synced = lane.around.marks.synced();
                    queue.turn(turn, header.log_offset, base, synced);
                }
            }
        }
        lane.around.marks.write(self.tail);
        Ok(Some(self.receipts(lane.reign, &verdicts, &places)))
    }

    /// Asks the ledger for the whole run, all or nothing.
    fn admit(
        &mut self,
        run: &[Draft],
        now: Timestamp,
    ) -> Result<SmallVec<[Verdict; 1]>, AppendError> {
        let mut verdicts = SmallVec::new();
        let many = run.len() > 1;
        for draft in run {
            let undo = many.then_some(&mut self.undo);
            match self.ledger.admit(&Fact::from(draft), now, undo) {
                Ok(verdict) => verdicts.push(verdict),
                Err(error) => {
                    self.ledger.undo(&mut self.undo);
                    return Err(error);
                }
            }
        }
        self.undo.clear();
        Ok(verdicts)
    }

    fn receipts(&self, reign: Reign, verdicts: &[Verdict], places: &[LogOffset]) -> Receipts {
        let end = self.tail;
        let one = |(n, verdict): (usize, &Verdict)| match *verdict {
            Verdict::New { base, .. } => Receipt {
                log_offset: places.get(n).copied().unwrap_or(end),
                base,
                store_time: self.store_time,
                reign,
                end,
                duplicate: false,
            },
            Verdict::Duplicate { base, stored } => Receipt {
                log_offset: end,
                base,
                store_time: stored,
                reign,
                end,
                duplicate: true,
            },
        };
        verdicts.iter().enumerate().map(one).collect()
    }

    /// Writes one entry behind the tail, pushes its row, moves the tail.
    fn write(&mut self, lane: &Lane, draft: &Draft, base: QueueOffset, last: bool) -> Header {
        let bytes = entry_bytes(draft.producer.is_some(), draft.payload.len(), draft.span);
        let header = Header {
            // Checked by `measure` against limits far below 4 GiB.
            length: u32::try_from(bytes).unwrap_or(u32::MAX),
            payload_length: u32::try_from(draft.payload.len()).unwrap_or(u32::MAX),
            kind: draft.kind,
            flags: if last {
                draft.flags.with(Flags::LAST_OF_RUN)
            } else {
                draft.flags
            },
            reign: lane.reign,
            log_offset: self.tail,
            queue: draft.queue,
            base,
            span: draft.span,
            store_time: self.store_time,
            record_time: draft.record_time,
            tag_hash: draft.tag_hash,
            producer: draft.producer,
        };
        self.put(&header, &Body::of(draft));
        note(&lane.around.queues, &mut self.pen, &self.segment, &header);
        lane.around.room.add_rows(1);
        self.counted.entries += 1;
        self.counted.bytes += bytes;
        header
    }

    /// Copies an entry to the tail and moves it. The place was checked before: it always fits.
    fn put(&mut self, header: &Header, body: &Body<'_>) {
        let mut front = [0; SUMMED_BYTES_MAX];
        let summed = header.encode(body, &mut front);
        let at = size(self.segment.place(self.tail));
        let rest = &body.payload[usize::from(body.head).min(body.payload.len())..];
        let first = self.map.write(at, &front[..summed]);
        let second = self.map.write(at + summed, rest);
        debug_assert!(first.is_ok() && second.is_ok(), "the place was checked");
        self.tail = header.end();
    }

    /// Closes the file with a padding entry and goes on in the next one.
    pub(super) fn roll(&mut self, reign: Reign) {
        let rest = self.segment.end().0 - self.tail.0;
        if rest > 0 {
            let length = u32::try_from(rest).unwrap_or(u32::MAX);
            let header = control_header(self, reign, length, 0);
            self.put(&header, &Body::plain(&[]));
        }
        if let Some((segment, map)) = self.next.take() {
            self.tail = segment.start();
            self.segment = segment;
            self.map = map;
        }
    }

    /// Puts a synced mark in, when one is due.
    fn mark(&mut self, lane: &Lane) {
        let synced = lane.around.marks.synced();
        if synced <= self.marked || self.store_time.0 < self.marked_time.0 + MARK_MS {
            return;
        }
        let mut payload = [0; 16];
        payload[0] = CONTROL_MARK;
        payload[8..].copy_from_slice(&synced.0.to_le_bytes());
        self.control(lane.reign, &payload);
        self.marked = synced;
        self.marked_time = self.store_time;
    }

    pub(super) fn control(&mut self, reign: Reign, payload: &[u8]) {
        let bytes = entry_bytes(false, payload.len(), 1);
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        let payload_length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.segment.note_start(self.tail);
        let header = control_header(self, reign, length, payload_length);
        self.put(&header, &Body::plain(payload));
    }
}

/// What a run is told that needs the next file while there is none.
fn no_next<T>(lane: &Lane) -> Result<Result<T, Lack>, AppendError> {
    let room = &lane.around.room;
    if room.lacks_file() {
        return Err(AppendError::Full {
            reason: room.reason(),
        });
    }
    Ok(Err("the next file is not yet there"))
}

fn control_header(state: &State, reign: Reign, length: u32, payload_length: u32) -> Header {
    Header {
        length,
        payload_length,
        kind: Kind::Control,
        flags: Flags::LAST_OF_RUN,
        reign,
        log_offset: state.tail,
        queue: QueueNumber::CONTROL,
        base: QueueOffset(0),
        span: 1,
        store_time: state.store_time,
        record_time: Timestamp::UNKNOWN,
        tag_hash: 0,
        producer: None,
    }
}
