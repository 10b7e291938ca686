//! How groups look to tools, and how their offsets age: Kafka groups, groups that only committed, and
//! groups of RocketMQ consumers, in one list.

use super::coordinator::{Coordinator, Shared};
use super::expiry::{Aging, expired};
use super::state::{Group, State};
use super::subscription::subscribed_topics;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twinmq_core::roster::{Member as Listed, Tongue};

/// Topics and partitions of one member that are looked at, at most.
pub(super) const SHOWN_MAX: usize = 100_000;

/// A group in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listing {
    pub(crate) name: Arc<str>,
    /// "consumer", "connect", ...; empty for groups that only committed.
    pub(crate) protocol_type: Arc<str>,
    pub(crate) state: &'static str,
}

/// A group in full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Description {
    pub(crate) state: &'static str,
    pub(crate) protocol_type: Arc<str>,
    pub(crate) protocol: Arc<str>,
    pub(crate) members: Vec<Described>,
}

/// A member in full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    pub(crate) member_id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}

impl Coordinator {
    /// All groups, in name order.
    pub(crate) fn list(&self) -> Vec<Listing> {
        let mut names: BTreeSet<Arc<str>> = self.groups.lock().keys().cloned().collect();
        names.extend(self.core.offsets.groups());
        names.extend(self.core.roster.groups());
        names
            .into_iter()
            .filter_map(|name| self.listed(name))
            .collect()
    }

    fn listed(&self, name: Arc<str>) -> Option<Listing> {
        let native = self.has_native_members(&name);
        let own = self.slot(&name).and_then(|slot| {
            let slot = slot.lock();
            let state = slot.group.state();
            let kind = slot.group.protocol_type().cloned().unwrap_or_default();
            (state != State::Dead).then_some((state.name(), kind))
        });
        let (state, protocol_type) = match own {
            Some(own) => own,
            None if native || self.has_offsets(&name) => (State::Empty.name(), "".into()),
            None => return None,
        };
        if native && state == State::Empty.name() {
            return Some(Listing {
                name,
                protocol_type: "consumer".into(),
                state: State::Stable.name(),
            });
        }
        Some(Listing {
            name,
            protocol_type,
            state,
        })
    }

    fn has_offsets(&self, name: &str) -> bool {
        !self.core.offsets.of_group(name).is_empty()
    }

    /// One group; `None` if nothing is known of it.
    pub(crate) fn describe(&self, name: &str) -> Option<Description> {
        let native: Vec<Described> = self.native_members(name).iter().map(described).collect();
        let own = self.slot(name).and_then(|slot| describe_own(&slot));
        let mut seen = match own {
            Some(seen) => seen,
            None if native.is_empty() && !self.has_offsets(name) => return None,
            None => Description {
                state: State::Empty.name(),
                protocol_type: "".into(),
                protocol: "".into(),
                members: Vec::new(),
            },
        };
        if !native.is_empty() {
            if seen.state == State::Empty.name() {
                seen.state = State::Stable.name();
                seen.protocol_type = "consumer".into();
            }
            seen.members.extend(native);
        }
        Some(seen)
    }

    fn native_members(&self, name: &str) -> Vec<Listed> {
        let mut members = self.core.roster.members(name);
        members.retain(|member| member.tongue == Tongue::Native);
        members
    }

    /// Which topics an OffsetDelete may not touch because members subscribe to them.
    ///
    /// # Errors
    /// The group does not exist, or has members that are no consumers.
    pub(crate) fn subscribed(&self, name: &str) -> Result<Subscribed, ResponseError> {
        let native = self.native_members(name);
        let slot = self.slot(name);
        if slot.is_none() && native.is_empty() && !self.has_offsets(name) {
            return Err(ResponseError::GroupIdNotFound);
        }
        let mut topics: BTreeSet<Arc<str>> = native
            .into_iter()
            .flat_map(|member| member.topics)
            .collect();
        if let Some(slot) = slot {
            let slot = slot.lock();
            if slot.group.members().next().is_some() {
                let consumer = slot
                    .group
                    .protocol_type()
                    .is_some_and(|kind| &**kind == "consumer");
                if !consumer {
                    return Err(ResponseError::NonEmptyGroup);
                }
                match subscriptions(&slot.group) {
                    Some(own) => topics.extend(own),
                    None => return Ok(Subscribed::Unknown),
                }
            }
        }
        Ok(Subscribed::Topics(topics))
    }

    /// Forgets offsets that are too old, and groups that have none left.
    pub(super) async fn expire(self: &Arc<Self>) {
        let mut names: BTreeSet<Arc<str>> = self.groups.lock().keys().cloned().collect();
        names.extend(self.core.offsets.groups());
        for name in names {
            self.expire_group(&name).await;
        }
    }

    async fn expire_group(self: &Arc<Self>, name: &str) {
        let now = self.wall();
        let slot = self.slot(name);
        let aging = self.aging(name, slot.as_ref());
        if aging == Aging::Kept {
            return;
        }
        let all = self.core.offsets.of_group(name);
        let mut gone = Vec::new();
        for (topic, queue, committed) in &all {
            if expired(&aging, topic, committed, self.retention_ms, now)
                && let Some(topic) = self.core.catalog.by_key(topic)
            {
                gone.push((topic, *queue));
            }
        }
        if !gone.is_empty() {
            if let Err(error) = self.core.offsets.remove(name, &gone).await {
                tracing::warn!(group = name, %error, "old offsets could not be removed");
                return;
            }
            tracing::info!(
                group = name,
                offsets = gone.len(),
                "old offsets were forgotten"
            );
        }
        if gone.len() == all.len() {
            self.forget_empty(name, slot).await;
        }
    }

    /// An empty group without offsets leaves its record behind no longer.
    async fn forget_empty(&self, name: &str, slot: Option<Shared>) {
        let Some(slot) = slot else {
            return;
        };
        if !self.retire(&slot) {
            return;
        }
        if let Err(error) = self.core.offsets.remove_group(name).await {
            tracing::warn!(group = name, %error, "an empty group could not be removed");
        }
        self.forget(name);
    }

    fn aging(&self, name: &str, slot: Option<&Shared>) -> Aging {
        let native_name = twinmq_records::names::native_group(name);
        let defined = native_name.is_some_and(|name| self.core.groups.get(&name).is_some());
        if defined || self.has_native_members(name) {
            return Aging::Kept;
        }
        let Some(slot) = slot else {
            return Aging::Simple;
        };
        let slot = slot.lock();
        let group = &slot.group;
        match group.state() {
            State::Empty if group.protocol_type().is_some() => Aging::EmptySince(group.since()),
            State::Empty => Aging::Simple,
            State::Stable
                if group
                    .protocol_type()
                    .is_some_and(|kind| &**kind == "consumer") =>
            {
                subscriptions(group).map_or(Aging::Kept, Aging::Subscribed)
            }
            _ => Aging::Kept,
        }
    }
}

/// What the members of a group subscribe to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subscribed {
    /// Members whose metadata this broker cannot read: it may be any topic.
    Unknown,
    /// These.
    Topics(BTreeSet<Arc<str>>),
}

impl Subscribed {
    /// Whether the topic has to be taken as subscribed.
    pub(crate) fn contains(&self, topic: &str) -> bool {
        match self {
            Self::Unknown => true,
            Self::Topics(topics) => topics.contains(topic),
        }
    }
}

fn subscriptions(group: &Group) -> Option<BTreeSet<Arc<str>>> {
    let mut topics = BTreeSet::new();
    for member in group.members() {
        topics.extend(subscribed_topics(&group.metadata_of(member), SHOWN_MAX)?);
    }
    Some(topics)
}

/// A Kafka group; metadata and assignments only when they agree, as Kafka shows them.
fn describe_own(slot: &Shared) -> Option<Description> {
    let slot = slot.lock();
    let group = &slot.group;
    if group.state() == State::Dead {
        return None;
    }
    let stable = group.state() == State::Stable;
    let members = group.members().map(|member| Described {
        member_id: member.id.clone(),
        instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        metadata: if stable {
            group.metadata_of(member)
        } else {
            Bytes::new()
        },
        assignment: if stable {
            member.assignment.clone()
        } else {
            Bytes::new()
        },
    });
    let protocol = group.protocol().filter(|_| stable).cloned();
    Some(Description {
        state: group.state().name(),
        protocol_type: group.protocol_type().cloned().unwrap_or_else(|| "".into()),
        protocol: protocol.unwrap_or_else(|| "".into()),
        members: members.collect(),
    })
}

/// A RocketMQ consumer as Kafka's tools understand one.
fn described(member: &Listed) -> Described {
    let mut held: BTreeMap<Arc<str>, Vec<u32>> = BTreeMap::new();
    for (topic, queue) in &member.held {
        held.entry(topic.clone()).or_default().push(*queue);
    }
    Described {
        member_id: member.id.clone(),
        instance_id: None,
        client_id: member.client_id.clone(),
        client_host: format!("/{}", member.host.ip().to_canonical()).into(),
        metadata: consumer_subscription(&member.topics),
        assignment: consumer_assignment(&held),
    }
}

/// ConsumerProtocolSubscription version 0.
fn consumer_subscription(topics: &[Arc<str>]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    put_count(&mut out, topics.len());
    for topic in topics {
        put_text(&mut out, topic);
    }
    out.put_i32(-1);
    out.freeze()
}

/// ConsumerProtocolAssignment version 0.
fn consumer_assignment(held: &BTreeMap<Arc<str>, Vec<u32>>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    put_count(&mut out, held.len());
    for (topic, queues) in held {
        put_text(&mut out, topic);
        put_count(&mut out, queues.len());
        for queue in queues {
            out.put_i32(i32::try_from(*queue).unwrap_or(i32::MAX));
        }
    }
    out.put_i32(-1);
    out.freeze()
}

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

/// Topic names have at most 255 bytes on either side.
fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::subscription::assigned_partitions;

    #[test]
    fn a_native_member_reads_as_a_consumer() {
        let listed = Listed {
            id: "10.0.0.1@7".into(),
            tongue: Tongue::Native,
            client_id: "10.0.0.1@7".into(),
            host: ([10, 0, 0, 1], 50_000).into(),
            topics: vec!["flights".into()],
            held: vec![("flights".into(), 3), ("flights".into(), 0)],
        };
        let seen = described(&listed);
        assert_eq!(&*seen.client_host, "/10.0.0.1");
        assert_eq!(
            subscribed_topics(&seen.metadata, 9),
            Some(vec!["flights".into()])
        );
        let parts = vec![("flights".into(), 3), ("flights".into(), 0)];
        assert_eq!(assigned_partitions(&seen.assignment, 9), Some(parts));
    }
}
