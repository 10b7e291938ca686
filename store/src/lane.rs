//! The one place of appending: lock, number, patch, copy, row, ledger, move the mark.
//!
//! Promises: one order of appends; a run is in the log whole or not at all; nothing slow under the lock:
//! no system call, no wait, no hashing of names, no allocation once warm. What it cannot place it hands back
//! (`Ok(None)`) and tells [`Room`] what is missing. Leaves out making room, syncing, reading.

mod state;

use crate::arrivals::Arrivals;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::disk::Map;
use crate::entry::{ENTRY_BYTES_MAX, Header, entry_bytes, fill_bytes};
use crate::error::AppendError;
use crate::firsts::{self, Change};
use crate::index::Row;
use crate::index::rows::{Counts, Pen, fresh};
use crate::ledger::{Ledger, Undo};
use crate::marks::Marks;
use crate::queues::{QUEUES_MAX, Queues};
use crate::room::Room;
use crate::run::{Draft, Receipt};
use crate::segment::Segment;
use crate::store::Receipts;
use crate::types::{LogOffset, QueueNumber, Reign, Timestamp};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// Drafts appended under one hold of the lock by `append_each`.
const EACH_DRAFTS: usize = 8;
/// Unsynced bytes that wake the flusher early.
const FLUSH_BYTES: u64 = 64 << 20;
/// First byte of a reign start's payload.
pub(crate) const CONTROL_REIGN: u8 = 1;
/// First byte of a synced mark's payload.
pub(crate) const CONTROL_MARK: u8 = 2;

/// Limits of the lane; bytes and rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) run_bytes_max: u64,
    pub(crate) dirty_bytes_max: u64,
    pub(crate) index_rows_max: u64,
    /// Last bytes of a file without a next one that only retention may use: without them it could not
    /// free a disk that is full.
    pub(crate) reserve_bytes: u64,
}

/// What the lane shares with the other rooms.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) marks: Arc<Marks>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) room: Arc<Room>,
    pub(crate) housekeeping: Arc<Bell>,
    pub(crate) flusher: Arc<Bell>,
    pub(crate) sealer: Arc<Bell>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What recovery hands to the lane.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) segment: Arc<Segment>,
    pub(crate) tail: LogOffset,
    pub(crate) store_time: Timestamp,
    pub(crate) reign: Reign,
    pub(crate) ledger: Ledger,
    pub(crate) pen: Pen,
}

/// The lane.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    around: Around,
    limits: Limits,
    reign: Reign,
}

/// Everything under the lock.
#[derive(Debug)]
struct State {
    segment: Arc<Segment>,
    map: Arc<Map>,
    next: Option<(Arc<Segment>, Arc<Map>)>,
    tail: LogOffset,
    store_time: Timestamp,
    ledger: Ledger,
    pen: Pen,
    undo: Vec<Undo>,
    marked: LogOffset,
    marked_time: Timestamp,
    counted: Counted,
}

/// What went in since the lane opened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counted {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) duplicates: u64,
}

/// Why a run has no place at this moment.
type Lack = &'static str;

impl Lane {
    /// A lane at the end of a recovered log.
    pub(crate) fn new(start: Start, around: Around, limits: Limits) -> std::io::Result<Self> {
        let map = start.segment.mapped()?;
        let state = State {
            map,
            segment: start.segment,
            next: None,
            tail: start.tail,
            store_time: start.store_time,
            ledger: start.ledger,
            pen: start.pen,
            undo: Vec::with_capacity(1024),
            marked: LogOffset(0),
            marked_time: Timestamp(0),
            counted: Counted::default(),
        };
        Ok(Self {
            state: Mutex::new(state),
            around,
            limits,
            reign: start.reign,
        })
    }

    /// The reign of this opening.
    pub(crate) fn reign(&self) -> Reign {
        self.reign
    }

    /// See `Store::try_append`.
    pub(crate) fn try_append(&self, run: &[Draft]) -> Result<Option<Receipts>, AppendError> {
        let bytes = self.measure(run)?;
        if run.is_empty() {
            return Ok(Some(Receipts::new()));
        }
        let now = self.around.clock.now();
        let mut state = self.state.lock();
        let outcome = state.append(self, run, bytes, now, false);
        let (end, wanted) = (state.tail, state.pen.wanted());
        drop(state);
        let done = if matches!(outcome, Ok(Some(_))) {
            run
        } else {
            &[]
        };
        self.afterwards(done, end, wanted, matches!(outcome, Ok(None)));
        outcome
    }

    /// Appends a change of first offsets and makes it true under one hold of the lock: whoever looks at the
    /// ledger sees both or neither. Goes in above the disk's refusal mark: it frees room.
    pub(crate) fn try_change(&self, change: &Change) -> Result<Option<Receipts>, AppendError> {
        let draft = firsts::draft(change);
        let run = std::slice::from_ref(&draft);
        let bytes = self.measure(run)?;
        let now = self.around.clock.now();
        let queues = &self.around.queues;
        let mut state = self.state.lock();
        let outcome = state.append(self, run, bytes, now, true);
        if matches!(outcome, Ok(Some(_))) {
            firsts::apply(change, queues, &mut state.ledger);
            let rows = firsts::release(change, queues, &mut state.pen);
            self.around.room.remove_rows(rows);
        }
        let end = state.tail;
        drop(state);
        let lack = matches!(outcome, Ok(None));
        self.afterwards(if lack { &[] } else { run }, end, None, lack);
        outcome
    }

    /// Appends drafts as runs of their own, a few under one hold of the lock, until one finds no room.
    pub(crate) fn try_append_each(
        &self,
        drafts: &[Draft],
        out: &mut Vec<Result<Receipt, AppendError>>,
    ) {
        for few in drafts.chunks(EACH_DRAFTS) {
            let bytes: SmallVec<[_; EACH_DRAFTS]> = few
                .iter()
                .map(|draft| self.measure(std::slice::from_ref(draft)))
                .collect();
            let now = self.around.clock.now();
            let before = out.len();
            let mut state = self.state.lock();
            for (draft, bytes) in few.iter().zip(bytes) {
                let run = std::slice::from_ref(draft);
                let one = bytes.and_then(|bytes| state.append(self, run, bytes, now, false));
                match one {
                    Ok(None) => break,
                    Ok(Some(receipts)) => out.extend(receipts.into_iter().map(Ok)),
                    Err(error) => out.push(Err(error)),
                }
            }
            let (end, wanted) = (state.tail, state.pen.wanted());
            drop(state);
            let done = out.len() - before;
            self.afterwards(&few[..done], end, wanted, done < few.len());
            if done < few.len() {
                return;
            }
        }
    }

    /// What is done once the lock is free.
    fn afterwards(&self, run: &[Draft], end: LogOffset, wanted: Option<Counts>, lack: bool) {
        let around = &self.around;
        if !run.is_empty() {
            let entries = run
                .iter()
                .map(|draft| (draft.queue, draft.flags.is_marker()));
            around
                .arrivals
                .written(entries, end, || around.marks.synced());
        }
        if lack || around.room.triggered(end.0) {
            around.housekeeping.ring();
        }
        if around.room.rows() >= self.limits.index_rows_max / 2 {
            around.sealer.ring();
        }
        if end.0.saturating_sub(around.marks.synced().0) > FLUSH_BYTES {
            around.flusher.ring();
        }
        if let Some(wanted) = wanted {
            let mut blocks = fresh(wanted);
            self.state.lock().pen.refill(&mut blocks);
        }
    }

    /// Bytes that a run takes in the log.
    fn measure(&self, run: &[Draft]) -> Result<u64, AppendError> {
        let max = self.limits.run_bytes_max;
        let mut bytes = 0;
        for draft in run {
            let one = entry_bytes(draft.producer.is_some(), draft.payload.len(), draft.span);
            bytes += one;
            if !well_formed(draft) || one >= ENTRY_BYTES_MAX {
                return Err(AppendError::TooLarge { bytes, max });
            }
        }
        if bytes > max {
            return Err(AppendError::TooLarge { bytes, max });
        }
        Ok(bytes)
    }

    /// True once what last found no room would find it; the lack while it would not.
    pub(crate) fn has_room(&self, privileged: bool) -> Result<Result<(), Lack>, AppendError> {
        let wanted = self.around.room.wanted();
        let state = self.state.lock();
        let lack = state.place(self, wanted, privileged)?;
        drop(state);
        Ok(match lack {
            Ok(_) => {
                self.around.room.satisfied();
                Ok(())
            }
            Err(lack) => Err(lack),
        })
    }

    /// Appends a control entry as a run of its own, whatever the marks say. Used at opening, before
    /// anyone else appends.
    pub(crate) fn append_control(&self, payload: &[u8]) -> Result<LogOffset, AppendError> {
        let bytes = entry_bytes(false, payload.len(), 1);
        let now = self.around.clock.now();
        let mut state = self.state.lock();
        match state.place(self, bytes, true)? {
            Err(lack) => Err(AppendError::Busy { reason: lack }),
            Ok(roll) => {
                state.store_time = state.store_time.max(now);
                if roll {
                    state.roll(self.reign);
                }
                state.control(self.reign, payload);
                self.around.marks.write(state.tail);
                Ok(state.tail)
            }
        }
    }

    /// Gives the lane its next file.
    pub(crate) fn give(&self, segment: Arc<Segment>, map: Arc<Map>) {
        self.state.lock().next = Some((segment, map));
    }

    /// The file that is appended to, and whether the next one is there.
    pub(crate) fn files(&self) -> (Arc<Segment>, Option<Arc<Segment>>) {
        let state = self.state.lock();
        let next = state.next.as_ref().map(|(next, _)| Arc::clone(next));
        (Arc::clone(&state.segment), next)
    }

    /// The end, once nobody is in the lane.
    pub(crate) fn settle(&self) -> LogOffset {
        self.state.lock().tail
    }

    /// What went in since the lane opened.
    pub(crate) fn counted(&self) -> Counted {
        self.state.lock().counted
    }

    /// Runs `look` on the ledger and the pen under the lock; to be short.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Ledger, &mut Pen) -> T) -> T {
        let mut state = self.state.lock();
        let state = &mut *state;
        look(&mut state.ledger, &mut state.pen)
    }
}

/// True if the draft is one that may go into the log.
fn well_formed(draft: &Draft) -> bool {
    let head = usize::from(draft.head);
    draft.span > 0
        && draft.queue != QueueNumber::CONTROL
        && draft.queue.0 < QUEUES_MAX
        && head <= draft.payload.len()
        && draft.flags.0 & !30 == 0
        && draft
            .places
            .iter()
            .all(|place| usize::from(place.at) + fill_bytes(place.fill) <= head)
}

/// Puts an entry into the index; live and at recovery alike.
pub(crate) fn note(queues: &Queues, pen: &mut Pen, segment: &Segment, header: &Header) {
    segment.note_start(header.log_offset);
    if let Some(queue) = queues.entry(header.queue) {
        pen.push(&queue.rows, &Row::of(header));
    }
}
