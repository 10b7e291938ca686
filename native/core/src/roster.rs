//! One roster per group: members of both kinds, what they subscribe to, which queues they hold.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

/// Which protocol a member speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tongue {
    /// Kafka.
    Kafka,
    /// RocketMQ.
    Native,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Kafka's member id, RocketMQ's client id.
    pub id: Arc<str>,
    /// Its protocol.
    pub tongue: Tongue,
    /// Kafka's client.id; RocketMQ's client id.
    pub client_id: Arc<str>,
    /// Where it connects from.
    pub host: SocketAddr,
    /// Topics it subscribes to, by `Topic::key` where known.
    pub topics: Vec<Arc<str>>,
    /// Queues it holds, by topic key, where the broker knows them.
    pub held: Vec<(Arc<str>, u32)>,
}

type Members = BTreeMap<Arc<str>, Member>;

/// Who is in which group now. In memory only: members come back by themselves.
#[derive(Debug, Default)]
pub struct Roster {
    groups: parking_lot::RwLock<HashMap<Arc<str>, Members>>,
}

impl Roster {
    /// Adds or replaces a member. Groups in Kafka's spelling.
    pub fn put(&self, group: &str, member: Member) {
        let mut groups = self.groups.write();
        if let Some(members) = groups.get_mut(group) {
            members.insert(Arc::clone(&member.id), member);
        } else {
            let members = BTreeMap::from([(Arc::clone(&member.id), member)]);
            groups.insert(group.into(), members);
        }
    }
    /// Removes a member.
    pub fn remove(&self, group: &str, id: &str) {
        let mut groups = self.groups.write();
        if let Some(members) = groups.get_mut(group) {
            members.remove(id);
            if members.is_empty() {
                groups.remove(group);
            }
        }
    }
    /// A group's members, in the order of their ids.
    #[must_use]
    pub fn members(&self, group: &str) -> Vec<Member> {
        self.groups
            .read()
            .get(group)
            .map(|members| members.values().cloned().collect())
            .unwrap_or_default()
    }
    /// Whether a group has a member that speaks `tongue`.
    #[must_use]
    pub fn speaks(&self, group: &str, tongue: Tongue) -> bool {
        self.groups
            .read()
            .get(group)
            .is_some_and(|members| members.values().any(|member| member.tongue == tongue))
    }
    /// Groups that have members, in name order.
    #[must_use]
    pub fn groups(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.groups.read().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, tongue: Tongue) -> Member {
        Member {
            id: id.into(),
            tongue,
            client_id: id.into(),
            host: ([127, 0, 0, 1], 1).into(),
            topics: Vec::new(),
            held: Vec::new(),
        }
    }

    #[test]
    fn one_group_holds_members_of_both_kinds() {
        let roster = Roster::default();
        roster.put("g", member("b", Tongue::Kafka));
        roster.put("g", member("a", Tongue::Native));
        roster.put("g", member("a", Tongue::Native));
        let ids: Vec<_> = roster
            .members("g")
            .iter()
            .map(|m| m.id.to_string())
            .collect();
        assert_eq!(ids, ["a", "b"]);
        assert!(roster.speaks("g", Tongue::Native));
        roster.remove("g", "a");
        assert!(!roster.speaks("g", Tongue::Native) && roster.speaks("g", Tongue::Kafka));
        roster.remove("g", "b");
        assert!(roster.groups().is_empty());
        assert!(roster.members("g").is_empty());
    }
}
