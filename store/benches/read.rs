//! Reading a queue from its start: hot from the map, and through the pool with `hot_bytes` of 1 MiB.
//! `cargo bench -p twinmq-store --bench read`.

mod bench;

use bench::{draft, measure, open, runtime};
use twinmq_store::{QueueNumber, QueueOffset, Store, Upto, Window};

const RECORDS: u32 = 300_000;
const BYTES: usize = 1024;

async fn read(store: &Store, queues: u32, bytes_max: u32) -> u64 {
    let mut count = 0;
    for queue in (0..queues).map(|n| QueueNumber(16 + n)) {
        let end = store.ends(queue, Upto::default()).end;
        let mut from = QueueOffset(0);
        while from < end {
            let window = Window {
                queue,
                from,
                bytes_max,
                entries_max: 10_000,
                scan_max: 10_000,
                upto: Upto::default(),
                pass: None,
            };
            let page = store.read(window).await.expect("a page");
            count += page.entries.len() as u64;
            from = page.next;
        }
    }
    count
}

fn main() {
    let runtime = runtime(1);
    for queues in [1, 1000] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), |_| {});
        let drafts: Vec<_> = (0..queues).map(|n| draft(n, queues, BYTES)).collect();
        runtime.block_on(async {
            for n in 0..RECORDS {
                let place = (n % queues) as usize;
                let draft = std::slice::from_ref(&drafts[place]);
                store.append(draft).await.expect("appended");
            }
        });
        let total = u64::from(RECORDS);
        for bytes_max in [32 << 10, 1 << 20] {
            let what = format!("read hot, {queues} queues, {} KiB", bytes_max >> 10);
            measure(&what, total, total * BYTES as u64, || {
                assert_eq!(runtime.block_on(read(&store, queues, bytes_max)), total);
            });
        }
        store.close();
        drop(store);
        let store = open(dir.path(), |config| config.hot_bytes = 1 << 20);
        for bytes_max in [32 << 10, 1 << 20] {
            let what = format!("read not hot, {queues} queues, {} KiB", bytes_max >> 10);
            measure(&what, total, total * BYTES as u64, || {
                assert_eq!(runtime.block_on(read(&store, queues, bytes_max)), total);
            });
        }
        store.close();
    }
}
