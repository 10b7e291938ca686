//! What a request can fail with, and the one table from that to response codes.

use std::path::PathBuf;
use thiserror::Error;
use twinmq_remoting::bodies::registration::RegistrationError;
use twinmq_remoting::code::response;
use twinmq_remoting::json::JsonError;
use twinmq_remoting::{Command, FieldError};

/// Where RocketMQ's remarks point.
const FAQ: &str = "https://rocketmq.apache.org/docs/bestPractice/06FAQ";

/// The name server could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings contradict each other.
    #[error("nameserver settings: {0}")]
    Config(String),
    /// The KV config on disk cannot be used.
    #[error("nameserver KV config")]
    Kv(#[from] KvError),
    /// The listener has no address.
    #[error("nameserver listener")]
    Listener(#[source] std::io::Error),
}

/// The KV config could not be read or stored.
#[derive(Debug, Error)]
pub enum KvError {
    /// The file system.
    #[error("{path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What it said.
        cause: std::io::Error,
    },
    /// It is no KV config.
    #[error("{path} is not a KV config: {cause}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: JsonError,
    },
    /// It would grow above the limit.
    #[error("the KV config would exceed kv_bytes_max ({0} bytes)")]
    Full(usize),
    /// The task that stores it was stopped.
    #[error("the KV config was not stored: the name server stops")]
    Stopped,
}

/// A request is refused.
#[derive(Debug, Error)]
pub enum RouteError {
    /// A header field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A body.
    #[error(transparent)]
    Body(#[from] JsonError),
    /// A broker's registration.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The body was damaged on its way.
    #[error("crc32 not match")]
    Crc,
    /// A broker's first registration has exactly one topic: it is an update for one we have lost.
    #[error("register broker failed")]
    NotWhole,
    /// `brokers_max` or `topics_max` is reached.
    #[error("too many {what} for this name server; see {key}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The setting.
        key: &'static str,
    },
    /// Nobody has the topic.
    #[error(
        "No topic route info in name server for the topic: {0}\nSee {FAQ} for further details."
    )]
    NoRoute(String),
    /// No such KV entry.
    #[error("No config item, Namespace: {namespace} Key: {key}")]
    NoEntry {
        /// Namespace.
        namespace: String,
        /// Key.
        key: String,
    },
    /// No such KV namespace.
    #[error("No config item, Namespace: {0}")]
    NoNamespace(String),
    /// No such broker.
    #[error("the broker {0} is not registered")]
    NoBroker(String),
    /// Settings are not changed over the wire.
    #[error("name server settings are changed in its configuration file only")]
    Settings,
    /// The KV config.
    #[error(transparent)]
    Kv(#[from] KvError),
}

impl RouteError {
    /// The response code.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Field(_)
            | Self::Body(_)
            | Self::Registration(_)
            | Self::Crc
            | Self::NotWhole
            | Self::TooMany { .. }
            | Self::Kv(_) => response::SYSTEM_ERROR,
            Self::NoRoute(_) => response::TOPIC_NOT_EXIST,
            Self::NoEntry { .. } | Self::NoNamespace(_) => response::QUERY_NOT_FOUND,
            Self::NoBroker(_) => response::BROKER_NOT_EXIST,
            Self::Settings => response::NO_PERMISSION,
        }
    }

    /// The answer.
    #[must_use]
    pub fn answer(&self, request: &Command) -> Command {
        Command::response_to(request, self.code()).with_remark(self.to_string())
    }
}
