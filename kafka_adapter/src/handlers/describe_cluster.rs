//! DescribeCluster v0-v2: this broker, which is the controller too.

use crate::error::Close;
use crate::topology::{CLUSTER_OPERATIONS, Client, Topology};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

/// `endpoint_type` of brokers, and of controllers (KIP-919).
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn handle(
    topology: &Topology,
    request: DescribeClusterRequest,
    version: i16,
    client: &Client,
) -> Result<DescribeClusterResponse, Close> {
    let refusal = match request.endpoint_type {
        BROKERS => None,
        _ if version == 0 => Some(ResponseError::InvalidRequest),
        CONTROLLERS => Some(ResponseError::MismatchedEndpointType),
        _ => Some(ResponseError::UnsupportedEndpointType),
    };
    if let Some(code) = refusal {
        let text = format!(
            "endpoint type {} is not served by a broker",
            request.endpoint_type
        );
        return Ok(DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(StrBytes::from_string(text))));
    }
    let broker = DescribeClusterBroker::default()
        .with_broker_id(BrokerId(topology.node))
        .with_host(client.endpoint.host.clone())
        .with_port(client.endpoint.port)
        .with_rack(topology.rack.clone());
    let mut response = DescribeClusterResponse::default()
        .with_cluster_id(topology.cluster.clone())
        .with_controller_id(BrokerId(topology.node))
        .with_brokers(vec![broker]);
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Ok(response)
}
