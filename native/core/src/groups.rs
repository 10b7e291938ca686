//! Definitions of consumer groups (RocketMQ's subscription groups). A group without one is legal.

use crate::catalog::{Catalog, CatalogError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_records::names;

/// RocketMQ's SubscriptionGroupConfig; field names are its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "RocketMQ's own names")]
#[expect(clippy::struct_excessive_bools, reason = "RocketMQ's own shape")]
pub struct Group {
    pub group_name: String,
    pub consume_enable: bool,
    pub consume_from_min_enable: bool,
    pub consume_broadcast_enable: bool,
    pub consume_message_orderly: bool,
    pub retry_queue_nums: i32,
    pub retry_max_times: i32,
    pub broker_id: i64,
    pub which_broker_when_consume_slowly: i64,
    pub notify_consumer_ids_changed_enable: bool,
    pub group_sys_flag: i32,
    pub consume_timeout_minute: i32,
    /// What the broker does not look at but keeps: `attributes`, `groupRetryPolicy`,
    /// `subscriptionDataSet` and the like.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            group_name: String::new(),
            consume_enable: true,
            consume_from_min_enable: true,
            consume_broadcast_enable: true,
            consume_message_orderly: false,
            retry_queue_nums: 1,
            retry_max_times: 16,
            broker_id: 0,
            which_broker_when_consume_slowly: 1,
            notify_consumer_ids_changed_enable: true,
            group_sys_flag: 0,
            consume_timeout_minute: 15,
            others: BTreeMap::new(),
        }
    }
}

/// All definitions. Kept on the catalog's internal queue.
#[derive(Debug)]
pub struct Groups {
    catalog: Arc<Catalog>,
}

impl Groups {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog }
    }
    /// One definition, by the group's native name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Group>> {
        self.catalog.group(name)
    }
    /// All definitions, in name order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Group>> {
        self.catalog.all_groups()
    }
    /// The definition, with RocketMQ's defaults if there was none. Never replaces one, whoever else makes
    /// it meanwhile.
    ///
    /// # Errors
    /// `InvalidName`, or the log's.
    pub async fn ensure(&self, name: &str) -> Result<Arc<Group>, CatalogError> {
        if let Some(group) = self.get(name) {
            return Ok(group);
        }
        check(name)?;
        let group = Group {
            group_name: name.to_owned(),
            ..Group::default()
        };
        self.catalog.add_group(&group).await?;
        self.get(name)
            .ok_or_else(|| CatalogError::Unknown(name.to_owned()))
    }
    /// Creates or replaces a definition; durable when it returns.
    ///
    /// # Errors
    /// `InvalidName`, or the log's.
    pub async fn put(&self, group: Group) -> Result<Arc<Group>, CatalogError> {
        let name = group.group_name.clone();
        check(&name)?;
        self.catalog.set_group(&name, Some(&group)).await?;
        self.get(&name).ok_or(CatalogError::Unknown(name))
    }
    /// Deletes a definition.
    ///
    /// # Errors
    /// The log's.
    pub async fn delete(&self, name: &str) -> Result<(), CatalogError> {
        self.catalog.set_group(name, None).await
    }
}

fn check(name: &str) -> Result<(), CatalogError> {
    names::check_native_group(name).map_err(|error| CatalogError::InvalidName {
        name: name.to_owned(),
        reason: error.to_string(),
    })
}
