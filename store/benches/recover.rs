//! Opening: an empty directory, after a clean stop, and after the process died, with files of 64 MiB.
//! `cargo bench -p twinmq-store --bench recover`.

mod bench;

use bench::{draft, measure, open, runtime};
use twinmq_store::StoreConfig;

const RECORDS: u32 = 400_000;
const BYTES: usize = 1024;

fn small_files(config: &mut StoreConfig) {
    config.file_bytes = 64 << 20;
    config.run_bytes_max = 16 << 20;
}

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = None;
    measure("open an empty directory", 1, 0, || {
        store = Some(open(dir.path(), small_files));
    });
    let Some(store) = store else { return };
    let drafts: Vec<_> = (0..100).map(|n| draft(n, 100, BYTES)).collect();
    runtime(1).block_on(async {
        for _ in 0..RECORDS / 100 {
            for answer in store.append_each(&drafts).await {
                answer.expect("appended");
            }
        }
    });
    let total = u64::from(RECORDS);
    let log = total * BYTES as u64;
    drop(store); // as if the process had died: nothing is noted as clean
    let mut store = None;
    measure("open after a kill", total, log, || {
        store = Some(open(dir.path(), small_files));
    });
    if let Some(store) = store.take() {
        store.close();
    }
    measure("open after a clean stop", total, log, || {
        store = Some(open(dir.path(), small_files));
    });
}
