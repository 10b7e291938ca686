//! The store's settings.

use crate::error::OpenError;
use serde::{Deserialize, Serialize};

/// When an acknowledged write is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Acknowledged = in the page cache; synced within `flush_interval_ms`.
    Async,
    /// Acknowledged = on disk.
    Sync,
}

/// Settings of one store. Bytes and milliseconds throughout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Default durability of an acknowledged write; topics override it.
    pub flush: Flush,
    /// Longest time that an acknowledged write stays unsynced with `flush = "async"`. 10 to 60000.
    pub flush_interval_ms: u64,
    /// Size of one log file. A power of two, 1 MiB to 1 GiB. Fixed at creation.
    pub file_bytes: u64,
    /// Longest run. At most half of `file_bytes`.
    pub run_bytes_max: u64,
    /// Index rows kept in memory for the newest stretch before it is sealed. At least 1000.
    pub index_rows_max: u64,
    /// Least and most bytes of pages populated ahead of the tail.
    pub populate_bytes_min: u64,
    /// See `populate_bytes_min`.
    pub populate_bytes_max: u64,
    /// Longest time an append waits for housekeeping before it is answered busy.
    pub append_wait_max_ms: u64,
    /// Unsynced bytes above which appends are answered busy.
    pub dirty_bytes_max: u64,
    /// Bytes behind the tail that are read through the map. 0 = 40 % of memory or cgroup limit.
    pub hot_bytes: u64,
    /// Threads of the cold pool. 1 to 64.
    pub cold_threads: usize,
    /// Reads that may wait for the cold pool.
    pub cold_backlog_max: usize,
    /// Bytes read from disk that may be in memory at one time, those in answers that clients have not
    /// taken yet included. Beyond it readers of old records get less at a time, or wait. At least 2 MiB.
    pub cold_bytes_max: u64,
    /// Bytes of dropped files that readers may still hold before the oldest reader is closed.
    pub dropped_bytes_max: u64,
    /// Disk use in percent above which expired files go at any hour.
    pub disk_clean_percent: u8,
    /// Disk use above which the oldest file goes early.
    pub disk_force_percent: u8,
    /// Disk use above which writes are refused.
    pub disk_refuse_percent: u8,
    /// Hours of the local day (0 to 23) at which expired files are dropped; empty = any hour.
    pub delete_when: Vec<u8>,
    /// How long an idle producer's sequence state is kept. Kafka's `producer.id.expiration.ms`.
    pub producer_expiration_ms: u64,
    /// Idempotent producers whose sequence state a queue keeps. Beyond it the one idle for longest and
    /// without an open transaction is forgotten, as if it had expired. At least 16.
    pub producers_per_queue_max: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            flush: Flush::Async,
            flush_interval_ms: 500,
            file_bytes: 1 << 30,
            run_bytes_max: 64 << 20,
            index_rows_max: 2_000_000,
            populate_bytes_min: 4 << 20,
            populate_bytes_max: 64 << 20,
            append_wait_max_ms: 1000,
            dirty_bytes_max: 1 << 30,
            hot_bytes: 0,
            cold_threads: 2,
            cold_backlog_max: 1024,
            cold_bytes_max: 256 << 20,
            dropped_bytes_max: 4 << 30,
            disk_clean_percent: 75,
            disk_force_percent: 85,
            disk_refuse_percent: 90,
            delete_when: vec![4],
            producer_expiration_ms: 86_400_000,
            producers_per_queue_max: 10_000,
        }
    }
}

impl StoreConfig {
    /// Refuses contradictions, naming the key to change.
    ///
    /// # Errors
    /// [`OpenError::Config`] for the first key out of its limits.
    pub fn validate(&self) -> Result<(), OpenError> {
        let bad = |key, reason: &str| {
            Err(OpenError::Config {
                key,
                reason: reason.to_owned(),
            })
        };
        if !self.file_bytes.is_power_of_two() || !(1 << 20..=1 << 30).contains(&self.file_bytes) {
            return bad(
                "store.file_bytes",
                "must be a power of two from 1 MiB to 1 GiB",
            );
        }
        if self.run_bytes_max == 0 || self.run_bytes_max > self.file_bytes / 2 {
            return bad(
                "store.run_bytes_max",
                "must be from 1 to half of file_bytes",
            );
        }
        if !(10..=60_000).contains(&self.flush_interval_ms) {
            return bad("store.flush_interval_ms", "must be from 10 to 60000");
        }
        if self.index_rows_max < 1000 {
            return bad("store.index_rows_max", "must be at least 1000");
        }
        if self.populate_bytes_min == 0 || self.populate_bytes_min > self.populate_bytes_max {
            return bad(
                "store.populate_bytes_min",
                "must be from 1 to populate_bytes_max",
            );
        }
        if self.producers_per_queue_max < 16 {
            return bad("store.producers_per_queue_max", "must be at least 16");
        }
        if !(1..=64).contains(&self.cold_threads) {
            return bad("store.cold_threads", "must be from 1 to 64");
        }
        if self.cold_bytes_max < 2 << 20 {
            return bad("store.cold_bytes_max", "must be at least 2 MiB");
        }
        if !(self.disk_clean_percent < self.disk_force_percent
            && self.disk_force_percent < self.disk_refuse_percent
            && self.disk_refuse_percent <= 100)
        {
            return bad(
                "store.disk_clean_percent",
                "must be below disk_force_percent, and that below disk_refuse_percent",
            );
        }
        if self.delete_when.iter().any(|hour| *hour > 23) {
            return bad("store.delete_when", "hours are 0 to 23");
        }
        Ok(())
    }
}
