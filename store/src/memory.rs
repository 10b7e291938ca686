//! How much memory there is: the machine's, or less where the cgroup says so.

use std::fs;

/// Share of memory that counts as hot, in percent.
const HOT_PERCENT: u64 = 40;
/// Taken when the system does not say.
const FALLBACK_BYTES: u64 = 4 << 30;

/// Bytes behind the tail that are certain enough to be in the page cache.
pub(crate) fn hot_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total(&text));
    let cgroup = fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let bytes = machine
        .unwrap_or(FALLBACK_BYTES)
        .min(cgroup.unwrap_or(u64::MAX));
    bytes / 100 * HOT_PERCENT
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\n";
        assert_eq!(super::total(text), Some(16 << 20));
        assert!(super::hot_bytes() > 0);
    }
}
