//! Group lag in records and in seconds, with the broker's other numbers, taken in one look.
//!
//! Lag in records = the queue's stable end less the group's committed offset. Lag in seconds = how
//! long ago the first record that the group has not consumed was stored; 0 when there is none. Where
//! finding that time would mean waiting for a disk, the queue's line in seconds is left out.

use crate::catalog::{Catalog, Class};
use crate::offsets::Offsets;
use crate::state::SharedClock;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use twinmq_metrics::prometheus::{self, core::Collector};
use twinmq_store::{QueueOffset, Store, Timestamp};

/// Queues looked at for each series that may be shown.
const QUEUES_PER_SERIES: usize = 10;

/// One group's lag in one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag {
    /// The group, in Kafka's spelling.
    pub group: Arc<str>,
    /// The topic's key.
    pub topic: Arc<str>,
    /// The queue.
    pub queue: u32,
    /// Records not consumed.
    pub records: u64,
    /// Seconds since the first of them was stored; `None` where only the disk knows.
    pub seconds: Option<f64>,
}

/// Where the numbers come from. Holds nothing alive.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) catalog: Weak<Catalog>,
    pub(crate) offsets: Weak<Offsets>,
    pub(crate) overdue: Weak<crate::delay::Delays>,
    pub(crate) clock: SharedClock,
    pub(crate) series_max: usize,
}

/// The lag of every group in every queue that it committed, in order of group, topic and queue; the
/// first `most` of them.
#[must_use]
pub fn all(
    store: &Store,
    catalog: &Catalog,
    offsets: &Offsets,
    now: Timestamp,
    most: usize,
) -> Vec<Lag> {
    let mut lags = Vec::new();
    for group in offsets.groups() {
        if lags.len() >= most {
            break;
        }
        let room = most - lags.len();
        for (key, queue, committed) in offsets.first_of_group(&group, room) {
            let Some(topic) = catalog.by_key(&key) else {
                continue;
            };
            let Some(number) = topic.queue(queue) else {
                continue;
            };
            let ends = store.ends(number, topic.upto(true));
            let at = u64::try_from(committed.offset)
                .unwrap_or(0)
                .max(ends.first.0);
            let records = ends.stable.0.saturating_sub(at);
            let seconds = if records == 0 {
                Some(0.0)
            } else {
                stored_at(store, number, QueueOffset(at)).map(|time| seconds_since(time, now))
            };
            lags.push(Lag {
                group: Arc::clone(&group),
                topic: key,
                queue,
                records,
                seconds,
            });
        }
    }
    lags
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a lag of 2^53 ms is 285,000 years"
)]
fn seconds_since(time: Timestamp, now: Timestamp) -> f64 {
    (now.0.saturating_sub(time.0).max(0) as f64) / 1000.0
}

/// The store time of a record, if memory knows it.
fn stored_at(
    store: &Store,
    queue: twinmq_store::QueueNumber,
    offset: QueueOffset,
) -> Option<Timestamp> {
    match at_once(store.store_time(queue, offset)) {
        Some(Ok(time)) => time,
        _ => None,
    }
}

/// The result of a future that needs no waiting.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let future = pin!(future);
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Source {
    pub(crate) fn families(&self) -> Vec<MetricFamily> {
        let (Some(catalog), Some(offsets)) = (self.catalog.upgrade(), self.offsets.upgrade())
        else {
            return Vec::new();
        };
        self.collect(&catalog, &offsets).unwrap_or_else(|error| {
            tracing::warn!(%error, "lag could not be shown");
            Vec::new()
        })
    }

    fn collect(
        &self,
        catalog: &Catalog,
        offsets: &Offsets,
    ) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let now = self.clock.now();
        let mut families = Vec::new();
        let (topics, groups, queues) = catalog.counts();
        for (name, help, value) in [
            (
                "twinmq_core_topics",
                "Topics, system topics included.",
                topics,
            ),
            ("twinmq_core_groups", "Groups with a definition.", groups),
            ("twinmq_core_queues", "Queues of all topics.", queues),
        ] {
            let gauge = prometheus::IntGauge::new(name, help)?;
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            families.extend(gauge.collect());
        }
        if let Some(delays) = self.overdue.upgrade() {
            let gauge = prometheus::Gauge::new(
                "twinmq_core_delay_overdue_seconds",
                "How long the oldest delayed message that is due waits for its delivery.",
            )?;
            gauge.set(delays.overdue(now));
            families.extend(gauge.collect());
        }
        let most = self.series_max.saturating_mul(QUEUES_PER_SERIES);
        let lags = all(&self.store, catalog, offsets, now, most);
        let incomplete = prometheus::IntGauge::new(
            "twinmq_core_lag_incomplete",
            "1 if there are more groups and queues than the lag families show (broker.lag_series_max).",
        )?;
        incomplete.set(i64::from(lags.len() >= most));
        families.extend(incomplete.collect());
        families.extend(self.by_group(&lags)?);
        families.extend(self.by_queue(catalog, &lags)?);
        Ok(families)
    }

    /// Sums (records) and maxima (seconds) by group and topic, with their RocketMQ names.
    fn by_group(&self, lags: &[Lag]) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let records = IntGaugeVec::new(
            Opts::new(
                "twinmq_core_group_lag_records",
                "Records of a topic that a group has not consumed.",
            ),
            &["group", "topic"],
        )?;
        let seconds = GaugeVec::new(
            Opts::new(
                "twinmq_core_group_lag_seconds",
                "Age of the oldest record of a topic that a group has not consumed.",
            ),
            &["group", "topic"],
        )?;
        // RocketMQ 5's own name, which its dashboards use.
        let rocketmq = IntGaugeVec::new(
            Opts::new(
                "rocketmq_consumer_lag_messages",
                "Messages of a topic that a group has not consumed.",
            ),
            &["consumer_group", "topic"],
        )?;
        let mut series = 0;
        let mut last: Option<(&str, &str)> = None;
        for lag in lags {
            let labels = [&*lag.group, &*lag.topic];
            if last != Some((labels[0], labels[1])) {
                last = Some((labels[0], labels[1]));
                series += 1;
            }
            if series > self.series_max {
                break;
            }
            let count = i64::try_from(lag.records).unwrap_or(i64::MAX);
            records.with_label_values(&labels).add(count);
            rocketmq.with_label_values(&labels).add(count);
            let gauge = seconds.with_label_values(&labels);
            gauge.set(gauge.get().max(lag.seconds.unwrap_or(0.0)));
        }
        let mut families = records.collect();
        families.extend(seconds.collect());
        families.extend(rocketmq.collect());
        Ok(families
            .into_iter()
            .filter(|family| !family.get_metric().is_empty())
            .collect())
    }

    /// One line per queue, under the names of the common Kafka exporters, while there are few enough.
    fn by_queue(
        &self,
        catalog: &Catalog,
        lags: &[Lag],
    ) -> Result<Vec<MetricFamily>, prometheus::Error> {
        if lags.len() > self.series_max {
            return Ok(Vec::new());
        }
        let lag_family = IntGaugeVec::new(
            Opts::new(
                "kafka_consumergroup_lag",
                "Records of a partition that a consumer group has not consumed.",
            ),
            &["consumergroup", "topic", "partition"],
        )?;
        for lag in lags {
            let user = catalog
                .by_key(&lag.topic)
                .is_some_and(|topic| topic.class == Class::User && topic.kafka.is_some());
            if user {
                let queue = lag.queue.to_string();
                lag_family
                    .with_label_values(&[&*lag.group, &*lag.topic, queue.as_str()])
                    .set(i64::try_from(lag.records).unwrap_or(i64::MAX));
            }
        }
        let families = lag_family.collect();
        Ok(families
            .into_iter()
            .filter(|family| !family.get_metric().is_empty())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_in_seconds_never_runs_backwards() {
        assert!((seconds_since(Timestamp(1000), Timestamp(2500)) - 1.5).abs() < 1e-9);
        assert!(seconds_since(Timestamp(2500), Timestamp(1000)).abs() < 1e-9);
    }
}
