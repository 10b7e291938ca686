//! What a store does when the world around it misbehaves: a clock that goes back, an index that is lost,
//! a disk that is full or out of handles, a thread that dies.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use twinmq_metrics::Registry;
use twinmq_store::disk::sim::{Call, SimDisk};
use twinmq_store::disk::{Disk, DiskFile, DiskLock, Usage};
use twinmq_store::{
    Ack, AppendError, Clock, Draft, Flags, Keep, Kind, OpenError, QueueNumber, QueueOffset,
    ReadError, Reign, Store, StoreConfig, StoreMetrics, Timestamp, Upto, WallClock, Window,
};

const Q: QueueNumber = QueueNumber(16);
const IDLE: QueueNumber = QueueNumber(17);
const MIB: u64 = 1 << 20;

fn config() -> StoreConfig {
    StoreConfig {
        file_bytes: MIB,
        run_bytes_max: 256 << 10,
        index_rows_max: 1000,
        append_wait_max_ms: 20_000,
        delete_when: vec![],
        ..StoreConfig::default()
    }
}

fn open(dir: &Path, config: StoreConfig) -> Store {
    Store::open(dir, config, Arc::new(WallClock), StoreMetrics::default()).unwrap()
}

fn open_on(disk: &Arc<Odd>, config: StoreConfig) -> Result<Store, OpenError> {
    let (clock, metrics) = (Arc::new(WallClock), StoreMetrics::default());
    Store::open_on(disk.clone(), Path::new("/s"), config, clock, metrics)
}

fn draft(queue: QueueNumber, bytes: usize) -> Draft {
    let payload = vec![7; bytes];
    Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue,
        span: 1,
        record_time: Timestamp(1),
        tag_hash: 0,
        producer: None,
        head: 0,
        payload_sum: crc32c::crc32c(&payload),
        places: SmallVec::new(),
        payload: Bytes::from(payload),
    }
}

async fn count(store: &Store, queue: QueueNumber) -> u64 {
    let mut next = store.ends(queue, Upto::default()).first;
    let mut entries = 0;
    loop {
        let window = Window {
            queue,
            from: next,
            bytes_max: 1 << 20,
            entries_max: 10_000,
            scan_max: 10_000,
            upto: Upto::default(),
            pass: None,
        };
        let page = store.read(window).await.unwrap();
        entries += page.entries.len() as u64;
        next = page.next;
        if next == page.ends.end {
            return entries;
        }
    }
}

fn runs(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir.join("index")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".run")).collect();
    names.sort();
    names
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..500 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came");
}

const NOTHING: fn(QueueNumber) -> Keep = |_| Keep {
    ms: Some(0),
    bytes: None,
};

/// A clock that a test moves.
#[derive(Debug, Default)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// A disk in memory that counts, refuses and panics on order.
#[derive(Debug)]
struct Odd {
    disk: SimDisk,
    snapshots: AtomicU64,
    no_handles: AtomicBool,
    panics: AtomicBool,
}

impl Odd {
    fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self {
            disk: SimDisk::new(1, capacity),
            snapshots: AtomicU64::new(0),
            no_handles: AtomicBool::new(false),
            panics: AtomicBool::new(false),
        })
    }
}

impl Disk for Odd {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let run = path.extension().is_some_and(|ext| ext == "run");
        if run && self.no_handles.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(24)); // EMFILE
        }
        self.disk.open_read(path)
    }
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        if path.starts_with("/s/snapshots") {
            self.snapshots.fetch_add(1, Ordering::Relaxed);
        }
        if path.starts_with("/s/log") && self.no_handles.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(24)); // EMFILE
        }
        self.disk.create(path, bytes)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.ends_with("log") {
            assert!(!self.panics.load(Ordering::Relaxed), "as ordered");
        }
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
    fn usage(&self, dir: &Path) -> io::Result<Usage> {
        self.disk.usage(dir)
    }
}

#[tokio::test]
async fn a_watch_made_between_write_and_sync_wakes_on_the_sync() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        flush_interval_ms: 60_000,
        ..config()
    };
    let store = open(dir.path(), config);
    let synced = Upto {
        synced: true,
        committed: false,
    };
    let receipt = store.append(&[draft(Q, 10)]).await.unwrap()[0];
    let mut watch = store.watch(&[IDLE, Q], synced);
    let mut other = store.watch(&[IDLE], synced);
    assert_eq!(store.ends(Q, synced).end, QueueOffset(0));
    store.wait(receipt.end, Ack::Synced).await.unwrap();
    let limit = Duration::from_secs(2);
    tokio::time::timeout(limit, watch.changed()).await.unwrap();
    let limit = Duration::from_millis(20);
    let idle = tokio::time::timeout(limit, other.changed()).await;
    assert!(idle.is_err(), "nothing came for the other queue");
}

/// A store in its third reign whose oldest files are gone, with one queue that holds nothing any more.
async fn aged(dir: &Path) -> Store {
    open(dir, config()).close();
    open(dir, config()).close();
    let store = open(dir, config());
    assert_eq!(store.reign().0, 3);
    store.append(&[draft(IDLE, 10)]).await.unwrap();
    for _ in 0..4000 {
        store.append(&[draft(Q, 1000)]).await.unwrap();
    }
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        store.retain(&NOTHING).await.unwrap();
        if store.progress().head.0 >= MIB {
            break;
        }
    }
    assert!(store.progress().head.0 >= MIB);
    for _ in 0..100 {
        store.append(&[draft(Q, 1000)]).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_lost_index_costs_neither_reigns_nor_offsets() {
    for lost in [vec!["index"], vec!["index", "snapshots"]] {
        let dir = tempfile::tempdir().unwrap();
        let store = aged(dir.path()).await;
        let before = count(&store, Q).await;
        let end = store.ends(Q, Upto::default()).end;
        drop(store);
        for sub in &lost {
            std::fs::remove_dir_all(dir.path().join(sub)).unwrap();
        }
        let store = open(dir.path(), config());
        assert_eq!(store.reign().0, 4, "{lost:?}");
        assert_eq!(store.append(&[draft(Q, 10)]).await.unwrap()[0].base, end);
        let receipt = store.append(&[draft(IDLE, 10)]).await.unwrap()[0];
        assert_eq!(receipt.base, QueueOffset(1), "{lost:?}");
        for _ in 0..1000 {
            store.append(&[draft(Q, 1000)]).await.unwrap(); // seals
        }
        drop(store);
        let store = open(dir.path(), config());
        assert_eq!(store.reign().0, 5);
        assert_eq!(count(&store, Q).await, before + 1001);
        assert_eq!(count(&store, IDLE).await, 1);
        let receipt = store.append(&[draft(IDLE, 10)]).await.unwrap()[0];
        assert_eq!(receipt.base, QueueOffset(2));
    }
}

#[tokio::test]
async fn store_times_do_not_fall_where_the_clock_went_back() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    clock.0.store(1_000_000, Ordering::Relaxed);
    let open = || {
        let metrics = StoreMetrics::default();
        Store::open(dir.path(), config(), clock.clone(), metrics).unwrap()
    };
    let store = open();
    for _ in 0..500 {
        store.append(&[draft(Q, 10)]).await.unwrap();
    }
    let end = format!("{:020}.run", store.progress().written.0);
    until(|| runs(dir.path()).iter().any(|name| name.ends_with(&end))).await;
    store.close();
    drop(store);
    clock.0.store(500_000, Ordering::Relaxed);
    let store = open();
    let receipt = store.append(&[draft(Q, 10)]).await.unwrap()[0];
    assert!(receipt.store_time >= Timestamp(1_000_000), "{receipt:?}");
    store.close();
    drop(store);
    for sub in ["index", "snapshots"] {
        std::fs::remove_dir_all(dir.path().join(sub)).unwrap();
    }
    let store = open();
    assert_eq!(count(&store, Q).await, 501);
}

#[tokio::test]
async fn a_full_disk_is_not_hammered() {
    let disk = Odd::new(64 * MIB);
    let config = StoreConfig {
        append_wait_max_ms: 1500,
        disk_clean_percent: 97,
        disk_force_percent: 98,
        disk_refuse_percent: 100,
        ..config()
    };
    let store = open_on(&disk, config).unwrap();
    disk.disk.set_capacity(2 * MIB + 4000);
    let mut busy = None;
    while busy.is_none() {
        busy = store.append(&[draft(Q, 10)]).await.err();
    }
    assert!(
        matches!(
            busy,
            Some(AppendError::Busy { .. } | AppendError::Full { .. })
        ),
        "{busy:?}"
    );
    // Writers go on trying; the sealer rests 500 ms after each failure all the same.
    let before = disk.snapshots.load(Ordering::Relaxed);
    let end = std::time::Instant::now() + Duration::from_millis(1200);
    while std::time::Instant::now() < end {
        assert!(store.append(&[draft(Q, 10)]).await.is_err());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let tries = disk.snapshots.load(Ordering::Relaxed) - before;
    assert!(tries < 10, "{tries} tries to seal in 1.2 s");
    disk.disk.set_capacity(64 * MIB);
    tokio::time::sleep(Duration::from_millis(600)).await;
    store.append(&[draft(Q, 10)]).await.unwrap();
}

fn full_config() -> StoreConfig {
    StoreConfig {
        append_wait_max_ms: 300,
        disk_clean_percent: 98,
        disk_force_percent: 99,
        disk_refuse_percent: 100,
        ..config()
    }
}

#[tokio::test]
async fn a_disk_filled_to_the_brim_frees_itself() {
    let disk = Odd::new(4 * MIB + (MIB >> 1));
    let store = open_on(&disk, full_config()).unwrap();
    let mut full = false;
    for _ in 0..10_000 {
        if let Err(error) = store.append(&[draft(Q, 1000)]).await {
            full = matches!(error, AppendError::Full { .. });
            break;
        }
    }
    assert!(full);
    drop(store);
    let store = open_on(&disk, full_config()).unwrap(); // it opens nevertheless
    let head = store.progress().head;
    store.retain(&NOTHING).await.unwrap();
    assert!(store.progress().head > head);
    tokio::time::sleep(Duration::from_millis(700)).await;
    store.append(&[draft(Q, 1000)]).await.unwrap();
}

#[tokio::test]
async fn too_few_handles_neither_close_the_log_nor_lose_the_index() {
    let disk = Odd::new(64 * MIB);
    let store = open_on(&disk, config()).unwrap();
    for _ in 0..3000 {
        store.append(&[draft(Q, 1000)]).await.unwrap();
    }
    let index = || disk.list(Path::new("/s/index")).unwrap();
    until(|| index().len() > 2).await;
    disk.no_handles.store(true, Ordering::Relaxed);
    let mut refused = None;
    for _ in 0..3000 {
        if let Err(error) = store.try_append(&[draft(Q, 1000)]) {
            refused = Some(error);
            break;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    assert!(
        !matches!(refused, Some(AppendError::Closed { .. })),
        "{refused:?}"
    );
    let before = index();
    drop(store);
    assert!(open_on(&disk, config()).is_err());
    assert_eq!(index(), before);
    disk.no_handles.store(false, Ordering::Relaxed);
    open_on(&disk, config()).unwrap();
}

#[tokio::test]
async fn a_disk_that_does_not_read_ends_no_reign() {
    let disk = Odd::new(64 * MIB);
    let store = open_on(&disk, config()).unwrap();
    for _ in 0..3000 {
        store.append(&[draft(Q, 100)]).await.unwrap();
    }
    store.close();
    drop(store);
    let store = open_on(&disk, config()).unwrap();
    for _ in 0..3000 {
        store.append(&[draft(IDLE, 100)]).await.unwrap(); // seals all rows of the other queue
    }
    store.close();
    drop(store);
    let store = open_on(&disk, config()).unwrap();
    let first = store.end_of_reign(Q, Reign(1)).await.unwrap();
    assert_eq!(first, Some((Reign(1), QueueOffset(3000))));
    drop(store);
    // Anything but an error would send followers of the epoch back to the queue's first offset.
    let store = open_on(&disk, config()).unwrap();
    disk.disk.fail(Call::Read, 0);
    assert!(store.end_of_reign(Q, Reign(1)).await.is_err());
}

#[tokio::test]
async fn readers_of_old_records_share_a_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        file_bytes: 16 * MIB,
        run_bytes_max: MIB,
        hot_bytes: 1,
        cold_bytes_max: 2 * MIB,
        ..config()
    };
    let store = open(dir.path(), config);
    for _ in 0..8 {
        store.append(&[draft(Q, 512 << 10)]).await.unwrap();
    }
    let window = |from| Window {
        queue: Q,
        from: QueueOffset(from),
        bytes_max: 1 << 30,
        entries_max: 100,
        scan_max: 100,
        upto: Upto::default(),
        pass: None,
    };
    let page = store.read(window(0)).await.unwrap();
    assert_eq!((page.entries.len(), page.next), (3, QueueOffset(3)));
    let refused = store.try_read(window(3)).await;
    assert!(matches!(refused, Err(ReadError::Busy)), "{refused:?}");
    let end = store.try_read(window(8)).await.unwrap();
    assert!(end.entries.is_empty());
    // Whoever has nothing waits until somebody lets go of what he read.
    let mut waits = Box::pin(store.read(window(3)));
    let limit = Duration::from_millis(50);
    assert!(tokio::time::timeout(limit, &mut waits).await.is_err());
    let kept = page.entries[0].payload.slice(..1);
    drop(page);
    let page = waits.await.unwrap();
    assert_eq!((page.entries.len(), page.next), (2, QueueOffset(5)));
    drop(kept);
    drop(page);
    assert_eq!(count(&store, Q).await, 8);
}

#[tokio::test]
async fn a_cut_is_told_with_its_size() {
    // Which byte of the second of three entries is damaged, if any; and whether entries behind it are sound.
    for (damaged, entries) in [(Some(100), 1), (Some(0), 1), (None, 0)] {
        let mut disk = SimDisk::new(1, 64 * MIB);
        let open = |disk: &SimDisk| {
            let registry = Registry::new();
            let metrics = StoreMetrics::register(&registry).unwrap();
            let config = StoreConfig {
                flush_interval_ms: 60_000,
                ..config()
            };
            let (disk, clock) = (Arc::new(disk.clone()), Arc::new(WallClock));
            let store = Store::open_on(disk, Path::new("/s"), config, clock, metrics).unwrap();
            (store, registry)
        };
        let cut = |registry: &Registry| {
            let text = registry.text();
            let value = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(name)).unwrap();
                line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
            };
            let named = |name: &str| value(&format!("twinmq_store_recovery_cut_{name} "));
            (named("bytes"), named("entries"))
        };
        let (store, registry) = open(&disk);
        assert_eq!(cut(&registry), (0, 0));
        let mut ends = Vec::new();
        for _ in 0..3 {
            let receipts = store.append(&[draft(Q, 1000)]).await.unwrap();
            ends.push(receipts[0].end.0);
        }
        disk = disk.kill();
        drop(store);
        if let Some(at) = damaged {
            let at = usize::try_from(ends[0]).unwrap() + at;
            assert!(disk.flip(Path::new("/s/log/00000000000000000000"), at));
        }
        let (store, registry) = open(&disk);
        let lost = if damaged.is_some() {
            ends[2] - ends[0]
        } else {
            0
        };
        assert_eq!(cut(&registry), (lost, entries), "{damaged:?}");
        assert_eq!(count(&store, Q).await, if lost > 0 { 1 } else { 3 });
        // What a cut left behind is no loss of the next opening.
        store.append(&[draft(Q, 10)]).await.unwrap();
        disk = disk.kill();
        drop(store);
        let (_store, registry) = open(&disk);
        assert_eq!(cut(&registry).1, 0, "{damaged:?}");
    }
}

#[tokio::test]
async fn a_dead_flusher_closes_the_log() {
    let disk = Odd::new(64 * MIB);
    let store = open_on(&disk, config()).unwrap();
    disk.panics.store(true, Ordering::Relaxed);
    let mut end = None;
    for _ in 0..2000 {
        match store.append(&[draft(Q, 1000)]).await {
            Ok(receipts) => end = Some(receipts[0].end),
            Err(_) => break,
        }
    }
    let wait = store.wait(end.unwrap(), Ack::Synced);
    let told = tokio::time::timeout(Duration::from_secs(3), wait).await;
    assert!(told.unwrap().is_err());
    let refused = store.append(&[draft(Q, 10)]).await;
    assert!(matches!(refused, Err(AppendError::Closed { .. })));
}

#[tokio::test]
async fn many_quiet_queues_do_not_make_many_runs() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        index_rows_max: 20_000,
        file_bytes: 64 * MIB,
        ..config()
    };
    let store = open(dir.path(), config);
    let queues = 1000;
    for n in 0..100_000 {
        let queue = QueueNumber(16 + n % queues);
        store.append(&[draft(queue, 10)]).await.unwrap();
        if n % 1000 == 0 {
            // The sealer gets its turn on a busy machine, too.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let runs: HashSet<String> = runs(dir.path()).into_iter().collect();
    assert!(runs.len() <= 20, "{} runs for 100,000 rows", runs.len());
}
