//! DescribeConfigs v1-v4: topics and this broker, with sources, types and synonyms.

use crate::error::{Close, Refusal};
use crate::serve::Front;
use crate::settings::Shown;
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

/// Resource types (`ConfigResource.Type`).
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;

pub(crate) async fn handle(
    front: &Front,
    request: DescribeConfigsRequest,
    version: i16,
) -> Result<DescribeConfigsResponse, Close> {
    let mut results = Vec::with_capacity(request.resources.len());
    for asked in &request.resources {
        let result = DescribeConfigsResult::default()
            .with_resource_type(asked.resource_type)
            .with_resource_name(asked.resource_name.clone());
        results.push(match shown(front, asked) {
            Ok(shown) => result.with_error_message(None).with_configs(
                shown
                    .into_iter()
                    .map(|shown| entry(shown, request.include_synonyms, version))
                    .collect(),
            ),
            Err(refusal) => result
                .with_error_code(refusal.code.code())
                .with_error_message(Some(StrBytes::from_string(refusal.message))),
        });
    }
    Ok(DescribeConfigsResponse::default().with_results(results))
}

fn shown(front: &Front, asked: &DescribeConfigsResource) -> Result<Vec<Shown>, Refusal> {
    let wanted = |name: &str| match &asked.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.iter().any(|key| &**key == name),
        _ => true,
    };
    let name: &str = &asked.resource_name;
    match asked.resource_type {
        TOPIC if !topology::legal_name(name) => Err(Refusal::new(
            ResponseError::InvalidTopicException,
            "no legal topic name",
        )),
        TOPIC => match topology::by_name(&front.core.catalog, name) {
            Some(topic) => Ok(front.defaults.of_topic(&topic, wanted)),
            None => Err(Refusal::new(
                ResponseError::UnknownTopicOrPartition,
                "no such topic",
            )),
        },
        // Cluster-wide dynamic defaults: there are none.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name.parse() == Ok(front.topology.node) => Ok(front.defaults.of_broker(wanted)),
        BROKER => Err(Refusal::new(
            ResponseError::InvalidRequest,
            format!("this is broker {}, not {name:?}", front.topology.node),
        )),
        other => Err(Refusal::new(
            ResponseError::InvalidRequest,
            format!("resources of type {other} have no settings here"),
        )),
    }
}

fn entry(shown: Shown, synonyms: bool, version: i16) -> DescribeConfigsResourceResult {
    let mut entry = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(shown.name))
        .with_value(Some(StrBytes::from_string(shown.value)))
        .with_read_only(shown.read_only)
        .with_config_source(shown.source as i8)
        .with_documentation(None);
    if synonyms {
        entry.synonyms = shown
            .synonyms
            .into_iter()
            .map(|(name, value, source)| {
                DescribeConfigsSynonym::default()
                    .with_name(StrBytes::from_static_str(name))
                    .with_value(Some(StrBytes::from_string(value)))
                    .with_source(source as i8)
            })
            .collect();
    }
    if version >= 3 {
        entry.config_type = shown.kind as i8;
    }
    entry
}
