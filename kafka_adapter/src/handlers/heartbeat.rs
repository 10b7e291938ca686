//! Heartbeat v0-v4: a sign of life; the answer tells of a rebalance that has begun.

use crate::error::Close;
use crate::group::Coordinator;
use crate::handlers::text;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use std::sync::Arc;

pub(crate) async fn handle(
    coordinator: &Arc<Coordinator>,
    request: HeartbeatRequest,
) -> Result<HeartbeatResponse, Close> {
    let result = coordinator
        .heartbeat(
            &request.group_id,
            text::owned(&request.member_id),
            request.group_instance_id.as_ref().map(text::owned),
            request.generation_id,
        )
        .await;
    let code = result.err().map_or(0, |code| code.code());
    Ok(HeartbeatResponse::default().with_error_code(code))
}
