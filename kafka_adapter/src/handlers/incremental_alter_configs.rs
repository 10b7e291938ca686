//! IncrementalAlterConfigs v0-v1: changes named settings of topics, atomically per topic.

use super::alter_configs::{Change, alter};
use super::create_topics::repeated;
use crate::error::{Close, Refusal};
use crate::serve::Front;
use crate::settings;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

/// Operations (`AlterConfigOp.OpType`).
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(crate) async fn handle(
    front: &Front,
    request: IncrementalAlterConfigsRequest,
) -> Result<IncrementalAlterConfigsResponse, Close> {
    let mut responses = Vec::with_capacity(request.resources.len());
    for (place, asked) in request.resources.iter().enumerate() {
        let mut response = AlterConfigsResourceResponse::default()
            .with_resource_type(asked.resource_type)
            .with_resource_name(asked.resource_name.clone());
        let twice = request
            .resources
            .iter()
            .enumerate()
            .any(|(other, resource)| {
                other != place
                    && resource.resource_type == asked.resource_type
                    && resource.resource_name == asked.resource_name
            });
        let outcome = if twice {
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "the resource is named twice",
            ))
        } else if !repeated(asked.configs.iter().map(|config| &*config.name)).is_empty() {
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "a setting is named twice",
            ))
        } else {
            let change = Change {
                resource_type: asked.resource_type,
                resource_name: &asked.resource_name,
                validate_only: request.validate_only,
            };
            alter(front, change, |settings, defaults| {
                apply(asked, settings, defaults)
            })
            .await
        };
        response.error_message = None;
        if let Err(refusal) = outcome {
            response.error_code = refusal.code.code();
            response.error_message = Some(StrBytes::from_string(refusal.message));
        }
        responses.push(response);
    }
    Ok(IncrementalAlterConfigsResponse::default().with_responses(responses))
}

fn apply(
    asked: &AlterConfigsResource,
    settings: &mut BTreeMap<String, String>,
    default: &dyn Fn(&str) -> String,
) -> Result<(), Refusal> {
    for config in &asked.configs {
        one(config, settings, default)?;
    }
    Ok(())
}

fn one(
    config: &AlterableConfig,
    settings: &mut BTreeMap<String, String>,
    default: &dyn Fn(&str) -> String,
) -> Result<(), Refusal> {
    let name: &str = &config.name;
    if config.config_operation == DELETE {
        settings.remove(name);
        return Ok(());
    }
    let Some(value) = config.value.as_deref().map(str::trim) else {
        return Err(Refusal::new(
            ResponseError::InvalidRequest,
            format!("{name}: null is no value"),
        ));
    };
    if matches!(config.config_operation, APPEND | SUBTRACT) && !settings::is_list(name) {
        return Err(Refusal::new(
            ResponseError::InvalidConfig,
            format!("{name} is no list: nothing can be appended to it or taken from it"),
        ));
    }
    let parts = |text: &str| -> Vec<String> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let now = settings.get(name).cloned().unwrap_or_else(|| default(name));
    let value = match config.config_operation {
        SET => value.to_owned(),
        APPEND => {
            let mut all = parts(&now);
            for part in parts(value) {
                if !all.contains(&part) {
                    all.push(part);
                }
            }
            all.join(",")
        }
        SUBTRACT => {
            let gone = parts(value);
            let left: Vec<_> = parts(&now)
                .into_iter()
                .filter(|part| !gone.contains(part))
                .collect();
            left.join(",")
        }
        other => {
            return Err(Refusal::new(
                ResponseError::InvalidRequest,
                format!("operation {other} is unknown"),
            ));
        }
    };
    settings.insert(name.to_owned(), value);
    Ok(())
}
