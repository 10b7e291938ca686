//! SyncGroup v0-v5: brings the leader's assignment, and answers each member's part once it is stored.

use crate::error::Close;
use crate::group::Coordinator;
use crate::group::event::{Answer, Sync};
use crate::handlers::text;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use std::sync::Arc;

pub(crate) async fn handle(
    coordinator: &Arc<Coordinator>,
    request: SyncGroupRequest,
    version: i16,
) -> Result<SyncGroupResponse, Close> {
    let group = text::owned(&request.group_id);
    let assignments = request.assignments.iter().map(|part| {
        // A copy: the group outlives the frame these bytes point into.
        let assignment = Bytes::copy_from_slice(&part.assignment);
        (text::owned(&part.member_id), assignment)
    });
    let sync = Sync {
        member_id: text::owned(&request.member_id),
        instance_id: request.group_instance_id.as_ref().map(text::owned),
        generation: request.generation_id,
        protocol_type: request.protocol_type.as_ref().map(text::owned),
        protocol: request.protocol_name.as_ref().map(text::owned),
        assignments: assignments.collect(),
    };
    Ok(answered(coordinator.sync(&group, sync).await, version))
}

fn answered(answer: Answer, version: i16) -> SyncGroupResponse {
    let code = match answer {
        Answer::Synced {
            protocol_type,
            protocol,
            assignment,
        } => {
            let named = |name: Option<Arc<str>>| {
                name.filter(|_| version >= 5).map(|name| text::wire(&name))
            };
            return SyncGroupResponse::default()
                .with_protocol_type(named(protocol_type))
                .with_protocol_name(named(protocol))
                .with_assignment(assignment);
        }
        Answer::Refused(code) => code,
        _ => ResponseError::UnknownServerError,
    };
    SyncGroupResponse::default().with_error_code(code.code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::protocol::Encodable;

    #[test]
    fn every_version_can_carry_every_answer() {
        for version in 0..=5 {
            let synced = Answer::Synced {
                protocol_type: Some("consumer".into()),
                protocol: Some("range".into()),
                assignment: Bytes::from_static(b"part"),
            };
            let refused = Answer::Refused(ResponseError::IllegalGeneration);
            for answer in [synced, refused] {
                let mut out = BytesMut::new();
                answered(answer, version).encode(&mut out, version).unwrap();
            }
        }
    }
}
