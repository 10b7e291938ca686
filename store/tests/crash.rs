//! What a crash leaves: everything acknowledged, nothing half done.

use bytes::Bytes;
use smallvec::smallvec;
use std::path::Path;
use std::sync::Arc;
use twinmq_store::{
    Ack, AppendError, Boundary, Draft, Fill, Flags, Kind, OpenError, Place, Producer, QueueNumber,
    QueueOffset, ReadError, Store, StoreConfig, StoreMetrics, Timestamp, Upto, WallClock, Window,
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
            Place { at: 0, fill: Fill::QueueOffset },
            Place { at: 8, fill: Fill::Address },
            Place { at: 16, fill: Fill::Reign },
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
            assert_eq!(stored.payload[8..16], stored.header.log_offset.0.to_be_bytes());
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
        let ended = store.end_of_reign(Q, twinmq_store::Reign(reign)).unwrap();
        assert_eq!((ended.0.0, ended.1.0), (reign, u64::from(reign) * 2000));
    }
}

#[tokio::test]
async fn a_sync_append_is_on_disk_and_wakes_its_watch() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let synced = Upto { synced: true, committed: false };
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
    let second = Store::open(dir.path(), config(), Arc::new(WallClock), StoreMetrics::default());
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
    send(store.offset_at(Q, Timestamp(0), twinmq_store::Boundary::Lower, Upto::default()));
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
        producer: Some(Producer { id: 5, epoch: 0, first_sequence: first }),
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
                store.append(&[produced(special, sequence, txn)]).await.unwrap();
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
    let again = store.append(&[produced(special, sequence - 1, txn)]).await.unwrap();
    assert!(again[0].duplicate);
    let wrong = store.append(&[produced(special, sequence + 1, txn)]).await;
    assert!(matches!(wrong, Err(AppendError::OutOfOrderSequence { .. })));
    // By time.
    let q = queues[0];
    let all_of_q = u64::try_from(all[0].len()).unwrap();
    for offset in (0..all_of_q).step_by(97) {
        let time = store.store_time(q, QueueOffset(offset)).await.unwrap().unwrap();
        let lower = store.offset_at(q, time, Boundary::Lower, Upto::default()).await.unwrap();
        let upper = store.offset_at(q, time, Boundary::Upper, Upto::default()).await.unwrap();
        assert!(lower.0 <= offset && offset <= upper.0, "{lower} {offset} {upper}");
        assert_eq!(store.store_time(q, lower).await.unwrap(), Some(time));
        assert_eq!(store.store_time(q, upper).await.unwrap(), Some(time));
        if lower.0 > 0 {
            let before = QueueOffset(lower.0 - 1);
            assert!(store.store_time(q, before).await.unwrap().unwrap() < time);
        }
        let page = store.read(Window { entries_max: 1, ..window(q, offset) }).await.unwrap();
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
