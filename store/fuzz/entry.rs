//! Arbitrary bytes as a log file: walking it never panics, never loops, and every entry it shows
//! lies inside the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use twinmq_store::LogOffset;
use twinmq_store::disk::Disk;
use twinmq_store::disk::sim::SimDisk;
use twinmq_store::verify::{dump_on, verify_on};

/// Writes right header sums at every place that looks like an entry, so that the fuzzer gets past them.
fn mend(log: &mut [u8]) {
    let mut at = 0;
    while at + 88 <= log.len() {
        let header = if log[at + 15] == 2 { 88 } else { 72 };
        let summed = header + usize::from(log[at + 14]);
        if at + summed > log.len() {
            return;
        }
        let place = (at as u64).to_le_bytes();
        log[at + 16..at + 24].copy_from_slice(&place);
        let sum = crc32c::crc32c(&log[at + 4..at + summed]);
        log[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        let word = [log[at + 4], log[at + 5], log[at + 6], log[at + 7]];
        at += (u32::from_le_bytes(word) as usize).max(72);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let dir = Path::new("/s");
    let disk = SimDisk::new(1, 1 << 24);
    for name in ["log", "index", "snapshots"] {
        disk.create_dir_all(&dir.join(name)).unwrap();
    }
    let mut log = bytes.to_vec();
    mend(&mut log);
    let path = dir.join("log/00000000000000000000");
    disk.create(&path, log.len() as u64)
        .unwrap()
        .write_at(0, &log)
        .unwrap();
    let _ = verify_on(&disk, dir);
    let _ = dump_on(&disk, dir, LogOffset(0), &mut std::io::sink());
});
