//! What the benches share: a store in a temporary directory, drafts, and a line per result.

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use twinmq_store::{
    Draft, Fill, Flags, Kind, Place, QueueNumber, Store, StoreConfig, StoreMetrics, Timestamp,
    WallClock,
};

/// Opens a store with the defaults, changed by `change`.
pub(crate) fn open(dir: &Path, change: impl FnOnce(&mut StoreConfig)) -> Store {
    let mut config = StoreConfig::default();
    change(&mut config);
    Store::open(dir, config, Arc::new(WallClock), StoreMetrics::default()).expect("a store")
}

/// A message of `bytes` for the `n`th of `queues` queues.
pub(crate) fn draft(n: u32, queues: u32, bytes: usize) -> Draft {
    let payload = Bytes::from(vec![7; bytes]);
    let head = u8::try_from(bytes.min(64)).expect("at most 64");
    let place = |at, fill| Place { at, fill };
    Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue: QueueNumber(16 + n % queues),
        span: 1,
        record_time: Timestamp(1),
        tag_hash: 0,
        producer: None,
        head,
        payload_sum: crc32c::crc32c(&payload[usize::from(head)..]),
        places: [
            place(0, Fill::QueueOffset),
            place(8, Fill::Address),
            place(16, Fill::StoreTime),
        ]
        .into_iter()
        .collect(),
        payload,
    }
}

/// A runtime with `threads` workers.
pub(crate) fn runtime(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_time()
        .build()
        .expect("a runtime")
}

/// Prints what `count` operations over `bytes` took.
pub(crate) fn report(what: &str, count: u64, bytes: u64, took: Duration) {
    let seconds = took.as_secs_f64().max(1e-9);
    #[expect(clippy::cast_precision_loss, reason = "printed with three digits")]
    let (rate, megabytes) = (count as f64 / seconds, bytes as f64 / seconds / 1e6);
    println!("{what:<44} {rate:>12.0} /s {megabytes:>10.1} MB/s {seconds:>8.3} s");
}

/// Runs `work` and prints what it took. Machines differ and so do minutes: compare ratios.
pub(crate) fn measure(what: &str, count: u64, bytes: u64, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    report(what, count, bytes, began.elapsed());
}
