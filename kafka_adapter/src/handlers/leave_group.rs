//! LeaveGroup v0-v5: one member up to v2, several from v3, static ones by instance alone.

use crate::error::Close;
use crate::group::Coordinator;
use crate::group::event::Leaver;
use crate::handlers::text;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use std::sync::Arc;

pub(crate) async fn handle(
    coordinator: &Arc<Coordinator>,
    request: LeaveGroupRequest,
    version: i16,
) -> Result<LeaveGroupResponse, Close> {
    let asked = if version >= 3 {
        request.members
    } else {
        vec![MemberIdentity::default().with_member_id(request.member_id)]
    };
    let leavers = asked.iter().map(|member| Leaver {
        member_id: text::owned(&member.member_id),
        instance_id: member.group_instance_id.as_ref().map(text::owned),
    });
    let results = match coordinator
        .leave(&request.group_id, leavers.collect())
        .await
    {
        Ok(results) => results,
        Err(code) => return Ok(LeaveGroupResponse::default().with_error_code(code.code())),
    };
    let mut codes = results
        .into_iter()
        .map(|result| result.err().map_or(0, |code| code.code()));
    if version < 3 {
        let code = codes.next().unwrap_or(0);
        return Ok(LeaveGroupResponse::default().with_error_code(code));
    }
    let members = asked.into_iter().zip(codes).map(|(member, code)| {
        MemberResponse::default()
            .with_member_id(member.member_id)
            .with_group_instance_id(member.group_instance_id)
            .with_error_code(code)
    });
    Ok(LeaveGroupResponse::default().with_members(members.collect()))
}
