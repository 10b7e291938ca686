//! The heartbeat (34), RocketMQ's `HeartbeatData`, and CHECK_CLIENT_CONFIG (46). C++ sends enums as
//! numbers, `subVersion` as text, and leaves `expressionType` out; Go sends `codeSet` as texts.

use super::{boolean, number, numbers, or_default, text, wire_enum};
use serde::{Deserialize, Serialize};

wire_enum! {
    /// How a consumer gets its messages.
    ConsumeType {
        /// Pull.
        #[default]
        Actively = 0 "CONSUME_ACTIVELY",
        /// Push, which is pull by the client's library.
        Passively = 1 "CONSUME_PASSIVELY",
        /// Pop.
        Pop = 2 "CONSUME_POP",
    }
}

wire_enum! {
    /// Whether the members of a group share the messages or each get all.
    MessageModel {
        /// Each gets all.
        Broadcasting = 0 "BROADCASTING",
        /// They share.
        #[default]
        Clustering = 1 "CLUSTERING",
    }
}

wire_enum! {
    /// Where a group without progress starts.
    ConsumeFrom {
        /// At the end.
        #[default]
        LastOffset = 0 "CONSUME_FROM_LAST_OFFSET",
        /// Historic.
        LastOffsetAndFromMinWhenBootFirst = 1 "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        /// Historic.
        MinOffset = 2 "CONSUME_FROM_MIN_OFFSET",
        /// Historic.
        MaxOffset = 3 "CONSUME_FROM_MAX_OFFSET",
        /// At the start.
        FirstOffset = 4 "CONSUME_FROM_FIRST_OFFSET",
        /// At a time.
        Timestamp = 5 "CONSUME_FROM_TIMESTAMP",
    }
}

/// What a group's member wants of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Historic.
    #[serde(deserialize_with = "boolean")]
    pub class_filter_mode: bool,
    /// Hashes of the tags; Go sends them as texts.
    #[serde(deserialize_with = "numbers")]
    pub code_set: Vec<i32>,
    /// TAG or SQL92.
    #[serde(deserialize_with = "expression_type")]
    pub expression_type: String,
    /// `*`, tags joined by two bars, or an expression.
    #[serde(deserialize_with = "text")]
    pub sub_string: String,
    /// When it was built, in milliseconds since 1970.
    #[serde(deserialize_with = "number")]
    pub sub_version: i64,
    /// The tags; empty for `*` and SQL92.
    #[serde(deserialize_with = "or_default")]
    pub tags_set: Vec<String>,
    /// The topic.
    #[serde(deserialize_with = "text")]
    pub topic: String,
}

impl Default for SubscriptionData {
    fn default() -> Self {
        Self {
            class_filter_mode: false,
            code_set: Vec::new(),
            expression_type: "TAG".to_owned(),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: Vec::new(),
            topic: String::new(),
        }
    }
}

fn expression_type<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind = text(deserializer)?;
    Ok(if kind.is_empty() {
        "TAG".to_owned()
    } else {
        kind
    })
}

/// A client's membership in a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a group without progress starts.
    pub consume_from_where: ConsumeFrom,
    /// Push or pull.
    pub consume_type: ConsumeType,
    /// The group.
    #[serde(deserialize_with = "text")]
    pub group_name: String,
    /// Shared or to each.
    pub message_model: MessageModel,
    /// What it wants.
    #[serde(deserialize_with = "or_default")]
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Historic.
    #[serde(deserialize_with = "boolean")]
    pub unit_mode: bool,
}

/// A client's membership in a producer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// The group.
    #[serde(deserialize_with = "text")]
    pub group_name: String,
}

/// A client's heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// The client's id.
    #[serde(rename = "clientID", deserialize_with = "text")]
    pub client_id: String,
    /// Consumer groups it is in.
    #[serde(deserialize_with = "or_default")]
    pub consumer_data_set: Vec<ConsumerData>,
    /// Names its subscriptions; 0 in a heartbeat of the first kind.
    #[serde(deserialize_with = "number")]
    pub heartbeat_fingerprint: i32,
    /// Producer groups it is in.
    #[serde(deserialize_with = "or_default")]
    pub producer_data_set: Vec<ProducerData>,
    /// The subscriptions are left out: keep what you have.
    #[serde(deserialize_with = "boolean")]
    pub without_sub: bool,
}

/// CHECK_CLIENT_CONFIG: does this subscription compile?
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClient {
    /// The client's id.
    #[serde(deserialize_with = "text")]
    pub client_id: String,
    /// Its group.
    #[serde(deserialize_with = "text")]
    pub group: String,
    /// Its namespace.
    #[serde(deserialize_with = "text")]
    pub namespace: String,
    /// The subscription.
    pub subscription_data: SubscriptionData,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn reads_java_and_cpp_heartbeats() {
        let java = br#"{"clientID":"10.0.0.9@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":1700000000000,"tagsSet":["TagA"],"topic":"t"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"pg"}],"withoutSub":false}"#;
        let cpp = br#"{"clientID":"10.0.0.9@1","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"g","messageModel":1,"subscriptionDataSet":[{"codeSet":[2598919],"subString":"TagA","subVersion":"1700000000000","tagsSet":["TagA"],"topic":"t"}]}],"producerDataSet":[{"groupName":"pg"}]}"#;
        let go = br#"{"clientID":"10.0.0.9@1","producerDataSet":[{"groupName":"pg"}],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"t","subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"subVersion":1700000000000,"expressionType":"TAG"}],"unitMode":false}]}"#;
        let java: HeartbeatData = json::read(java).unwrap();
        assert_eq!(java, json::read(go).unwrap());
        assert_eq!(java, json::read(cpp).unwrap());
        assert_eq!(
            java.consumer_data_set[0].consume_from_where,
            ConsumeFrom::FirstOffset
        );
        assert_eq!(
            json::read::<HeartbeatData>(&json::write(&java)).unwrap(),
            java
        );
        let bare: HeartbeatData =
            json::read(br#"{"clientID":"c","consumerDataSet":null}"#).unwrap();
        assert!(bare.consumer_data_set.is_empty());
        assert!(
            json::read::<HeartbeatData>(br#"{"consumerDataSet":[{"messageModel":"X"}]}"#).is_err()
        );
    }
}
