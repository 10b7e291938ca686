//! DeleteTopics v1-v6: by name, from v6 on by id too. Committed offsets go with the topic.

use super::create_topics::repeated;
use crate::error::{Close, Refusal};
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, Topic};

pub(crate) async fn handle(
    catalog: &Catalog,
    enabled: bool,
    request: DeleteTopicsRequest,
    version: i16,
) -> Result<DeleteTopicsResponse, Close> {
    let asked: Vec<DeleteTopicState> = if version >= 6 {
        request.topics
    } else {
        let state = |name| DeleteTopicState::default().with_name(Some(name));
        request.topic_names.into_iter().map(state).collect()
    };
    let found: Vec<_> = asked.iter().map(|state| find(catalog, state)).collect();
    let twice = repeated(
        found
            .iter()
            .filter_map(|found| found.as_ref().ok())
            .map(|topic| &**topic.key()),
    );
    let mut responses = Vec::with_capacity(asked.len());
    for (state, found) in asked.into_iter().zip(found) {
        let named = found.as_ref().ok().and_then(|topic| topic.kafka.as_deref());
        let name = named
            .map(|name| TopicName(StrBytes::from_string(name.to_owned())))
            .or(state.name);
        let mut result = DeletableTopicResult::default().with_name(name);
        if version >= 6 {
            result.topic_id = found.as_ref().map_or(state.topic_id, |topic| topic.id);
        }
        if let Err(refusal) = delete(catalog, enabled, found, &twice, version).await {
            result.error_code = refusal.code.code();
            if version >= 5 {
                result.error_message = Some(StrBytes::from_string(refusal.message));
            }
        }
        responses.push(result);
    }
    Ok(DeleteTopicsResponse::default().with_responses(responses))
}

fn find(catalog: &Catalog, state: &DeleteTopicState) -> Result<Arc<Topic>, Refusal> {
    match &state.name {
        Some(_) if !state.topic_id.is_nil() => Err(Refusal::new(
            ResponseError::InvalidRequest,
            "a topic is named by its name or by its id, not by both",
        )),
        Some(name) => topology::by_name(catalog, name)
            .ok_or_else(|| Refusal::new(ResponseError::UnknownTopicOrPartition, "no such topic")),
        None if state.topic_id.is_nil() => Err(Refusal::new(
            ResponseError::InvalidRequest,
            "neither name nor id",
        )),
        None => topology::by_id(catalog, state.topic_id)
            .ok_or_else(|| Refusal::new(ResponseError::UnknownTopicId, "no such topic")),
    }
}

async fn delete(
    catalog: &Catalog,
    enabled: bool,
    found: Result<Arc<Topic>, Refusal>,
    twice: &std::collections::HashSet<String>,
    version: i16,
) -> Result<(), Refusal> {
    if !enabled {
        let code = if version < 3 {
            ResponseError::InvalidRequest
        } else {
            ResponseError::TopicDeletionDisabled
        };
        return Err(Refusal::new(code, "kafka.delete_topic_enable is false"));
    }
    let topic = found?;
    if twice.contains(&**topic.key()) {
        return Err(Refusal::new(
            ResponseError::InvalidRequest,
            "the topic is named twice",
        ));
    }
    catalog
        .delete(topic.key())
        .await
        .map_err(|error| Refusal::from(&error))
}
