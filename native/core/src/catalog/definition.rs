//! Changes of the catalog as they stand in the log: one Kafka record each, JSON in key and value.
//! FORMAT.md describes them. A record replaces the earlier one of the same key.

use super::{Class, Origin, Perm, Topic};
use crate::config::CoreConfig;
use crate::groups::Group;
use crate::payload::Pair;
use crate::settings;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_store::{QueueNumber, Timestamp};
use uuid::Uuid;

/// A topic as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) id: String,
    pub(crate) kafka: Option<String>,
    pub(crate) native: Option<String>,
    pub(crate) origin: StoredOrigin,
    pub(crate) class: StoredClass,
    pub(crate) perm: u8,
    pub(crate) read_queues: u32,
    pub(crate) write_queues: u32,
    /// Queue numbers by ordinal, as (first number, count).
    pub(crate) queues: Vec<(u32, u32)>,
    #[serde(default)]
    pub(crate) order: bool,
    #[serde(default)]
    pub(crate) sys_flag: i32,
    #[serde(default)]
    pub(crate) multi_tag: bool,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) created: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoredOrigin {
    Kafka,
    Native,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoredClass {
    User,
    System,
    Internal,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A topic is created, or stands differently from now on.
    Topic(Definition),
    /// A topic is gone.
    TopicGone(Uuid),
    /// A group is defined, or stands differently from now on.
    Group(Group),
    /// A group's definition is gone.
    GroupGone(String),
    /// The store has dropped these queues of deleted topics.
    Dropped(Vec<u32>),
}

impl Change {
    pub(crate) fn encode(&self) -> Pair {
        let json = |value: Result<Vec<u8>, serde_json::Error>| {
            // Maps with text keys and plain numbers always have a JSON form.
            Some(value.unwrap_or_default())
        };
        let (key, value) = match self {
            Self::Topic(definition) => (
                format!("topic/{}", definition.id),
                json(serde_json::to_vec(definition)),
            ),
            Self::TopicGone(id) => (format!("topic/{id}"), None),
            Self::Group(group) => (
                format!("group/{}", group.group_name),
                json(serde_json::to_vec(group)),
            ),
            Self::GroupGone(name) => (format!("group/{name}"), None),
            Self::Dropped(numbers) => ("dropped".to_owned(), json(serde_json::to_vec(numbers))),
        };
        Pair {
            key: key.into_bytes(),
            value,
        }
    }

    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Self, String> {
        let key = std::str::from_utf8(key).map_err(|_| "a key that is not text".to_owned())?;
        let bad = |error: serde_json::Error| format!("{key}: {error}");
        if key == "dropped" {
            let value = value.unwrap_or(b"[]");
            return serde_json::from_slice(value)
                .map(Self::Dropped)
                .map_err(bad);
        }
        match (key.split_once('/'), value) {
            (Some(("topic", _)), Some(value)) => {
                serde_json::from_slice(value).map(Self::Topic).map_err(bad)
            }
            (Some(("topic", id)), None) => Uuid::parse_str(id)
                .map(Self::TopicGone)
                .map_err(|error| format!("{key}: {error}")),
            (Some(("group", _)), Some(value)) => {
                serde_json::from_slice(value).map(Self::Group).map_err(bad)
            }
            (Some(("group", name)), None) => Ok(Self::GroupGone(name.to_owned())),
            _ => Err(format!("{key}: written by a newer version of the broker")),
        }
    }
}

/// Queue numbers as ranges.
pub(crate) fn ranges(queues: &[QueueNumber]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for queue in queues {
        match ranges.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(queue.0) => *count += 1,
            _ => ranges.push((queue.0, 1)),
        }
    }
    ranges
}

impl Definition {
    pub(crate) fn of(topic: &Topic) -> Self {
        Self {
            id: topic.id.to_string(),
            kafka: topic.kafka.as_deref().map(str::to_owned),
            native: topic.native.as_deref().map(str::to_owned),
            origin: match topic.origin {
                Origin::Kafka => StoredOrigin::Kafka,
                Origin::Native => StoredOrigin::Native,
            },
            class: match topic.class {
                Class::User => StoredClass::User,
                Class::System => StoredClass::System,
                Class::Internal => StoredClass::Internal,
            },
            perm: topic.perm.0,
            read_queues: topic.read_queues,
            write_queues: topic.write_queues,
            queues: ranges(&topic.queues),
            order: topic.order,
            sys_flag: topic.sys_flag,
            multi_tag: topic.multi_tag,
            attributes: topic.attributes.clone(),
            settings: topic.settings.clone(),
            created: topic.created.0,
        }
    }

    /// The topic it defines, with the broker's defaults of today.
    pub(crate) fn topic(&self, config: &CoreConfig) -> Result<Topic, String> {
        let id = Uuid::parse_str(&self.id).map_err(|error| error.to_string())?;
        if self.kafka.is_none() && self.native.is_none() {
            return Err(format!("topic {id} has no name"));
        }
        let mut queues = SmallVec::new();
        for (first, count) in &self.queues {
            let end = first
                .checked_add(*count)
                .filter(|_| *first >= QueueNumber::FIRST_FREE.0 && *count <= 1_000_000)
                .ok_or_else(|| format!("topic {id}: queue numbers {first} + {count}"))?;
            queues.extend((*first..end).map(QueueNumber));
        }
        let origin = match self.origin {
            StoredOrigin::Kafka => Origin::Kafka,
            StoredOrigin::Native => Origin::Native,
        };
        Ok(Topic {
            kafka: self.kafka.as_deref().map(Arc::from),
            native: self.native.as_deref().map(Arc::from),
            id,
            origin,
            class: match self.class {
                StoredClass::User => Class::User,
                StoredClass::System => Class::System,
                StoredClass::Internal => Class::Internal,
            },
            perm: Perm(self.perm),
            read_queues: self.read_queues,
            write_queues: self.write_queues,
            queues,
            order: self.order,
            sys_flag: self.sys_flag,
            multi_tag: self.multi_tag,
            attributes: self.attributes.clone(),
            settings: self.settings.clone(),
            resolved: settings::resolve(&self.settings, &self.attributes, origin, config),
            created: Timestamp(self.created),
            stored: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_from_their_records() {
        let definition = Definition {
            id: Uuid::from_u128(7).to_string(),
            kafka: Some("a.b".to_owned()),
            native: None,
            origin: StoredOrigin::Kafka,
            class: StoredClass::User,
            perm: 6,
            read_queues: 3,
            write_queues: 2,
            queues: ranges(&[16, 17, 40].map(QueueNumber)),
            order: true,
            sys_flag: 1,
            multi_tag: false,
            attributes: BTreeMap::new(),
            settings: BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]),
            created: 99,
        };
        assert_eq!(definition.queues, [(16, 2), (40, 1)]);
        let golden = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000007","kafka":"a.b","native":null,"#,
            r#""origin":"kafka","class":"user","perm":6,"read_queues":3,"write_queues":2,"#,
            r#""queues":[[16,2],[40,1]],"order":true,"sys_flag":1,"multi_tag":false,"#,
            r#""attributes":{},"settings":{"retention.ms":"5"},"created":99}"#,
        );
        let pair = Change::Topic(definition.clone()).encode();
        assert_eq!(pair.key, b"topic/00000000-0000-0000-0000-000000000007");
        assert_eq!(
            String::from_utf8(pair.value.expect("some")).expect("text"),
            golden
        );
        let topic = definition.topic(&CoreConfig::default()).expect("sound");
        assert_eq!(Definition::of(&topic), definition);
        for change in [
            Change::Topic(definition),
            Change::TopicGone(Uuid::from_u128(7)),
            Change::Group(Group::default()),
            Change::GroupGone("g/h".to_owned()),
            Change::Dropped(vec![1, 2]),
        ] {
            let pair = change.encode();
            let back = Change::decode(&pair.key, pair.value.as_deref()).expect("decodes");
            assert_eq!(back, change);
        }
        assert!(Change::decode(b"unheard-of", None).is_err());
    }

    proptest::proptest! {
        #[test]
        fn random_records_are_refused_or_harmless(key in ".{0,20}", value in ".{0,60}") {
            let _ = Change::decode(key.as_bytes(), Some(value.as_bytes()));
            let _ = Change::decode(format!("topic/{key}").as_bytes(), Some(value.as_bytes()));
        }

        #[test]
        fn claimed_queue_ranges_are_bounded(first in 0_u32.., count in 0_u32..) {
            let json = format!(
                r#"{{"id":"00000000-0000-0000-0000-000000000007","kafka":"a","native":null,
                "origin":"kafka","class":"user","perm":6,"read_queues":1,"write_queues":1,
                "queues":[[{first},{count}]],"created":1}}"#
            );
            let change = Change::decode(b"topic/x", Some(json.as_bytes())).expect("decodes");
            let Change::Topic(definition) = change else { panic!("a topic") };
            if let Ok(topic) = definition.topic(&CoreConfig::default()) {
                proptest::prop_assert!(topic.queues.len() <= 1_000_000);
            }
        }
    }
}
