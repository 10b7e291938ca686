//! The phases of a rebalance: preparing (members join), completing (the leader assigns), stable.
//!
//! A first rebalance waits `initial_rebalance_delay_ms`, and again while members keep coming, so that
//! a deployment starts with one rebalance (KIP-134). Later ones end when everybody is there. Members
//! that got a generation but never ask for their part are removed after the rebalance timeout.

use super::event::{Action, Answer, MemberId, Moment, ReplyId, StoreId, Sync};
use super::join::refuse;
use super::member::ms;
use super::state::{Group, State, Storing, Wait};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Group {
    /// Membership changed: a new rebalance, or one more step of the running one.
    pub(super) fn rebalance_or_complete(&mut self, now: Moment, out: &mut Vec<Action>) {
        match self.state {
            State::PreparingRebalance(_) => self.complete_if_all_joined(now, out),
            State::Empty if self.members.is_empty() => {}
            State::Empty | State::CompletingRebalance | State::Stable => self.prepare(now, out),
            State::Dead => {}
        }
    }

    /// Starts a rebalance.
    pub(super) fn prepare(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.state == State::CompletingRebalance {
            self.abandon_assignment(ResponseError::RebalanceInProgress, now, out);
        }
        for member in self.members.values_mut() {
            member.owes_sync = false;
        }
        self.sync_deadline = None;
        let longest = self.longest_rebalance_ms();
        if self.state == State::Empty {
            let delay = self.config.initial_rebalance_delay_ms;
            let until = now.tick.after_ms(delay);
            let left_ms = longest.saturating_sub(delay);
            let wait = Wait::Initial { until, left_ms };
            self.enter(State::PreparingRebalance(wait), now);
            self.watch(until);
            return;
        }
        let until = now.tick.after_ms(longest);
        self.enter(State::PreparingRebalance(Wait::Until(until)), now);
        self.watch(until);
        self.complete_if_all_joined(now, out);
    }

    /// Answers every parked SyncGroup with an error; nobody keeps a part.
    fn abandon_assignment(&mut self, code: ResponseError, now: Moment, out: &mut Vec<Action>) {
        let mut told = Vec::new();
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(to) = member.syncing.take() {
                let answer = Answer::Refused(code);
                out.push(Action::Reply { to, answer });
                told.push(member.id.clone());
            }
        }
        for id in told {
            self.sign_of_life(&id, now);
        }
    }

    fn longest_rebalance_ms(&self) -> u64 {
        self.members
            .values()
            .map(|member| ms(member.rebalance_timeout_ms))
            .max()
            .unwrap_or(0)
    }

    /// Ends the joining early when everybody is there, except in a first rebalance.
    pub(super) fn complete_if_all_joined(&mut self, now: Moment, out: &mut Vec<Action>) {
        let may_end = matches!(self.state, State::PreparingRebalance(Wait::Until(_)));
        if may_end
            && self.pending.is_empty()
            && self.members.values().all(|member| member.joining.is_some())
        {
            self.complete(now, out);
        }
    }

    /// What time brings to a rebalance.
    pub(super) fn rebalance_time(&mut self, now: Moment, out: &mut Vec<Action>) {
        match self.state {
            State::PreparingRebalance(Wait::Initial { until, left_ms }) if until <= now.tick => {
                if self.new_member_added && left_ms > 0 {
                    self.new_member_added = false;
                    let delay = self.config.initial_rebalance_delay_ms.min(left_ms);
                    let until = now.tick.after_ms(delay);
                    let left_ms = left_ms - delay;
                    self.state = State::PreparingRebalance(Wait::Initial { until, left_ms });
                } else {
                    self.complete(now, out);
                }
            }
            State::PreparingRebalance(Wait::Until(until)) if until <= now.tick => {
                self.complete(now, out);
            }
            State::CompletingRebalance | State::Stable
                if self.sync_deadline.is_some_and(|at| at <= now.tick) =>
            {
                self.drop_unsynced(now, out);
            }
            _ => {}
        }
    }

    fn drop_unsynced(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.sync_deadline = None;
        let owing = self.members.values().filter(|member| member.owes_sync);
        let owing: Vec<MemberId> = owing.map(|member| member.id.clone()).collect();
        for id in &owing {
            self.remove(id, out);
        }
        if !owing.is_empty() {
            self.prepare(now, out);
        }
    }

    /// Ends the joining: a new generation of those who are there.
    fn complete(&mut self, now: Moment, out: &mut Vec<Action>) {
        let absent = self
            .members
            .values()
            .filter(|member| member.joining.is_none());
        let dropped: Vec<MemberId> = absent
            .filter(|member| member.instance_id.is_none())
            .map(|member| member.id.clone())
            .collect();
        for id in &dropped {
            self.remove(id, out);
        }
        let first_joined = self
            .members
            .values()
            .find(|member| member.joining.is_some())
            .map(|member| member.id.clone());
        if first_joined.is_none() && !self.members.is_empty() {
            // Only static members are left, and none is back yet: keep waiting for them.
            let until = now.tick.after_ms(self.longest_rebalance_ms().max(1));
            self.state = State::PreparingRebalance(Wait::Until(until));
            self.watch(until);
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.new_member_added = false;
        let Some(first_joined) = first_joined else {
            self.protocol = None;
            self.leader = None;
            self.enter(State::Empty, now);
            self.store(None, Storing::Emptied, now, out);
            return;
        };
        let leader_joined = self
            .leader
            .as_ref()
            .and_then(|leader| self.members.get(leader))
            .is_some_and(|member| member.joining.is_some());
        if !leader_joined {
            self.leader = Some(first_joined);
        }
        self.protocol = self.select_protocol();
        self.enter(State::CompletingRebalance, now);
        self.answer_joins(now, out);
    }

    fn answer_joins(&mut self, now: Moment, out: &mut Vec<Action>) {
        let until = now.tick.after_ms(self.longest_rebalance_ms());
        self.sync_deadline = Some(until);
        self.watch(until);
        let waiting = self.members.values().filter_map(|member| {
            let reply = member.joining?;
            Some((member.id.clone(), reply))
        });
        let waiting: Vec<_> = waiting.collect();
        for (id, to) in waiting {
            let leads = self.leader.as_ref() == Some(&id);
            let answer = Answer::Joined(self.join_answer(&id, leads));
            out.push(Action::Reply { to, answer });
            if let Some(member) = self.members.get_mut(&id) {
                member.joining = None;
                member.is_new = false;
                member.owes_sync = true;
            }
            self.sign_of_life(&id, now);
        }
    }

    /// The protocol most members prefer among those that all know; the first of equals.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let first = self.members.values().next()?;
        let mut votes: Vec<(&Arc<str>, usize)> = first
            .protocols
            .iter()
            .filter(|(name, _)| self.members.values().all(|member| member.knows(name)))
            .map(|(name, _)| (name, 0))
            .collect();
        for member in self.members.values() {
            let choice = member
                .protocols
                .iter()
                .find_map(|(name, _)| votes.iter().position(|(candidate, _)| *candidate == name));
            if let Some(choice) = choice {
                votes[choice].1 += 1;
            }
        }
        let mut best: Option<(&Arc<str>, usize)> = None;
        for vote in votes {
            if best.is_none_or(|(_, most)| vote.1 > most) {
                best = Some(vote);
            }
        }
        best.map(|(name, _)| name.clone())
    }

    pub(super) fn sync(&mut self, to: ReplyId, sync: Sync, now: Moment, out: &mut Vec<Action>) {
        if let Err(code) = self.may_sync(&sync) {
            let answer = Answer::Refused(code);
            out.push(Action::Reply { to, answer });
            return;
        }
        self.sign_of_life(&sync.member_id, now);
        let Some(member) = self.members.get_mut(&sync.member_id) else {
            return;
        };
        member.owes_sync = false;
        if self.state == State::Stable {
            let assignment = member.assignment.clone();
            self.answer_sync(to, assignment, out);
        } else {
            if let Some(to) = member.syncing.replace(to) {
                let answer = Answer::Refused(ResponseError::RebalanceInProgress);
                out.push(Action::Reply { to, answer });
            }
            if self.leader.as_ref() == Some(&sync.member_id) {
                self.store_assignment(sync, now, out);
            }
        }
        if !self.members.values().any(|member| member.owes_sync) {
            self.sync_deadline = None;
        }
    }

    fn may_sync(&self, sync: &Sync) -> Result<(), ResponseError> {
        if self.state == State::Dead {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        self.validate(&sync.member_id, sync.instance_id.as_deref())?;
        if sync.generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        let differs = |claimed: &Option<Arc<str>>, known: &Option<Arc<str>>| {
            claimed.is_some() && claimed != known
        };
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        match self.state {
            State::PreparingRebalance(_) => Err(ResponseError::RebalanceInProgress),
            State::Empty | State::Dead => Err(ResponseError::UnknownMemberId),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    fn answer_sync(&self, to: ReplyId, assignment: Bytes, out: &mut Vec<Action>) {
        let answer = Answer::Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        };
        out.push(Action::Reply { to, answer });
    }

    /// The leader brought the assignment; it counts once it is stored.
    fn store_assignment(&mut self, sync: Sync, now: Moment, out: &mut Vec<Action>) {
        let generation = self.generation;
        let under_way = self.storing.values().any(|storing| {
            matches!(storing, Storing::Assignment { generation: of, .. } if *of == generation)
        });
        if under_way {
            return;
        }
        let assignments: BTreeMap<Arc<str>, Bytes> = sync
            .assignments
            .into_iter()
            .filter(|(id, _)| self.members.contains_key(id))
            .collect();
        let then = Storing::Assignment {
            generation,
            assignments: assignments.clone(),
        };
        self.store(Some(&assignments), then, now, out);
    }

    /// A record was stored or refused.
    pub(super) fn stored_record(
        &mut self,
        id: StoreId,
        result: Result<(), ResponseError>,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        match (self.storing.remove(&id), result) {
            (
                Some(Storing::Assignment {
                    generation,
                    assignments,
                }),
                result,
            ) => {
                if self.state != State::CompletingRebalance || generation != self.generation {
                    return; // a new rebalance began meanwhile; its start answered the waiting ones
                }
                match result {
                    Ok(()) => self.become_stable(assignments, now, out),
                    Err(code) => {
                        self.abandon_assignment(code, now, out);
                        self.prepare(now, out);
                    }
                }
            }
            (Some(Storing::Replacement { reply, answer, .. }), Ok(())) => {
                let answer = Answer::Joined(answer);
                out.push(Action::Reply { to: reply, answer });
            }
            (
                Some(Storing::Replacement {
                    reply,
                    answer,
                    before,
                }),
                Err(code),
            ) => {
                self.undo_replacement(reply, &answer.member_id, *before, code, now, out);
            }
            (Some(Storing::Emptied) | None, _) => {}
        }
    }

    fn become_stable(
        &mut self,
        mut assignments: BTreeMap<Arc<str>, Bytes>,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        self.enter(State::Stable, now);
        let mut waiting = Vec::new();
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
            if let Some(to) = member.syncing.take() {
                waiting.push((to, member.id.clone(), member.assignment.clone()));
            }
            out.push(Action::Changed(member.id.clone()));
        }
        for (to, id, assignment) in waiting {
            self.answer_sync(to, assignment, out);
            self.sign_of_life(&id, now);
        }
    }

    /// More members than allowed (the limit was lowered): they have to join anew.
    pub(super) fn shrink(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.members.len() > self.config.max_size && self.state == State::Stable {
            self.prepare(now, out);
        }
    }

    /// The group goes away with the process: everybody looks for its coordinator again.
    pub(super) fn close(&mut self, out: &mut Vec<Action>) {
        for member in self.members.values_mut() {
            if let Some(to) = member.joining.take() {
                let id = member.id.clone();
                refuse(to, ResponseError::CoordinatorNotAvailable, id, out);
            }
            if let Some(to) = member.syncing.take() {
                let answer = Answer::Refused(ResponseError::CoordinatorNotAvailable);
                out.push(Action::Reply { to, answer });
            }
        }
    }
}
