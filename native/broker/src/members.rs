//! Live clients of the native side: who consumes or produces under which group, over which
//! connection, with which subscriptions. Fed by heartbeats, mirrored into core's roster. In memory
//! only: clients come back by themselves. Pure but for the roster: time is passed in, and what
//! must be sent is returned.

use crate::filter;
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use twinmq_core::consume::Filter;
use twinmq_core::roster::{Member, Roster, Tongue};
use twinmq_remoting::bodies::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, MessageModel, SubscriptionData,
};
use twinmq_remoting::{Channel, Language};

/// One connected client as a member of a group.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// RocketMQ's clientId.
    pub(crate) id: Arc<str>,
    /// From its heartbeat's frame.
    pub(crate) language: Language,
    /// From its heartbeat's frame.
    pub(crate) version: i32,
    /// Its connection.
    pub(crate) channel: Channel,
    /// Its last heartbeat.
    pub(crate) seen_ms: i64,
}

/// What a group wants of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// As it was declared.
    pub(crate) data: SubscriptionData,
    /// What core filters by.
    pub(crate) filter: Filter,
}

/// A live consumer group.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerGroup {
    pub(crate) consume_type: ConsumeType,
    pub(crate) message_model: MessageModel,
    pub(crate) from_where: ConsumeFrom,
    pub(crate) subscriptions: BTreeMap<String, Arc<Subscription>>,
    pub(crate) clients: HashMap<u64, Client>,
}

impl ConsumerGroup {
    /// Whether the group's members share its queues.
    pub(crate) fn clustering(&self) -> bool {
        self.message_model == MessageModel::Clustering
    }
}

#[derive(Debug, Default)]
struct Tables {
    consumers: HashMap<String, ConsumerGroup>,
    producers: HashMap<String, HashMap<u64, Client>>,
}

/// What the pull path asks of a group's subscription.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// No client of the group is here.
    NoGroup,
    /// The group does not subscribe to the topic.
    NoTopic { broadcast: bool },
    /// What it wants.
    Found {
        subscription: Arc<Subscription>,
        broadcast: bool,
    },
}

/// A group whose members changed, and whom to tell.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) group: String,
    pub(crate) tell: Vec<Channel>,
}

/// No more live groups are taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyGroups;

/// All live clients.
#[derive(Debug)]
pub(crate) struct Members {
    tables: RwLock<Tables>,
    roster: Arc<Roster>,
    groups_max: usize,
}

impl Members {
    pub(crate) fn new(roster: Arc<Roster>, groups_max: usize) -> Self {
        Self {
            tables: RwLock::new(Tables::default()),
            roster,
            groups_max,
        }
    }

    /// Registers or refreshes a consumer. `keep_subscriptions`: a heartbeat without subscriptions
    /// (V2) leaves them as they are. Returns whom to tell if the group's members or subscriptions
    /// changed; the caller decides whether the group wants to be told.
    pub(crate) fn consumer(
        &self,
        data: &ConsumerData,
        client: Client,
        keep_subscriptions: bool,
        topic_key: impl Fn(&str) -> Arc<str>,
    ) -> Result<Option<Changed>, TooManyGroups> {
        let name = &data.group_name;
        let mut tables = self.tables.write();
        if !tables.consumers.contains_key(name) && tables.consumers.len() >= self.groups_max {
            return Err(TooManyGroups);
        }
        let group = tables
            .consumers
            .entry(name.clone())
            .or_insert_with(|| ConsumerGroup {
                consume_type: data.consume_type,
                message_model: data.message_model,
                from_where: data.consume_from_where,
                subscriptions: BTreeMap::new(),
                clients: HashMap::new(),
            });
        group.consume_type = data.consume_type;
        group.message_model = data.message_model;
        group.from_where = data.consume_from_where;
        let connection = client.channel.id();
        let old = group.clients.insert(connection, client.clone());
        let mut changed = old.is_none_or(|old| old.id != client.id);
        if !keep_subscriptions {
            changed |= update_subscriptions(&mut group.subscriptions, &data.subscription_data_set);
        }
        let member = Member {
            id: client.id.clone(),
            tongue: Tongue::Native,
            client_id: client.id.clone(),
            host: client.channel.remote(),
            topics: group.subscriptions.keys().map(|t| topic_key(t)).collect(),
            held: Vec::new(),
        };
        let tell = (changed && group.clustering())
            .then(|| group.clients.values().map(|c| c.channel.clone()).collect());
        // Under the lock, so that the roster never keeps a member that has left meanwhile.
        if changed {
            self.roster.put(&crate::names::group_key(name), member);
        }
        Ok(tell.map(|tell| Changed {
            group: name.clone(),
            tell,
        }))
    }

    /// Registers or refreshes a producer.
    pub(crate) fn producer(&self, group: &str, client: Client) -> Result<(), TooManyGroups> {
        let mut tables = self.tables.write();
        if !tables.producers.contains_key(group) && tables.producers.len() >= self.groups_max {
            return Err(TooManyGroups);
        }
        tables
            .producers
            .entry(group.to_owned())
            .or_default()
            .insert(client.channel.id(), client);
        Ok(())
    }

    /// Takes a connection out of one consumer group.
    pub(crate) fn remove_consumer(&self, group: &str, connection: u64) -> Option<Changed> {
        let mut tables = self.tables.write();
        let live = tables.consumers.get_mut(group)?;
        let gone = live.clients.remove(&connection)?;
        if !live.clients.values().any(|client| client.id == gone.id) {
            self.roster
                .remove(&crate::names::group_key(group), &gone.id);
        }
        if live.clients.is_empty() {
            tables.consumers.remove(group);
            return None;
        }
        live.clustering().then(|| Changed {
            group: group.to_owned(),
            tell: live.clients.values().map(|c| c.channel.clone()).collect(),
        })
    }

    /// Takes a connection out of one producer group.
    pub(crate) fn remove_producer(&self, group: &str, connection: u64) {
        let mut tables = self.tables.write();
        if let Some(clients) = tables.producers.get_mut(group) {
            clients.remove(&connection);
            if clients.is_empty() {
                tables.producers.remove(group);
            }
        }
    }

    /// Takes out who has not been heard of since `before_ms`; their connections are returned.
    pub(crate) fn expire(&self, before_ms: i64) -> (Vec<Channel>, Vec<Changed>) {
        let (mut stale, mut closed) = (Vec::new(), Vec::new());
        {
            let mut tables = self.tables.write();
            for (name, group) in &tables.consumers {
                for (connection, client) in &group.clients {
                    if client.seen_ms < before_ms {
                        stale.push((name.clone(), *connection));
                        closed.push(client.channel.clone());
                    }
                }
            }
            tables.producers.retain(|_, clients| {
                clients.retain(|_, client| {
                    let live = client.seen_ms >= before_ms;
                    if !live {
                        closed.push(client.channel.clone());
                    }
                    live
                });
                !clients.is_empty()
            });
        }
        let changed = stale
            .into_iter()
            .filter_map(|(group, connection)| self.remove_consumer(&group, connection))
            .collect();
        (closed, changed)
    }

    /// What the group wants of the topic.
    pub(crate) fn wanted(&self, group: &str, topic: &str) -> Wanted {
        let tables = self.tables.read();
        let Some(group) = tables.consumers.get(group) else {
            return Wanted::NoGroup;
        };
        let broadcast = !group.clustering();
        match group.subscriptions.get(topic) {
            Some(subscription) => Wanted::Found {
                subscription: subscription.clone(),
                broadcast,
            },
            None => Wanted::NoTopic { broadcast },
        }
    }

    /// A live group as it stands.
    pub(crate) fn group(&self, name: &str) -> Option<ConsumerGroup> {
        self.tables.read().consumers.get(name).cloned()
    }

    /// Ids of a group's clients, sorted, each once; empty when nobody is online.
    pub(crate) fn client_ids(&self, group: &str) -> Vec<Arc<str>> {
        let tables = self.tables.read();
        let mut ids: Vec<Arc<str>> = tables
            .consumers
            .get(group)
            .map(|group| group.clients.values().map(|c| c.id.clone()).collect())
            .unwrap_or_default();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Live groups that subscribe to the topic.
    pub(crate) fn subscribers(&self, topic: &str) -> Vec<String> {
        let tables = self.tables.read();
        tables
            .consumers
            .iter()
            .filter(|(_, group)| group.subscriptions.contains_key(topic))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The connection of a group's client.
    pub(crate) fn consumer_channel(&self, group: &str, client_id: &str) -> Option<Client> {
        let tables = self.tables.read();
        let group = tables.consumers.get(group)?;
        group
            .clients
            .values()
            .find(|client| &*client.id == client_id)
            .cloned()
    }

    /// The connection of a producer, whatever its group: where replies go.
    pub(crate) fn producer_channel(&self, client_id: &str) -> Option<Channel> {
        let tables = self.tables.read();
        tables
            .producers
            .values()
            .flat_map(HashMap::values)
            .find(|client| &*client.id == client_id)
            .map(|client| client.channel.clone())
    }

    /// A producer group's clients.
    pub(crate) fn producers(&self, group: &str) -> Vec<Client> {
        let tables = self.tables.read();
        tables
            .producers
            .get(group)
            .map(|clients| clients.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Every producer by group.
    pub(crate) fn all_producers(&self) -> BTreeMap<String, Vec<Client>> {
        let tables = self.tables.read();
        tables
            .producers
            .iter()
            .map(|(group, clients)| (group.clone(), clients.values().cloned().collect()))
            .collect()
    }
}

/// Newer versions replace; topics not named any more go. True when anything changed.
fn update_subscriptions(
    held: &mut BTreeMap<String, Arc<Subscription>>,
    declared: &[SubscriptionData],
) -> bool {
    let mut changed = false;
    for data in declared {
        let newer = held
            .get(&data.topic)
            .is_none_or(|old| data.sub_version > old.data.sub_version);
        if newer {
            let filter = if data.sub_string == "*" || data.sub_string.is_empty() {
                Filter::All
            } else if data.code_set.is_empty() {
                // Some clients send the expression alone.
                filter::of_expression(&data.sub_string).unwrap_or(Filter::Tags(Vec::new()))
            } else {
                Filter::Tags(data.code_set.clone())
            };
            changed |= held
                .insert(
                    data.topic.clone(),
                    Arc::new(Subscription {
                        data: data.clone(),
                        filter,
                    }),
                )
                .is_none_or(|old| old.data.sub_string != data.sub_string);
        }
    }
    let before = held.len();
    held.retain(|topic, _| declared.iter().any(|data| &data.topic == topic));
    changed || held.len() != before
}
