//! Messages made ready for the lane.

use super::ProduceError;
use crate::catalog::Topic;
use bytes::Bytes;
use smallvec::smallvec;
use std::sync::Arc;
use twinmq_records::message::{self, MessageError, MessageView, NewMessage};
use twinmq_records::properties::{self, Properties, PropertiesBuilder};
use twinmq_store::{Draft, Fill, Flags, Kind, Place, QueueNumber, Timestamp};

/// Where a message goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(super) queue: QueueNumber,
    pub(super) ordinal: i32,
    /// The topic's name in the record.
    pub(super) name: Arc<str>,
    pub(super) multi_tag: bool,
}

impl Target {
    /// A queue of a topic, if there is one.
    pub(crate) fn of(topic: &Topic, ordinal: u32) -> Option<Self> {
        let name = topic.native.as_ref().unwrap_or_else(|| topic.key());
        Some(Self {
            queue: topic.queue(ordinal)?,
            ordinal: i32::try_from(ordinal).ok()?,
            name: Arc::clone(name),
            multi_tag: topic.multi_tag,
        })
    }
}

/// What the lane and the filters need to know of a message's properties, in one pass.
pub(super) struct Marks {
    pub(super) tag_hash: i32,
    pub(super) delay: i32,
}

impl Marks {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut marks = Self {
            tag_hash: 0,
            delay: 0,
        };
        for (name, value) in Properties::new(text).pairs() {
            if name == properties::TAGS.as_bytes() {
                marks.tag_hash = std::str::from_utf8(value).map_or(0, message::java_hash);
            } else if name == properties::DELAY.as_bytes() {
                let level = std::str::from_utf8(value).ok();
                marks.delay = level
                    .and_then(|level| level.trim().parse().ok())
                    .unwrap_or(0);
            }
        }
        marks
    }
}

/// The draft of a message for a queue.
pub(super) fn message_draft(
    target: &Target,
    tag_hash: i32,
    new: &NewMessage<'_>,
    body_max: usize,
) -> Result<Draft, MessageError> {
    let encoded = message::encode(new, body_max)?;
    let place = |at, fill| Place { at, fill };
    Ok(Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue: target.queue,
        span: 1,
        record_time: Timestamp(new.born_time.max(-1)),
        tag_hash,
        producer: None,
        head: encoded.head,
        payload_sum: crc32c::crc32c(&encoded.bytes[usize::from(encoded.head)..]),
        places: smallvec![
            place(encoded.queue_offset_at, Fill::QueueOffset),
            place(encoded.address_at, Fill::Address),
            place(encoded.store_time_at, Fill::StoreTime),
        ],
        payload: encoded.bytes,
    })
}

/// A stored message as it goes to another queue: all its own fields kept, store host included.
pub(crate) fn restored(target: &Target, message: &MessageView<'_>) -> Result<Draft, MessageError> {
    let new = NewMessage {
        queue_id: target.ordinal,
        flag: message.flag,
        sys_flag: message.sys_flag,
        born_time: message.born_time,
        born_host: message.born_host,
        store_host: message.store_host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: message.prepared_transaction_offset,
        body: message.body,
        topic: &target.name,
        properties: message.properties,
    };
    let marks = Marks::of(message.properties);
    // It was within the limits of its time.
    message_draft(target, marks.tag_hash, &new, i32::MAX as usize)
}

/// Property text of a message on the schedule topic: `REAL_TOPIC` and `REAL_QID` say where it goes.
pub(super) fn scheduled(text: &[u8], target: &Target, level: u32) -> Result<Bytes, ProduceError> {
    let mut properties = PropertiesBuilder::from_text(text);
    let set = |properties: &mut PropertiesBuilder, name, value: &str| {
        properties
            .set(name, value)
            .map(drop)
            .map_err(|error| ProduceError::Message(MessageError::Corrupt(error.to_string())))
    };
    set(&mut properties, properties::DELAY, &level.to_string())?;
    set(&mut properties, properties::REAL_TOPIC, &target.name)?;
    set(
        &mut properties,
        properties::REAL_QID,
        &target.ordinal.to_string(),
    )?;
    Ok(properties.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_message_knows_its_real_queue() {
        let target = Target {
            queue: QueueNumber(16),
            ordinal: 3,
            name: "T".into(),
            multi_tag: false,
        };
        let text = b"TAGS\x01a\x02DELAY\x0199\x02REAL_TOPIC\x01forged\x02";
        let bytes = scheduled(text, &target, 18).expect("legal");
        let properties = Properties::new(&bytes);
        assert_eq!(properties.get("REAL_TOPIC"), Some("T"));
        assert_eq!(properties.get("REAL_QID"), Some("3"));
        assert_eq!(properties.get("DELAY"), Some("18"));
        let marks = Marks::of(&bytes);
        assert_eq!((marks.tag_hash, marks.delay), (97, 18));
    }
}
