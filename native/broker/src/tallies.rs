//! What went through this front, counted for its own metrics, for GET_BROKER_RUNTIME_INFO (28) and
//! for VIEW_BROKER_STATS_DATA (315): totals since the start, per topic and per group, and samples
//! for rates over 10, 60 and 600 seconds, an hour and a day.

use crate::metrics::NativeMetrics;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twinmq_core::catalog::Topic;
use twinmq_core::tally::Tally;

/// Seconds between samples of the broker's totals.
pub(crate) const SAMPLE_SECONDS: u64 = 10;
/// Samples kept: a bit more than ten minutes.
const SAMPLES: usize = 62;
/// Pairs of topic and group counted one by one; beyond it only the totals go on.
const SERIES_MAX: usize = 20_000;

/// A sample of the totals.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at_ms: i64,
    put: u64,
    found: u64,
    missed: u64,
    sent: u64,
}

/// Counters that only grow, by what they are keyed on.
#[derive(Debug, Default)]
struct Series(RwLock<HashMap<String, Arc<Tally>>>);

impl Series {
    fn get(&self, key: &str) -> Option<Arc<Tally>> {
        self.0.read().get(key).cloned()
    }

    fn add(&self, key: &str, messages: u64, bytes: u64, now_ms: i64) {
        if let Some(count) = self.0.read().get(key) {
            count.add(messages, bytes, now_ms);
            return;
        }
        let mut table = self.0.write();
        if table.len() < SERIES_MAX || table.contains_key(key) {
            let count = table.entry(key.to_owned()).or_default();
            count.add(messages, bytes, now_ms);
        }
    }
}

/// Everything counted.
#[derive(Debug)]
pub(crate) struct Tallies {
    /// Stored.
    pub(crate) put_total: Tally,
    /// Handed out.
    pub(crate) got_total: Tally,
    failed: AtomicU64,
    finds: AtomicU64,
    misses: AtomicU64,
    by_topic_group: Series,
    samples: Mutex<VecDeque<Sample>>,
    metrics: NativeMetrics,
}

/// Three rates: over 10, 60 and 600 seconds.
pub(crate) type Rates = [f64; 3];

impl Tallies {
    pub(crate) fn new(metrics: NativeMetrics) -> Self {
        Self {
            put_total: Tally::default(),
            got_total: Tally::default(),
            failed: AtomicU64::new(0),
            finds: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            by_topic_group: Series::default(),
            samples: Mutex::new(VecDeque::new()),
            metrics,
        }
    }

    /// Messages were stored.
    pub(crate) fn put(&self, messages: u64, bytes: u64, now_ms: i64) {
        self.metrics.messages_in.inc_by(messages);
        self.metrics.bytes_in.inc_by(bytes);
        self.put_total.add(messages, bytes, now_ms);
    }

    /// A store failed.
    pub(crate) fn put_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A message was given back.
    pub(crate) fn sent_back(&self) {
        self.metrics.sent_back.inc();
    }

    /// Messages were handed out.
    pub(crate) fn got(&self, topic: &Topic, group: &str, messages: u64, bytes: u64, now_ms: i64) {
        self.metrics.messages_out.inc_by(messages);
        self.metrics.bytes_out.inc_by(bytes);
        self.finds.fetch_add(1, Ordering::Relaxed);
        self.got_total.add(messages, bytes, now_ms);
        if let Some(name) = &topic.native {
            let key = format!("{name}@{group}");
            self.by_topic_group.add(&key, messages, bytes, now_ms);
        }
    }

    /// A pull found nothing.
    pub(crate) fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The counter of `topic@group`.
    pub(crate) fn of_topic_group(&self, key: &str) -> Option<Arc<Tally>> {
        self.by_topic_group.get(key)
    }

    /// Stores that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn now(&self, at_ms: i64) -> Sample {
        Sample {
            at_ms,
            put: self.put_total.messages.load(Ordering::Relaxed),
            found: self.finds.load(Ordering::Relaxed),
            missed: self.misses.load(Ordering::Relaxed),
            sent: self.got_total.messages.load(Ordering::Relaxed),
        }
    }

    /// Notes the totals; called every [`SAMPLE_SECONDS`].
    pub(crate) fn sample(&self, now_ms: i64) {
        let mut samples = self.samples.lock();
        samples.push_back(self.now(now_ms));
        while samples.len() > SAMPLES {
            samples.pop_front();
        }
    }

    /// Rates of puts, found pulls, missed pulls, all pulls and messages handed out.
    pub(crate) fn rates(&self, now_ms: i64) -> [Rates; 5] {
        let now = self.now(now_ms);
        let samples = self.samples.lock();
        let mut out = [[0.0; 3]; 5];
        for (slot, seconds) in [10i64, 60, 600].into_iter().enumerate() {
            let Some(then) = samples
                .iter()
                .rev()
                .find(|sample| now_ms - sample.at_ms >= seconds * 1000)
                .or_else(|| samples.front())
            else {
                continue;
            };
            let elapsed = (now_ms - then.at_ms).max(1);
            #[expect(clippy::cast_precision_loss, reason = "rates for people")]
            let rate = |now: u64, then: u64| (now - then) as f64 * 1000.0 / elapsed as f64;
            let found = rate(now.found, then.found);
            let missed = rate(now.missed, then.missed);
            out[0][slot] = rate(now.put, then.put);
            out[1][slot] = found;
            out[2][slot] = missed;
            out[3][slot] = found + missed;
            out[4][slot] = rate(now.sent, then.sent);
        }
        out
    }
}
