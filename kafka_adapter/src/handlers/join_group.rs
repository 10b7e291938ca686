//! JoinGroup v0-v9: becomes a member, or says what it has to do first. Parks until the rebalance ends.

use crate::error::Close;
use crate::group::Coordinator;
use crate::group::event::{Answer, Join, JoinAnswer};
use crate::handlers::text;
use crate::topology::{Client, canonical};
use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;

pub(crate) async fn handle(
    coordinator: &Arc<Coordinator>,
    request: JoinGroupRequest,
    version: i16,
    client: &Client,
) -> Result<JoinGroupResponse, Close> {
    let group = text::owned(&request.group_id);
    let join = join(&request, version, client);
    Ok(match coordinator.join(&group, join).await {
        Answer::Joined(answer) => joined(answer, version),
        Answer::JoinRefused { code, member_id } => refused(code.code(), &member_id, version),
        // JoinGroup has no other answers.
        _ => refused(-1, "", version),
    })
}

fn join(request: &JoinGroupRequest, version: i16, client: &Client) -> Join {
    let instance_id = request.group_instance_id.as_ref().map(text::owned);
    let prefix = instance_id.as_ref().unwrap_or(&client.id);
    let rebalance_timeout_ms = if version >= 1 {
        request.rebalance_timeout_ms
    } else {
        request.session_timeout_ms
    };
    let protocols = request.protocols.iter().map(|protocol| {
        // A copy: the group outlives the frame these bytes point into.
        let metadata = Bytes::copy_from_slice(&protocol.metadata);
        (text::owned(&protocol.name), metadata)
    });
    Join {
        member_id: text::owned(&request.member_id),
        fresh_id: Coordinator::fresh_id(prefix),
        id_required: version >= 4,
        can_skip_assignment: version >= 9,
        client_id: Arc::clone(&client.id),
        client_host: format!("/{}", canonical(client.host.ip())).into(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type: text::owned(&request.protocol_type),
        protocols: protocols.collect(),
        instance_id,
    }
}

fn joined(answer: JoinAnswer, version: i16) -> JoinGroupResponse {
    let members = answer.members.into_iter().map(|member| {
        let instance = member.instance_id.filter(|_| version >= 5);
        JoinGroupResponseMember::default()
            .with_member_id(text::wire(&member.member_id))
            .with_group_instance_id(instance.map(|id| text::wire(&id)))
            .with_metadata(member.metadata)
    });
    let kind = answer.protocol_type.filter(|_| version >= 7);
    JoinGroupResponse::default()
        .with_generation_id(answer.generation)
        .with_protocol_type(kind.map(|kind| text::wire(&kind)))
        .with_protocol_name(Some(text::wire(&answer.protocol.unwrap_or_default())))
        .with_leader(text::wire(&answer.leader))
        .with_skip_assignment(answer.skip_assignment)
        .with_member_id(text::wire(&answer.member_id))
        .with_members(members.collect())
}

fn refused(code: i16, member_id: &str, version: i16) -> JoinGroupResponse {
    let no_name = (version < 7).then(|| StrBytes::from_static_str(""));
    JoinGroupResponse::default()
        .with_error_code(code)
        .with_generation_id(-1)
        .with_protocol_type(None)
        .with_protocol_name(no_name)
        .with_member_id(text::wire(member_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::event::Joined;
    use bytes::BytesMut;
    use kafka_protocol::protocol::Encodable;

    #[test]
    fn every_version_can_carry_every_answer() {
        for version in 0..=9 {
            let answer = JoinAnswer {
                generation: 3,
                protocol_type: Some("consumer".into()),
                protocol: Some("range".into()),
                leader: "a".into(),
                member_id: "a".into(),
                skip_assignment: version >= 9,
                members: vec![Joined {
                    member_id: "a".into(),
                    instance_id: Some("i".into()),
                    metadata: Bytes::from_static(b"m"),
                }],
            };
            let mut out = BytesMut::new();
            joined(answer, version).encode(&mut out, version).unwrap();
            refused(79, "a-1", version)
                .encode(&mut out, version)
                .unwrap();
        }
    }
}
