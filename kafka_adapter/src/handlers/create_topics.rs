//! CreateTopics v2-v7: each topic on its own, checked in Kafka's order.

use crate::error::{Close, Refusal};
use crate::settings::Defaults;
use crate::topology::{self, Topology};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::{BrokerId, CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, NewTopic, Origin, Perm, Topic};

/// Most new partitions in one request, as in Kafka.
pub(super) const NEW_PARTITIONS_MAX: u64 = 10_000;

pub(crate) async fn handle(
    catalog: &Catalog,
    defaults: &Defaults,
    topology: &Topology,
    request: CreateTopicsRequest,
    version: i16,
) -> Result<CreateTopicsResponse, Close> {
    let names = || request.topics.iter().map(|topic| &topic.name);
    let repeated = repeated(names().map(|name| &***name));
    let mut answered = HashSet::new();
    let mut room = NEW_PARTITIONS_MAX;
    let mut results = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let result = CreatableTopicResult::default().with_name(asked.name.clone());
        let outcome = if repeated.contains(&**asked.name) {
            // A name that comes twice is answered once.
            if !answered.insert(asked.name.clone()) {
                continue;
            }
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "the topic is named twice",
            ))
        } else {
            create(
                catalog,
                defaults,
                topology,
                asked,
                request.validate_only,
                &mut room,
            )
            .await
        };
        results.push(match outcome {
            Err(refusal) => result
                .with_error_code(refusal.code.code())
                .with_error_message(Some(StrBytes::from_string(refusal.message))),
            Ok(Outcome { queues, topic }) => {
                let result = result.with_error_message(None);
                describe(defaults, result, queues, topic, version)
            }
        });
    }
    Ok(CreateTopicsResponse::default().with_topics(results))
}

/// Names that come more than once.
pub(super) fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<String> {
    let mut seen = HashSet::new();
    names
        .filter(|name| !seen.insert(*name))
        .map(str::to_owned)
        .collect()
}

struct Outcome {
    queues: u32,
    /// `None` where it was only validated.
    topic: Option<Arc<Topic>>,
}

async fn create(
    catalog: &Catalog,
    defaults: &Defaults,
    topology: &Topology,
    asked: &CreatableTopic,
    validate_only: bool,
    room: &mut u64,
) -> Result<Outcome, Refusal> {
    let name: &str = &asked.name;
    if !topology::legal_name(name) {
        return Err(Refusal::new(
            ResponseError::InvalidTopicException,
            "a topic name has 1 to 249 letters, digits, '.', '_' or '-' and is neither '.' nor '..'",
        ));
    }
    if let Some(other) = collides(catalog, name) {
        return Err(Refusal::new(
            ResponseError::InvalidTopicException,
            format!("the name collides with {other}: '.' and '_' count as the same"),
        ));
    }
    if catalog.by_kafka(name).is_some() {
        return Err(Refusal::new(
            ResponseError::TopicAlreadyExists,
            format!("topic {name} exists already"),
        ));
    }
    let queues = partitions(defaults, topology, asked)?;
    *room = room.checked_sub(u64::from(queues)).ok_or_else(|| {
        Refusal::new(
            ResponseError::PolicyViolation,
            format!("more than {NEW_PARTITIONS_MAX} new partitions in one request"),
        )
    })?;
    let mut settings = BTreeMap::new();
    for config in &asked.configs {
        let Some(value) = &config.value else {
            return Err(Refusal::new(
                ResponseError::InvalidConfig,
                format!("{}: null is no value", &*config.name),
            ));
        };
        settings.insert(config.name.to_string(), value.trim().to_owned());
    }
    let new = NewTopic {
        name: name.to_owned(),
        origin: Origin::Kafka,
        queues,
        perm: Perm(6),
        order: false,
        sys_flag: 0,
        multi_tag: false,
        attributes: BTreeMap::new(),
        settings,
    };
    if validate_only {
        catalog.check(&new).map_err(|error| Refusal::from(&error))?;
        return Ok(Outcome {
            queues,
            topic: None,
        });
    }
    let topic = catalog
        .create(new)
        .await
        .map_err(|error| Refusal::from(&error))?;
    Ok(Outcome {
        queues,
        topic: Some(topic),
    })
}

/// Another topic whose name differs in `.` and `_` only: metric names would be the same.
fn collides(catalog: &Catalog, name: &str) -> Option<Arc<str>> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let same = |a: u8, b: u8| a == b || (matches!(a, b'.' | b'_') && matches!(b, b'.' | b'_'));
    catalog
        .all()
        .iter()
        .filter_map(|topic| topic.kafka.clone())
        .find(|other| {
            &**other != name
                && other.len() == name.len()
                && other.bytes().zip(name.bytes()).all(|(a, b)| same(a, b))
        })
}

fn partitions(
    defaults: &Defaults,
    topology: &Topology,
    asked: &CreatableTopic,
) -> Result<u32, Refusal> {
    if !asked.assignments.is_empty() {
        if asked.num_partitions != -1 || asked.replication_factor != -1 {
            return Err(Refusal::new(
                ResponseError::InvalidRequest,
                "a replica assignment goes with num_partitions and replication_factor of -1",
            ));
        }
        let mut indexes: Vec<i32> = asked
            .assignments
            .iter()
            .map(|assignment| assignment.partition_index)
            .collect();
        indexes.sort_unstable();
        let dense = indexes
            .iter()
            .zip(0..)
            .all(|(index, place)| *index == place);
        let here = asked
            .assignments
            .iter()
            .all(|assignment| assignment.broker_ids == [BrokerId(topology.node)]);
        if !dense || !here {
            return Err(Refusal::new(
                ResponseError::InvalidReplicaAssignment,
                format!(
                    "partitions must be 0, 1, 2, ... each on broker {}",
                    topology.node
                ),
            ));
        }
        return Ok(u32::try_from(indexes.len()).unwrap_or(u32::MAX));
    }
    let queues = match asked.num_partitions {
        -1 => defaults.num_partitions,
        count => u32::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| {
                Refusal::new(
                    ResponseError::InvalidPartitions,
                    format!("{count} is no number of partitions"),
                )
            })?,
    };
    if !matches!(asked.replication_factor, -1 | 1) {
        return Err(Refusal::new(
            ResponseError::InvalidReplicationFactor,
            format!(
                "replication factor {}: there is one broker; use 1 or -1",
                asked.replication_factor
            ),
        ));
    }
    Ok(queues)
}

fn describe(
    defaults: &Defaults,
    mut result: CreatableTopicResult,
    queues: u32,
    topic: Option<Arc<Topic>>,
    version: i16,
) -> CreatableTopicResult {
    if version >= 5 {
        result.num_partitions = i32::try_from(queues).unwrap_or(i32::MAX);
        result.replication_factor = 1;
        let shown = topic
            .as_ref()
            .map(|topic| defaults.of_topic(topic, |_| true))
            .unwrap_or_default();
        let configs = shown.into_iter().map(|shown| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_static_str(shown.name))
                .with_value(Some(StrBytes::from_string(shown.value)))
                .with_config_source(shown.source as i8)
        });
        result.configs = Some(configs.collect());
    }
    if version >= 7
        && let Some(topic) = topic
    {
        result.topic_id = topic.id;
    }
    result
}
