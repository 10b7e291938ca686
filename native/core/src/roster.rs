//! One roster per group: members of both kinds, what they subscribe to, which queues they hold.

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

/// Who is in which group now. In memory only: members come back by themselves.
#[derive(Debug, Default)]
pub struct Roster {}

impl Roster {
    /// Adds or replaces a member. Groups in Kafka's spelling.
    pub fn put(&self, group: &str, member: Member) {
        let _ = (group, member);
        unimplemented!()
    }
    /// Removes a member.
    pub fn remove(&self, group: &str, id: &str) {
        let _ = (group, id);
        unimplemented!()
    }
    /// A group's members.
    #[must_use]
    pub fn members(&self, group: &str) -> Vec<Member> {
        let _ = group;
        unimplemented!()
    }
    /// Groups that have members, with whether any of them is native or Kafka.
    #[must_use]
    pub fn groups(&self) -> Vec<Arc<str>> {
        unimplemented!()
    }
}
