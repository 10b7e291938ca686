//! Locks of queues for ordered consumption: LOCK_BATCH_MQ (41), UNLOCK_BATCH_MQ (42).

use super::{MessageQueue, boolean, or_default, text};
use serde::{Deserialize, Serialize};

/// Queues to lock or unlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockQueues {
    /// For this client.
    #[serde(deserialize_with = "text")]
    pub client_id: String,
    /// Of this group.
    #[serde(deserialize_with = "text")]
    pub consumer_group: String,
    /// The queues.
    #[serde(deserialize_with = "or_default")]
    pub mq_set: Vec<MessageQueue>,
    /// Not also at replicas.
    #[serde(deserialize_with = "boolean")]
    pub only_this_broker: bool,
}

/// The queues that are locked for the asker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockedQueues {
    /// They.
    #[serde(rename = "lockOKMQSet", deserialize_with = "or_default")]
    pub locked: Vec<MessageQueue>,
}
