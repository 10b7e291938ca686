//! One member of a classic group: what it said of itself, what it waits for, when it is missed.

use super::event::{Join, MemberId, MemberRecord, ReplyId, Tick};
use bytes::Bytes;
use std::sync::Arc;

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its id.
    pub(crate) id: MemberId,
    /// Its instance, if static.
    pub(crate) instance_id: Option<Arc<str>>,
    /// Its `client.id`.
    pub(crate) client_id: Arc<str>,
    /// Where it connects from: `/1.2.3.4`.
    pub(crate) client_host: Arc<str>,
    /// Milliseconds without a heartbeat after which it is dropped.
    pub(crate) session_timeout_ms: i32,
    /// Milliseconds the group waits for it in a rebalance.
    pub(crate) rebalance_timeout_ms: i32,
    /// Assignors in order of preference, each with its metadata.
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
    /// Its part of the assignment.
    pub(crate) assignment: Bytes,
    /// A JoinGroup of it that waits.
    pub(super) joining: Option<ReplyId>,
    /// A SyncGroup of it that waits.
    pub(super) syncing: Option<ReplyId>,
    /// It never had a join answer.
    pub(super) is_new: bool,
    /// It had a join answer of this generation but did not sync yet.
    pub(super) owes_sync: bool,
    /// When it is missed, unless it waits for us.
    pub(super) deadline: Tick,
}

impl Member {
    /// A member that joins.
    pub(super) fn new(id: MemberId, join: &Join) -> Self {
        Self {
            id,
            instance_id: join.instance_id.clone(),
            client_id: join.client_id.clone(),
            client_host: join.client_host.clone(),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols.clone(),
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            is_new: true,
            owes_sync: false,
            deadline: Tick(0),
        }
    }

    /// A member that was stored, alive until its session ends.
    pub(super) fn stored(record: MemberRecord, protocol: Option<&Arc<str>>, now: Tick) -> Self {
        let mut member = Self {
            id: record.member_id,
            instance_id: record.instance_id,
            client_id: record.client_id,
            client_host: record.client_host,
            session_timeout_ms: record.session_timeout_ms,
            rebalance_timeout_ms: record.rebalance_timeout_ms,
            protocols: protocol
                .map(|name| vec![(name.clone(), record.subscription)])
                .unwrap_or_default(),
            assignment: record.assignment,
            joining: None,
            syncing: None,
            is_new: false,
            owes_sync: false,
            deadline: Tick(0),
        };
        member.alive(now);
        member
    }

    /// It gave a sign of life.
    pub(super) fn alive(&mut self, now: Tick) {
        self.deadline = now.after_ms(ms(self.session_timeout_ms));
    }

    /// When it is missed. Members that wait for an answer are not, except new ones.
    pub(super) fn missed_at(&self) -> Option<Tick> {
        let waits = self.joining.is_some() || self.syncing.is_some();
        (self.is_new || !waits).then_some(self.deadline)
    }

    /// What it says of itself for a protocol; empty when it does not know it.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| &**name == protocol)
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// Whether it knows a protocol.
    pub(super) fn knows(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| &**name == protocol)
    }

    /// As it is stored, with the assignment `assigned`.
    pub(super) fn record(&self, protocol: &str, assigned: Bytes) -> MemberRecord {
        MemberRecord {
            member_id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.metadata(protocol),
            assignment: assigned,
        }
    }
}

/// A timeout from the wire; negative ones count as none.
pub(super) fn ms(timeout_ms: i32) -> u64 {
    u64::try_from(timeout_ms).unwrap_or(0)
}
