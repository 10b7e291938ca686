//! Members of a classic group between rebalances: who may speak, signs of life, commits, leaving.

use super::event::{Action, Answer, Leaver, MemberId, Moment, ReplyId};
use super::member::Member;
use super::state::{Group, State};
use kafka_protocol::ResponseError;
use std::sync::Arc;

impl Group {
    /// Whether a commit is taken, which also counts as a sign of life. Not for transactions.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn may_commit(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        now: Moment,
    ) -> Result<(), ResponseError> {
        match self.state {
            State::Dead => return Err(ResponseError::CoordinatorNotAvailable),
            State::Empty if generation < 0 => return Ok(()),
            _ => {}
        }
        if generation < 0 && member_id.is_empty() && instance_id.is_none() {
            return Err(ResponseError::UnknownMemberId);
        }
        self.validate(member_id, instance_id)?;
        if generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        if self.state == State::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        self.sign_of_life(member_id, now);
        Ok(())
    }

    /// A member that speaks: known, and not fenced by another with its instance (KIP-345).
    pub(super) fn validate(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), ResponseError> {
        if let Some(instance) = instance_id {
            match self.instances.get(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(current) if &**current != member_id => {
                    return Err(ResponseError::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ResponseError::UnknownMemberId)
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        member_id: &str,
        instance_id: Option<Arc<str>>,
        generation: i32,
        now: Moment,
    ) -> Result<(), ResponseError> {
        if self.state == State::Dead {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        self.validate(member_id, instance_id.as_deref())?;
        if generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        self.sign_of_life(member_id, now);
        match self.state {
            State::PreparingRebalance(_) => Err(ResponseError::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
            State::Empty | State::Dead => Err(ResponseError::UnknownMemberId),
        }
    }

    pub(super) fn sign_of_life(&mut self, member_id: &str, now: Moment) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.alive(now.tick);
            let deadline = member.deadline;
            self.watch(deadline);
        }
    }

    pub(super) fn leave(
        &mut self,
        reply: ReplyId,
        leavers: &[Leaver],
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        if self.state == State::Dead {
            let answer = Answer::Refused(ResponseError::CoordinatorNotAvailable);
            out.push(Action::Reply { to: reply, answer });
            return;
        }
        let mut left = false;
        let mut results = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let result = self.leaver_id(leaver);
            if let Ok(id) = &result
                && self.pending.remove(id).is_none()
            {
                self.remove(id, out);
                left = true;
            }
            results.push(result.map(|_| ()));
        }
        let answer = Answer::Left(results);
        out.push(Action::Reply { to: reply, answer });
        if left {
            self.rebalance_or_complete(now, out);
        } else {
            self.complete_if_all_joined(now, out);
        }
    }

    /// Whom a leaver means.
    fn leaver_id(&self, leaver: &Leaver) -> Result<MemberId, ResponseError> {
        match &leaver.instance_id {
            Some(instance) if leaver.member_id.is_empty() => self
                .instances
                .get(instance)
                .cloned()
                .ok_or(ResponseError::UnknownMemberId),
            None if self.pending.contains_key(&leaver.member_id) => Ok(leaver.member_id.clone()),
            instance => {
                self.validate(&leaver.member_id, instance.as_deref())?;
                Ok(leaver.member_id.clone())
            }
        }
    }

    /// Takes a member out and answers what it still waits for. The caller decides what follows.
    pub(super) fn remove(&mut self, id: &str, out: &mut Vec<Action>) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        answer_parked(&member, ResponseError::UnknownMemberId, out);
        if let Some(instance) = &member.instance_id
            && self.instances.get(instance) == Some(&member.id)
        {
            self.instances.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        out.push(Action::Gone(member.id));
    }
}

/// Answers whatever a member still waits for.
pub(super) fn answer_parked(member: &Member, code: ResponseError, out: &mut Vec<Action>) {
    if let Some(to) = member.joining {
        let member_id = member.id.clone();
        let answer = Answer::JoinRefused { code, member_id };
        out.push(Action::Reply { to, answer });
    }
    if let Some(to) = member.syncing {
        let answer = Answer::Refused(code);
        out.push(Action::Reply { to, answer });
    }
}
