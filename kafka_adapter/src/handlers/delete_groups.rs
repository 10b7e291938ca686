//! DeleteGroups v0-v2: removes groups without members, Kafka's or RocketMQ's, with their offsets.

use crate::error::Close;
use crate::group::Coordinator;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use std::sync::Arc;

pub(crate) async fn handle(
    coordinator: &Arc<Coordinator>,
    request: DeleteGroupsRequest,
) -> Result<DeleteGroupsResponse, Close> {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for group in request.groups_names {
        let deleted = coordinator.delete(&group).await;
        results.push(
            DeletableGroupResult::default()
                .with_group_id(group)
                .with_error_code(deleted.err().map_or(0, |code| code.code())),
        );
    }
    Ok(DeleteGroupsResponse::default().with_results(results))
}
