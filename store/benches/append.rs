//! Appending: one record and small groups, few and many queues, and waiting for the disk.
//! `cargo bench -p twinmq-store --bench append`; the first line warms the memory.

mod bench;

use bench::{draft, measure, open, runtime};
use twinmq_store::{Ack, Draft, Store};

/// Records of 1 KiB per line; fewer of larger ones.
const RECORDS: u64 = 400_000;

fn append(
    store: &Store,
    runtime: &tokio::runtime::Runtime,
    tasks: u64,
    drafts: &[Draft],
    each: u64,
) {
    runtime.block_on(async {
        let mut running = Vec::new();
        for _ in 0..tasks {
            let (store, drafts) = (store.clone(), drafts.to_vec());
            running.push(tokio::spawn(async move {
                for n in 0..each {
                    let place = usize::try_from(n).unwrap_or(0) % drafts.len();
                    let draft = std::slice::from_ref(&drafts[place]);
                    store.append(draft).await.expect("appended");
                }
            }));
        }
        for task in running {
            task.await.expect("done");
        }
    });
}

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), |config| config.flush_interval_ms = 500);
    let runtime = runtime(2);
    for (queues, bytes, tasks) in [
        (1, 1024, 1),
        (1, 1024, 1),
        (1, 1024, 2),
        (8, 128, 2),
        (8000, 1024, 2),
        (1, 16 << 10, 2),
    ] {
        let count = (RECORDS * 1024 / (bytes as u64).max(1024)).max(1000);
        let drafts: Vec<_> = (0..queues).map(|n| draft(n, queues, bytes)).collect();
        let what = format!("append {bytes} B, {queues} queues, {tasks} tasks");
        measure(&what, count, count * bytes as u64, || {
            append(&store, &runtime, tasks, &drafts, count / tasks);
        });
    }
    let drafts: Vec<_> = (0..64).map(|n| draft(n, 8, 1024)).collect();
    measure(
        "append_each of 64 x 1024 B",
        320_000,
        320_000 * 1024,
        || {
            runtime.block_on(async {
                for _ in 0..5000 {
                    for answer in store.append_each(&drafts).await {
                        answer.expect("appended");
                    }
                }
            });
        },
    );
    for tasks in [1_u64, 64] {
        let each = 20_000 / tasks.max(4);
        let what = format!("append and wait for the disk, {tasks} tasks");
        measure(&what, each * tasks, each * tasks * 1024, || {
            runtime.block_on(async {
                let mut running = Vec::new();
                for n in 0..u32::try_from(tasks).unwrap_or(1) {
                    let (store, draft) = (store.clone(), [draft(n, 8, 1024)]);
                    running.push(tokio::spawn(async move {
                        for _ in 0..each {
                            let end = store.append(&draft).await.expect("appended")[0].end;
                            store.wait(end, Ack::Synced).await.expect("synced");
                        }
                    }));
                }
                for task in running {
                    task.await.expect("done");
                }
            });
        });
    }
    store.close();
}
