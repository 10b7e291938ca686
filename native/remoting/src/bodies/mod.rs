//! Typed JSON bodies, one family per file. Fields stand in alphabetical order of their wire names, as
//! fastjson writes them; reading takes any order, skips unknown keys, and takes numbers and booleans
//! also as text (C++).

pub mod cluster;
pub mod connection;
pub mod group;
pub mod heartbeat;
pub mod lock;
pub mod offset;
pub mod registration;
pub mod route;
pub mod stats;
pub mod topic;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// A queue as clients name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// The broker's name.
    #[serde(deserialize_with = "text")]
    pub broker_name: String,
    /// The queue.
    #[serde(deserialize_with = "number")]
    pub queue_id: i32,
    /// The topic.
    #[serde(deserialize_with = "text")]
    pub topic: String,
}

/// A queue as a key of a map: its text is the object itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey(pub MessageQueue);

impl Serialize for QueueKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for QueueKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::json::read(text.as_bytes())
            .map(Self)
            .map_err(D::Error::custom)
    }
}

/// RocketMQ's version of a table: two are equal when all three numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Counts changes.
    #[serde(deserialize_with = "number")]
    pub counter: i64,
    /// Counts the broker's terms; absent in 4.x.
    #[serde(deserialize_with = "number")]
    pub state_version: i64,
    /// When it last changed, in milliseconds since 1970.
    #[serde(deserialize_with = "number")]
    pub timestamp: i64,
}

/// A map of texts: KV configs, runtime info.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvTable {
    /// It.
    pub table: BTreeMap<String, String>,
}

/// Takes a number, a number as text, or null (0).
pub(crate) fn number<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: FromStr + TryFrom<i64> + Default,
{
    struct Number<N>(PhantomData<N>);
    impl<N: FromStr + TryFrom<i64> + Default> Visitor<'_> for Number<N> {
        type Value = N;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, or one as text")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<N, E> {
            N::try_from(value).map_err(|_| E::custom("a number out of range"))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<N, E> {
            i64::try_from(value)
                .map_err(|_| E::custom("a number out of range"))
                .and_then(|value| self.visit_i64(value))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<N, E> {
            text.trim()
                .parse()
                .map_err(|_| E::custom("text that is no number"))
        }

        fn visit_unit<E: Error>(self) -> Result<N, E> {
            Ok(N::default())
        }
    }
    deserializer.deserialize_any(Number(PhantomData))
}

/// Takes a list of numbers, any of them as text, or null (empty).
pub(crate) fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i32>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "number")] i32);
    let all = Option::<Vec<One>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(all.into_iter().map(|One(number)| number).collect())
}

/// Takes a boolean, one as text, a number, or null (false).
pub(crate) fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Boolean;
    impl Visitor<'_> for Boolean {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a boolean, or one as text")
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
            Ok(value)
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
            Ok(value != 0)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
            Ok(value != 0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
            Ok(text.eq_ignore_ascii_case("true"))
        }

        fn visit_unit<E: Error>(self) -> Result<bool, E> {
            Ok(false)
        }
    }
    deserializer.deserialize_any(Boolean)
}

/// Takes a text, a number or boolean as text, or null (empty).
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
            Ok(value.to_string())
        }

        fn visit_unit<E: Error>(self) -> Result<String, E> {
            Ok(String::new())
        }
    }
    deserializer.deserialize_any(Text)
}

/// Null counts as the default (an empty list, an empty map).
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An enum of the wire: written by name, read by name or number.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $number:literal $wire:literal, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )* }

        impl $name {
            /// The name on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $wire, )* }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = crate::bodies::text(deserializer)?;
                $( if text == $wire || text == stringify!($number) { return Ok(Self::$variant); } )*
                if text.is_empty() {
                    return Ok(Self::default());
                }
                Err(serde::de::Error::custom(format!("unknown {}: {text:?}", stringify!($name))))
            }
        }
    };
}
pub(crate) use wire_enum;
