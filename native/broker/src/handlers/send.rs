//! SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and CONSUMER_SEND_MSG_BACK
//! (36). Checks come in the order of Apache's broker, with its codes and remarks. A message is
//! stored when the answer leaves; with WAIT (the default) on a topic that is flushed synchronously
//! it is on disk.
//!
//! Leaves out half messages and timer messages: both are refused (13) with words that say so rather
//! than delivered at once.

use crate::error::Refusal;
use crate::names;
use crate::peer::Peer;
use crate::queue_locks::QueueLocks;
use crate::registration::Registered;
use crate::stamp::{self, Stamp, Traits};
use crate::tallies::Tallies;
use crate::topics::Topics;
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use twinmq_core::catalog::{Class, Topic};
use twinmq_core::groups::Groups;
use twinmq_core::produce::{MessageIn, MessageOut, Producing};
use twinmq_core::retry::{Retry, SendBack};
use twinmq_records::compression::{BodyCodec, decompress_body};
use twinmq_records::message;
use twinmq_remoting::code::response;
use twinmq_remoting::fields::send::{Send, SendBack as BackHeader};
use twinmq_remoting::{Command, Outcome};

/// From here on a client's own bound of retries counts (RocketMQ `MQVersion.V3_4_9`).
const VERSION_MAX_RECONSUME: i32 = 121;
/// What the broker decides itself.
const BROKERS_BITS: i32 = message::SYS_MULTI_TAGS
    | message::SYS_TRANSACTION
    | message::SYS_BORN_HOST_V6
    | message::SYS_STORE_HOST_V6
    | 0x40
    | 0x80;

/// What sending needs.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) topics: Arc<Topics>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) producing: Arc<Producing>,
    pub(crate) retry: Arc<Retry>,
    pub(crate) locks: Arc<Mutex<QueueLocks>>,
    pub(crate) registered: Registered,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) stamp: Stamp,
    pub(crate) region_id: String,
    pub(crate) trace_on: &'static str,
    pub(crate) body_bytes_max: usize,
    pub(crate) batch_messages_max: usize,
}

/// Where a message goes after the checks.
struct Target {
    topic: Arc<Topic>,
    queue: u32,
    dead_letter: bool,
}

impl Sending {
    /// Codes 10, 310, 320.
    pub(crate) async fn send(
        &self,
        peer: &Arc<Peer>,
        request: &Command,
        batch: bool,
    ) -> Result<Outcome, Refusal> {
        let head = Send::read(&request.fields)?;
        let traits = stamp::traits(head.properties.unwrap_or_default());
        let target = self.target(peer, request, &head).await?;
        refuse_what_is_not_served(&head, &traits)?;
        let now_ms = crate::now_ms();
        let (messages, key) = if batch || head.batch == Some(true) {
            let messages = self.batch(peer, request, &head, now_ms)?;
            (messages, Cow::Borrowed(traits.unique_key))
        } else {
            let (properties, made) = self.properties(&traits, target.dead_letter, now_ms);
            let key = made.map_or(Cow::Borrowed(traits.unique_key), Cow::Owned);
            let message = self.message(peer, &target.topic, &head, head.flag, properties);
            let message = MessageIn {
                body: request.body.clone(),
                ..message
            };
            (smallvec![message], key)
        };
        let outs = self
            .producing
            .messages(&target.topic, target.queue, &messages)
            .await
            .inspect_err(|_| self.tallies.put_failed())?;
        let bytes: usize = messages.iter().map(|m| m.body.len()).sum();
        self.tallies.put(outs.len() as u64, bytes as u64, now_ms);
        let reply = self.answer(request, target.queue, &outs, &key);
        match outs.last().and_then(|out| out.wait) {
            Some(end) if !traits.no_wait => {
                let producing = self.producing.clone();
                Ok(Outcome::later(async move {
                    match producing.synced(end).await {
                        Ok(()) => Some(reply),
                        Err(error) => Some(crate::table::refused(&reply, error.into())),
                    }
                }))
            }
            _ => Ok(Outcome::Reply(reply)),
        }
    }

    /// The checks, the topic (created if need be) and the queue.
    async fn target(
        &self,
        peer: &Peer,
        request: &Command,
        head: &Send<'_>,
    ) -> Result<Target, Refusal> {
        let topic = self.topic(peer, head).await?;
        let queues = topic.read_queues.max(topic.write_queues);
        let queue = match u32::try_from(head.queue_id) {
            Ok(queue) if queue >= queues => {
                return Err(Refusal::parameter(format!(
                    "request queueId[{queue}] is illegal, topic [{}] has {queues} queues, producer: {}",
                    head.topic,
                    peer.channel.remote()
                )));
            }
            Ok(queue) => queue,
            Err(_) => rand::random_range(0..topic.write_queues.max(1)),
        };
        let Some(group) = head.topic.strip_prefix(names::RETRY_PREFIX) else {
            return Ok(Target {
                topic,
                queue,
                dead_letter: false,
            });
        };
        let definition = self
            .groups
            .get(group)
            .ok_or_else(|| Refusal::no_group(group))?;
        let max = head
            .max_reconsume_times
            .filter(|_| request.version >= VERSION_MAX_RECONSUME)
            .unwrap_or(definition.retry_max_times);
        let ordered = || self.locks.lock().any_live(group, crate::now_ms());
        if head.reconsume_times.unwrap_or(0) > max || ordered() {
            let name = format!("{}{group}", names::DLQ_PREFIX);
            let topic = self.topics.ensure(&name, 1).await?;
            return Ok(Target {
                topic,
                queue: 0,
                dead_letter: true,
            });
        }
        Ok(Target {
            topic,
            queue,
            dead_letter: false,
        })
    }

    async fn topic(&self, peer: &Peer, head: &Send<'_>) -> Result<Arc<Topic>, Refusal> {
        // A topic of the catalogue has a good name; only strangers are looked at.
        let topic = match self.topics.catalog.by_native(head.topic) {
            Some(topic) => topic,
            None => {
                names::check_topic(head.topic)?;
                forbid(head.topic, names::no_send(head.topic))?;
                let topic = self
                    .topics
                    .create_for_send(
                        head.topic,
                        head.default_topic,
                        head.default_topic_queue_nums,
                    )
                    .await?;
                tracing::info!(
                    topic = head.topic,
                    producer = %peer.channel.remote(),
                    "topic created by a send"
                );
                self.registered.wait().await;
                return Ok(topic);
            }
        };
        if topic.class != Class::User {
            forbid(
                head.topic,
                topic.class == Class::Internal || names::no_send(head.topic),
            )?;
        }
        Ok(topic)
    }

    fn properties(
        &self,
        traits: &Traits<'_>,
        dead_letter: bool,
        now_ms: i64,
    ) -> (Bytes, Option<String>) {
        if dead_letter && traits.delay_level != 0 {
            let undelayed = traits.without_delay();
            return self.stamp.apply(&stamp::traits(&undelayed), now_ms);
        }
        self.stamp.apply(traits, now_ms)
    }

    fn message(
        &self,
        peer: &Peer,
        topic: &Topic,
        head: &Send<'_>,
        flag: i32,
        properties: Bytes,
    ) -> MessageIn {
        let multi = if topic.multi_tag {
            message::SYS_MULTI_TAGS
        } else {
            0
        };
        MessageIn {
            flag,
            sys_flag: (head.sys_flag & !BROKERS_BITS) | multi,
            born_time: head.born_timestamp,
            born_host: plain(peer.channel.remote()),
            reconsume_times: head.reconsume_times.unwrap_or(0),
            properties,
            body: Bytes::new(),
        }
    }

    /// The messages of a batch body (RocketMQ `MessageBatch`): per item length, magic, CRC (both
    /// ignored), flag, body, properties.
    fn batch(
        &self,
        peer: &Peer,
        request: &Command,
        head: &Send<'_>,
        now_ms: i64,
    ) -> Result<SmallVec<[MessageIn; 1]>, Refusal> {
        let illegal = |remark: String| Refusal::new(response::MESSAGE_ILLEGAL, remark);
        if head.topic.len() > 127 {
            return Err(illegal(format!(
                "message topic length too long {}",
                head.topic.len()
            )));
        }
        if head.topic.starts_with(names::RETRY_PREFIX) {
            return Err(illegal("batch request does not support retry group".into()));
        }
        if request.body.len() > self.body_bytes_max {
            return Err(illegal(format!(
                "batch of {} bytes is longer than broker.max_message_size = {}",
                request.body.len(),
                self.body_bytes_max
            )));
        }
        let whole = self.unpacked(&request.body, head.sys_flag)?;
        let mut messages = SmallVec::new();
        for item in message::batch_items(&whole) {
            if messages.len() >= self.batch_messages_max {
                return Err(illegal(format!(
                    "batch of more than native.batch_messages_max = {} messages",
                    self.batch_messages_max
                )));
            }
            let item = item?;
            let text = std::str::from_utf8(item.properties).map_err(|_| {
                illegal(format!("properties of item {} are no text", messages.len()))
            })?;
            let traits = stamp::traits(text);
            refuse_what_is_not_served(head, &traits)?;
            let (properties, _) = self.stamp.apply(&traits, now_ms);
            messages.push(MessageIn {
                flag: item.flag,
                sys_flag: head.sys_flag
                    & !(BROKERS_BITS | message::SYS_COMPRESSED | message::SYS_CODEC),
                born_time: head.born_timestamp,
                born_host: plain(peer.channel.remote()),
                reconsume_times: head.reconsume_times.unwrap_or(0),
                properties,
                body: whole.slice_ref(item.body),
            });
        }
        if messages.is_empty() {
            return Err(illegal("the batch holds no message".into()));
        }
        Ok(messages)
    }

    /// A batch's items. The C++ client compresses the whole body of a batch above 4 KiB.
    fn unpacked(&self, body: &Bytes, sys_flag: i32) -> Result<Bytes, Refusal> {
        let illegal = |remark: String| Refusal::new(response::MESSAGE_ILLEGAL, remark);
        match BodyCodec::from_sys_flag(sys_flag) {
            Ok(None) => Ok(body.clone()),
            Ok(Some(codec)) => {
                let max = u64::try_from(self.body_bytes_max).unwrap_or(u64::MAX);
                decompress_body(codec, body, max)
                    .map(Bytes::from)
                    .map_err(|error| illegal(format!("the batch cannot be unpacked: {error}")))
            }
            Err(codec) => Err(illegal(format!(
                "compression {codec} of the batch is unknown"
            ))),
        }
    }

    fn answer(&self, request: &Command, queue: u32, outs: &[MessageOut], key: &str) -> Command {
        let host = self.producing.store_host();
        let mut ids = String::with_capacity(outs.len() * 33);
        for out in outs {
            if !ids.is_empty() {
                ids.push(',');
            }
            names::push_message_id(&mut ids, host, out.address);
        }
        let mut reply = Command::response_to(request, response::SUCCESS);
        let fields = &mut reply.fields;
        fields.append("msgId", &ids);
        fields.append_int("queueId", queue);
        fields.append_int("queueOffset", outs.first().map_or(0, |out| out.offset.0));
        if !key.is_empty() {
            fields.append("transactionId", key);
        }
        fields.append("MSG_REGION", &self.region_id);
        fields.append("TRACE_ON", self.trace_on);
        reply
    }

    /// 36: a consumer gives a message back.
    pub(crate) fn send_back(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = BackHeader::read(&request.fields)?;
        let (offset, group) = (head.offset, head.group);
        let address = u64::try_from(offset).map_err(|_| unreadable(offset))?;
        let definition = self
            .groups
            .get(group)
            .ok_or_else(|| Refusal::no_group(group))?;
        let reply = Command::response_to(request, response::SUCCESS);
        if definition.retry_queue_nums <= 0 {
            return Ok(Outcome::Reply(reply));
        }
        let back = SendBack {
            group: group.to_owned(),
            address: twinmq_store::Address(address),
            delay_level: head.delay_level,
            max_reconsume_times: head
                .max_reconsume_times
                .filter(|_| request.version >= VERSION_MAX_RECONSUME),
        };
        let (retry, tallies) = (self.retry.clone(), self.tallies.clone());
        Ok(Outcome::later(async move {
            match retry.send_back(back).await {
                Ok(()) => {
                    tallies.sent_back();
                    Some(reply)
                }
                Err(twinmq_core::retry::RetryError::Read(error)) => {
                    tracing::warn!(offset, %error, "a message sent back could not be read");
                    Some(crate::table::refused(&reply, unreadable(offset)))
                }
                Err(error) => Some(crate::table::refused(&reply, error.into())),
            }
        }))
    }
}

fn unreadable(offset: i64) -> Refusal {
    Refusal::system(format!("look message by offset failed, {offset}"))
}

fn forbid(topic: &str, forbidden: bool) -> Result<(), Refusal> {
    if forbidden {
        return Err(Refusal::new(
            response::NO_PERMISSION,
            format!("Sending message to topic[{topic}] is forbidden."),
        ));
    }
    Ok(())
}

/// Half and timer messages come with later versions; until then they are refused, never delivered
/// as ordinary ones.
fn refuse_what_is_not_served(head: &Send<'_>, traits: &Traits<'_>) -> Result<(), Refusal> {
    if traits.half || head.sys_flag & message::SYS_TRANSACTION != 0 {
        return Err(Refusal::new(
            response::MESSAGE_ILLEGAL,
            "transactional (half) messages are not supported by this broker version",
        ));
    }
    if traits.timer.is_some() && traits.delay_level <= 0 {
        return Err(Refusal::new(
            response::MESSAGE_ILLEGAL,
            "timer messages (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS) are not supported by this broker version; use a delay level",
        ));
    }
    Ok(())
}

/// IPv4 addresses seen through a dual-stack listener are IPv4.
pub(crate) fn plain(host: SocketAddr) -> SocketAddr {
    match host.ip() {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), host.port()),
            None => host,
        },
        IpAddr::V4(_) => host,
    }
}
