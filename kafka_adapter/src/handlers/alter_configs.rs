//! AlterConfigs v0-v2: replaces all settings of topics; what is not named goes back to its default.

use super::create_topics::repeated;
use super::describe_configs::{BROKER, TOPIC};
use crate::error::{Close, Refusal};
use crate::serve::Front;
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use twinmq_core::catalog::{NewTopic, Origin, Perm, TopicChange};

/// Longest value of a setting, as in Kafka.
const VALUE_MAX: usize = 32_767;

pub(crate) async fn handle(
    front: &Front,
    request: AlterConfigsRequest,
) -> Result<AlterConfigsResponse, Close> {
    let mut responses = Vec::with_capacity(request.resources.len());
    for asked in &request.resources {
        let mut response = AlterConfigsResourceResponse::default()
            .with_resource_type(asked.resource_type)
            .with_resource_name(asked.resource_name.clone());
        let outcome = if repeated(asked.configs.iter().map(|config| &*config.name)).is_empty() {
            let change = Change {
                resource_type: asked.resource_type,
                resource_name: &asked.resource_name,
                validate_only: request.validate_only,
            };
            alter(front, change, |settings, _| {
                settings.clear();
                for config in &asked.configs {
                    let Some(value) = &config.value else {
                        return Err(Refusal::new(
                            ResponseError::InvalidRequest,
                            format!("{}: null is no value", &*config.name),
                        ));
                    };
                    settings.insert(config.name.to_string(), value.trim().to_owned());
                }
                Ok(())
            })
            .await
        } else {
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "a setting is named twice",
            ))
        };
        response.error_message = None;
        if let Err(refusal) = outcome {
            response.error_code = refusal.code.code();
            response.error_message = Some(StrBytes::from_string(refusal.message));
        }
        responses.push(response);
    }
    Ok(AlterConfigsResponse::default().with_responses(responses))
}

/// Whose settings change.
pub(super) struct Change<'a> {
    pub(super) resource_type: i8,
    pub(super) resource_name: &'a str,
    pub(super) validate_only: bool,
}

/// Works out a topic's settings anew and stores them. `edit` is given the overrides and a look at the
/// value a setting has without one.
pub(super) async fn alter(
    front: &Front,
    change: Change<'_>,
    edit: impl FnOnce(&mut BTreeMap<String, String>, &dyn Fn(&str) -> String) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match change.resource_type {
        TOPIC => {}
        BROKER
            if !change.resource_name.is_empty()
                && change.resource_name.parse() != Ok(front.topology.node) =>
        {
            return Err(Refusal::new(
                ResponseError::InvalidRequest,
                format!("this is broker {}", front.topology.node),
            ));
        }
        BROKER => {
            return Err(Refusal::new(
                ResponseError::InvalidConfig,
                "the broker's settings are in its configuration file and need a restart",
            ));
        }
        other => {
            return Err(Refusal::new(
                ResponseError::InvalidRequest,
                format!("resources of type {other} have no settings here"),
            ));
        }
    }
    // One change after the other: each starts from what the one before left.
    let _turn = front.altering.lock().await;
    let topic = topology::by_name(&front.core.catalog, change.resource_name)
        .ok_or_else(|| Refusal::new(ResponseError::UnknownTopicOrPartition, "no such topic"))?;
    let mut settings = topic.settings.clone();
    edit(&mut settings, &|name| {
        let shown = front.defaults.of_topic(&topic, |other| other == name);
        shown
            .into_iter()
            .next()
            .map(|shown| shown.value)
            .unwrap_or_default()
    })?;
    if let Some((name, _)) = settings.iter().find(|(_, value)| value.len() > VALUE_MAX) {
        return Err(Refusal::new(
            ResponseError::InvalidConfig,
            format!("{name}: longer than {VALUE_MAX} characters"),
        ));
    }
    if change.validate_only {
        // Settings are checked as those of a new topic, under a name that nobody has.
        let new = NewTopic {
            name: format!("validate-only-{}", uuid::Uuid::new_v4()),
            origin: Origin::Kafka,
            queues: 1,
            perm: Perm(6),
            order: false,
            sys_flag: 0,
            multi_tag: false,
            attributes: BTreeMap::new(),
            settings,
        };
        return front
            .core
            .catalog
            .check(&new)
            .map_err(|error| Refusal::from(&error));
    }
    let change = TopicChange {
        settings: Some(settings),
        ..TopicChange::default()
    };
    front
        .core
        .catalog
        .change(topic.key(), change)
        .await
        .map_err(|error| Refusal::from(&error))?;
    Ok(())
}
