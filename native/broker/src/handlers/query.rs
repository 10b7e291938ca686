//! Looking at messages and progress: VIEW_MESSAGE_BY_ID (33), GET_CONSUME_STATS (208),
//! GET_ALL_CONSUMER_OFFSET (43), VIEW_BROKER_STATS_DATA (315), QUERY_CONSUME_TIME_SPAN (303),
//! GET_BROKER_CONSUME_STATS (317). Search by key (12) is not served yet.

use crate::error::Refusal;
use crate::members::Members;
use crate::names;
use crate::registration;
use crate::tallies::Tallies;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, Topic};
use twinmq_core::consume::{ConsumeError, Consuming};
use twinmq_core::groups::Groups;
use twinmq_core::offsets::Offsets;
use twinmq_core::tally::Tally;
use twinmq_remoting::bodies::offset::AllOffsets;
use twinmq_remoting::bodies::stats::{
    self, BrokerStats, ConsumeStats, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan, StatsItem,
};
use twinmq_remoting::code::response;
use twinmq_remoting::fields::client::{BrokerConsumeStats, ConsumeStatsOf, StatsOf};
use twinmq_remoting::fields::topic::{TimeSpanOf, ViewMessage};
use twinmq_remoting::{Command, Outcome};
use twinmq_store::{Address, QueueOffset, ReadError};

/// What queries need.
#[derive(Debug)]
pub(crate) struct Queries {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) members: Arc<Members>,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) broker_name: Arc<str>,
    pub(crate) cluster_name: Arc<str>,
    /// `host:port` as clients reach it.
    pub(crate) address: String,
    /// Most bytes of a message that a client can take.
    pub(crate) message_bytes_max: u32,
}

impl Queries {
    /// Code 33.
    pub(crate) async fn view_message(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ViewMessage::read(&request.fields)?;
        let not_there = || {
            Refusal::system(format!(
                "can not find message by the offset, {}",
                head.offset
            ))
        };
        let address = u64::try_from(head.offset).map_err(|_| not_there())?;
        match self.consuming.message_at(Address(address)).await {
            Ok(message) => {
                let message = Refusal::unless_framed(message, self.message_bytes_max)?;
                Ok(Outcome::Reply(
                    Command::response_to(request, response::SUCCESS).with_body(message),
                ))
            }
            Err(ConsumeError::Read(ReadError::NoSuchAddress { .. })) => Err(not_there()),
            Err(error) => Err(error.into()),
        }
    }

    /// 208: Without a topic: every topic the group has progress in.
    pub(crate) async fn consume_stats(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ConsumeStatsOf::read(&request.fields)?;
        let topics: Vec<Arc<Topic>> = match (head.topic, head.topic_list) {
            (Some(topic), _) if !topic.is_empty() => {
                self.catalog.by_native(topic).into_iter().collect()
            }
            (_, Some(list)) if !list.is_empty() => list
                .split(';')
                .filter_map(|topic| self.catalog.by_native(topic))
                .collect(),
            _ => self.consumed(head.consumer_group),
        };
        let body = self.stats_of(head.consumer_group, topics).await?;
        Ok(crate::table::json(request, &body))
    }

    /// Topics that a group has progress in.
    fn consumed(&self, group: &str) -> Vec<Arc<Topic>> {
        let keys: BTreeSet<Arc<str>> = self
            .offsets
            .of_group(&names::group_key(group))
            .into_iter()
            .map(|(topic, _, _)| topic)
            .collect();
        keys.iter()
            .filter_map(|key| self.catalog.by_key(key))
            .collect()
    }

    async fn stats_of(
        &self,
        group: &str,
        mut topics: Vec<Arc<Topic>>,
    ) -> Result<ConsumeStats, Refusal> {
        let key = names::group_key(group);
        topics.sort_by(|a, b| a.key().cmp(b.key()));
        topics.dedup_by(|a, b| a.id == b.id);
        let live = self.members.group(group);
        let mut body = ConsumeStats::default();
        for topic in topics {
            let Some(name) = topic.native.clone() else {
                continue;
            };
            // A live group's progress in what it no longer reads is no lag.
            let reads = live.as_ref().is_none_or(|live| {
                live.subscriptions.is_empty() || live.subscriptions.contains_key(&*name)
            });
            if !reads {
                continue;
            }
            for queue in 0..topic.read_queues {
                let row = self.progress(&key, &topic, queue).await?;
                body.offset_table.insert(
                    registration::queue_key(&name, &self.broker_name, queue)?,
                    row,
                );
            }
            let now_ms = crate::now_ms();
            if let Some(count) = self.tallies.of_topic_group(&format!("{name}@{group}")) {
                #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
                let rate = count.within(1, now_ms).0 as f64 / 60.0;
                body.consume_tps += rate;
            }
        }
        Ok(body)
    }

    /// 317: every group that has a definition and progress, ordered ones or the others.
    pub(crate) async fn broker_consume_stats(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = BrokerConsumeStats::read(&request.fields)?;
        let mut body = stats::BrokerConsumeStats {
            broker_addr: self.address.clone(),
            ..stats::BrokerConsumeStats::default()
        };
        for group in self.groups.all() {
            if group.consume_message_orderly != head.is_order {
                continue;
            }
            let name = &group.group_name;
            let rows = self.stats_of(name, self.consumed(name)).await?;
            if rows.offset_table.is_empty() {
                continue;
            }
            for row in rows.offset_table.values() {
                body.total_diff += (row.broker_offset - row.consumer_offset).max(0);
            }
            body.consume_stats_list
                .push(BTreeMap::from([(name.clone(), vec![rows])]));
        }
        Ok(crate::table::json(request, &body))
    }

    /// 303: store times at the ends of each queue and at the group's progress.
    pub(crate) async fn time_span(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = TimeSpanOf::read(&request.fields)?;
        let topic = self
            .catalog
            .by_native(head.topic)
            .ok_or_else(|| Refusal::no_topic(head.topic))?;
        let key = names::group_key(head.group);
        let mut body = ConsumeTimeSpans::default();
        for queue in 0..topic.read_queues {
            let ends = self.consuming.ends(&topic, queue, true);
            let consumed = self
                .offsets
                .get(&key, &topic, queue)
                .map_or(ends.first.0, |committed| {
                    u64::try_from(committed.offset).unwrap_or(0)
                });
            let mut span = QueueTimeSpan {
                message_queue: registration::queue_key(head.topic, &self.broker_name, queue)?.0,
                ..QueueTimeSpan::default()
            };
            if ends.stable > ends.first {
                let last = ends.stable.0 - 1;
                let at = consumed.saturating_sub(1).clamp(ends.first.0, last);
                span.min_time_stamp = self.time_at(&topic, queue, ends.first.0).await?;
                span.max_time_stamp = self.time_at(&topic, queue, last).await?;
                span.consume_time_stamp = self.time_at(&topic, queue, at).await?;
                if consumed <= last {
                    let waiting = self
                        .time_at(&topic, queue, consumed.max(ends.first.0))
                        .await?;
                    span.delay_time = (crate::now_ms() - waiting).max(0);
                }
            }
            body.consume_time_span_set.push(span);
        }
        Ok(crate::table::json(request, &body))
    }

    async fn time_at(&self, topic: &Topic, queue: u32, offset: u64) -> Result<i64, Refusal> {
        let time =
            super::offset::store_time(&self.consuming, topic, queue, QueueOffset(offset)).await?;
        Ok(time.unwrap_or(0))
    }

    async fn progress(
        &self,
        group: &str,
        topic: &Topic,
        queue: u32,
    ) -> Result<OffsetWrapper, Refusal> {
        let ends = self.consuming.ends(topic, queue, true);
        let consumed = self
            .offsets
            .get(group, topic, queue)
            .map_or(0, |committed| committed.offset.max(0));
        let mut last = 0;
        let before = u64::try_from(consumed).unwrap_or(0).checked_sub(1);
        if let Some(before) = before
            && (ends.first.0..ends.stable.0).contains(&before)
        {
            last = super::offset::store_time(&self.consuming, topic, queue, QueueOffset(before))
                .await?
                .unwrap_or(0);
        }
        Ok(OffsetWrapper {
            broker_offset: i64::try_from(ends.stable.0).unwrap_or(i64::MAX),
            consumer_offset: consumed,
            pull_offset: consumed,
            last_timestamp: last,
        })
    }

    /// Code 43.
    pub(crate) fn all_offsets(&self, request: &Command) -> Result<Outcome, Refusal> {
        let mut table: BTreeMap<String, BTreeMap<i32, i64>> = BTreeMap::new();
        for group in self.offsets.groups() {
            for (key, queue, committed) in self.offsets.of_group(&group) {
                let Some(name) = self.catalog.by_key(&key).and_then(|t| t.native.clone()) else {
                    continue;
                };
                let Ok(queue) = i32::try_from(queue) else {
                    continue;
                };
                table
                    .entry(format!("{name}@{}", names::group_name(&group)))
                    .or_default()
                    .insert(queue, committed.offset);
            }
        }
        let body = AllOffsets {
            data_version: registration::data_version(&self.catalog),
            offset_table: table,
        };
        Ok(crate::table::json(request, &body))
    }

    /// 315: Code 1 for what has never been counted: tools take exactly that as "no data".
    pub(crate) fn broker_stats(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = StatsOf::read(&request.fields)?;
        let (name, key) = (head.stats_name, head.stats_key);
        let whole = || key == &*self.cluster_name;
        let size = name.ends_with("_SIZE");
        let now_ms = crate::now_ms();
        let found = match name {
            "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE" => self
                .catalog
                .by_native(key)
                .filter(|topic| !topic.stored.is_empty())
                .map(|topic| windows(&topic.stored, size, now_ms)),
            "GROUP_GET_NUMS" | "GROUP_GET_SIZE" => self
                .tallies
                .of_topic_group(key)
                .map(|tally| windows(&tally, size, now_ms)),
            "BROKER_PUT_NUMS" | "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC" if whole() => {
                Some(windows(&self.tallies.put_total, false, now_ms))
            }
            "BROKER_GET_NUMS" | "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC" if whole() => {
                Some(windows(&self.tallies.got_total, false, now_ms))
            }
            _ => None,
        };
        match found {
            Some(body) => Ok(crate::table::json(request, &body)),
            None => Err(Refusal::system(format!(
                "The stats <{name}> <{key}> not exist"
            ))),
        }
    }
}

/// Minute, hour, and what is known of the day: its last hour.
fn windows(tally: &Tally, size: bool, now_ms: i64) -> BrokerStats {
    let item = |minutes: i64| {
        let (messages, bytes) = tally.within(minutes, now_ms);
        let sum = if size { bytes } else { messages };
        #[expect(clippy::cast_precision_loss, reason = "rates for people")]
        let (tps, avgpt) = (
            sum as f64 / (minutes * 60) as f64,
            if messages == 0 {
                0.0
            } else {
                sum as f64 / messages as f64
            },
        );
        StatsItem {
            sum: i64::try_from(sum).unwrap_or(i64::MAX),
            tps,
            avgpt,
        }
    };
    BrokerStats {
        stats_minute: item(1),
        stats_hour: item(60),
        stats_day: item(60),
    }
}
