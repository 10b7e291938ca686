//! Sent-back messages: by the delay steps to the group's retry topic, after too many tries to its
//! dead letters (RocketMQ's `consumerSendMsgBack`).

use crate::catalog::{Catalog, CatalogError, NewTopic, Origin, Perm, Topic};
use crate::config::CoreConfig;
use crate::consume::{ConsumeError, Consuming};
use crate::groups::{Group, Groups};
use crate::metrics::CoreMetrics;
use crate::produce::{MessageIn, MessageOut, ProduceError, Producing};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thiserror::Error;
use twinmq_records::message::{MessageError, MessageView};
use twinmq_records::names::{NATIVE_DLQ, NATIVE_RETRY};
use twinmq_records::properties::{self, PropertiesBuilder, PropertyError};
use twinmq_store::{Ack, Address, Store};

/// The retry ladder starts at this delay level.
const FIRST_LEVEL: i32 = 3;

/// Where a message given back goes, and what is added to its properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Way {
    /// To the dead letters.
    dead: bool,
    /// `RETRY_TOPIC`: where it came from. A retry must have it.
    topic: bool,
    /// `ORIGIN_MESSAGE_ID`.
    id: bool,
}

/// The last way: nothing is added.
const AS_IT_IS: Way = Way {
    dead: true,
    topic: false,
    id: false,
};

/// Ways in the order in which they are tried: the next one is for messages whose properties are so close
/// to their limit that the one before does not fit. Refusing them would make consumers give them back
/// for ever.
const WAYS: [Way; 5] = [
    Way {
        dead: false,
        topic: true,
        id: true,
    },
    Way {
        dead: false,
        topic: true,
        id: false,
    },
    Way {
        dead: true,
        topic: true,
        id: true,
    },
    Way {
        dead: true,
        topic: true,
        id: false,
    },
    AS_IT_IS,
];

/// A message that a consumer gives back.
#[derive(Clone, Debug)]
pub struct SendBack {
    /// The consumer group, native name.
    pub group: String,
    /// The message's address.
    pub address: Address,
    /// 0 = by the retry ladder, above 0 = that delay level, below 0 = dead letter at once.
    pub delay_level: i32,
    /// The client's own bound; `None` = the group's retryMaxTimes.
    pub max_reconsume_times: Option<i32>,
}

/// Why it was not taken back.
#[derive(Debug, Error)]
pub enum RetryError {
    /// The group has no definition.
    #[error("subscription group not exist, {0}")]
    UnknownGroup(String),
    /// The record is gone.
    #[error(transparent)]
    Read(#[from] ConsumeError),
    /// The log did not take it.
    #[error(transparent)]
    Produce(#[from] ProduceError),
    /// The retry topic could not be created.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Sent-back and delayed messages.
#[derive(Debug)]
pub struct Retry {
    store: Store,
    config: Arc<CoreConfig>,
    catalog: Arc<Catalog>,
    groups: Arc<Groups>,
    producing: Arc<Producing>,
    consuming: Arc<Consuming>,
    metrics: CoreMetrics,
    turn: AtomicU32,
}

impl Retry {
    pub(crate) fn new(
        store: Store,
        config: Arc<CoreConfig>,
        catalog: Arc<Catalog>,
        groups: Arc<Groups>,
        producing: Arc<Producing>,
        consuming: Arc<Consuming>,
        metrics: CoreMetrics,
    ) -> Self {
        Self {
            store,
            config,
            catalog,
            groups,
            producing,
            consuming,
            metrics,
            turn: AtomicU32::new(0),
        }
    }

    /// Takes a message back: it is durable (as the retry topic's flush asks) when this returns.
    ///
    /// # Errors
    /// See [`RetryError`].
    pub async fn send_back(&self, back: SendBack) -> Result<(), RetryError> {
        let group = self.group(&back.group).await?;
        if group.retry_queue_nums <= 0 {
            return Ok(());
        }
        let bytes = self.consuming.message_at(back.address).await?;
        let message = MessageView::parse(&bytes).map_err(ProduceError::from)?;
        let most = back.max_reconsume_times.unwrap_or(group.retry_max_times);
        let dead = back.delay_level < 0 || message.reconsume_times >= most;
        let mut ways = WAYS.iter().filter(|way| way.dead || !dead);
        let (way, stored) = loop {
            // The last way adds nothing to what was stored before, so that it cannot be too long.
            let way = ways.next().unwrap_or(&AS_IT_IS);
            match self.put(&back, &group, &bytes, &message, *way).await {
                Err(RetryError::Produce(ProduceError::Message(MessageError::TooLong {
                    ..
                }))) if *way != AS_IT_IS => {}
                stored => break (way, stored?),
            }
        };
        if way.dead && !dead {
            tracing::warn!(
                group = back.group,
                topic = message.topic,
                address = back.address.0,
                "a message given back is a dead letter at once: its properties leave no room for a retry's"
            );
        }
        if let Some(end) = stored.wait {
            let durable = self.store.wait(end, Ack::Synced).await;
            durable.map_err(ProduceError::from)?;
        }
        if way.dead {
            self.metrics.dead.inc();
        } else {
            self.metrics.retried.inc();
        }
        Ok(())
    }

    /// Appends a message given back to where this way leads.
    async fn put(
        &self,
        back: &SendBack,
        group: &Group,
        bytes: &Bytes,
        message: &MessageView<'_>,
        way: Way,
    ) -> Result<MessageOut, RetryError> {
        let topic = if way.dead {
            self.topic(&format!("{NATIVE_DLQ}{}", back.group), 1)
                .await?
        } else {
            let queues = u32::try_from(group.retry_queue_nums).unwrap_or(1);
            let name = format!("{NATIVE_RETRY}{}", back.group);
            self.topic(&name, queues).await?
        };
        let level = match back.delay_level {
            _ if way.dead => 0,
            0 => FIRST_LEVEL.saturating_add(message.reconsume_times),
            level => level,
        };
        let properties = returned_properties(message, way, level)
            .map_err(|error| ProduceError::Message(MessageError::Corrupt(error.to_string())))?;
        let returned = MessageIn {
            flag: message.flag,
            sys_flag: message.sys_flag,
            born_time: message.born_time,
            born_host: message.born_host,
            reconsume_times: message.reconsume_times.saturating_add(1),
            properties,
            body: bytes.slice_ref(message.body),
        };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let queue = turn % topic.write_queues.max(1);
        Ok(self.producing.returned(&topic, queue, &returned).await?)
    }

    async fn group(&self, name: &str) -> Result<Arc<Group>, RetryError> {
        if let Some(group) = self.groups.get(name) {
            return Ok(group);
        }
        if !self.config.auto_create_groups {
            return Err(RetryError::UnknownGroup(name.to_owned()));
        }
        Ok(self.groups.ensure(name).await?)
    }

    async fn topic(&self, name: &str, queues: u32) -> Result<Arc<Topic>, CatalogError> {
        match self.catalog.by_native(name) {
            Some(topic) => Ok(topic),
            None => create(&self.catalog, name, queues).await,
        }
    }
}

/// Creates a retry or dead-letter topic; another may be quicker.
async fn create(catalog: &Catalog, name: &str, queues: u32) -> Result<Arc<Topic>, CatalogError> {
    let new = NewTopic {
        name: name.to_owned(),
        origin: Origin::Native,
        queues,
        perm: Perm(6),
        order: false,
        sys_flag: 0,
        multi_tag: false,
        attributes: BTreeMap::new(),
        settings: BTreeMap::new(),
    };
    match catalog.create(new).await {
        Err(CatalogError::Exists(_)) => catalog
            .by_native(name)
            .ok_or_else(|| CatalogError::Unknown(name.to_owned())),
        result => result,
    }
}

/// A delayed message's topic is gone: a group's own topics are created again, others are not.
pub(crate) async fn create_if_returned(catalog: &Catalog, name: &str) -> Option<Arc<Topic>> {
    if !name.starts_with(NATIVE_RETRY) && !name.starts_with(NATIVE_DLQ) {
        return None;
    }
    create(catalog, name, 1)
        .await
        .inspect_err(
            |error| tracing::warn!(%error, name, "the topic of returned messages is missing"),
        )
        .ok()
}

/// `RETRY_TOPIC` and `ORIGIN_MESSAGE_ID` are kept from the first time; `DELAY` is the level.
fn returned_properties(
    message: &MessageView<'_>,
    way: Way,
    level: i32,
) -> Result<Bytes, PropertyError> {
    let mut properties = PropertiesBuilder::from_text(message.properties);
    if way == AS_IT_IS {
        // Not longer than it was; a delay of its own is over.
        if properties.get(properties::DELAY).is_none() {
            return Ok(Bytes::copy_from_slice(message.properties));
        }
        properties.remove(properties::DELAY);
        return Ok(properties.finish());
    }
    if way.topic && properties.get(properties::RETRY_TOPIC).is_none() {
        properties.set(properties::RETRY_TOPIC, message.topic)?;
    }
    if way.id && properties.get(properties::ORIGIN_MESSAGE_ID).is_none() {
        let id = offset_message_id(message.store_host, message.physic_offset);
        properties.set(properties::ORIGIN_MESSAGE_ID, &id)?;
    }
    properties.set(properties::DELAY, &level.to_string())?;
    Ok(properties.finish())
}

/// RocketMQ's offsetMsgId: store host and physical offset in upper-case hexadecimal.
#[must_use]
pub fn offset_message_id(store_host: SocketAddr, physic_offset: i64) -> String {
    use std::fmt::Write;
    let mut id = String::with_capacity(56);
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02X}");
        }
    };
    match store_host.ip() {
        IpAddr::V4(ip) => put(&ip.octets()),
        IpAddr::V6(ip) => put(&ip.octets()),
    }
    put(&i32::from(store_host.port()).to_be_bytes());
    put(&physic_offset.to_be_bytes());
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_have_rocketmqs_form() {
        let id = offset_message_id(([127, 0, 0, 1], 10911).into(), 0x1234);
        assert_eq!(id, "7F00000100002A9F0000000000001234");
    }
}
