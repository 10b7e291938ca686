//! The pure table: brokers, topics, liveness. Time is passed in; what falls out is returned. The rules
//! are those of RocketMQ's `RouteInfoManager`.

mod registration;
#[cfg(test)]
mod tests;
mod views;

pub use registration::{Bounds, Fallen, Member, Registered, Registration};

use crate::error::RouteError;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use twinmq_remoting::bodies::DataVersion;
use twinmq_remoting::bodies::route::{BrokerData, QueueData};
use twinmq_remoting::bodies::topic::{PERM_READ, PERM_WRITE};

/// The master's broker id.
const MASTER: i64 = 0;
#[derive(Clone, Debug)]
struct Live {
    name: String,
    id: i64,
    seen: Instant,
    silence_max: Duration,
    version: DataVersion,
    ha_addr: String,
    extra: BTreeMap<String, String>,
    channel: Option<u64>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Table {
    topics: BTreeMap<String, BTreeMap<String, QueueData>>,
    brokers: BTreeMap<String, BrokerData>,
    clusters: BTreeMap<String, BTreeSet<String>>,
    live: HashMap<Member, Live>,
}

impl Table {
    /// Takes a registration. `silence_max` holds for brokers that name none.
    ///
    /// # Errors
    /// It is not whole though it is the first, or the table is full. Nothing has changed then.
    pub fn register(
        &mut self,
        from: Registration,
        now: Instant,
        silence_max: Duration,
        bounds: Bounds,
    ) -> Result<Registered, RouteError> {
        let known = self.brokers.get(&from.name);
        if known.is_none() && self.brokers.len() >= bounds.brokers_max {
            return Err(RouteError::TooMany {
                what: "brokers",
                key: "brokers_max",
            });
        }
        let held = known
            .and_then(|broker| broker.broker_addrs.get(&from.id))
            .cloned();
        let member = Member {
            cluster: from.cluster.clone(),
            addr: from.addr.clone(),
        };
        if let Some(holder) = held.as_ref().filter(|holder| **holder != from.addr)
            && self.state_of(&from.cluster, holder) > from.version.state_version
        {
            // Another address holds that id in a later term: the newcomer is ignored.
            self.live.remove(&member);
            return Ok(Registered::default());
        }
        if held.is_none() && from.topics.len() == 1 && !from.whole {
            return Err(RouteError::NotWhole);
        }
        let serves = self.serves_topics(&from);
        let changed = held.is_none() || self.changed(&member, &from.version);
        if serves && changed {
            let new = from
                .topics
                .keys()
                .filter(|topic| !self.topics.contains_key(*topic))
                .count();
            if self.topics.len() + new > bounds.topics_max {
                return Err(RouteError::TooMany {
                    what: "topics",
                    key: "topics_max",
                });
            }
        }
        self.place(&from, held.as_deref());
        if serves && changed {
            self.take_topics(&from);
        }
        let answer = self.master_for(&from);
        self.live.insert(
            member,
            Live {
                name: from.name,
                id: from.id,
                seen: now,
                silence_max: from.silence_max.unwrap_or(silence_max),
                version: from.version,
                ha_addr: from.ha_addr,
                extra: from.extra,
                channel: from.channel,
            },
        );
        Ok(answer)
    }

    fn state_of(&self, cluster: &str, addr: &str) -> i64 {
        let member = Member {
            cluster: cluster.to_owned(),
            addr: addr.to_owned(),
        };
        self.live
            .get(&member)
            .map_or(i64::MIN, |live| live.version.state_version)
    }

    /// A master brings topics; so does the first replica of a broker that knows acting masters.
    fn serves_topics(&self, from: &Registration) -> bool {
        if from.id == MASTER {
            return true;
        }
        let lowest = self.brokers.get(&from.name).and_then(|broker| {
            broker
                .broker_addrs
                .iter()
                .filter(|(_, addr)| **addr != from.addr)
                .map(|(id, _)| *id)
                .min()
        });
        from.acting_master.is_some() && lowest.is_none_or(|lowest| from.id <= lowest)
    }

    /// Puts the address in its place: out of any other id's, into its own.
    fn place(&mut self, from: &Registration, held: Option<&str>) {
        let member = Member {
            cluster: from.cluster.clone(),
            addr: from.addr.clone(),
        };
        let before = self.live.get(&member).map(|live| live.name.clone());
        if let Some(name) = before.filter(|name| *name != from.name) {
            self.unregister(&member, &name);
        }
        if let Some(old) = held.filter(|old| *old != from.addr) {
            self.live.remove(&Member {
                cluster: from.cluster.clone(),
                addr: old.to_owned(),
            });
        }
        let broker = self
            .brokers
            .entry(from.name.clone())
            .or_insert_with(|| BrokerData {
                broker_name: from.name.clone(),
                ..BrokerData::default()
            });
        if broker.cluster != from.cluster {
            if let Some(names) = self.clusters.get_mut(&broker.cluster) {
                names.remove(&from.name);
                if names.is_empty() {
                    self.clusters.remove(&broker.cluster);
                }
            }
            let moved = Member {
                cluster: broker.cluster.clone(),
                addr: from.addr.clone(),
            };
            self.live.remove(&moved);
            broker.cluster.clone_from(&from.cluster);
        }
        self.clusters
            .entry(from.cluster.clone())
            .or_default()
            .insert(from.name.clone());
        broker.enable_acting_master = from.acting_master.unwrap_or(false);
        broker.zone_name.clone_from(&from.zone);
        broker
            .broker_addrs
            .retain(|id, addr| *id == from.id || *addr != from.addr);
        broker.broker_addrs.insert(from.id, from.addr.clone());
    }

    fn take_topics(&mut self, from: &Registration) {
        let acting = from.id != MASTER && from.acting_master == Some(true);
        for (topic, config) in &from.topics {
            let perm = if acting {
                config.perm & !PERM_WRITE
            } else {
                config.perm
            };
            let queues = QueueData {
                broker_name: from.name.clone(),
                perm,
                read_queue_nums: config.read_queue_nums,
                topic_sys_flag: config.topic_sys_flag,
                write_queue_nums: config.write_queue_nums,
            };
            self.topics
                .entry(topic.clone())
                .or_default()
                .insert(from.name.clone(), queues);
        }
        if from.whole {
            self.topics.retain(|topic, brokers| {
                if !from.topics.contains_key(topic) {
                    brokers.remove(&from.name);
                }
                !brokers.is_empty()
            });
        }
    }

    fn master_for(&self, from: &Registration) -> Registered {
        let master = self
            .brokers
            .get(&from.name)
            .and_then(|broker| broker.broker_addrs.get(&MASTER));
        let Some(master) = master.filter(|_| from.id != MASTER) else {
            return Registered::default();
        };
        let member = Member {
            cluster: from.cluster.clone(),
            addr: master.clone(),
        };
        let ha_addr = self.live.get(&member).map(|live| live.ha_addr.clone());
        Registered {
            ha_addr,
            master_addr: Some(master.clone()),
        }
    }

    fn changed(&self, member: &Member, version: &DataVersion) -> bool {
        self.live
            .get(member)
            .is_none_or(|live| live.version != *version)
    }

    /// Whether a broker's version differs from what is known, and what is known. The broker counts as
    /// alive when it does not.
    pub fn compare(
        &mut self,
        member: &Member,
        version: &DataVersion,
        now: Instant,
    ) -> (bool, Option<DataVersion>) {
        let Some(live) = self.live.get_mut(member) else {
            return (true, None);
        };
        let changed = live.version != *version;
        if !changed {
            live.seen = now;
        }
        (changed, Some(live.version))
    }

    /// A broker says that it lives.
    pub fn heartbeat(&mut self, member: &Member, now: Instant) {
        if let Some(live) = self.live.get_mut(member) {
            live.seen = now;
        }
    }

    /// A broker says that it goes, or has gone.
    pub fn unregister(&mut self, member: &Member, name: &str) {
        self.live.remove(member);
        let Entry::Occupied(mut entry) = self.brokers.entry(name.to_owned()) else {
            return;
        };
        let broker = entry.get_mut();
        broker.broker_addrs.retain(|_, addr| *addr != member.addr);
        if !broker.broker_addrs.is_empty() {
            if broker.enable_acting_master && !broker.broker_addrs.contains_key(&MASTER) {
                self.each_queue_of(name, |queues| queues.perm &= !PERM_WRITE);
            }
            return;
        }
        let broker = entry.remove();
        if let Some(names) = self.clusters.get_mut(&broker.cluster) {
            names.remove(name);
            if names.is_empty() {
                self.clusters.remove(&broker.cluster);
            }
        }
        self.topics.retain(|_, brokers| {
            brokers.remove(name);
            !brokers.is_empty()
        });
    }

    /// A connection has ended: whoever registered over it last is out. A broker that has registered
    /// anew over another connection stays.
    pub fn disconnected(&mut self, channel: u64) -> Vec<Fallen> {
        self.drop_where(|live| live.channel == Some(channel))
    }

    /// Drops every member that was silent for too long.
    pub fn expire(&mut self, now: Instant) -> Vec<Fallen> {
        self.drop_where(|live| now.saturating_duration_since(live.seen) > live.silence_max)
    }

    fn drop_where(&mut self, gone: impl Fn(&Live) -> bool) -> Vec<Fallen> {
        let fallen: Vec<Fallen> = self
            .live
            .iter()
            .filter(|(_, live)| gone(live))
            .map(|(member, live)| Fallen {
                member: member.clone(),
                name: live.name.clone(),
                channel: live.channel,
            })
            .collect();
        for out in &fallen {
            self.unregister(&out.member, &out.name);
        }
        fallen
    }

    /// Removes a topic, everywhere or from one cluster's brokers.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(cluster) = cluster.filter(|cluster| !cluster.is_empty()) else {
            self.topics.remove(topic);
            return;
        };
        let names = self.clusters.get(cluster);
        if let Some(brokers) = self.topics.get_mut(topic) {
            brokers.retain(|name, _| !names.is_some_and(|names| names.contains(name)));
            if brokers.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// Adds a topic's queues on brokers that are in.
    ///
    /// # Errors
    /// The table is full.
    pub fn add_topic(
        &mut self,
        topic: &str,
        queues: Vec<QueueData>,
        bounds: Bounds,
    ) -> Result<(), RouteError> {
        if !self.topics.contains_key(topic) && self.topics.len() >= bounds.topics_max {
            return Err(RouteError::TooMany {
                what: "topics",
                key: "topics_max",
            });
        }
        for queues in queues
            .into_iter()
            .filter(|queues| self.brokers.contains_key(&queues.broker_name))
        {
            let brokers = self.topics.entry(topic.to_owned()).or_default();
            brokers.insert(queues.broker_name.clone(), queues);
        }
        Ok(())
    }

    /// Takes write permission from all topics of a broker, or gives it back; how many topics it has.
    pub fn set_writable(&mut self, name: &str, writable: bool) -> i32 {
        self.each_queue_of(name, |queues| {
            if writable {
                queues.perm = PERM_READ | PERM_WRITE;
            } else {
                queues.perm &= !PERM_WRITE;
            }
        })
    }

    fn each_queue_of(&mut self, name: &str, change: impl Fn(&mut QueueData)) -> i32 {
        let mut count = 0;
        for queues in self
            .topics
            .values_mut()
            .filter_map(|brokers| brokers.get_mut(name))
        {
            change(queues);
            count += 1;
        }
        count
    }
}
