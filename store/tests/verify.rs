//! `verify` and `dump` on stores that are sound and on damaged ones.
#![allow(clippy::unwrap_used, reason = "a failed expectation ends the test")]

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use twinmq_store::disk::Disk;
use twinmq_store::disk::sim::SimDisk;
use twinmq_store::verify::{dump_on, verify_on};
use twinmq_store::{
    Draft, Flags, Kind, LogOffset, OpenError, QueueNumber, Store, StoreConfig, StoreMetrics,
    Timestamp, WallClock,
};

const DIR: &str = "/store";

fn open(disk: &SimDisk) -> Result<Store, OpenError> {
    let config = StoreConfig {
        file_bytes: 1 << 20,
        run_bytes_max: 1 << 19,
        index_rows_max: 1000,
        ..StoreConfig::default()
    };
    let disk = Arc::new(disk.clone());
    let metrics = StoreMetrics::default();
    Store::open_on(disk, Path::new(DIR), config, Arc::new(WallClock), metrics)
}

fn draft(n: u32) -> Draft {
    let payload = Bytes::from(n.to_le_bytes().repeat(200));
    Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue: QueueNumber(16 + n % 3),
        span: 1,
        record_time: Timestamp(i64::from(n)),
        tag_hash: 0,
        producer: None,
        head: 0,
        payload_sum: crc32c::crc32c(&payload),
        places: smallvec::SmallVec::new(),
        payload,
    }
}

/// A store of several files, closed cleanly.
fn filled() -> SimDisk {
    let disk = SimDisk::new(7, 64 << 20);
    let store = open(&disk).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let drafts: Vec<_> = (0..3000).map(draft).collect();
    for answer in runtime.block_on(store.append_each(&drafts)) {
        answer.unwrap();
    }
    store.close();
    drop(store);
    disk
}

#[test]
fn a_sound_store_verifies_and_dumps_one_line_per_entry() {
    let disk = filled();
    let report = verify_on(&disk, Path::new(DIR)).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!((report.entries, report.queues), (3000, 3));
    assert!(report.files >= 3 && report.clean == Some(report.end));
    let mut out = Vec::new();
    dump_on(&disk, Path::new(DIR), LogOffset(0), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(" message "))
            .count(),
        3000
    );
    assert!(text.lines().last().unwrap().contains("end:"));
    let from = LogOffset(1_500_000);
    let mut out = Vec::new();
    dump_on(&disk, Path::new(DIR), from, &mut out).unwrap();
    let first = String::from_utf8(out).unwrap();
    let first: u64 = first[..20].parse().unwrap();
    assert!((from.0..from.0 + 1000).contains(&first));
}

#[test]
fn a_store_in_use_is_left_alone() {
    let disk = filled();
    let _store = open(&disk).unwrap();
    let answer = verify_on(&disk, Path::new(DIR));
    assert!(matches!(answer, Err(OpenError::Locked { .. })));
    let nowhere = verify_on(&disk, Path::new("/nowhere"));
    assert!(matches!(nowhere, Err(OpenError::Io { .. })));
}

#[test]
fn damage_is_found_wherever_it_is() {
    let disk = filled();
    let mut out = Vec::new();
    dump_on(&disk, Path::new(DIR), LogOffset(500_000), &mut out).unwrap();
    let entry: usize = String::from_utf8(out).unwrap()[..20].parse().unwrap();
    for (place, what) in [
        (entry + 500, "payload's sum"),
        (entry + 20, "on disk up to"),
    ] {
        let path = Path::new(DIR).join("log/00000000000000000000");
        assert!(disk.flip(&path, place));
        let report = verify_on(&disk, Path::new(DIR)).unwrap();
        let found = report
            .problems
            .iter()
            .any(|problem| problem.what.contains(what));
        assert!(found, "{place}: {report:?}");
        assert!(disk.flip(&path, place));
    }
    for name in disk.list(&Path::new(DIR).join("index")).unwrap() {
        let path = Path::new(DIR).join("index").join(name);
        assert!(disk.flip(&path, 5000));
        assert!(!verify_on(&disk, Path::new(DIR)).unwrap().is_sound());
        assert!(disk.flip(&path, 5000));
    }
    for name in disk.list(&Path::new(DIR).join("snapshots")).unwrap() {
        let path = Path::new(DIR).join("snapshots").join(name);
        assert!(disk.flip(&path, 10));
        assert!(!verify_on(&disk, Path::new(DIR)).unwrap().is_sound());
        assert!(disk.flip(&path, 10));
    }
    assert!(verify_on(&disk, Path::new(DIR)).unwrap().is_sound());
}
