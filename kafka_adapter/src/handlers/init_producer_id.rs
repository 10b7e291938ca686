//! InitProducerId v0-v5 for idempotent producers: a new id with epoch 0.
//! No transactions yet (KNOWN_GAPS): a transactional id is refused with a code that clients report at
//! once instead of trying for ever.

use crate::error::Close;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use twinmq_core::produce::Producing;

pub(crate) async fn handle(
    producing: &Producing,
    request: InitProducerIdRequest,
) -> Result<InitProducerIdResponse, Close> {
    Ok(
        match refusal(&request).map_or_else(|| fresh(producing.producer_id()), Err) {
            Ok(id) => InitProducerIdResponse::default()
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(0),
            Err(code) => InitProducerIdResponse::default()
                .with_error_code(code.code())
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
        },
    )
}

/// -1: there are none left, or `node_id` leaves no room for any. Waiting does not help.
fn fresh(id: i64) -> Result<i64, ResponseError> {
    if id < 0 {
        tracing::error!("no producer id left: node_id must be below 65536, or a restart is due");
        return Err(ResponseError::UnknownServerError);
    }
    Ok(id)
}

fn refusal(request: &InitProducerIdRequest) -> Option<ResponseError> {
    match &request.transactional_id {
        Some(id) if id.is_empty() => Some(ResponseError::InvalidRequest),
        Some(_) => Some(ResponseError::TransactionalIdAuthorizationFailed),
        None if (request.producer_id.0 == -1) != (request.producer_epoch == -1) => {
            Some(ResponseError::InvalidRequest)
        }
        // An idempotent producer that raises its epoch does so by itself (KIP-360); one that asks
        // gets a new id.
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::TransactionalId;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn what_is_refused() {
        let named = |name: &'static str| {
            let id = TransactionalId(StrBytes::from_static_str(name));
            InitProducerIdRequest::default().with_transactional_id(Some(id))
        };
        let plain = InitProducerIdRequest::default().with_transactional_id(None);
        assert_eq!(refusal(&plain), None);
        assert_eq!(refusal(&named("")), Some(ResponseError::InvalidRequest));
        let refused = Some(ResponseError::TransactionalIdAuthorizationFailed);
        assert_eq!(refusal(&named("t")), refused);
        let half = plain.with_producer_id(ProducerId(7));
        assert_eq!(refusal(&half), Some(ResponseError::InvalidRequest));
        assert_eq!(fresh(5), Ok(5));
        assert_eq!(fresh(-1), Err(ResponseError::UnknownServerError));
    }
}
