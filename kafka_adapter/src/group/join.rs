//! Who is let into a classic group: the checks of JoinGroup, new, returning and static members.
//!
//! Promises the order of checks of Kafka's coordinator. A static member that returns into a stable
//! group takes its place over without a rebalance (KIP-345), once the record that says so is stored.

use super::event::{Action, Answer, Join, JoinAnswer, Joined, MemberId, Moment, ReplyId, Tick};
use super::life::answer_parked;
use super::member::{Member, ms};
use super::state::{Group, State, Storing, Wait};
use kafka_protocol::ResponseError;
use std::sync::Arc;

impl Group {
    pub(super) fn join(&mut self, reply: ReplyId, join: Join, now: Moment, out: &mut Vec<Action>) {
        let id = join.member_id.clone();
        if self.state == State::Dead {
            refuse(reply, ResponseError::CoordinatorNotAvailable, id, out);
        } else if self.is_full_for(&id) {
            self.turn_away(&id, now, out);
            refuse(reply, ResponseError::GroupMaxSizeReached, id, out);
        } else if !self.understands(&join) {
            refuse(reply, ResponseError::InconsistentGroupProtocol, id, out);
        } else if id.is_empty() {
            self.join_new(reply, join, now, out);
        } else if self.pending.contains_key(&id) && join.instance_id.is_none() {
            self.add(id, reply, &join, now, out);
        } else {
            match self.validate(&id, join.instance_id.as_deref()) {
                Ok(()) => self.rejoin(&id, reply, &join, now, out),
                Err(code) => refuse(reply, code, id, out),
            }
        }
    }

    /// Nobody waits for a member that a full group refused.
    fn turn_away(&mut self, id: &MemberId, now: Moment, out: &mut Vec<Action>) {
        self.pending.remove(id);
        if self.members.contains_key(id) {
            self.remove(id, out);
            self.rebalance_or_complete(now, out);
        } else {
            self.complete_if_all_joined(now, out);
        }
    }

    fn is_full_for(&self, id: &str) -> bool {
        match self.state {
            State::Empty | State::Dead => false,
            State::PreparingRebalance(_) => {
                let parked = self.members.get(id).is_some_and(|m| m.joining.is_some());
                let waiting = self.members.values().filter(|m| m.joining.is_some());
                !parked && waiting.count() >= self.config.max_size
            }
            State::CompletingRebalance | State::Stable => {
                !self.members.contains_key(id) && self.members.len() >= self.config.max_size
            }
        }
    }

    /// The protocol type is the group's, and some protocol is known to everybody.
    fn understands(&self, join: &Join) -> bool {
        if join.protocol_type.is_empty() || join.protocols.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && join
                .protocols
                .iter()
                .any(|(name, _)| self.members.values().all(|member| member.knows(name)))
    }

    fn join_new(&mut self, reply: ReplyId, join: Join, now: Moment, out: &mut Vec<Action>) {
        let id = join.fresh_id.clone();
        let Some(instance) = &join.instance_id else {
            if !join.id_required {
                self.add(id, reply, &join, now, out);
            } else if self.pending.len() >= self.config.pending_max {
                refuse(
                    reply,
                    ResponseError::GroupMaxSizeReached,
                    join.member_id,
                    out,
                );
            } else {
                let until = now.tick.after_ms(ms(join.session_timeout_ms));
                self.pending.insert(id.clone(), until);
                self.watch(until);
                refuse(reply, ResponseError::MemberIdRequired, id, out);
            }
            return;
        };
        match self.instances.get(instance).cloned() {
            None => self.add(id, reply, &join, now, out),
            Some(old) => self.replace(&old, reply, &join, now, out),
        }
    }

    fn add(
        &mut self,
        id: MemberId,
        reply: ReplyId,
        join: &Join,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let mut member = Member::new(id.clone(), join);
        member.joining = Some(reply);
        member.deadline = self.new_member_deadline(now);
        self.watch(member.deadline);
        self.pending.remove(&id);
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(id.clone());
        }
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        if matches!(self.state, State::PreparingRebalance(Wait::Initial { .. })) {
            self.new_member_added = true;
        }
        self.members.insert(id.clone(), member);
        out.push(Action::Changed(id));
        self.rebalance_or_complete(now, out);
    }

    fn new_member_deadline(&self, now: Moment) -> Tick {
        now.tick.after_ms(self.config.new_member_join_timeout_ms)
    }

    fn rejoin(
        &mut self,
        id: &MemberId,
        reply: ReplyId,
        join: &Join,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let same = self
            .members
            .get(id)
            .is_some_and(|member| member.protocols == join.protocols);
        let leads = self.leader.as_ref() == Some(id);
        match self.state {
            State::PreparingRebalance(_) => {
                self.park(id, reply, join, now, out);
                self.complete_if_all_joined(now, out);
            }
            // The answer of this generation got lost.
            State::CompletingRebalance if same => {
                self.answer_current(id, reply, leads, now, out);
            }
            State::Stable if same && !leads => self.answer_current(id, reply, false, now, out),
            State::CompletingRebalance | State::Stable => {
                self.park(id, reply, join, now, out);
                self.prepare(now, out);
            }
            State::Empty | State::Dead => {
                refuse(reply, ResponseError::UnknownMemberId, id.clone(), out);
            }
        }
    }

    /// A join of a member waits for the rebalance.
    fn park(
        &mut self,
        id: &MemberId,
        reply: ReplyId,
        join: &Join,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        member.client_id = join.client_id.clone();
        member.client_host = join.client_host.clone();
        member.session_timeout_ms = join.session_timeout_ms;
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        member.protocols.clone_from(&join.protocols);
        member.alive(now.tick);
        if let Some(lost) = member.joining.replace(reply) {
            // Asked again on another connection: only the newer request gets the answer.
            refuse(lost, ResponseError::RebalanceInProgress, id.clone(), out);
        }
        out.push(Action::Changed(id.clone()));
    }

    fn answer_current(
        &mut self,
        id: &MemberId,
        to: ReplyId,
        with_members: bool,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        self.sign_of_life(id, now);
        let answer = Answer::Joined(self.join_answer(id, with_members));
        out.push(Action::Reply { to, answer });
    }

    pub(super) fn join_answer(&self, id: &MemberId, with_members: bool) -> JoinAnswer {
        JoinAnswer {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: id.clone(),
            skip_assignment: false,
            members: if with_members {
                self.joined()
            } else {
                Vec::new()
            },
        }
    }

    fn joined(&self) -> Vec<Joined> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        self.members
            .values()
            .map(|member| Joined {
                member_id: member.id.clone(),
                instance_id: member.instance_id.clone(),
                metadata: member.metadata(protocol),
            })
            .collect()
    }

    /// A static member is back under a new id and takes the place of the old one.
    fn replace(
        &mut self,
        old: &MemberId,
        reply: ReplyId,
        join: &Join,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let id = join.fresh_id.clone();
        let old_leader = self.leader.clone().unwrap_or_default();
        let Some(before) = self.rename(old, &id, out) else {
            refuse(reply, ResponseError::UnknownMemberId, id, out);
            return;
        };
        if self.state != State::Stable {
            self.park(&id, reply, join, now, out);
            self.renew_deadline(&id, now);
            self.rebalance_or_complete(now, out);
            return;
        }
        self.park(&id, reply, join, now, out);
        self.renew_deadline(&id, now);
        if self.select_protocol() != self.protocol {
            self.prepare(now, out);
            return;
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.joining = None;
        }
        let leads = self.leader.as_ref() == Some(&id);
        let skip = leads && join.can_skip_assignment;
        let mut answer = self.join_answer(&id, skip);
        answer.skip_assignment = skip;
        if !join.can_skip_assignment {
            // Older clients would compute an assignment if they read their own id here.
            answer.leader = old_leader;
        }
        let before = Box::new(before);
        let then = Storing::Replacement {
            reply,
            answer,
            before,
        };
        self.store(None, then, now, out);
    }

    /// Gives a member another id; what the old one waits for is fenced. Returns it as it was.
    fn rename(&mut self, old: &MemberId, id: &MemberId, out: &mut Vec<Action>) -> Option<Member> {
        let mut member = self.members.remove(old)?;
        answer_parked(&member, ResponseError::FencedInstanceId, out);
        member.joining = None;
        member.syncing = None;
        let before = member.clone();
        member.id = id.clone();
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        if self.leader.as_ref() == Some(old) {
            self.leader = Some(id.clone());
        }
        self.members.insert(id.clone(), member);
        out.push(Action::Gone(old.clone()));
        out.push(Action::Changed(id.clone()));
        Some(before)
    }

    fn renew_deadline(&mut self, id: &MemberId, now: Moment) {
        let new = self.new_member_deadline(now);
        if let Some(member) = self.members.get_mut(id) {
            if member.is_new {
                member.deadline = new;
            }
            let deadline = member.deadline;
            self.watch(deadline);
        }
    }

    /// The record of a replacement was refused: the old id is back, if nothing happened since.
    pub(super) fn undo_replacement(
        &mut self,
        reply: ReplyId,
        new: &MemberId,
        before: Member,
        code: ResponseError,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let idle = self
            .members
            .get(new)
            .is_some_and(|member| member.joining.is_none() && member.syncing.is_none());
        if idle && self.state == State::Stable {
            let old = before.id.clone();
            self.rename(new, &old, out);
            self.members.insert(old.clone(), before);
            self.sign_of_life(&old, now);
        }
        refuse(reply, code, new.clone(), out);
    }
}

pub(super) fn refuse(to: ReplyId, code: ResponseError, member_id: Arc<str>, out: &mut Vec<Action>) {
    let answer = Answer::JoinRefused { code, member_id };
    out.push(Action::Reply { to, answer });
}
