//! Every metric of this crate, registered once.

use crate::lane::Counted;
use crate::marks::Marks;
use twinmq_metrics::prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge};
use twinmq_metrics::{RegisterError, Registry, buckets};

/// The store's metrics. `Default` makes unregistered ones, for tests.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    pub(crate) entries: IntCounter,
    pub(crate) bytes: IntCounter,
    pub(crate) duplicates: IntCounter,
    pub(crate) busy: IntCounter,
    pub(crate) syncs: IntCounter,
    pub(crate) sync_errors: IntCounter,
    pub(crate) sync_seconds: Histogram,
    pub(crate) append_wait_seconds: Histogram,
    pub(crate) head: IntGauge,
    pub(crate) written: IntGauge,
    pub(crate) synced: IntGauge,
    pub(crate) rows: IntGauge,
    pub(crate) disk_used: Gauge,
    pub(crate) cold_reads: IntCounter,
    pub(crate) cold_bytes: IntCounter,
    pub(crate) cold_refused: IntCounter,
    pub(crate) cut_bytes: IntGauge,
    pub(crate) cut_entries: IntGauge,
    pub(crate) seals: IntCounter,
    pub(crate) dropped_files: IntCounter,
    pub(crate) dropped_held: IntGauge,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        // A registry of one's own takes every family: no name is there twice.
        match Self::register(&Registry::new()) {
            Ok(metrics) => metrics,
            Err(error) => unreachable!("an empty registry takes every family: {error}"),
        }
    }
}

impl StoreMetrics {
    /// Registers the store's families.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let counter = |name: &str, help: &str| -> Result<IntCounter, RegisterError> {
            registry.add(IntCounter::new(format!("twinmq_store_{name}"), help)?)
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, RegisterError> {
            registry.add(IntGauge::new(format!("twinmq_store_{name}"), help)?)
        };
        let seconds = |name: &str, help: &str| -> Result<Histogram, RegisterError> {
            let opts = HistogramOpts::new(format!("twinmq_store_{name}"), help)
                .buckets(buckets::SECONDS.to_vec());
            registry.add(Histogram::with_opts(opts)?)
        };
        Ok(Self {
            entries: counter("appended_entries_total", "Entries appended to the log.")?,
            bytes: counter("appended_bytes_total", "Bytes appended to the log.")?,
            duplicates: counter(
                "duplicate_entries_total",
                "Entries that an idempotent producer sent again.",
            )?,
            busy: counter("busy_total", "Appends answered busy.")?,
            syncs: counter("syncs_total", "Syncs of the log.")?,
            sync_errors: counter("sync_errors_total", "Syncs of the log that failed.")?,
            sync_seconds: seconds("sync_seconds", "Duration of a sync.")?,
            append_wait_seconds: seconds(
                "append_wait_seconds",
                "Time an append waited for room, when it had to.",
            )?,
            head: gauge("log_head_bytes", "Log offset of the first byte kept.")?,
            written: gauge("log_written_bytes", "Log offset of the end of the log.")?,
            synced: gauge(
                "log_synced_bytes",
                "Log offset up to which the log is on disk.",
            )?,
            rows: gauge("index_rows", "Index rows in memory.")?,
            disk_used: registry.add(Gauge::new(
                "twinmq_store_disk_used_ratio",
                "Used share of the store's disk, without preallocated unused space.",
            )?)?,
            cold_reads: counter(
                "cold_reads_total",
                "Reads that missed the page cache and went to the cold pool.",
            )?,
            cold_bytes: counter("cold_read_bytes_total", "Bytes read by the cold pool.")?,
            cold_refused: counter(
                "cold_reads_cut_total",
                "Reads from disk that got less, or nothing, because of cold_bytes_max.",
            )?,
            cut_bytes: gauge(
                "recovery_cut_bytes",
                "Bytes at the log's end that the last opening dropped as not sound.",
            )?,
            cut_entries: gauge(
                "recovery_cut_entries",
                "Entries among them that were sound, behind a damaged one.",
            )?,
            seals: counter("sealed_runs_total", "Index runs written.")?,
            dropped_files: counter("dropped_files_total", "Log files dropped by retention.")?,
            dropped_held: gauge(
                "dropped_held_bytes",
                "Bytes of dropped log files that readers still hold.",
            )?,
        })
    }

    /// Counts what the lane has taken since `before`.
    pub(crate) fn appended(&self, before: &Counted, now: &Counted) {
        self.entries.inc_by(now.entries - before.entries);
        self.bytes.inc_by(now.bytes - before.bytes);
        self.duplicates.inc_by(now.duplicates - before.duplicates);
    }

    /// Shows how far the log is.
    pub(crate) fn progress(&self, marks: &Marks, rows: u64) {
        let shown = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.head.set(shown(marks.head().0));
        self.written.set(shown(marks.written().0));
        self.synced.set(shown(marks.synced().0));
        self.rows.set(shown(rows));
    }
}
