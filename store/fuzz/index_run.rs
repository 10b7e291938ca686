//! Arbitrary pages as an index run: opening, checking and every lookup that checking makes never
//! panic. The sums of the pages are mended, so that the fuzzer gets past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use twinmq_store::disk::Disk;
use twinmq_store::disk::sim::SimDisk;
use twinmq_store::verify::verify_on;

const PAGE: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    // Input is sparse: 64 bytes per page, 48 of the body and the trailer but its sum.
    let mut run = Vec::new();
    for piece in bytes.chunks(256).take(64) {
        let mut page = vec![0; PAGE];
        let body = piece.len().min(240);
        page[..body].copy_from_slice(&piece[..body]);
        if let Some(trailer) = piece.get(240..252) {
            page[4080..4092].copy_from_slice(trailer);
        }
        let sum = crc32c::crc32c(&page[..4092]);
        page[4092..].copy_from_slice(&sum.to_le_bytes());
        run.extend_from_slice(&page);
    }
    let dir = Path::new("/s");
    let disk = SimDisk::new(1, 1 << 24);
    for name in ["log", "index", "snapshots"] {
        disk.create_dir_all(&dir.join(name)).unwrap();
    }
    let path = dir.join("index/00000000000000000000-00000000000000000001.run");
    disk.create(&path, run.len() as u64)
        .unwrap()
        .write_at(0, &run)
        .unwrap();
    let _ = verify_on(&disk, dir);
});
