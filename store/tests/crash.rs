//! What a crash leaves: everything acknowledged, nothing half done.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use bytes::Bytes;
use smallvec::smallvec;
use std::path::Path;
use std::sync::Arc;
use twinmq_store::disk::Disk;
use twinmq_store::disk::sim::SimDisk;
use twinmq_store::verify::verify_on;
use twinmq_store::{
    Ack, AppendError, Boundary, Draft, Ends, Fill, Flags, Keep, Kind, OpenError, Place, Producer,
    QueueNumber, QueueOffset, ReadError, Store, StoreConfig, StoreMetrics, Timestamp, Upto,
    WallClock, Window,
};

const Q: QueueNumber = QueueNumber(16);

fn config() -> StoreConfig {
    StoreConfig {
        file_bytes: 1 << 20,
        run_bytes_max: 256 << 10,
        ..StoreConfig::default()
    }
}

fn open(dir: &Path) -> Store {
    Store::open(dir, config(), Arc::new(WallClock), StoreMetrics::default()).unwrap()
}

fn draft(queue: QueueNumber, body: &str) -> Draft {
    let mut payload = vec![0; 20];
    payload.extend_from_slice(body.as_bytes());
    let head = 20;
    Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue,
        span: 1,
        record_time: Timestamp(1),
        tag_hash: 0,
        producer: None,
        head,
        payload_sum: crc32c::crc32c(&payload[usize::from(head)..]),
        places: smallvec![
            Place {
                at: 0,
                fill: Fill::QueueOffset
            },
            Place {
                at: 8,
                fill: Fill::Address
            },
            Place {
                at: 16,
                fill: Fill::Reign
            },
        ],
        payload: Bytes::from(payload),
    }
}

fn window(queue: QueueNumber, from: u64) -> Window<'static> {
    Window {
        queue,
        from: QueueOffset(from),
        bytes_max: 1 << 20,
        entries_max: 10_000,
        scan_max: 10_000,
        upto: Upto::default(),
        pass: None,
    }
}

async fn bodies(store: &Store, queue: QueueNumber) -> Vec<String> {
    let mut out = Vec::new();
    let mut next = store.ends(queue, Upto::default()).first;
    loop {
        let page = store.read(window(queue, next.0)).await.unwrap();
        for stored in &page.entries {
            assert_eq!(stored.payload[..8], stored.header.base.0.to_be_bytes());
            assert_eq!(
                stored.payload[8..16],
                stored.header.log_offset.0.to_be_bytes()
            );
            out.push(String::from_utf8(stored.payload[20..].to_vec()).unwrap());
        }
        if page.next == page.ends.end {
            return out;
        }
        next = page.next;
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for round in 0..3 {
        let store = open(dir.path());
        assert_eq!(store.reign().0, round + 1);
        for n in 0..2000 {
            let body = format!("{round}-{n}-{}", "x".repeat(n % 700));
            let receipts = store.append(&[draft(Q, &body)]).await.unwrap();
            assert_eq!(receipts[0].base.0, all.len() as u64);
            all.push(body);
        }
        assert_eq!(bodies(&store, Q).await, all);
        drop(store); // no close: as if killed
    }
    let store = open(dir.path());
    assert_eq!(bodies(&store, Q).await, all);
    store.close();
    drop(store);
    let store = open(dir.path());
    assert_eq!(bodies(&store, Q).await, all);
    let end = all.len() as u64;
    let page = store.read(window(Q, end)).await.unwrap();
    assert!(page.entries.is_empty());
    let beyond = store.read(window(Q, end + 1)).await;
    assert!(matches!(beyond, Err(ReadError::OutOfRange { .. })));
    // Every reign ends where the next one began.
    for reign in 1..=3 {
        let ended = store.end_of_reign(Q, twinmq_store::Reign(reign));
        let ended = ended.await.unwrap().unwrap();
        assert_eq!((ended.0.0, ended.1.0), (reign, u64::from(reign) * 2000));
    }
}

#[tokio::test]
async fn a_sync_append_is_on_disk_and_wakes_its_watch() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let synced = Upto {
        synced: true,
        committed: false,
    };
    let mut watch = store.watch(&[Q], synced);
    let receipts = store.append(&[draft(Q, "a"), draft(Q, "b")]).await.unwrap();
    store.wait(receipts[1].end, Ack::Synced).await.unwrap();
    assert!(store.progress().synced >= receipts[1].end);
    watch.changed().await;
    assert_eq!(store.ends(Q, synced).end, QueueOffset(2));
    let (stored, place) = store.at(receipts[1].address()).await.unwrap();
    assert_eq!((stored.header.base, place), (QueueOffset(1), 0));
}

#[tokio::test]
async fn only_one_process_opens_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _store = open(dir.path());
    let second = Store::open(
        dir.path(),
        config(),
        Arc::new(WallClock),
        StoreMetrics::default(),
    );
    assert!(matches!(second, Err(OpenError::Locked { .. })));
}

#[test]
fn futures_may_move_between_threads() {
    fn send<T: Send>(_: T) {}
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    send(store.append(&[]));
    send(store.read(window(Q, 0)));
    send(store.append_each(&[]));
    send(store.offset_at(
        Q,
        Timestamp(0),
        twinmq_store::Boundary::Lower,
        Upto::default(),
    ));
    send(store.first_reaching(Q, Timestamp(0), Upto::default()));
    send(store.watch(&[Q], Upto::default()).changed());
}

/// A store that seals early and often.
fn sealing() -> StoreConfig {
    StoreConfig {
        index_rows_max: 1000,
        append_wait_max_ms: 20_000,
        ..config()
    }
}

fn open_sealing(dir: &Path) -> Store {
    Store::open(dir, sealing(), Arc::new(WallClock), StoreMetrics::default()).unwrap()
}

fn produced(queue: QueueNumber, first: i32, flags: Flags) -> Draft {
    Draft {
        flags,
        producer: Some(Producer {
            id: 5,
            epoch: 0,
            first_sequence: first,
        }),
        ..draft(queue, "produced")
    }
}

#[tokio::test]
async fn sealed_rows_read_like_fresh_ones_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let queues: Vec<QueueNumber> = (16..23).map(QueueNumber).collect();
    let mut all = vec![Vec::new(); queues.len()];
    let (txn, abort) = (
        Flags::TRANSACTIONAL,
        Flags::TRANSACTIONAL.with(Flags::ABORT_MARKER),
    );
    let special = QueueNumber(40);
    let mut aborted = Vec::new();
    let mut sequence = 0;
    for round in 0..4 {
        let store = open_sealing(dir.path());
        for n in 0..3000 {
            let which = n % queues.len();
            let body = format!("{round}-{n}-{}", "y".repeat(n % 300));
            store.append(&[draft(queues[which], &body)]).await.unwrap();
            all[which].push(body);
            if n % 500 == 7 {
                let first = store.ends(special, Upto::default()).end;
                store
                    .append(&[produced(special, sequence, txn)])
                    .await
                    .unwrap();
                let ends = store.ends(special, Upto::default());
                assert_eq!((ends.stable, ends.end), (first, first.plus(1)));
                sequence += 1;
                store.append(&[produced(special, -1, abort)]).await.unwrap();
                aborted.push((first, first.plus(1)));
            }
        }
        check(&store, &queues, &all, special, &aborted).await;
        match round {
            0 => {}
            1 => store.close(),
            2 => {
                // The index is derived: without it everything comes back from the log.
                drop(store);
                for sub in ["index", "snapshots"] {
                    std::fs::remove_dir_all(dir.path().join(sub)).unwrap();
                }
            }
            _ => {}
        }
    }
    assert!(std::fs::read_dir(dir.path().join("index")).unwrap().count() > 2);
    let store = open_sealing(dir.path());
    check(&store, &queues, &all, special, &aborted).await;
    // The ledger knows the producer's last batch, and its first ones no more.
    let again = store
        .append(&[produced(special, sequence - 1, txn)])
        .await
        .unwrap();
    assert!(again[0].duplicate);
    let wrong = store.append(&[produced(special, sequence + 1, txn)]).await;
    assert!(matches!(wrong, Err(AppendError::OutOfOrderSequence { .. })));
    // By time.
    let q = queues[0];
    let all_of_q = u64::try_from(all[0].len()).unwrap();
    for offset in (0..all_of_q).step_by(97) {
        let time = store
            .store_time(q, QueueOffset(offset))
            .await
            .unwrap()
            .unwrap();
        let lower = store
            .offset_at(q, time, Boundary::Lower, Upto::default())
            .await
            .unwrap();
        let upper = store
            .offset_at(q, time, Boundary::Upper, Upto::default())
            .await
            .unwrap();
        assert!(
            lower.0 <= offset && offset <= upper.0,
            "{lower} {offset} {upper}"
        );
        assert_eq!(store.store_time(q, lower).await.unwrap(), Some(time));
        assert_eq!(store.store_time(q, upper).await.unwrap(), Some(time));
        if lower.0 > 0 {
            let before = QueueOffset(lower.0 - 1);
            assert!(store.store_time(q, before).await.unwrap().unwrap() < time);
        }
        let page = store
            .read(Window {
                entries_max: 1,
                ..window(q, offset)
            })
            .await
            .unwrap();
        let (stored, place) = store.at(page.entries[0].address(0)).await.unwrap();
        assert_eq!((stored.header.base.0, place), (offset, 0));
    }
}

async fn check(
    store: &Store,
    queues: &[QueueNumber],
    all: &[Vec<String>],
    special: QueueNumber,
    aborted: &[(QueueOffset, QueueOffset)],
) {
    for (queue, expected) in queues.iter().zip(all) {
        assert_eq!(&bodies(store, *queue).await, expected);
    }
    let end = store.ends(special, Upto::default()).end;
    let found = store.aborted(special, QueueOffset(0), end).await.unwrap();
    let found: Vec<_> = found.iter().map(|a| (a.first, a.last)).collect();
    assert_eq!(found, aborted);
}

/// A clock that a test moves.
#[derive(Debug, Default)]
struct Hands(std::sync::atomic::AtomicI64);

impl twinmq_store::Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(std::sync::atomic::Ordering::Relaxed))
    }
}

#[tokio::test]
async fn retention_moves_first_offsets_and_drops_files() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    let config = StoreConfig {
        delete_when: vec![],
        ..sealing()
    };
    let metrics = StoreMetrics::default;
    let open = || Store::open(dir.path(), config.clone(), clock.clone(), metrics()).unwrap();
    let store = open();
    let (timed, sized, idle) = (QueueNumber(16), QueueNumber(17), QueueNumber(18));
    let body = "z".repeat(500);
    store.append(&[draft(idle, "alone")]).await.unwrap();
    for n in 0..8000 {
        clock.0.store(n * 10, std::sync::atomic::Ordering::Relaxed);
        store
            .append(&[draft(timed, &body), draft(sized, &body)])
            .await
            .unwrap();
    }
    let keep = |queue| match queue {
        q if q == timed => Keep {
            ms: Some(10_000),
            bytes: None,
        },
        q if q == sized => Keep {
            ms: None,
            bytes: Some(1 << 20),
        },
        _ => Keep {
            ms: Some(1000),
            bytes: None,
        },
    };
    store.retain(&keep).await.unwrap();
    let ends = store.ends(timed, Upto::default());
    assert_eq!((ends.first.0, ends.end.0), (6999, 8000));
    let ends = store.ends(sized, Upto::default());
    assert!((1..7000).contains(&ends.first.0), "{ends:?}");
    let ends = store.ends(idle, Upto::default());
    assert_eq!((ends.first.0, ends.end.0), (1, 1));
    // The sealer may still be behind; files go once the index covers them.
    for _ in 0..200 {
        if store.progress().head.0 > 4 << 20 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        store.retain(&keep).await.unwrap();
    }
    let head = store.progress().head;
    assert!(head.0 > 4 << 20, "{head}");
    drop(store);
    let store = open();
    assert_eq!(store.progress().head, head);
    assert_eq!(store.ends(timed, Upto::default()).first.0, 6999);
    assert_eq!(bodies(&store, timed).await.len(), 1001);
    let ends = store.ends(idle, Upto::default());
    assert_eq!((ends.first.0, ends.end.0), (1, 1));
    assert!(
        store.append(&[draft(idle, "again")]).await.unwrap()[0]
            .base
            .0
            == 1
    );
    store.drop_queues(&[timed]).await.unwrap();
    let refused = store.append(&[draft(timed, "x")]).await;
    assert!(matches!(refused, Err(AppendError::QueueDropped { .. })));
    drop(store);
    let store = open();
    assert_eq!(store.ends(timed, Upto::default()), Ends::default());
    let refused = store.append(&[draft(timed, "x")]).await;
    assert!(matches!(refused, Err(AppendError::QueueDropped { .. })));
}

/// A copy of a store's directory on a disk in memory, without its index, with the log's first file cut (zeroed) from `cut`
/// on, or one byte of it turned over.
fn damaged(from: &Path, cut: Option<usize>, flip: Option<usize>) -> Arc<SimDisk> {
    let disk = Arc::new(SimDisk::new(1, 64 << 20));
    for sub in ["log", "index", "snapshots"] {
        disk.create_dir_all(&Path::new("/s").join(sub)).unwrap();
    }
    for file in std::fs::read_dir(from.join("log")).unwrap() {
        let name = format!("log/{}", file.unwrap().file_name().to_str().unwrap());
        let mut log = std::fs::read(from.join(&name)).unwrap();
        if let Some(at) = cut.filter(|_| name == LOG) {
            log[at..].fill(0);
        }
        if let Some(at) = flip.filter(|_| name == LOG) {
            log[at] ^= 0x40;
        }
        put(&disk, &name, &log);
    }
    put(
        &disk,
        "format",
        &std::fs::read(from.join("format")).unwrap(),
    );
    disk
}

const LOG: &str = "log/00000000000000000000";

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let path = Path::new("/s").join(name);
    let file = disk.create(&path, bytes.len() as u64).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
}

fn open_sim(disk: &Arc<SimDisk>, clock: &Arc<Hands>) -> Result<Store, OpenError> {
    let metrics = StoreMetrics::default();
    Store::open_on(
        disk.clone(),
        Path::new("/s"),
        config(),
        clock.clone(),
        metrics,
    )
}

#[tokio::test]
async fn a_log_cut_anywhere_opens_with_its_whole_runs() {
    let dir = tempfile::tempdir().unwrap();
    // A clock that stands: no synced mark comes between.
    let clock = Arc::new(Hands::default());
    let open = |dir: &Path| Store::open(dir, config(), clock.clone(), StoreMetrics::default());
    let store = open(dir.path()).unwrap();
    let other = QueueNumber(17);
    let mut runs = Vec::new();
    let mut places = Vec::new();
    for n in 0..12_usize {
        let run: Vec<Draft> = (0..=n % 3)
            .map(|m| {
                draft(
                    if m == 1 { other } else { Q },
                    &format!("{n}.{m}{}", "w".repeat(n * 7)),
                )
            })
            .collect();
        let receipts = store.append(&run).await.unwrap();
        places.extend(
            receipts
                .iter()
                .map(|r| usize::try_from(r.log_offset.0).unwrap()),
        );
        runs.push((receipts[0].end.0, run.len()));
    }
    drop(store);
    let end = usize::try_from(runs.last().unwrap().0).unwrap();
    let mut cuts: Vec<usize> = Vec::new();
    for at in places.iter().copied().chain([end]) {
        // Around each entry's start, its header's fields, its end, and inside its payload.
        for shift in [0, 1, 4, 8, 15, 16, 71, 72, 73, 91, 92, 93] {
            cuts.push((at + shift).min(end));
        }
        cuts.push(at - 1);
    }
    for at in cuts {
        let disk = damaged(dir.path(), Some(at), None);
        let store = open_sim(&disk, &clock).unwrap();
        // Filling bytes at an entry's end are zero anyway: a cut there takes nothing away.
        let whole = runs.iter().filter(|(end, _)| *end <= at as u64).count();
        let kept: usize = runs[..whole].iter().map(|(_, len)| len).sum();
        let more = runs.get(whole).map_or(0, |(_, len)| *len);
        let found = bodies(&store, Q).await.len() + bodies(&store, other).await.len();
        let next_end = runs.get(whole).map_or(u64::MAX, |(end, _)| *end);
        let in_filling = next_end - (at as u64) < 8;
        assert!(
            found == kept || (in_filling && found == kept + more),
            "cut at {at}: {found} entries, {kept} expected"
        );
        // And it goes on from there.
        let receipts = store.append(&[draft(Q, "after")]).await.unwrap();
        assert_eq!(bodies(&store, Q).await.len() as u64, receipts[0].base.0 + 1);
        drop(store);
        let store = open_sim(&disk, &clock).unwrap();
        assert_eq!(bodies(&store, Q).await.last().unwrap(), "after");
    }
}

/// Every file of a store and its bytes, but for the lock.
fn everything(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for sub in ["", "log", "index", "snapshots"] {
        let dir = Path::new("/s").join(sub);
        for name in disk.list(&dir).unwrap() {
            let file = disk.open_read(&dir.join(&name)).unwrap();
            let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            all.push((format!("{sub}/{name}"), bytes));
        }
    }
    all.retain(|(name, _)| name != "/lock");
    all
}

/// The store is refused because of what is wrong at `at`, is left as it was, and `verify` says so too.
fn refused(disk: &Arc<SimDisk>, clock: &Arc<Hands>, at: usize, synced: u64) {
    let before = everything(disk);
    match open_sim(disk, clock) {
        Err(OpenError::Corrupt {
            path,
            at: place,
            reason,
        }) => {
            assert!(path.ends_with(LOG), "{path:?}");
            assert_eq!(place, at as u64);
            let told = format!("damaged at {at}, but the log was on disk up to {synced}");
            assert_eq!(reason, told);
        }
        other => panic!("{other:?}"),
    }
    assert!(everything(disk) == before);
    let report = verify_on(&**disk, Path::new("/s")).unwrap();
    let path = Path::new("/s").join(LOG);
    let found = report.problems.iter().any(|problem| {
        (&problem.path, problem.at) == (&path, at as u64) && problem.what.contains("on disk up to")
    });
    assert!(found, "{report:?}");
    assert_eq!(report.synced.0, synced);
}

/// A store that syncs only when asked to.
fn lazy(dir: &Path, clock: &Arc<Hands>) -> Store {
    let config = StoreConfig {
        flush_interval_ms: 60_000,
        ..config()
    };
    Store::open(dir, config, clock.clone(), StoreMetrics::default()).unwrap()
}

fn place(receipts: &[twinmq_store::Receipt]) -> usize {
    usize::try_from(receipts[0].log_offset.0).unwrap()
}

const HEADER: usize = 72;

#[tokio::test]
async fn damage_below_a_synced_mark_is_told_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    let store = lazy(dir.path(), &clock);
    let first = store.append(&[draft(Q, "first")]).await.unwrap();
    let synced = first[0].end;
    store.wait(synced, Ack::Synced).await.unwrap();
    clock.0.store(1000, std::sync::atomic::Ordering::Relaxed);
    let second = store.append(&[draft(Q, "second")]).await.unwrap(); // takes a mark along
    assert!(second[0].log_offset > synced, "the mark stands between");
    drop(store);
    // Any byte of the header and of what its sum covers.
    for byte in 0..HEADER + 20 {
        let at = place(&first);
        let disk = damaged(dir.path(), None, Some(at + byte));
        refused(&disk, &clock, at, synced.0);
    }
    // The store's first entry, the start of the reign: nothing is known of what follows.
    let disk = damaged(dir.path(), None, Some(20));
    refused(&disk, &clock, 0, synced.0);
    // A sound header whose payload is damaged below the mark is not even looked at: the disk said it
    // had it.
    let disk = damaged(dir.path(), None, Some(place(&first) + HEADER + 21));
    let store = open_sim(&disk, &clock).unwrap();
    assert_eq!(store.ends(Q, Upto::default()).end, QueueOffset(2));
    drop(store);
    // Above the mark, in the header or the payload, and the mark itself: cut.
    let mark = usize::try_from(synced.0).unwrap();
    let at = place(&second);
    for flip in [mark + 20, at, at + 20, at + HEADER + 21] {
        let disk = damaged(dir.path(), None, Some(flip));
        let store = open_sim(&disk, &clock).unwrap();
        assert_eq!(bodies(&store, Q).await, ["first"]);
        drop(store);
        let report = verify_on(&*disk, Path::new("/s")).unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
    // A clean stop is a mark too, and it is found without the log.
    let store = lazy(dir.path(), &clock);
    store.close();
    drop(store);
    let at = place(&first);
    let disk = damaged(dir.path(), None, Some(at + 20));
    put(
        &disk,
        "clean",
        &std::fs::read(dir.path().join("clean")).unwrap(),
    );
    assert!(matches!(
        open_sim(&disk, &clock),
        Err(OpenError::Corrupt { .. })
    ));
}

#[tokio::test]
async fn a_torn_tail_is_cut_whatever_marks_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    let store = lazy(dir.path(), &clock);
    let first = store.append(&[draft(Q, "first")]).await.unwrap();
    store.wait(first[0].end, Ack::Synced).await.unwrap();
    let torn = store.append(&[draft(Q, "torn")]).await.unwrap();
    clock.0.store(1000, std::sync::atomic::Ordering::Relaxed);
    let last = store.append(&[draft(Q, "last")]).await.unwrap();
    assert!(last[0].log_offset > torn[0].end, "a mark stands between");
    drop(store);
    let disk = damaged(dir.path(), None, Some(place(&torn) + 20));
    let report = verify_on(&*disk, Path::new("/s")).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let store = open_sim(&disk, &clock).unwrap();
    assert_eq!(bodies(&store, Q).await, ["first"]);
    drop(store);
    // What was cut stays behind the new end, its mark too, and speaks against nothing that follows.
    let mut all = vec!["first".to_owned()];
    for n in 0..10 {
        let store = open_sim(&disk, &clock).unwrap();
        assert_eq!(bodies(&store, Q).await, all);
        let body = format!("{n}");
        store.append(&[draft(Q, &body)]).await.unwrap();
        all.push(body);
        drop(store);
        let report = verify_on(&*disk, Path::new("/s")).unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
}

#[tokio::test]
async fn a_mark_speaks_from_a_later_file() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    let store = lazy(dir.path(), &clock);
    let mut places = Vec::new();
    let mut synced = twinmq_store::LogOffset(0);
    while synced.0 < 3 << 19 {
        let receipts = store.append(&[draft(Q, &"v".repeat(5000))]).await.unwrap();
        places.push(place(&receipts));
        synced = receipts[0].end;
    }
    store.wait(synced, Ack::Synced).await.unwrap();
    clock.0.store(1000, std::sync::atomic::Ordering::Relaxed);
    store.append(&[draft(Q, "marked")]).await.unwrap();
    drop(store);
    let at = places[20];
    let disk = damaged(dir.path(), None, Some(at + 20));
    refused(&disk, &clock, at, synced.0);
    // A file from there on without a byte: more like an end, but the next file is there.
    let disk = damaged(dir.path(), Some(at), None);
    refused(&disk, &clock, at, synced.0);
    let disk = damaged(dir.path(), None, None);
    let store = open_sim(&disk, &clock).unwrap();
    assert_eq!(bodies(&store, Q).await.len(), places.len() + 1);
}

#[tokio::test]
async fn a_message_that_looks_like_a_mark_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    // The mark of a real store, made to stand in a message at the same place of another.
    let store = lazy(dir.path(), &clock);
    let first = store.append(&[draft(Q, "first")]).await.unwrap();
    let far = store.append(&[draft(Q, &"f".repeat(500))]).await.unwrap();
    store.wait(far[0].end, Ack::Synced).await.unwrap();
    clock.0.store(1000, std::sync::atomic::Ordering::Relaxed);
    store.append(&[draft(Q, "marked")]).await.unwrap();
    drop(store);
    let from = usize::try_from(far[0].end.0).unwrap();
    let mark = std::fs::read(dir.path().join(LOG)).unwrap()[from..from + 88].to_vec();
    let dir = tempfile::tempdir().unwrap();
    clock.0.store(0, std::sync::atomic::Ordering::Relaxed);
    let store = lazy(dir.path(), &clock);
    let again = store.append(&[draft(Q, "first")]).await.unwrap();
    assert_eq!(again, first);
    let torn = store.append(&[draft(Q, "torn")]).await.unwrap();
    let mut evil = draft(Q, "");
    let head = place(&torn) + 96 + HEADER;
    let mut payload = vec![0; 20];
    payload.resize(from - head, b'f');
    payload.extend_from_slice(&mark);
    evil.payload_sum = crc32c::crc32c(&payload[20..]);
    evil.payload = Bytes::from(payload);
    let evil = store.append(&[evil]).await.unwrap();
    assert_eq!(place(&evil) + HEADER, head);
    drop(store);
    let log = std::fs::read(dir.path().join(LOG)).unwrap();
    assert_eq!(log[from..from + 88], mark);
    let disk = damaged(dir.path(), None, Some(place(&torn) + 20));
    let store = open_sim(&disk, &clock).unwrap();
    assert_eq!(bodies(&store, Q).await, ["first"]);
}

/// True if `watch` resolves without anything more happening.
async fn rang(watch: &mut twinmq_store::Watch) -> bool {
    let limit = std::time::Duration::from_millis(20);
    tokio::time::timeout(limit, watch.changed()).await.is_ok()
}

#[tokio::test]
async fn a_watch_wakes_when_its_reader_sees_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let by = |id, sequence, flags| {
        let producer = Some(Producer {
            id,
            epoch: 0,
            first_sequence: sequence,
        });
        Draft {
            flags,
            producer,
            ..draft(Q, "t")
        }
    };
    let commit = Flags::TRANSACTIONAL.with(Flags::COMMIT_MARKER);
    let committed = Upto {
        synced: false,
        committed: true,
    };
    store
        .append(&[by(1, 0, Flags::TRANSACTIONAL)])
        .await
        .unwrap();
    store
        .append(&[by(2, 0, Flags::TRANSACTIONAL)])
        .await
        .unwrap();
    let mut stable = store.watch(&[Q], committed);
    let mut any = store.watch(&[Q, QueueNumber(99)], Upto::default());
    assert!(!rang(&mut any).await);
    store.append(&[draft(Q, "plain")]).await.unwrap();
    assert!(rang(&mut any).await && !rang(&mut any).await);
    assert!(!rang(&mut stable).await, "the last stable offset stands");
    store.append(&[by(1, -1, commit)]).await.unwrap();
    assert!(rang(&mut stable).await, "it moved, though another is open");
    assert_eq!(store.ends(Q, committed).stable, QueueOffset(1));
    store.append(&[by(2, -1, commit)]).await.unwrap();
    assert!(rang(&mut stable).await);
    let ends = store.ends(Q, committed);
    assert_eq!((ends.stable, ends.end), (QueueOffset(5), QueueOffset(5)));
    let page = store
        .read(Window {
            upto: committed,
            ..window(Q, 0)
        })
        .await
        .unwrap();
    assert_eq!(page.entries.len(), 5);
}
