//! FindCoordinator v0-v6: this broker coordinates every group and every transactional id.
//! No share groups (key type 2).

use crate::error::Close;
use crate::topology::{Client, Topology};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub(crate) async fn handle(
    topology: &Topology,
    request: FindCoordinatorRequest,
    version: i16,
    client: &Client,
) -> Result<FindCoordinatorResponse, Close> {
    let known = matches!(request.key_type, GROUP | TRANSACTION);
    if version >= 4 {
        let keys = request.coordinator_keys.into_iter();
        let found = keys.map(|key| {
            let found = Coordinator::default().with_key(key);
            if known {
                found
                    .with_node_id(BrokerId(topology.node))
                    .with_host(client.endpoint.host.clone())
                    .with_port(client.endpoint.port)
                    .with_error_message(None)
            } else {
                found
                    .with_node_id(BrokerId(-1))
                    .with_port(-1)
                    .with_error_code(ResponseError::InvalidRequest.code())
                    .with_error_message(Some(unknown_type(request.key_type)))
            }
        });
        return Ok(FindCoordinatorResponse::default().with_coordinators(found.collect()));
    }
    if known {
        return Ok(FindCoordinatorResponse::default()
            .with_node_id(BrokerId(topology.node))
            .with_host(client.endpoint.host.clone())
            .with_port(client.endpoint.port)
            .with_error_message(None));
    }
    let message = (version >= 1).then(|| unknown_type(request.key_type));
    Ok(FindCoordinatorResponse::default()
        .with_error_code(ResponseError::InvalidRequest.code())
        .with_error_message(message)
        .with_node_id(BrokerId(-1))
        .with_port(-1))
}

fn unknown_type(key_type: i8) -> StrBytes {
    StrBytes::from_string(format!("key type {key_type} has no coordinator here"))
}
