//! DescribeGroups v0-v6: members with what they said and were given; RocketMQ consumers of the group
//! are shown among them. A missing group is "Dead" (to v5) or GROUP_ID_NOT_FOUND (v6).

use crate::error::Close;
use crate::group::Coordinator;
use crate::group::view::{Described, Description};
use crate::handlers::text;
use crate::topology::GROUP_OPERATIONS;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};
use kafka_protocol::protocol::StrBytes;

pub(crate) async fn handle(
    coordinator: &Coordinator,
    request: DescribeGroupsRequest,
    version: i16,
) -> Result<DescribeGroupsResponse, Close> {
    let groups = request
        .groups
        .into_iter()
        .map(|group| match coordinator.describe(&group) {
            Some(seen) if request.include_authorized_operations => {
                described(group, seen, version).with_authorized_operations(GROUP_OPERATIONS)
            }
            Some(seen) => described(group, seen, version),
            None => missing(group, version),
        });
    Ok(DescribeGroupsResponse::default().with_groups(groups.collect()))
}

fn missing(group: GroupId, version: i16) -> DescribedGroup {
    let dead = DescribedGroup::default().with_group_state(StrBytes::from_static_str("Dead"));
    if version < 6 {
        return dead.with_group_id(group);
    }
    let message = StrBytes::from_string(format!("Group {} not found.", group.as_str()));
    dead.with_group_id(group)
        .with_error_code(ResponseError::GroupIdNotFound.code())
        .with_error_message(Some(message))
}

fn described(group: GroupId, seen: Description, version: i16) -> DescribedGroup {
    let members = seen
        .members
        .into_iter()
        .map(|member| described_member(member, version));
    DescribedGroup::default()
        .with_group_id(group)
        .with_group_state(StrBytes::from_static_str(seen.state))
        .with_protocol_type(text::wire(&seen.protocol_type))
        .with_protocol_data(text::wire(&seen.protocol))
        .with_members(members.collect())
}

fn described_member(member: Described, version: i16) -> DescribedGroupMember {
    let instance = member.instance_id.filter(|_| version >= 4);
    DescribedGroupMember::default()
        .with_member_id(text::wire(&member.member_id))
        .with_group_instance_id(instance.map(|id| text::wire(&id)))
        .with_client_id(text::wire(&member.client_id))
        .with_client_host(text::wire(&member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::protocol::Encodable;

    #[test]
    fn every_version_can_carry_every_answer() {
        let group = || GroupId(StrBytes::from_static_str("g"));
        for version in 0..=6 {
            let seen = Description {
                state: "Stable",
                protocol_type: "consumer".into(),
                protocol: "range".into(),
                members: vec![Described {
                    member_id: "m".into(),
                    instance_id: Some("i".into()),
                    client_id: "c".into(),
                    client_host: "/127.0.0.1".into(),
                    metadata: Bytes::from_static(b"m"),
                    assignment: Bytes::from_static(b"a"),
                }],
            };
            let groups = vec![described(group(), seen, version), missing(group(), version)];
            let answer = DescribeGroupsResponse::default().with_groups(groups);
            answer.encode(&mut BytesMut::new(), version).unwrap();
        }
    }
}
