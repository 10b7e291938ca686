//! A group as bytes, and back: Kafka's GroupMetadata value, whose layout is `twinmq_records`'.

use super::event::{GroupRecord, MemberRecord};
use bytes::Bytes;
use std::sync::Arc;
use twinmq_records::internal::{GroupMember, GroupValue, InternalError};
use twinmq_store::Timestamp;

/// A group as it is stored.
pub(crate) fn encode(group: &GroupRecord) -> Result<Bytes, InternalError> {
    let members = group.members.iter().map(|member| GroupMember {
        id: member.member_id.as_ref().to_owned(),
        instance_id: member.instance_id.as_deref().map(str::to_owned),
        client_id: member.client_id.as_ref().to_owned(),
        client_host: member.client_host.as_ref().to_owned(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.to_vec(),
        assignment: member.assignment.to_vec(),
    });
    let value = GroupValue {
        protocol_type: group.protocol_type.as_ref().to_owned(),
        generation: group.generation,
        protocol: group.protocol.as_deref().map(str::to_owned),
        leader: group.leader.as_deref().map(str::to_owned),
        state_time: group.since.0,
        members: members.collect(),
    };
    value.encode().map(Bytes::from)
}

/// A stored group.
pub(crate) fn decode(bytes: &[u8]) -> Result<GroupRecord, InternalError> {
    let value = GroupValue::decode(bytes)?;
    let members = value.members.into_iter().map(|member| MemberRecord {
        member_id: member.id.into(),
        instance_id: member.instance_id.map(Arc::from),
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscription: member.subscription.into(),
        assignment: member.assignment.into(),
    });
    Ok(GroupRecord {
        protocol_type: value.protocol_type.into(),
        generation: value.generation,
        protocol: value.protocol.map(Arc::from),
        leader: value.leader.map(Arc::from),
        since: Timestamp(value.state_time),
        members: members.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back() {
        let full = GroupRecord {
            protocol_type: "consumer".into(),
            generation: 7,
            protocol: Some("range".into()),
            leader: Some("a-1".into()),
            since: Timestamp(1_700_000_000_000),
            members: vec![MemberRecord {
                member_id: "a-1".into(),
                instance_id: Some("i".into()),
                client_id: "a".into(),
                client_host: "/127.0.0.1".into(),
                rebalance_timeout_ms: 300_000,
                session_timeout_ms: 45_000,
                subscription: Bytes::from_static(b"sub"),
                assignment: Bytes::from_static(b"part"),
            }],
        };
        let empty = GroupRecord {
            protocol: None,
            leader: None,
            members: vec![],
            ..full.clone()
        };
        for group in [full, empty] {
            assert_eq!(decode(&encode(&group).unwrap()), Ok(group));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let group = GroupRecord {
            protocol: Some("x".repeat(40_000).into()),
            ..GroupRecord::default()
        };
        assert!(matches!(encode(&group), Err(InternalError::TooLong(_))));
    }
}
