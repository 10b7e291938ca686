//! Consumer groups: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) and its list form (225), DELETE_SUBSCRIPTIONGROUP (207),
//! GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), GET_SUBSCRIPTIONGROUP_CONFIG (352),
//! QUERY_TOPICS_BY_CONSUMER (343), QUERY_SUBSCRIPTION_BY_CONSUMER (345).

use crate::error::Refusal;
use crate::members::{Members, Wanted};
use crate::names;
use crate::registration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twinmq_core::catalog::Catalog;
use twinmq_core::groups::{Group, Groups};
use twinmq_core::offsets::Offsets;
use twinmq_remoting::bodies::connection::SubscriptionOf;
use twinmq_remoting::bodies::group::{
    AllGroups as GroupTable, GroupConfigList, SubscriptionGroupConfig,
};
use twinmq_remoting::bodies::topic::TopicList;
use twinmq_remoting::code::response;
use twinmq_remoting::fields::client::{AllGroups, DeleteGroup, GroupIs, GroupTopic};
use twinmq_remoting::{Command, Outcome};

const PAGE_MAX: usize = 2000;

/// What group administration needs.
#[derive(Debug)]
pub(crate) struct GroupAdmin {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) members: Arc<Members>,
}

impl GroupAdmin {
    /// Code 200.
    pub(crate) async fn put(&self, request: &Command) -> Result<Outcome, Refusal> {
        self.put_one(crate::table::body(request)?).await?;
        Ok(crate::table::done(request))
    }

    /// Code 225.
    pub(crate) async fn put_list(&self, request: &Command) -> Result<Outcome, Refusal> {
        let body: GroupConfigList = crate::table::body(request)?;
        for config in body.group_config_list {
            self.put_one(config).await?;
        }
        Ok(crate::table::done(request))
    }

    async fn put_one(&self, config: SubscriptionGroupConfig) -> Result<(), Refusal> {
        let old = self.groups.get(&config.group_name);
        let group = group(config, old.as_deref());
        if !names::is_group(&group.group_name) {
            return Err(Refusal::parameter(format!(
                "the group name {:?} is blank, longer than 120 or has other characters than ^[%|a-zA-Z0-9_-]+$",
                group.group_name
            )));
        }
        tracing::info!(
            group = group.group_name,
            "subscription group created or changed"
        );
        self.groups.put(group).await?;
        Ok(())
    }

    /// Code 207.
    pub(crate) async fn delete(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = DeleteGroup::read(&request.fields)?;
        self.groups.delete(head.group_name).await?;
        if head.clean_offset == Some(true) {
            self.offsets
                .remove_group(&names::group_key(head.group_name))
                .await?;
        }
        tracing::info!(group = head.group_name, "subscription group deleted");
        Ok(crate::table::done(request))
    }

    /// 201: Everything when the asker sends no page; else one page.
    pub(crate) fn all(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = AllGroups::read(&request.fields)?;
        let groups = self.groups.all();
        let total = groups.len();
        let whole =
            head.group_seq.is_none() && head.data_version.is_none() && head.max_group_num.is_none();
        let (from, count) = if whole {
            (0, total)
        } else {
            (
                usize::try_from(head.group_seq.unwrap_or(0)).unwrap_or(0),
                usize::try_from(head.max_group_num.unwrap_or(0))
                    .ok()
                    .filter(|count| *count > 0)
                    .map_or(PAGE_MAX, |count| count.min(PAGE_MAX)),
            )
        };
        let body = GroupTable {
            data_version: registration::data_version(&self.catalog),
            forbidden_table: BTreeMap::new(),
            subscription_group_table: groups
                .iter()
                .skip(from)
                .take(count)
                .map(|group| (group.group_name.clone(), config(group)))
                .collect(),
        };
        let reply = Command::response_to(request, response::SUCCESS)
            .with_field("totalGroupNum", total)
            .with_body(crate::table::encoded(&body));
        Ok(Outcome::Reply(reply))
    }

    /// Code 352.
    pub(crate) fn one(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = GroupIs::read(&request.fields)?;
        let group = self
            .groups
            .get(head.group)
            .ok_or_else(|| Refusal::no_group(head.group))?;
        Ok(crate::table::json(request, &config(&group)))
    }

    /// 343: topics the group subscribes to or has progress in.
    pub(crate) fn topics(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = GroupIs::read(&request.fields)?;
        let mut topics = self.with_progress(head.group);
        if let Some(live) = self.members.group(head.group) {
            topics.extend(live.subscriptions.into_keys());
        }
        let body = TopicList {
            topic_list: topics.into_iter().collect(),
            broker_addr: None,
        };
        Ok(crate::table::json(request, &body))
    }

    /// Code 345.
    pub(crate) fn subscription(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = GroupTopic::read(&request.fields)?;
        let topic = head.topic.unwrap_or_default();
        let subscription_data = match self.members.wanted(head.group, topic) {
            Wanted::Found { subscription, .. } => Some(subscription.data.clone()),
            Wanted::NoGroup | Wanted::NoTopic { .. } => None,
        };
        let body = SubscriptionOf {
            group: head.group.to_owned(),
            topic: topic.to_owned(),
            subscription_data,
        };
        Ok(crate::table::json(request, &body))
    }

    fn with_progress(&self, group: &str) -> BTreeSet<String> {
        self.offsets
            .of_group(&names::group_key(group))
            .iter()
            .filter_map(|(key, _, _)| self.catalog.by_key(key)?.native.clone())
            .map(|name| name.to_string())
            .collect()
    }
}

const ATTRIBUTES: &str = "attributes";
const RETRY_POLICY: &str = "groupRetryPolicy";
const SUBSCRIPTIONS: &str = "subscriptionDataSet";

/// A group's free attributes.
fn attributes(group: &Group) -> BTreeMap<String, String> {
    let held = group.others.get(ATTRIBUTES).cloned();
    held.and_then(|held| serde_json::from_value(held).ok())
        .unwrap_or_default()
}

/// A group as RocketMQ describes it.
fn config(group: &Group) -> SubscriptionGroupConfig {
    let plain = SubscriptionGroupConfig::default();
    SubscriptionGroupConfig {
        attributes: attributes(group),
        group_retry_policy: group
            .others
            .get(RETRY_POLICY)
            .cloned()
            .unwrap_or(plain.group_retry_policy),
        subscription_data_set: group.others.get(SUBSCRIPTIONS).cloned(),
        broker_id: group.broker_id,
        consume_broadcast_enable: group.consume_broadcast_enable,
        consume_enable: group.consume_enable,
        consume_from_min_enable: group.consume_from_min_enable,
        consume_message_orderly: group.consume_message_orderly,
        consume_timeout_minute: group.consume_timeout_minute,
        group_name: group.group_name.clone(),
        group_sys_flag: group.group_sys_flag,
        notify_consumer_ids_changed_enable: group.notify_consumer_ids_changed_enable,
        retry_max_times: group.retry_max_times,
        retry_queue_nums: group.retry_queue_nums,
        which_broker_when_consume_slowly: group.which_broker_when_consume_slowly,
    }
}

/// The definition that a client asks for. Everything is as it says but for the attributes, of which
/// `+key` sets and `-key` removes one (RocketMQ `AttributeUtil`).
fn group(config: SubscriptionGroupConfig, old: Option<&Group>) -> Group {
    let mut held = old.map(attributes).unwrap_or_default();
    for (key, value) in config.attributes {
        if let Some(key) = key.strip_prefix('-') {
            held.remove(key);
        } else {
            let key = key.strip_prefix('+').unwrap_or(&key);
            held.insert(key.to_owned(), value);
        }
    }
    let mut others = BTreeMap::new();
    if !held.is_empty() {
        others.insert(ATTRIBUTES.to_owned(), serde_json::json!(held));
    }
    if config.group_retry_policy != SubscriptionGroupConfig::default().group_retry_policy {
        others.insert(RETRY_POLICY.to_owned(), config.group_retry_policy);
    }
    if let Some(subscriptions) = config.subscription_data_set {
        others.insert(SUBSCRIPTIONS.to_owned(), subscriptions);
    }
    Group {
        group_name: config.group_name,
        consume_enable: config.consume_enable,
        consume_from_min_enable: config.consume_from_min_enable,
        consume_broadcast_enable: config.consume_broadcast_enable,
        consume_message_orderly: config.consume_message_orderly,
        retry_queue_nums: config.retry_queue_nums,
        retry_max_times: config.retry_max_times,
        broker_id: config.broker_id,
        which_broker_when_consume_slowly: config.which_broker_when_consume_slowly,
        notify_consumer_ids_changed_enable: config.notify_consumer_ids_changed_enable,
        group_sys_flag: config.group_sys_flag,
        consume_timeout_minute: config.consume_timeout_minute,
        others,
    }
}
