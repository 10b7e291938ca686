//! The classic group protocol (KIP-62, 134, 345, 394, 559, 814) as a state machine: it is told an
//! event and the time, and answers with actions. It reads no clock, holds no channel, takes no lock.
//!
//! Promises: every request is answered exactly once; generations only rise; the leader is a member; a
//! member is removed only by leaving, by silence, or by a rebalance it missed. What a SyncGroup
//! or the return of a static member is told has been stored before.
//! Leaves out: the new consumer protocol (KIP-848), share groups, and who may do what (authorisation).
//!
//! The room is four files: this one (the group, its records, time), [`super::join`] (who is let in),
//! [`super::rebalance`] (its phases, SyncGroup) and [`super::life`] (heartbeats, commits, leaving).

use super::GroupConfig;
use super::event::{
    Action, Answer, Event, GroupRecord, JoinAnswer, MemberId, Moment, ReplyId, StoreId, Tick,
};
use super::member::Member;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_store::Timestamp;

/// Where a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// No members; it may hold offsets.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance(Wait),
    /// A generation exists; its leader has not brought the assignment yet.
    CompletingRebalance,
    /// Everybody knows its part, or can ask for it.
    Stable,
    /// Deleted.
    Dead,
}

/// How long a rebalance waits for members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The first rebalance of an empty group: until then, and again while members keep coming and
    /// `left_ms` lasts (KIP-134).
    Initial {
        /// End of this delay.
        until: Tick,
        /// How much longer it may be extended.
        left_ms: u64,
    },
    /// Until everybody is there, or until then.
    Until(Tick),
}

impl State {
    /// Kafka's name of the state, as DescribeGroups and ListGroups print it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance(_) => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// What to do once a record is stored.
#[derive(Clone, Debug)]
pub(super) enum Storing {
    /// The leader's assignment of a generation.
    Assignment {
        generation: i32,
        assignments: BTreeMap<Arc<str>, Bytes>,
    },
    /// A static member came back under a new id.
    Replacement {
        reply: ReplyId,
        answer: JoinAnswer,
        before: Box<Member>,
    },
    /// The last member went: nobody waits.
    Emptied,
}

/// A classic group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(super) config: Arc<GroupConfig>,
    pub(super) state: State,
    pub(super) since: Timestamp,
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) generation: i32,
    pub(super) leader: Option<MemberId>,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) instances: BTreeMap<Arc<str>, MemberId>,
    /// Ids that were handed out with MEMBER_ID_REQUIRED, and until when they may be used.
    pub(super) pending: BTreeMap<MemberId, Tick>,
    pub(super) new_member_added: bool,
    pub(super) sync_deadline: Option<Tick>,
    pub(super) storing: BTreeMap<StoreId, Storing>,
    next_store: u64,
    /// Never later than the first thing that time brings.
    due: Option<Tick>,
}

impl Group {
    /// A group nobody is in yet.
    pub(crate) fn new(config: Arc<GroupConfig>, now: Moment) -> Self {
        Self {
            config,
            state: State::Empty,
            since: now.wall,
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
            new_member_added: false,
            sync_deadline: None,
            storing: BTreeMap::new(),
            next_store: 0,
            due: None,
        }
    }

    /// A group as it was stored. Its members have their session's time to show up again.
    pub(crate) fn stored(config: Arc<GroupConfig>, record: GroupRecord, now: Moment) -> Self {
        let mut group = Self::new(config, now);
        group.since = record.since;
        group.generation = record.generation;
        group.protocol_type = Some(record.protocol_type).filter(|t| !t.is_empty());
        if record.protocol.is_none() || record.members.is_empty() {
            return group;
        }
        group.protocol = record.protocol;
        group.state = State::Stable;
        for stored in record.members {
            let member = Member::stored(stored, group.protocol.as_ref(), now.tick);
            if let Some(instance) = &member.instance_id {
                group.instances.insert(instance.clone(), member.id.clone());
            }
            group.watch(member.deadline);
            group.members.insert(member.id.clone(), member);
        }
        group.leader = record
            .leader
            .filter(|leader| group.members.contains_key(leader))
            .or_else(|| group.members.keys().next().cloned());
        group
    }

    /// Takes an event; the actions are to be carried out in order.
    pub(crate) fn on(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Join { reply, join } => self.join(reply, join, now, &mut out),
            Event::Sync { reply, sync } => self.sync(reply, sync, now, &mut out),
            Event::Heartbeat {
                reply,
                member_id,
                instance_id,
                generation,
            } => {
                let answer = match self.heartbeat(&member_id, instance_id, generation, now) {
                    Ok(()) => Answer::Done,
                    Err(code) => Answer::Refused(code),
                };
                out.push(Action::Reply { to: reply, answer });
            }
            Event::Leave { reply, leavers } => self.leave(reply, &leavers, now, &mut out),
            Event::Stored { id, result } => self.stored_record(id, result, now, &mut out),
            Event::Time => self.time(now, &mut out),
            Event::Delete { reply } => {
                let answer = self.delete(now);
                out.push(Action::Reply { to: reply, answer });
            }
        }
        out
    }

    /// When [`Event::Time`] is wanted. May be too early, never too late.
    pub(crate) fn due(&self) -> Option<Tick> {
        self.due
    }

    /// Where the group is.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Since when it is there.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// "consumer", ...; `None` when there never was a member.
    pub(crate) fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    /// The chosen protocol.
    pub(crate) fn protocol(&self) -> Option<&Arc<str>> {
        self.protocol.as_ref()
    }

    /// The generation.
    pub(crate) fn generation(&self) -> i32 {
        self.generation
    }

    /// The members, by id.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// How many there are.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// One member.
    pub(crate) fn member(&self, id: &str) -> Option<&Member> {
        self.members.get(id)
    }

    /// What a member says of itself for the chosen protocol, or for its first choice until then.
    pub(crate) fn metadata_of(&self, member: &Member) -> Bytes {
        match &self.protocol {
            Some(protocol) if member.knows(protocol) => member.metadata(protocol),
            _ => member
                .protocols
                .first()
                .map(|(_, metadata)| metadata.clone())
                .unwrap_or_default(),
        }
    }

    /// Nobody is in it, nobody is coming and nothing was stored: it may be forgotten.
    pub(crate) fn is_blank(&self) -> bool {
        self.state == State::Empty
            && self.generation == 0
            && self.pending.is_empty()
            && self.storing.is_empty()
    }

    fn delete(&mut self, now: Moment) -> Answer {
        match self.state {
            State::Dead => Answer::Refused(ResponseError::GroupIdNotFound),
            State::Empty => {
                self.state = State::Dead;
                self.since = now.wall;
                self.pending.clear();
                self.due = None;
                Answer::Done
            }
            _ => Answer::Refused(ResponseError::NonEmptyGroup),
        }
    }

    fn time(&mut self, now: Moment, out: &mut Vec<Action>) {
        // One end may start what ends at once, such as a rebalance nobody is left to join.
        for _ in 0..4 {
            self.time_step(now, out);
            self.due = self.first_due();
            if self.due.is_none_or(|due| due > now.tick) {
                break;
            }
        }
    }

    fn time_step(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.pending.retain(|_, until| *until > now.tick);
        let missed: Vec<MemberId> = self
            .members
            .values()
            .filter(|member| member.missed_at().is_some_and(|at| at <= now.tick))
            .map(|member| member.id.clone())
            .collect();
        for id in &missed {
            self.remove(id, out);
        }
        if missed.is_empty() {
            self.complete_if_all_joined(now, out);
        } else {
            self.rebalance_or_complete(now, out);
        }
        self.rebalance_time(now, out);
    }

    /// Asks for time to be told at `at` at the latest.
    pub(super) fn watch(&mut self, at: Tick) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn first_due(&self) -> Option<Tick> {
        let wait = match self.state {
            State::PreparingRebalance(Wait::Initial { until, .. } | Wait::Until(until)) => {
                Some(until)
            }
            _ => None,
        };
        let members = self.members.values().filter_map(Member::missed_at);
        let pending = self.pending.values().copied();
        members
            .chain(pending)
            .chain(wait)
            .chain(self.sync_deadline)
            .min()
    }

    /// Hands out a record to be stored.
    pub(super) fn store(
        &mut self,
        assignments: Option<&BTreeMap<Arc<str>, Bytes>>,
        then: Storing,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let id = StoreId(self.next_store);
        self.next_store += 1;
        self.storing.insert(id, then);
        let record = self.record(assignments, now);
        out.push(Action::Store { id, record });
    }

    fn record(&self, assignments: Option<&BTreeMap<Arc<str>, Bytes>>, now: Moment) -> GroupRecord {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.values().map(|member| {
            let assigned = match assignments {
                Some(all) => all.get(&member.id).cloned().unwrap_or_default(),
                None => member.assignment.clone(),
            };
            member.record(protocol, assigned)
        });
        GroupRecord {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since: now.wall,
            members: members.collect(),
        }
    }

    pub(super) fn enter(&mut self, state: State, now: Moment) {
        self.state = state;
        self.since = now.wall;
    }
}
