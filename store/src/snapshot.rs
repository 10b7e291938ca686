//! Snapshots: small checksummed files of a state machine, replaced atomically.
//!
//! `<name>-<20 digits of the log offset>.snap` holds everything that the log says below that offset.
//! Promises: a crash leaves the old one or the new one; the two newest of a name are kept, so that a
//! damaged one costs a longer replay, not the state. Leaves out what the bytes mean.
//!
//! Layout, little-endian (FORMAT.md): magic `TMQSNAP1`, log offset u64, length u64, CRC-32C of the
//! bytes u32, CRC-32C of the 28 bytes before u32, then the bytes.

use crate::disk::{Disk, DiskFile, read_exact_at, replace_file};
use crate::store::Snapshot;
use crate::types::{LogOffset, size};
use std::io;
use std::path::Path;

const MAGIC: &[u8; 8] = b"TMQSNAP1";
const HEADER_BYTES: usize = 32;
const KEPT: usize = 2;
const SUFFIX: &str = ".snap";

/// The state machine's name and the log offset that a file name tells.
pub(crate) fn parse_name(file: &str) -> Option<(&str, LogOffset)> {
    let (name, digits) = file.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    let sound = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    let at = digits.parse().ok().filter(|_| sound)?;
    Some((name, LogOffset(at)))
}

fn file_name(name: &str, at: LogOffset) -> String {
    format!("{name}-{:020}{SUFFIX}", at.0)
}

/// Log offsets of the snapshots of `name`, newest first.
fn offsets(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<Vec<LogOffset>> {
    let files = disk.list(dir)?;
    let mut found: Vec<_> = files
        .iter()
        .filter_map(|file| parse_name(file))
        .filter(|(of, _)| *of == name)
        .map(|(_, at)| at)
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// Writes a snapshot and removes all of the name but this one and the one before it.
///
/// # Errors
/// The disk's; `InvalidInput` for a name that is not made of lower-case letters, digits, `_` and
/// `-`. What was there before is then still there.
pub(crate) fn write(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    at: LogOffset,
    bytes: &[u8],
) -> io::Result<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    if name.is_empty() || name.len() > 100 || !name.bytes().all(plain) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = Vec::with_capacity(HEADER_BYTES + bytes.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&at.0.to_le_bytes());
    file.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
    let sum = crc32c::crc32c(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    file.extend_from_slice(bytes);
    replace_file(disk, &dir.join(file_name(name, at)), &file)?;
    let found = offsets(disk, dir, name)?;
    let before = found.iter().filter(|other| **other < at).take(KEPT - 1);
    let kept: Vec<_> = before.copied().chain([at]).collect();
    for old in found.into_iter().filter(|other| !kept.contains(other)) {
        disk.remove(&dir.join(file_name(name, old)))?;
    }
    Ok(())
}

/// Reads and checks one snapshot file.
///
/// # Errors
/// The disk's; `InvalidData` when it is not sound.
pub(crate) fn read(disk: &dyn Disk, path: &Path, at: LogOffset) -> io::Result<Snapshot> {
    let file = disk.open_read(path)?;
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut header = [0; HEADER_BYTES];
    read_exact_at(&*file, 0, &mut header)?;
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&header[from..from + 8]);
        u64::from_le_bytes(word)
    };
    let sums = word(24);
    if &header[..8] != MAGIC {
        return Err(bad("not a snapshot of this version"));
    }
    if u64::from(crc32c::crc32c(&header[..28])) != sums >> 32 {
        return Err(bad("the header's sum is wrong"));
    }
    if word(8) != at.0 {
        return Err(bad("the log offset is not that of the name"));
    }
    let length = word(16);
    if file.size()? != (HEADER_BYTES as u64).saturating_add(length) {
        return Err(bad("the length is not that of the file"));
    }
    let bytes = read_rest(&*file, size(length))?;
    if u64::from(crc32c::crc32c(&bytes)) != sums & 0xffff_ffff {
        return Err(bad("the sum of the bytes is wrong"));
    }
    Ok(Snapshot { at, bytes })
}

fn read_rest(file: &dyn DiskFile, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length]; // checked against the file's length
    read_exact_at(file, HEADER_BYTES as u64, &mut bytes)?;
    Ok(bytes)
}

/// The newest sound snapshot of `name`; damaged ones are passed over with a warning.
///
/// # Errors
/// The disk's, from listing the directory.
pub(crate) fn newest(disk: &dyn Disk, dir: &Path, name: &str) -> io::Result<Option<Snapshot>> {
    for at in offsets(disk, dir, name)? {
        let path = dir.join(file_name(name, at));
        match read(disk, &path, at) {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "snapshot passed over");
            }
        }
    }
    Ok(None)
}

/// The lowest log offset that a kept snapshot of any name would replay from.
///
/// # Errors
/// The disk's.
pub(crate) fn oldest_at(disk: &dyn Disk, dir: &Path) -> io::Result<Option<LogOffset>> {
    let files = disk.list(dir)?;
    Ok(files
        .iter()
        .filter_map(|file| parse_name(file))
        .map(|(_, at)| at)
        .min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;

    const DIR: &str = "/s";

    fn disk(seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed, 1 << 20);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk
    }

    fn put(disk: &SimDisk, name: &str, at: u64, bytes: &[u8]) {
        write(disk, Path::new(DIR), name, LogOffset(at), bytes).unwrap();
    }

    fn get(disk: &SimDisk, name: &str) -> Option<(u64, Vec<u8>)> {
        let found = newest(disk, Path::new(DIR), name).unwrap()?;
        Some((found.at.0, found.bytes))
    }

    #[test]
    fn the_two_newest_are_kept_and_the_newest_sound_one_wins() {
        let disk = disk(1);
        assert_eq!(get(&disk, "offsets"), None);
        for at in [10, 20, 30] {
            put(&disk, "offsets", at, format!("state {at}").as_bytes());
        }
        put(&disk, "offsets-2", 5, b"");
        assert_eq!(get(&disk, "offsets"), Some((30, b"state 30".to_vec())));
        assert_eq!(disk.list(Path::new(DIR)).unwrap().len(), 3);
        assert_eq!(
            oldest_at(&disk, Path::new(DIR)).unwrap(),
            Some(LogOffset(5))
        );
        let path = Path::new(DIR).join(file_name("offsets", LogOffset(30)));
        for place in 0..HEADER_BYTES + 8 {
            assert!(disk.flip(&path, place));
            assert_eq!(get(&disk, "offsets").unwrap().0, 20, "byte {place}");
            assert!(disk.flip(&path, place));
        }
        assert_eq!(get(&disk, "offsets").unwrap().0, 30);
        put(&disk, "offsets", 25, b"x"); // a lower one replaces what can no longer be true
        assert_eq!(get(&disk, "offsets").unwrap().0, 25);
    }

    #[test]
    fn a_crash_while_replacing_leaves_one_of_the_two() {
        for seed in 0..50 {
            let disk = disk(seed);
            put(&disk, "a", 1, b"one");
            disk.fail(crate::disk::sim::Call::SyncDir, 0);
            write(&disk, Path::new(DIR), "a", LogOffset(2), b"two").unwrap_err();
            let after = disk.crash();
            let found = get(&after, "a").unwrap();
            assert!(found == (1, b"one".to_vec()) || found == (2, b"two".to_vec()));
        }
    }

    #[test]
    fn the_bytes_of_a_snapshot_are_these() {
        let disk = disk(1);
        put(&disk, "a", 0x0102, b"xyz");
        let file = disk
            .open_read(&Path::new(DIR).join("a-00000000000000000258.snap"))
            .unwrap();
        let mut bytes = vec![0; size(file.size().unwrap())];
        file.read_at(0, &mut bytes).unwrap();
        let mut expected = b"TMQSNAP1\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0".to_vec();
        expected.extend_from_slice(&crc32c::crc32c(b"xyz").to_le_bytes());
        expected.extend_from_slice(&crc32c::crc32c(&expected).to_le_bytes());
        expected.extend_from_slice(b"xyz");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn odd_names_are_refused_or_ignored() {
        let disk = disk(1);
        for name in ["", "../x", "A", "a/b"] {
            assert!(write(&disk, Path::new(DIR), name, LogOffset(1), b"").is_err());
        }
        for file in ["a.snap", "a-1.snap", "a-+0000000000000000001.snap", "a-x"] {
            assert!(parse_name(file).is_none(), "{file}");
        }
    }
}
