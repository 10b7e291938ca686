//! The model, the store beside it, and one function per operation.
#![allow(clippy::unwrap_used, reason = "a failed expectation ends the test")]

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use twinmq_store::disk::sim::{Call, SimDisk};
use twinmq_store::{
    Aborted, Ack, AppendError, Boundary, Clock, Draft, Fill, Flags, Kind, LogOffset, Place,
    Producer, QueueNumber, QueueOffset, ReadError, Receipt, Reign, Store, StoreConfig,
    StoreMetrics, Stored, Timestamp, Upto, Window,
};

const DIR: &str = "/store";
const QUEUES: std::ops::Range<u32> = 16..22;
const DISK_BYTES: u64 = 256 << 20;

/// An entry to be made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: u8,
    pub(crate) span: u32,
    pub(crate) bytes: u32,
    pub(crate) time: i8,
}

/// What an idempotent producer does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tamper {
    Next,
    Again(u8),
    Gap,
    NewEpoch,
    OldEpoch,
}

/// A step of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    Batch,
    Commit,
    Abort,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Append {
        plans: Vec<Plan>,
        synced: bool,
    },
    Each(Vec<Plan>),
    Idempotent {
        queue: u8,
        producer: u8,
        span: u32,
        tamper: Tamper,
    },
    Transact {
        queue: u8,
        producer: u8,
        turn: Turn,
    },
    Read {
        queue: u8,
        percent: u8,
        bytes_max: u32,
        entries_max: u32,
        committed: bool,
    },
    Search {
        queue: u8,
        percent: u8,
    },
    Raise {
        queue: u8,
        percent: u8,
    },
    Drop(u8),
    Snapshot(u16),
    FailSync,
    Reopen,
    Kill,
    Crash,
}

#[derive(Debug)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// An entry that is in the log.
#[derive(Clone, Debug)]
struct Entry {
    draft: Draft,
    receipt: Receipt,
}

impl Entry {
    fn base(&self) -> u64 {
        self.receipt.base.0
    }
    fn next(&self) -> u64 {
        self.base() + u64::from(self.draft.span)
    }
}

/// A run that is in the log: entries, or a change of queue 1.
#[derive(Clone, Debug)]
enum Run {
    Entries(Vec<Entry>),
    Raise(QueueNumber, u64),
    Drop(QueueNumber),
}

#[derive(Clone, Default, Debug)]
struct ProducerModel {
    epoch: i16,
    batches: VecDeque<(i32, i32, u64)>,
    open: Option<u64>,
}

#[derive(Clone, Default, Debug)]
struct QueueModel {
    entries: Vec<Entry>,
    first: u64,
    next: u64,
    dropped: bool,
    producers: BTreeMap<u64, ProducerModel>,
    aborted: Vec<Aborted>,
}

impl QueueModel {
    fn stable(&self) -> u64 {
        let open = self.producers.values().filter_map(|p| p.open).min();
        open.map_or(self.next, |open| open.max(self.first))
    }

    fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.base(), self.next);
        self.next = entry.next();
        if let Some(producer) = entry.draft.producer {
            let flags = entry.draft.flags;
            let known = self.producers.entry(producer.id).or_default();
            if known.epoch != producer.epoch {
                known.epoch = producer.epoch;
                known.batches.clear();
            }
            if flags.is_marker() {
                let open = known.open.take();
                if let Some(first) = open.filter(|_| flags.has(Flags::ABORT_MARKER)) {
                    self.aborted.push(Aborted {
                        producer: producer.id,
                        first: QueueOffset(first),
                        last: entry.receipt.base,
                    });
                }
            } else {
                let first = producer.first_sequence;
                let last = first + i32::try_from(entry.draft.span).unwrap() - 1;
                known.batches.push_back((first, last, entry.base()));
                if known.batches.len() > 5 {
                    known.batches.pop_front();
                }
                if flags.has(Flags::TRANSACTIONAL) {
                    known.open.get_or_insert(entry.base());
                }
            }
        }
        self.entries.push(entry.clone());
    }
}

#[derive(Clone, Default, Debug)]
struct State {
    queues: BTreeMap<u32, QueueModel>,
    changes: u64,
}

impl State {
    fn apply(&mut self, run: &Run) {
        match run {
            Run::Entries(entries) => {
                for entry in entries {
                    let queue = self.queues.entry(entry.draft.queue.0).or_default();
                    queue.apply(entry);
                }
            }
            Run::Raise(queue, first) => {
                let queue = self.queues.entry(queue.0).or_default();
                queue.first = queue.first.max(*first);
                self.changes += 1;
            }
            Run::Drop(queue) => {
                self.queues.entry(queue.0).or_default().dropped = true;
                self.changes += 1;
            }
        }
    }
    fn of(&self, queue: QueueNumber) -> QueueModel {
        self.queues.get(&queue.0).cloned().unwrap_or_default()
    }
    fn matches(&self, store: &Store) -> bool {
        let changes = store
            .ends(QueueNumber::FIRST_OFFSETS, Upto::default())
            .end
            .0;
        changes == self.changes
            && QUEUES.map(QueueNumber).all(|number| {
                let (queue, ends) = (self.of(number), store.ends(number, Upto::default()));
                ends.end.0 == if queue.dropped { 0 } else { queue.next }
            })
    }
}

/// Store and model side by side.
pub(crate) struct World {
    disk: SimDisk,
    store: Option<Store>,
    runtime: tokio::runtime::Runtime,
    clock: Arc<TestClock>,
    random: u64,
    runs: Vec<(LogOffset, Run)>,
    /// Runs known to be synced.
    synced: usize,
    state: State,
    reign: Reign,
    last_time: i64,
    snapshots: Vec<(u64, Vec<u8>)>,
    broken: bool,
}

fn config() -> StoreConfig {
    StoreConfig {
        file_bytes: 1 << 20,
        run_bytes_max: 1 << 19,
        index_rows_max: 1000,
        populate_bytes_min: 64 << 10,
        populate_bytes_max: 256 << 10,
        hot_bytes: 1 << 20,
        cold_threads: 1,
        flush_interval_ms: 20,
        append_wait_max_ms: 5000,
        ..StoreConfig::default()
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let mut world = Self {
            disk: SimDisk::new(seed, DISK_BYTES),
            store: None,
            runtime,
            clock: Arc::new(TestClock(AtomicI64::new(1_700_000_000_000))),
            random: seed,
            runs: Vec::new(),
            synced: 0,
            state: State::default(),
            reign: Reign(0),
            last_time: 0,
            snapshots: Vec::new(),
            broken: false,
        };
        world.open();
        world
    }

    pub(crate) fn run(mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
        self.restart(&Op::Reopen);
    }

    fn step(&mut self, op: &Op) {
        let step = i64::try_from(self.random() % 9).unwrap() - 2; // now and then backwards
        self.clock.0.fetch_add(step, Ordering::Relaxed);
        match op {
            Op::Append { plans, synced } => {
                let drafts: Vec<_> = plans.iter().map(|plan| self.draft(plan)).collect();
                self.append(drafts, *synced);
            }
            Op::Each(plans) => self.each(plans),
            Op::Idempotent {
                queue,
                producer,
                span,
                tamper,
            } => {
                self.idempotent(*queue, *producer, *span, *tamper);
            }
            Op::Transact {
                queue,
                producer,
                turn,
            } => self.transact(*queue, *producer, *turn),
            Op::Read {
                queue,
                percent,
                bytes_max,
                entries_max,
                committed,
            } => {
                self.read(*queue, *percent, *bytes_max, *entries_max, *committed);
            }
            Op::Search { queue, percent } => self.search(*queue, *percent),
            Op::Raise { queue, percent } => self.raise(*queue, *percent),
            Op::Drop(queue) => self.drop_queue(*queue),
            Op::Snapshot(salt) => self.snapshot(*salt),
            Op::FailSync => self.fail_sync(),
            Op::Reopen | Op::Kill | Op::Crash => self.restart(op),
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random = self.random.max(1);
        self.random
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn open(&mut self) {
        let store = Store::open_on(
            Arc::new(self.disk.clone()),
            Path::new(DIR),
            config(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            StoreMetrics::default(),
        );
        let store = store.unwrap_or_else(|error| {
            let report = twinmq_store::verify::verify_on(&self.disk, Path::new(DIR));
            panic!("not opened: {error} ({error:?}): {report:?}");
        });
        assert!(store.reign() > self.reign, "reigns only rise");
        self.reign = store.reign();
        self.store = Some(store);
        self.broken = false;
    }

    fn restart(&mut self, how: &Op) {
        let store = self.store.take().unwrap();
        let synced = store.progress().synced;
        let by_mark = self
            .runs
            .iter()
            .take_while(|(end, _)| *end <= synced)
            .count();
        self.synced = self.synced.max(by_mark);
        match how {
            Op::Crash => self.disk = self.disk.crash(),
            Op::Kill => self.disk = self.disk.kill(),
            _ => store.close(),
        }
        drop(store);
        self.open();
        let mut at_least = self.synced;
        if !matches!(how, Op::Crash) {
            at_least = self.runs.len();
        }
        let mut found = None;
        let mut state = State::default();
        for n in 0..=self.runs.len() {
            if n >= at_least && state.matches(self.store()) {
                found = Some((n, state.clone()));
            }
            if let Some((_, run)) = self.runs.get(n) {
                state.apply(run);
            }
        }
        let Some((kept, state)) = found else {
            let ends: Vec<_> = QUEUES
                .map(|q| (q, self.store().ends(QueueNumber(q), Upto::default())))
                .collect();
            panic!(
                "after {how:?}: no prefix of {} runs ({at_least} due) has ends {ends:?}",
                self.runs.len()
            );
        };
        self.runs.truncate(kept);
        self.synced = kept;
        self.state = state;
        let mut entries = self.runs.iter().filter_map(|(_, run)| match run {
            Run::Entries(entries) => entries.last(),
            _ => None,
        });
        self.last_time = entries
            .next_back()
            .map_or(0, |entry| entry.receipt.store_time.0);
        self.check_all();
    }

    /// Reads everything and compares.
    fn check_all(&self) {
        for number in QUEUES.map(QueueNumber) {
            let queue = self.state.of(number);
            let ends = self.store().ends(number, Upto::default());
            if queue.dropped {
                continue;
            }
            assert_eq!(
                (ends.first.0, ends.end.0),
                (queue.first, queue.next),
                "{number}"
            );
            assert_eq!(ends.stable.0, queue.stable(), "{number}");
            let mut from = queue.first;
            let mut read = Vec::new();
            while from < queue.next {
                let page = self.page(number, from, 200_000, 64, false).unwrap();
                assert!(page.next.0 > from, "no progress at {from} of {number}");
                from = page.next.0;
                read.extend(page.entries);
            }
            let expected: Vec<_> = queue
                .entries
                .iter()
                .filter(|e| e.next() > queue.first)
                .collect();
            assert_eq!(read.len(), expected.len(), "{number}");
            for (stored, entry) in read.iter().zip(expected) {
                check(stored, entry);
            }
            let (from, to) = (QueueOffset(queue.first), QueueOffset(queue.next));
            let aborted = self
                .runtime
                .block_on(self.store().aborted(number, from, to));
            let expected = queue.aborted.iter().filter(|a| a.last >= from).copied();
            assert_eq!(aborted.unwrap(), expected.collect::<Vec<_>>(), "{number}");
        }
        if let Some((at, bytes)) = self.snapshots.last() {
            let found = self.store().snapshot("model").unwrap();
            assert_eq!((found.at.0, &found.bytes), (*at, bytes));
        }
    }

    fn page(
        &self,
        queue: QueueNumber,
        from: u64,
        bytes_max: u32,
        entries_max: u32,
        committed: bool,
    ) -> Result<twinmq_store::Page, ReadError> {
        self.runtime.block_on(self.store().read(Window {
            queue,
            from: QueueOffset(from),
            bytes_max,
            entries_max,
            scan_max: 10_000,
            upto: Upto {
                synced: false,
                committed,
            },
            pass: None,
        }))
    }

    fn draft(&mut self, plan: &Plan) -> Draft {
        let mut salt = self.random();
        let mut payload = Vec::with_capacity(plan.bytes as usize + 8);
        while payload.len() < plan.bytes as usize {
            salt = salt.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            payload.extend_from_slice(&salt.to_le_bytes());
        }
        payload.truncate(plan.bytes as usize);
        let head = u8::try_from(payload.len().min(64)).unwrap();
        let places = [
            (0, Fill::QueueOffset),
            (8, Fill::Address),
            (20, Fill::StoreTime),
            (28, Fill::Reign),
        ];
        let fits = |place: &&(u8, Fill)| place.0 + 8 <= head;
        Draft {
            kind: if plan.span == 1 {
                Kind::Message
            } else {
                Kind::Batch
            },
            flags: if plan.time % 4 == 0 {
                Flags::MIXED_TAGS
            } else {
                Flags::default()
            },
            queue: QueueNumber(QUEUES.start + u32::from(plan.queue)),
            span: plan.span,
            record_time: Timestamp(i64::from(plan.time)),
            tag_hash: i32::from(plan.time) * 7,
            producer: None,
            head,
            payload_sum: crc32c::crc32c(&payload[usize::from(head)..]),
            places: places
                .iter()
                .filter(fits)
                .map(|(at, fill)| Place {
                    at: *at,
                    fill: *fill,
                })
                .collect(),
            payload: Bytes::from(payload),
        }
    }

    fn dropped(&self, drafts: &[Draft]) -> bool {
        drafts
            .iter()
            .any(|draft| self.state.of(draft.queue).dropped)
    }

    fn append(&mut self, drafts: Vec<Draft>, synced: bool) {
        let answer = self.runtime.block_on(self.store().append(&drafts));
        if self.broken {
            assert!(
                matches!(answer, Err(AppendError::Closed { .. })),
                "{answer:?}"
            );
            return;
        }
        if self.dropped(&drafts) {
            assert!(answer.is_err(), "{answer:?}");
            return;
        }
        if run_bytes(&drafts) > config().run_bytes_max {
            assert!(
                matches!(answer, Err(AppendError::TooLarge { .. })),
                "{answer:?}"
            );
            return;
        }
        let receipts = answer.unwrap();
        assert_eq!(receipts.len(), drafts.len());
        let end = receipts[0].end;
        let entries = drafts
            .into_iter()
            .zip(receipts)
            .map(|(draft, receipt)| {
                assert_eq!(receipt.end, end);
                self.received(draft, receipt)
            })
            .collect();
        self.push(end, Run::Entries(entries));
        if synced {
            let waited = self.runtime.block_on(self.store().wait(end, Ack::Synced));
            waited.unwrap();
            assert!(self.store().progress().synced >= end);
            self.synced = self.runs.len();
        }
    }

    fn received(&mut self, draft: Draft, receipt: Receipt) -> Entry {
        assert!(!receipt.duplicate);
        assert_eq!(receipt.reign, self.reign);
        assert!(receipt.store_time.0 >= self.last_time, "store time fell");
        self.last_time = receipt.store_time.0;
        Entry { draft, receipt }
    }

    fn push(&mut self, end: LogOffset, run: Run) {
        self.state.apply(&run);
        self.runs.push((end, run));
    }

    fn each(&mut self, plans: &[Plan]) {
        let drafts: Vec<_> = plans.iter().map(|plan| self.draft(plan)).collect();
        let answers = self.runtime.block_on(self.store().append_each(&drafts));
        assert_eq!(answers.len(), drafts.len());
        for (draft, answer) in drafts.into_iter().zip(answers) {
            if self.broken {
                assert!(
                    matches!(answer, Err(AppendError::Closed { .. })),
                    "{answer:?}"
                );
            } else if self.dropped(std::slice::from_ref(&draft)) {
                assert!(
                    matches!(answer, Err(AppendError::QueueDropped { .. })),
                    "{answer:?}"
                );
            } else {
                let receipt = answer.unwrap();
                let entry = self.received(draft, receipt);
                self.push(receipt.end, Run::Entries(vec![entry]));
            }
        }
    }

    fn idempotent(&mut self, queue: u8, producer: u8, span: u32, tamper: Tamper) {
        let plan = Plan {
            queue,
            span,
            bytes: 100 + span * 40,
            time: 50,
        };
        let mut draft = self.draft(&plan);
        let model = self.state.of(draft.queue);
        if self.broken || model.dropped {
            return;
        }
        let id = u64::from(producer);
        let known = model.producers.get(&id).cloned().unwrap_or_default();
        let next = known.batches.back().map_or(0, |(_, last, _)| last + 1);
        let (mut epoch, mut first) = (known.epoch, next);
        let mut again = None;
        let refused: Option<fn(&AppendError) -> bool> = match tamper {
            Tamper::Next => None,
            Tamper::Again(back) => {
                let place = known.batches.len().wrapping_sub(usize::from(back));
                let Some(old) = known.batches.get(place) else {
                    return;
                };
                first = old.0;
                draft.span = u32::try_from(old.1 - old.0 + 1).unwrap();
                again = Some(old.2);
                None
            }
            Tamper::Gap if model.producers.contains_key(&id) => {
                first = next + 7;
                Some(|error| matches!(error, AppendError::OutOfOrderSequence { .. }))
            }
            Tamper::NewEpoch => {
                (epoch, first) = (known.epoch + 1, 0);
                None
            }
            Tamper::OldEpoch if known.epoch > 0 => {
                epoch = known.epoch - 1;
                Some(|error| matches!(error, AppendError::ProducerFenced { .. }))
            }
            Tamper::Gap | Tamper::OldEpoch => return,
        };
        draft.producer = Some(Producer {
            id,
            epoch,
            first_sequence: first,
        });
        let answer = self
            .runtime
            .block_on(self.store().append(std::slice::from_ref(&draft)));
        match (refused, again) {
            (Some(as_expected), _) => {
                let error = answer.unwrap_err();
                assert!(as_expected(&error), "{tamper:?}: {error}");
            }
            (None, Some(base)) => {
                let receipt = answer.unwrap()[0];
                assert!(receipt.duplicate, "{tamper:?}");
                assert_eq!(receipt.base.0, base);
            }
            (None, None) => {
                let receipt = answer.unwrap_or_else(|e| panic!("{tamper:?} {known:?}: {e}"))[0];
                let entry = self.received(draft, receipt);
                self.push(receipt.end, Run::Entries(vec![entry]));
            }
        }
    }

    fn transact(&mut self, queue: u8, producer: u8, turn: Turn) {
        let mut draft = self.draft(&Plan {
            queue,
            span: 1,
            bytes: 90,
            time: 7,
        });
        let model = self.state.of(draft.queue);
        let id = u64::from(producer);
        let known = model.producers.get(&id).cloned().unwrap_or_default();
        let (flags, first_sequence) = match turn {
            Turn::Batch => {
                let next = known.batches.back().map_or(0, |(_, last, _)| last + 1);
                (Flags::TRANSACTIONAL, next)
            }
            Turn::Commit => (Flags::TRANSACTIONAL.with(Flags::COMMIT_MARKER), -1),
            Turn::Abort => (Flags::TRANSACTIONAL.with(Flags::ABORT_MARKER), -1),
        };
        draft.kind = Kind::Batch;
        draft.flags = flags;
        draft.producer = Some(Producer {
            id,
            epoch: 0,
            first_sequence,
        });
        self.append(vec![draft], false);
        if !self.broken && !model.dropped {
            let number = QueueNumber(QUEUES.start + u32::from(queue));
            let ends = self.store().ends(number, Upto::default());
            assert_eq!(ends.stable.0, self.state.of(number).stable());
        }
    }

    fn read(&mut self, queue: u8, percent: u8, bytes_max: u32, entries_max: u32, committed: bool) {
        let number = QueueNumber(QUEUES.start + u32::from(queue));
        let queue = self.state.of(number);
        if queue.dropped {
            return;
        }
        let from = queue.next * u64::from(percent) / 100;
        let page = self.page(number, from, bytes_max, entries_max, committed);
        if from < queue.first {
            assert!(matches!(page, Err(ReadError::OutOfRange { .. })));
            return;
        }
        let page = page.unwrap();
        let limit = if committed {
            queue.stable()
        } else {
            queue.next
        };
        assert_eq!(
            (page.ends.first.0, page.ends.end.0),
            (queue.first, queue.next)
        );
        let expected = queue
            .entries
            .iter()
            .filter(|e| from < limit && e.next() > from && e.base() < limit);
        let expected: Vec<_> = expected.collect();
        assert!(page.entries.len() <= entries_max as usize);
        assert!(!page.entries.is_empty() || expected.is_empty());
        for (stored, entry) in page.entries.iter().zip(&expected) {
            check(stored, entry);
        }
        let last = page
            .entries
            .last()
            .map_or(from, |stored| stored.header.next().0);
        assert!(page.next.0 >= last.min(limit));
        let taken = page.entries.split_last().map_or(0, |(_, rest)| {
            rest.iter()
                .map(|stored| stored.payload.len())
                .sum::<usize>()
        });
        assert!(
            taken <= bytes_max as usize,
            "{taken} bytes before the last entry"
        );
    }

    fn search(&mut self, queue: u8, percent: u8) {
        let number = QueueNumber(QUEUES.start + u32::from(queue));
        let queue = self.state.of(number);
        if queue.dropped {
            return;
        }
        let kept: Vec<_> = queue
            .entries
            .iter()
            .filter(|e| e.next() > queue.first)
            .collect();
        let Some(entry) = kept.get(kept.len() * usize::from(percent) / 101) else {
            return;
        };
        let (store, upto) = (self.store(), Upto::default());
        self.runtime.block_on(async {
            let time = entry.receipt.store_time;
            let lower = store
                .offset_at(number, time, Boundary::Lower, upto)
                .await
                .unwrap();
            let expected = kept.iter().find(|e| e.receipt.store_time >= time).unwrap();
            assert_eq!(lower.0, expected.base().max(queue.first));
            let upper = store
                .offset_at(number, time, Boundary::Upper, upto)
                .await
                .unwrap();
            let expected = kept.iter().rfind(|e| e.receipt.store_time <= time).unwrap();
            assert!(upper.0 >= expected.base() && upper.0 < expected.next().max(queue.first + 1));
            let within = QueueOffset(entry.next() - 1);
            let at = store.store_time(number, within).await.unwrap();
            assert_eq!(at, Some(time));
            let place = entry.draft.span - 1;
            let address = twinmq_store::Address::new(entry.receipt.log_offset, place);
            let (stored, found) = store.at(address).await.unwrap();
            assert_eq!(found, place);
            check(&stored, entry);
            let wanted = entry.draft.record_time;
            let found = store.first_reaching(number, wanted, upto).await.unwrap();
            let expected = kept.iter().find(|e| e.draft.record_time >= wanted);
            assert_eq!(
                found.map(|stored| stored.header.base.0),
                expected.map(|entry| entry.base())
            );
            let found = store.latest_record(number, upto).await.unwrap().unwrap();
            let highest = kept.iter().map(|e| e.draft.record_time).max().unwrap();
            let expected = kept
                .iter()
                .find(|e| e.draft.record_time == highest)
                .unwrap();
            assert_eq!(found.header.base.0, expected.base());
        });
    }

    /// Notes a change of queue 1, if there was one.
    fn changed(&mut self, run: Run) -> bool {
        let changes = self
            .store()
            .ends(QueueNumber::FIRST_OFFSETS, Upto::default())
            .end
            .0;
        if changes == self.state.changes {
            return false;
        }
        let end = self.store().progress().written;
        self.push(end, run);
        assert_eq!(changes, self.state.changes);
        self.synced = self.runs.len(); // answered = durable
        true
    }

    fn raise(&mut self, queue: u8, percent: u8) {
        let number = QueueNumber(QUEUES.start + u32::from(queue));
        let queue = self.state.of(number);
        if queue.dropped || self.broken {
            return;
        }
        let first = queue.next * u64::from(percent) / 100;
        let raised = self.store().raise_first(number, QueueOffset(first));
        self.runtime.block_on(raised).unwrap();
        let first = first.min(queue.next);
        if !self.changed(Run::Raise(number, first)) {
            assert!(first <= queue.first);
        }
        let ends = self.store().ends(number, Upto::default());
        assert_eq!(ends.first.0, self.state.of(number).first);
    }

    fn drop_queue(&mut self, queue: u8) {
        let number = QueueNumber(QUEUES.start + u32::from(queue));
        if self.broken || self.state.of(number).dropped {
            return;
        }
        let dropped = self.runtime.block_on(self.store().drop_queues(&[number]));
        dropped.unwrap();
        assert!(self.changed(Run::Drop(number)));
    }

    fn snapshot(&mut self, salt: u16) {
        if self.broken {
            return;
        }
        let progress = self.store().progress();
        let at = progress.synced.min(progress.readable);
        let bytes = salt.to_le_bytes().repeat(usize::from(salt % 999));
        self.store().write_snapshot("model", at, &bytes).unwrap();
        self.snapshots.push((at.0, bytes));
    }

    /// The next sync of the log fails: the lane must close, and what was written but not acknowledged
    /// as synced must be restored, not trusted, by the next opening.
    fn fail_sync(&mut self) {
        if self.broken || self.runs.is_empty() {
            return;
        }
        self.disk.fail(Call::MapSync, 0);
        let draft = self.draft(&Plan {
            queue: 5,
            span: 1,
            bytes: 300,
            time: 1,
        });
        if self.dropped(std::slice::from_ref(&draft)) {
            self.disk.fail(Call::MapSync, u64::MAX);
            return;
        }
        // The flusher may have met the failure already.
        match self
            .runtime
            .block_on(self.store().append(std::slice::from_ref(&draft)))
        {
            Ok(receipts) => {
                let receipt = receipts[0];
                let entry = self.received(draft, receipt);
                self.push(receipt.end, Run::Entries(vec![entry]));
                let waited = self.store().wait(receipt.end, Ack::Synced);
                self.runtime.block_on(waited).unwrap_err();
            }
            Err(AppendError::Closed { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        self.broken = true;
    }
}

/// Bytes that a run takes in the log (FORMAT.md, "Entry").
fn run_bytes(drafts: &[Draft]) -> u64 {
    let bytes = drafts.iter().map(|draft| {
        let header = if draft.producer.is_some() { 88 } else { 72 };
        (header + draft.payload.len() as u64).next_multiple_of(8)
    });
    bytes.sum()
}

/// A stored entry is the one that was appended, patched where it asked for it.
fn check(stored: &Stored, entry: &Entry) {
    let (header, draft, receipt) = (&stored.header, &entry.draft, &entry.receipt);
    assert_eq!(header.log_offset, receipt.log_offset);
    assert_eq!((header.queue, header.base), (draft.queue, receipt.base));
    assert_eq!((header.span, header.kind), (draft.span, draft.kind));
    assert_eq!(Flags(header.flags.0 & !Flags::LAST_OF_RUN.0), draft.flags);
    assert_eq!(
        (header.store_time, header.reign),
        (receipt.store_time, receipt.reign)
    );
    assert_eq!(
        (header.record_time, header.tag_hash),
        (draft.record_time, draft.tag_hash)
    );
    assert_eq!(header.producer, draft.producer);
    let mut expected = draft.payload.to_vec();
    for place in &draft.places {
        let at = usize::from(place.at);
        let value = match place.fill {
            Fill::QueueOffset => receipt.base.0,
            Fill::Address => receipt.address().0,
            Fill::StoreTime => receipt.store_time.0.cast_unsigned(),
            Fill::Reign => {
                expected[at..at + 4].copy_from_slice(&receipt.reign.0.to_be_bytes());
                continue;
            }
        };
        expected[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
    assert!(
        stored.payload == expected,
        "payload of {} differs",
        header.log_offset
    );
}
