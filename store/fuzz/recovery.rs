//! A store that was written, then damaged at arbitrary places: opening it either refuses or gives a
//! store that appends and reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::Arc;
use twinmq_store::disk::Disk;
use twinmq_store::disk::sim::SimDisk;
use twinmq_store::{Store, StoreConfig, StoreMetrics, WallClock};

fuzz_target!(|bytes: &[u8]| {
    let dir = Path::new("/s");
    let disk = SimDisk::new(1, 1 << 26);
    let config = StoreConfig {
        file_bytes: 1 << 20,
        run_bytes_max: 1 << 19,
        ..StoreConfig::default()
    };
    let open = |disk: &SimDisk| {
        let disk = Arc::new(disk.clone());
        Store::open_on(
            disk,
            dir,
            config.clone(),
            Arc::new(WallClock),
            StoreMetrics::default(),
        )
    };
    open(&disk).expect("an empty store opens").close();
    // Pieces of up to 255 bytes at arbitrary places of arbitrary files.
    let mut rest = bytes;
    while let [file, low, high, len, tail @ ..] = rest {
        let (piece, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = tail;
        let names = ["log", "index", "snapshots", "."].map(|name| dir.join(name));
        let folder = &names[usize::from(*file) % names.len()];
        let Ok(listed) = disk.list(folder) else {
            continue;
        };
        if listed.is_empty() {
            continue;
        }
        let name = &listed[usize::from(*file / 4) % listed.len()];
        if let Ok(file) = disk.open(&folder.join(name)) {
            let at = u64::from(u16::from_le_bytes([*low, *high]));
            let _ = file.write_at(at, piece);
        }
    }
    if let Ok(store) = open(&disk) {
        store.close();
        drop(store);
        open(&disk).expect("what was opened and closed opens again");
    }
});
