//! Topics: UPDATE_AND_CREATE_TOPIC (17) and its list form (18), DELETE_TOPIC_IN_BROKER (215), GET_ALL_TOPIC_CONFIG (21),
//! GET_TOPIC_CONFIG (351), GET_TOPIC_STATS_INFO (202), GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305),
//! QUERY_TOPIC_CONSUME_BY_WHO (300). A change is answered once the name servers have been told.

use crate::error::Refusal;
use crate::members::Members;
use crate::names;
use crate::registration::{self, Registered};
use crate::topics::{Topics, native_topic};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twinmq_core::catalog::{Class, Perm, Topic, TopicChange};
use twinmq_core::consume::Consuming;
use twinmq_core::offsets::Offsets;
use twinmq_remoting::bodies::group::GroupList;
use twinmq_remoting::bodies::stats::{TopicOffset, TopicStats};
use twinmq_remoting::bodies::topic::{TopicConfigList, TopicList, TopicTable};
use twinmq_remoting::code::response;
use twinmq_remoting::fields::topic::{AllTopics, CreateTopic, TopicConfigOf, TopicIs};
use twinmq_remoting::{Command, Outcome};
use twinmq_store::QueueOffset;

/// Topics of one page of 21 (RocketMQ's `splitMetadataSize`).
const PAGE_MAX: usize = 2000;

/// What topic administration needs.
#[derive(Debug)]
pub(crate) struct TopicAdmin {
    pub(crate) topics: Arc<Topics>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) members: Arc<Members>,
    pub(crate) registered: Registered,
    pub(crate) broker_name: Arc<str>,
    pub(crate) cluster_name: Arc<str>,
}

impl TopicAdmin {
    /// 17: Idempotent.
    pub(crate) async fn create(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = CreateTopic::read(&request.fields)?;
        self.put(&head).await?;
        self.registered.wait().await;
        Ok(crate::table::done(request))
    }

    /// 18: All are looked at, also after one that is as it should be.
    pub(crate) async fn create_list(&self, request: &Command) -> Result<Outcome, Refusal> {
        let body: TopicConfigList = crate::table::body(request)?;
        for topic in &body.topic_config_list {
            let attributes: Vec<String> = topic
                .attributes
                .iter()
                .map(|(key, value)| format!("+{}={value}", key.trim_start_matches('+')))
                .collect();
            let attributes = attributes.join(",");
            let head = CreateTopic {
                topic: &topic.topic_name,
                read_queue_nums: topic.read_queue_nums,
                write_queue_nums: topic.write_queue_nums,
                perm: topic.perm,
                topic_filter_type: Some(&topic.topic_filter_type),
                topic_sys_flag: Some(topic.topic_sys_flag),
                order: Some(topic.order),
                attributes: Some(&attributes),
                ..CreateTopic::default()
            };
            self.put(&head).await?;
        }
        self.registered.wait().await;
        Ok(crate::table::done(request))
    }

    async fn put(&self, head: &CreateTopic<'_>) -> Result<(), Refusal> {
        names::check_topic(head.topic)?;
        self.not_system(head.topic)?;
        let read = queues("readQueueNums", head.read_queue_nums)?;
        let write = queues("writeQueueNums", head.write_queue_nums)?;
        let perm = u8::try_from(head.perm)
            .ok()
            .filter(|perm| *perm <= 7)
            .ok_or_else(|| Refusal::parameter(format!("perm {} is not 0 to 7", head.perm)))?;
        let old = self.topics.catalog.by_native(head.topic);
        let attributes = attributes(old.as_deref(), head.attributes.unwrap_or_default())?;
        let topic = match old {
            Some(topic) => topic,
            None => {
                let mut new = native_topic(head.topic, read.max(write), Perm(perm));
                new.order = head.order.unwrap_or(false);
                new.sys_flag = head.topic_sys_flag.unwrap_or(0);
                new.multi_tag = head.topic_filter_type == Some("MULTI_TAG");
                new.attributes.clone_from(&attributes);
                self.topics.create(new).await?
            }
        };
        let change = TopicChange {
            perm: Some(Perm(perm)).filter(|perm| *perm != topic.perm),
            read_queues: Some(read).filter(|queues| *queues != topic.read_queues),
            write_queues: Some(write).filter(|queues| *queues != topic.write_queues),
            order: head.order.filter(|order| *order != topic.order),
            attributes: Some(attributes).filter(|attributes| *attributes != topic.attributes),
            settings: None,
        };
        let changes = change.perm.is_some()
            || change.read_queues.is_some()
            || change.write_queues.is_some()
            || change.order.is_some()
            || change.attributes.is_some();
        if changes {
            self.topics.catalog.change(topic.key(), change).await?;
        }
        tracing::info!(
            topic = head.topic,
            read,
            write,
            perm,
            "topic created or changed"
        );
        Ok(())
    }

    /// Code 215.
    pub(crate) async fn delete(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = TopicIs::read(&request.fields)?;
        if head.topic.trim().is_empty() {
            return Err(Refusal::parameter("The specified topic is blank."));
        }
        self.not_system(head.topic)?;
        if let Some(topic) = self.topics.catalog.by_native(head.topic) {
            if topic.class != Class::User {
                return Err(conflict(head.topic));
            }
            self.topics.catalog.delete(topic.key()).await?;
            tracing::info!(topic = head.topic, "topic deleted");
        }
        self.registered.wait().await;
        Ok(crate::table::done(request))
    }

    /// 21: Everything when the asker sends no page; else one page.
    pub(crate) fn all(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = AllTopics::read(&request.fields)?;
        let topics = registration::visible(&self.topics.catalog);
        let total = topics.len();
        let whole =
            head.topic_seq.is_none() && head.data_version.is_none() && head.max_topic_num.is_none();
        let (from, count) = if whole {
            (0, total)
        } else {
            (
                usize::try_from(head.topic_seq.unwrap_or(0)).unwrap_or(0),
                usize::try_from(head.max_topic_num.unwrap_or(0))
                    .ok()
                    .filter(|count| *count > 0)
                    .map_or(PAGE_MAX, |count| count.min(PAGE_MAX)),
            )
        };
        let version = registration::data_version(&self.topics.catalog);
        let body = TopicTable {
            data_version: version,
            mapping_data_version: version,
            topic_config_table: topics
                .iter()
                .skip(from)
                .take(count)
                .filter_map(|topic| {
                    let config = registration::config(topic)?;
                    Some((config.topic_name.clone(), config))
                })
                .collect(),
            ..TopicTable::default()
        };
        let reply = Command::response_to(request, response::SUCCESS)
            .with_field("totalTopicNum", total)
            .with_body(crate::table::encoded(&body));
        Ok(Outcome::Reply(reply))
    }

    /// Code 351.
    pub(crate) fn one(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = TopicConfigOf::read(&request.fields)?;
        let config = self
            .topics
            .catalog
            .by_native(head.topic)
            .and_then(|topic| registration::config(&topic))
            .ok_or_else(|| {
                Refusal::new(
                    response::TOPIC_NOT_EXIST,
                    format!("No topic in this broker. topic: {}", head.topic),
                )
            })?;
        Ok(crate::table::json(request, &config))
    }

    /// 202: One row per queue, read or written; times are store times.
    pub(crate) async fn stats(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = TopicIs::read(&request.fields)?;
        let topic = self
            .topics
            .catalog
            .by_native(head.topic)
            .ok_or_else(|| Refusal::no_topic(head.topic))?;
        let mut body = TopicStats::default();
        for queue in 0..topic.read_queues.max(topic.write_queues) {
            if topic.queue(queue).is_none() {
                continue;
            }
            let ends = self.consuming.ends(&topic, queue, true);
            let mut time = 0;
            if ends.stable > ends.first {
                let last = QueueOffset(ends.stable.0 - 1);
                time = super::offset::store_time(&self.consuming, &topic, queue, last)
                    .await?
                    .unwrap_or(0);
            }
            body.offset_table.insert(
                registration::queue_key(head.topic, &self.broker_name, queue)?,
                TopicOffset {
                    min_offset: i64::try_from(ends.first.0).unwrap_or(i64::MAX),
                    max_offset: i64::try_from(ends.stable.0).unwrap_or(i64::MAX),
                    last_update_timestamp: time,
                },
            );
        }
        Ok(crate::table::json(request, &body))
    }

    /// Code 305.
    pub(crate) fn system(&self, request: &Command) -> Result<Outcome, Refusal> {
        let topics: BTreeSet<String> = registration::visible(&self.topics.catalog)
            .iter()
            .filter_map(|topic| topic.native.as_ref())
            .filter(|name| self.is_system(name))
            .map(ToString::to_string)
            .collect();
        let body = TopicList {
            topic_list: topics.into_iter().collect(),
            broker_addr: None,
        };
        Ok(crate::table::json(request, &body))
    }

    /// 300: who subscribes now, and who has progress.
    pub(crate) fn consumed_by(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = TopicIs::read(&request.fields)?;
        let mut groups: BTreeSet<String> =
            self.members.subscribers(head.topic).into_iter().collect();
        if let Some(topic) = self.topics.catalog.by_native(head.topic) {
            for group in self.offsets.groups() {
                let has = self
                    .offsets
                    .of_group(&group)
                    .iter()
                    .any(|(key, _, _)| key == topic.key());
                if has {
                    groups.insert(names::group_name(&group).into_owned());
                }
            }
        }
        let body = GroupList {
            group_list: groups.into_iter().collect(),
        };
        Ok(crate::table::json(request, &body))
    }

    fn is_system(&self, topic: &str) -> bool {
        names::is_system_topic(topic)
            || *topic == *self.broker_name
            || *topic == *self.cluster_name
            || topic.strip_suffix("_REPLY_TOPIC") == Some(&*self.cluster_name)
    }

    fn not_system(&self, topic: &str) -> Result<(), Refusal> {
        if self.is_system(topic) {
            return Err(conflict(topic));
        }
        Ok(())
    }
}

fn conflict(topic: &str) -> Refusal {
    Refusal::parameter(format!("The topic[{topic}] is conflict with system topic."))
}

fn queues(field: &str, count: i32) -> Result<u32, Refusal> {
    u32::try_from(count)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| Refusal::parameter(format!("{field} {count} is not above 0")))
}

/// The topic's attributes with `+key=value,-key` applied (RocketMQ `AttributeParser`).
fn attributes(topic: Option<&Topic>, change: &str) -> Result<BTreeMap<String, String>, Refusal> {
    let mut out = topic
        .map(|topic| topic.attributes.clone())
        .unwrap_or_default();
    for part in change
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if let Some(pair) = part.strip_prefix('+') {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Refusal::system(format!("attribute {part:?} has no value")))?;
            if !matches!(
                key,
                "message.type" | "queue.type" | "cleanup.policy" | "reserve.time"
            ) {
                return Err(Refusal::system(format!("attribute key {key:?} is unknown")));
            }
            if (key, value) == ("queue.type", "BatchCQ") {
                return Err(Refusal::system("queue.type=BatchCQ is not supported"));
            }
            out.insert(key.to_owned(), value.to_owned());
        } else if let Some(key) = part.strip_prefix('-') {
            if topic.is_none() {
                return Err(Refusal::system("only + is allowed when a topic is created"));
            }
            out.remove(key);
        } else {
            return Err(Refusal::system(format!(
                "attribute {part:?} begins neither with + nor with -"
            )));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_added_and_unknown_ones_refused() {
        let added = attributes(None, "+message.type=FIFO, +reserve.time=5").expect("legal");
        assert_eq!(added.get("message.type").map(String::as_str), Some("FIFO"));
        assert_eq!(added.len(), 2);
        assert!(attributes(None, "-message.type").is_err());
        assert!(attributes(None, "+colour=red").is_err());
        assert!(attributes(None, "message.type=FIFO").is_err());
    }
}
