//! Clients and what they say about themselves: HEART_BEAT (34), UNREGISTER_CLIENT (35),
//! GET_CONSUMER_LIST_BY_GROUP (38), CHECK_CLIENT_CONFIG (46) and the connection lists (203, 204,
//! 328).
//!
//! A heartbeat is registered before it is answered, so that a list asked for next holds the asker.
//! V2 heartbeats are understood; the answer always asks for the full form (IS_SUB_CHANGE).

use crate::error::Refusal;
use crate::members::{Changed, Client, Members};
use crate::names;
use crate::peer::Peer;
use crate::registration::Registered;
use crate::topics::Topics;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_core::groups::Groups;
use twinmq_remoting::bodies::connection::{
    AllProducers, Connection, ConsumerConnections, ProducerConnections, ProducerInfo,
};
use twinmq_remoting::bodies::group::ConsumerList;
use twinmq_remoting::bodies::heartbeat::{CheckClient, ConsumerData, HeartbeatData};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::fields::client::{ConsumerGroup, ProducerGroup, Unregister};
use twinmq_remoting::{Command, Outcome};

/// Longest group name that is kept for a live client, in bytes. RocketMQ's own clients stop at 255.
const NAME_MAX: usize = 255;

/// What clients need.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) members: Arc<Members>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) registered: Registered,
    pub(crate) auto_create_groups: bool,
    pub(crate) entries_max: usize,
}

impl Clients {
    /// Code 34.
    pub(crate) async fn heartbeat(
        &self,
        peer: &Arc<Peer>,
        request: &Command,
    ) -> Result<Outcome, Refusal> {
        let beat: HeartbeatData = crate::table::body(request)?;
        let entries = beat.producer_data_set.len()
            + beat
                .consumer_data_set
                .iter()
                .map(|consumer| 1 + consumer.subscription_data_set.len())
                .sum::<usize>();
        if entries > self.entries_max {
            return Err(Refusal::parameter(format!(
                "{entries} groups and topics in one heartbeat, more than native.heartbeat_entries_max = {}",
                self.entries_max
            )));
        }
        let consumers = beat.consumer_data_set.iter().map(|data| &data.group_name);
        let producers = beat.producer_data_set.iter().map(|data| &data.group_name);
        if let Some(name) = consumers
            .chain(producers)
            .find(|name| name.len() > NAME_MAX)
        {
            return Err(Refusal::parameter(format!(
                "a group name of {} bytes is longer than {NAME_MAX}",
                name.len()
            )));
        }
        let client = Client {
            id: Arc::from(beat.client_id.as_str()),
            language: request.language,
            version: request.version,
            channel: peer.channel.clone(),
            seen_ms: crate::now_ms(),
        };
        for consumer in &beat.consumer_data_set {
            self.consumer(peer, consumer, &client, beat.without_sub)
                .await?;
        }
        for producer in &beat.producer_data_set {
            self.members
                .producer(&producer.group_name, client.clone())
                .map_err(|_| too_many())?;
            peer.produces(&producer.group_name);
        }
        let mut reply = Command::response_to(request, response::SUCCESS);
        reply.fields.set("IS_SUPPORT_HEART_BEAT_V2", "true");
        reply.fields.set("IS_SUB_CHANGE", "true");
        Ok(Outcome::Reply(reply))
    }

    async fn consumer(
        &self,
        peer: &Peer,
        data: &ConsumerData,
        client: &Client,
        keep: bool,
    ) -> Result<(), Refusal> {
        let name = &data.group_name;
        let definition = match self.groups.get(name) {
            Some(group) => Some(group),
            None if self.auto_create_groups && names::is_group(name) => {
                Some(self.groups.ensure(name).await?)
            }
            None => None,
        };
        if let Some(group) = &definition
            && let Ok(queues) = u32::try_from(group.retry_queue_nums)
            && queues > 0
        {
            let retry = format!("{}{name}", names::RETRY_PREFIX);
            if self.topics.catalog.by_native(&retry).is_none() {
                self.topics.ensure(&retry, queues).await?;
                self.registered.wait().await;
            }
        }
        let key = |topic: &str| match self.topics.catalog.by_native(topic) {
            Some(known) => known.key().clone(),
            None => Arc::from(topic),
        };
        let changed = self
            .members
            .consumer(data, client.clone(), keep, key)
            .map_err(|_| too_many())?;
        peer.consumes(name);
        if peer.channel.is_closed() {
            // It went while the group was being made; nobody else would take it out again.
            self.closed(peer);
            return Ok(());
        }
        if let Some(changed) = changed {
            self.tell(&changed);
        }
        Ok(())
    }

    /// Code 35.
    pub(crate) fn unregister(
        &self,
        peer: &Arc<Peer>,
        request: &Command,
    ) -> Result<Outcome, Refusal> {
        let head = Unregister::read(&request.fields)?;
        let connection = peer.channel.id();
        if let Some(group) = head.producer_group.filter(|group| !group.is_empty()) {
            self.members.remove_producer(group, connection);
        }
        if let Some(group) = head.consumer_group.filter(|group| !group.is_empty())
            && let Some(changed) = self.members.remove_consumer(group, connection)
        {
            self.tell(&changed);
        }
        Ok(crate::table::done(request))
    }

    /// The connection is gone: so is everything registered over it.
    pub(crate) fn closed(&self, peer: &Peer) {
        let registered = peer.registered();
        for group in &registered.producers {
            self.members.remove_producer(group, peer.channel.id());
        }
        for group in &registered.consumers {
            if let Some(changed) = self.members.remove_consumer(group, peer.channel.id()) {
                self.tell(&changed);
            }
        }
    }

    /// Takes out who has been silent since `before_ms` and closes their connections.
    pub(crate) fn expire(&self, before_ms: i64) {
        let (silent, changed) = self.members.expire(before_ms);
        for channel in silent {
            tracing::info!(peer = %channel.remote(), "client without heartbeat is closed");
            channel.close("no heartbeat");
        }
        for changed in changed {
            self.tell(&changed);
        }
    }

    /// 40, one-way, to every live member. A client too slow to take it asks by itself within 20 s.
    fn tell(&self, changed: &Changed) {
        let wanted = self
            .groups
            .get(&changed.group)
            .is_none_or(|group| group.notify_consumer_ids_changed_enable);
        if !wanted {
            return;
        }
        for channel in &changed.tell {
            let notice = Command::notice(code::NOTIFY_CONSUMER_IDS_CHANGED)
                .with_field("consumerGroup", &changed.group);
            if let Err(error) = channel.notify(notice) {
                tracing::debug!(peer = %channel.remote(), %error, "notice not sent");
            }
        }
    }

    /// Code 38.
    pub(crate) fn consumer_list(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ConsumerGroup::read(&request.fields)?;
        let ids = self.members.client_ids(head.consumer_group);
        if ids.is_empty() {
            return Err(Refusal::system(format!(
                "no consumer for this group, {}",
                head.consumer_group
            )));
        }
        let body = ConsumerList {
            consumer_id_list: ids.iter().map(|id| id.to_string()).collect(),
        };
        Ok(crate::table::json(request, &body))
    }

    /// Code 46.
    pub(crate) fn check(&self, request: &Command) -> Result<Outcome, Refusal> {
        if request.body.is_empty() {
            return Ok(crate::table::done(request));
        }
        let asked: CheckClient = crate::table::body(request)?;
        if asked.subscription_data.expression_type != "TAG" {
            return Err(Refusal::system(
                "The broker does not support consumer to filter message by SQL92",
            ));
        }
        Ok(crate::table::done(request))
    }

    /// 203: Tools take exactly 206 for "nobody there".
    pub(crate) fn consumer_connections(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ConsumerGroup::read(&request.fields)?;
        let group = self.members.group(head.consumer_group).ok_or_else(|| {
            Refusal::new(
                response::CONSUMER_NOT_ONLINE,
                format!("the consumer group[{}] not online", head.consumer_group),
            )
        })?;
        let body = ConsumerConnections {
            connection_set: group.clients.values().map(connection).collect(),
            consume_from_where: group.from_where,
            consume_type: group.consume_type,
            message_model: group.message_model,
            subscription_table: group
                .subscriptions
                .into_iter()
                .map(|(topic, subscription)| (topic, subscription.data.clone()))
                .collect(),
        };
        Ok(crate::table::json(request, &body))
    }

    /// Code 204.
    pub(crate) fn producer_connections(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ProducerGroup::read(&request.fields)?;
        let clients = self.members.producers(head.producer_group);
        if clients.is_empty() {
            return Err(Refusal::system(format!(
                "the producer group[{}] not exist",
                head.producer_group
            )));
        }
        let body = ProducerConnections {
            connection_set: clients.iter().map(connection).collect(),
        };
        Ok(crate::table::json(request, &body))
    }

    /// Code 328.
    pub(crate) fn all_producers(&self, request: &Command) -> Result<Outcome, Refusal> {
        let data: BTreeMap<String, Vec<ProducerInfo>> = self
            .members
            .all_producers()
            .into_iter()
            .map(|(group, clients)| {
                let clients = clients
                    .iter()
                    .map(|client| ProducerInfo {
                        client_id: client.id.to_string(),
                        language: client.language.name().to_owned(),
                        last_update_timestamp: client.seen_ms,
                        remote_ip: client.channel.remote().to_string(),
                        version: client.version,
                    })
                    .collect();
                (group, clients)
            })
            .collect();
        Ok(crate::table::json(request, &AllProducers { data }))
    }
}

fn too_many() -> Refusal {
    Refusal::new(
        response::SYSTEM_BUSY,
        "native.live_groups_max is reached: no further group is registered",
    )
}

fn connection(client: &Client) -> Connection {
    Connection {
        client_addr: client.channel.remote().to_string(),
        client_id: client.id.to_string(),
        language: client.language.name().to_owned(),
        version: client.version,
    }
}
