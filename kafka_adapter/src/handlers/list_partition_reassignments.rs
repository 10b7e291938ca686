//! ListPartitionReassignments v0: nothing is ever moved between brokers.

use crate::error::Close;
use kafka_protocol::messages::ListPartitionReassignmentsResponse;

pub(crate) async fn handle() -> Result<ListPartitionReassignmentsResponse, Close> {
    Ok(ListPartitionReassignmentsResponse::default().with_error_message(None))
}
