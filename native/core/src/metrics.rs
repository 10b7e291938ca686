//! Every metric of this crate, registered once. What is counted from the state itself (topics,
//! groups, lag) is taken when the endpoint is read, in one look.

use crate::lag::Source;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use std::sync::Arc;
use twinmq_metrics::{RegisterError, Registry, prometheus};

/// The core's metrics. [`CoreMetrics::default`] counts without being shown, for tests.
#[derive(Clone, Debug)]
pub struct CoreMetrics {
    pub(crate) opened_records: IntCounter,
    pub(crate) framed_records: IntCounter,
    pub(crate) passed_over: IntCounter,
    pub(crate) cache_hits: IntCounter,
    pub(crate) cache_misses: IntCounter,
    pub(crate) cache_bytes: IntGauge,
    pub(crate) commits_answered: IntCounter,
    pub(crate) commits_later: IntCounter,
    pub(crate) commits_unchanged: IntCounter,
    pub(crate) retried: IntCounter,
    pub(crate) dead: IntCounter,
    pub(crate) delayed_delivered: IntCounter,
    pub(crate) delayed_discarded: IntCounter,
    pub(crate) snapshots: IntCounter,
    pub(crate) snapshots_failed: IntCounter,
    source: Arc<Mutex<Option<Source>>>,
    families: Vec<Family>,
}

#[derive(Clone, Debug)]
enum Family {
    Labelled(IntCounterVec),
    Plain(IntCounter),
    Gauge(IntGauge),
}

impl Default for CoreMetrics {
    fn default() -> Self {
        let labelled = |name: &str, help: &str, label: &str| {
            IntCounterVec::new(Opts::new(name, help), &[label]).expect("the names are legal")
        };
        let plain =
            |name: &str, help: &str| IntCounter::new(name, help).expect("the names are legal");
        let translated = labelled(
            "twinmq_core_translated_records_total",
            "Records translated for readers of the other protocol, by the layout they were read in.",
            "to",
        );
        let looks = labelled(
            "twinmq_core_translation_cache_lookups_total",
            "Look-ups in the cache of translated records.",
            "result",
        );
        let passed_over = plain(
            "twinmq_core_passed_over_records_total",
            "Records that RocketMQ readers were led past because no frame of theirs holds them.",
        );
        let cache_bytes = IntGauge::new(
            "twinmq_core_translation_cache_bytes",
            "Bytes of translated records kept for readers of the other protocol.",
        )
        .expect("the names are legal");
        let commits = labelled(
            "twinmq_core_offset_commits_total",
            "Committed queue offsets: answered ones, later written ones, and those that changed nothing.",
            "kind",
        );
        let returned = labelled(
            "twinmq_core_returned_messages_total",
            "Messages that consumers gave back, by where they went.",
            "to",
        );
        let delayed = labelled(
            "twinmq_core_delayed_messages_total",
            "Delayed messages whose time came: delivered, or discarded because their topic is gone.",
            "outcome",
        );
        let snapshots = plain(
            "twinmq_core_snapshots_total",
            "Snapshots of state machines written.",
        );
        let snapshots_failed = plain(
            "twinmq_core_snapshot_failures_total",
            "Snapshots of state machines that could not be written.",
        );
        Self {
            opened_records: translated.with_label_values(&["rocketmq"]),
            framed_records: translated.with_label_values(&["kafka"]),
            passed_over: passed_over.clone(),
            cache_hits: looks.with_label_values(&["hit"]),
            cache_misses: looks.with_label_values(&["miss"]),
            cache_bytes: cache_bytes.clone(),
            commits_answered: commits.with_label_values(&["answered"]),
            commits_later: commits.with_label_values(&["later"]),
            commits_unchanged: commits.with_label_values(&["unchanged"]),
            retried: returned.with_label_values(&["retry"]),
            dead: returned.with_label_values(&["dead_letters"]),
            delayed_delivered: delayed.with_label_values(&["delivered"]),
            delayed_discarded: delayed.with_label_values(&["discarded"]),
            snapshots: snapshots.clone(),
            snapshots_failed: snapshots_failed.clone(),
            source: Arc::default(),
            families: vec![
                Family::Labelled(translated),
                Family::Labelled(looks),
                Family::Plain(passed_over),
                Family::Gauge(cache_bytes),
                Family::Labelled(commits),
                Family::Labelled(returned),
                Family::Labelled(delayed),
                Family::Plain(snapshots),
                Family::Plain(snapshots_failed),
            ],
        }
    }
}

impl CoreMetrics {
    /// Registers the core's families.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let metrics = Self::default();
        for family in &metrics.families {
            match family {
                Family::Labelled(family) => drop(registry.add(family.clone())?),
                Family::Plain(family) => drop(registry.add(family.clone())?),
                Family::Gauge(family) => drop(registry.add(family.clone())?),
            }
        }
        registry.add(StateCollector {
            source: Arc::clone(&metrics.source),
        })?;
        Ok(metrics)
    }

    /// From now on the state behind `source` is shown; `None`: nothing.
    pub(crate) fn show(&self, source: Option<Source>) {
        *self.source.lock() = source;
    }
}

/// Gauges taken from the state when they are read.
#[derive(Clone)]
struct StateCollector {
    source: Arc<Mutex<Option<Source>>>,
}

impl Collector for StateCollector {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }
    fn collect(&self) -> Vec<MetricFamily> {
        let source = self.source.lock().clone();
        source.map(|source| source.families()).unwrap_or_default()
    }
}
