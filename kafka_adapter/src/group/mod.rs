//! The classic group protocol: groups, their members, generations and assignments.
//!
//! [`state`] decides (pure). [`coordinator`] drives: it owns the groups and the parked answers, [`carry`]
//! does what a group decided, [`timer`] tells it the time. [`view`] is how groups look from outside,
//! [`expiry`] which offsets are forgotten by time. Groups are named in Kafka's
//! spelling; their offsets are in `twinmq_core`'s one table, which RocketMQ consumers share.

mod carry;
pub(crate) mod coordinator;
pub(crate) mod event;
mod expiry;
mod join;
mod life;
mod member;
mod rebalance;
mod record;
pub(crate) mod state;
pub(crate) mod subscription;
mod timer;
pub(crate) mod view;

#[cfg(test)]
mod coordinator_tests;
#[cfg(test)]
mod state_props;
#[cfg(test)]
mod state_tests;

pub(crate) use coordinator::Coordinator;

use event::Join;
use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

/// Longest text that stored records can carry; newer request versions can carry more.
pub(crate) const TEXT_MAX: usize = 32_767;

/// Settings of the classic group protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupConfig {
    /// Milliseconds that the first rebalance of an empty group waits for more members. Default 3000.
    /// Kafka's `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: u64,
    /// Shortest session timeout a member may ask for, in milliseconds. Default 6000. Kafka's
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// Longest session timeout a member may ask for, in milliseconds. Default 1800000. Kafka's
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// Milliseconds that a member which never got an answer is kept without a sign of life.
    /// Default 300000.
    pub new_member_join_timeout_ms: u64,
    /// Most members of one group. Default 10000. Kafka's `group.max.size`.
    pub max_size: usize,
    /// Most member ids per group that were given out but not used yet. Default 10000.
    pub pending_max: usize,
    /// Most groups that have members or a stored generation at one time. Default 100000.
    pub groups_max: usize,
    /// Most bytes a member may say of itself, over all its protocols. Default 1048576.
    pub member_metadata_bytes_max: usize,
    /// Most protocols a member may offer. Default 16.
    pub member_protocols_max: usize,
    /// Longest metadata text of a committed offset, in bytes. Default 4096. Kafka's
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// Milliseconds between looks for offsets and groups to forget. Default 600000. Kafka's
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: u64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay_ms: 3000,
            min_session_timeout_ms: 6000,
            max_session_timeout_ms: 1_800_000,
            new_member_join_timeout_ms: 300_000,
            max_size: 10_000,
            pending_max: 10_000,
            groups_max: 100_000,
            member_metadata_bytes_max: 1 << 20,
            member_protocols_max: 16,
            offset_metadata_max_bytes: 4096,
            offsets_retention_check_interval_ms: 600_000,
        }
    }
}

impl GroupConfig {
    /// Whether a JoinGroup keeps to the limits, before any group is looked at.
    ///
    /// # Errors
    /// The code to answer.
    pub(crate) fn check(&self, join: &Join) -> Result<(), ResponseError> {
        let allowed = self.min_session_timeout_ms..=self.max_session_timeout_ms;
        if !allowed.contains(&join.session_timeout_ms) {
            return Err(ResponseError::InvalidSessionTimeout);
        }
        let said = join
            .protocols
            .iter()
            .map(|(name, data)| name.len() + data.len());
        if join.protocols.len() > self.member_protocols_max
            || said.sum::<usize>() > self.member_metadata_bytes_max
        {
            return Err(ResponseError::InvalidRequest);
        }
        let instance = join.instance_id.iter();
        let names = join.protocols.iter().map(|(name, _)| name);
        let texts = names.chain(instance).chain([&join.protocol_type]);
        if texts.map(|text| text.len()).max() > Some(TEXT_MAX) {
            return Err(ResponseError::InvalidRequest);
        }
        Ok(())
    }
}
