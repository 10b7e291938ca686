//! SEND_REPLY_MESSAGE (324) and its V2 (325): the answer of a consumer to a requesting producer. The
//! reply is pushed (326) to the client that asked, then stored in the reply topic, as Apache does by
//! default.

use crate::error::Refusal;
use crate::handlers::send::plain;
use crate::members::Members;
use crate::names;
use crate::peer::Peer;
use crate::stamp::{self, Stamp};
use crate::topics::Topics;
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::produce::{MessageIn, Producing};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::fields::send::Send;
use twinmq_remoting::{Command, Outcome};

/// What replying needs.
#[derive(Debug)]
pub(crate) struct Replying {
    pub(crate) members: Arc<Members>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) producing: Arc<Producing>,
    pub(crate) stamp: Stamp,
    pub(crate) call_limit: Duration,
    pub(crate) region_id: String,
    pub(crate) trace_on: &'static str,
}

impl Replying {
    /// Codes 324 and 325.
    pub(crate) async fn reply(
        &self,
        peer: &Arc<Peer>,
        request: &Command,
    ) -> Result<Outcome, Refusal> {
        let head = Send::read(&request.fields)?;
        let text = head.properties.unwrap_or_default();
        let traits = stamp::traits(text);
        let client = traits.reply_to.unwrap_or_default().to_owned();
        if client.is_empty() {
            return Err(Refusal::system(
                "reply message properties[REPLY_TO_CLIENT] is null",
            ));
        }
        names::check_topic(head.topic)?;
        let Some(channel) = self.members.producer_channel(&client) else {
            return Err(Refusal::system(format!(
                "push reply message fail, channel of <{client}> not found."
            )));
        };
        let now_ms = crate::now_ms();
        let (properties, _) = self.stamp.apply(&traits, now_ms);
        let born_host = plain(peer.channel.remote());
        let push = self.push(&head, request, born_host, &properties, now_ms);
        let message = MessageIn {
            flag: head.flag,
            sys_flag: head.sys_flag & 0x701,
            born_time: head.born_timestamp,
            born_host,
            reconsume_times: head.reconsume_times.unwrap_or(0),
            properties,
            body: request.body.clone(),
        };
        self.keep(head.topic, message).await;
        let mut reply = Command::response_to(request, response::SUCCESS);
        reply.fields.set("msgId", "0");
        reply.fields.put("queueId", head.queue_id.max(0));
        reply.fields.set("queueOffset", "0");
        reply.fields.set("MSG_REGION", &self.region_id);
        reply.fields.set("TRACE_ON", self.trace_on);
        let limit = self.call_limit;
        Ok(Outcome::later(async move {
            let why = match channel.request(push, limit).await {
                Ok(answer) if answer.code == response::SUCCESS => return Some(reply),
                Ok(answer) => format!("the client answered {}", answer.code),
                Err(error) => error.to_string(),
            };
            let refusal = Refusal::system(format!("push reply message to {client} fail: {why}"));
            Some(crate::table::refused(&reply, refusal))
        }))
    }

    fn push(
        &self,
        head: &Send<'_>,
        request: &Command,
        born_host: std::net::SocketAddr,
        properties: &[u8],
        now_ms: i64,
    ) -> Command {
        let mut text = properties.to_vec();
        stamp::push(&mut text, "PUSH_REPLY_TIME", &now_ms.to_string());
        let mut push = Command::request(code::PUSH_REPLY_MESSAGE_TO_CLIENT);
        let fields = &mut push.fields;
        fields.set("producerGroup", head.producer_group);
        fields.set("topic", head.topic);
        fields.set("defaultTopic", head.default_topic);
        fields.put("defaultTopicQueueNums", head.default_topic_queue_nums);
        fields.put("queueId", head.queue_id);
        fields.put("sysFlag", head.sys_flag);
        fields.put("bornTimestamp", head.born_timestamp);
        fields.put("flag", head.flag);
        fields.set("properties", &String::from_utf8_lossy(&text));
        fields.put("reconsumeTimes", head.reconsume_times.unwrap_or(0));
        fields.put("unitMode", head.unit_mode.unwrap_or(false));
        fields.put("bornHost", format_args!("/{born_host}"));
        fields.put(
            "storeHost",
            format_args!("/{}", self.producing.store_host()),
        );
        fields.put("storeTimestamp", now_ms);
        push.with_body(request.body.clone())
    }

    /// Best effort: the requester has its answer whether or not it is stored.
    async fn keep(&self, topic: &str, message: MessageIn) {
        let Some(topic) = self.topics.catalog.by_native(topic) else {
            return;
        };
        let queue = rand::random_range(0..topic.write_queues.max(1));
        if let Err(error) = self.producing.messages(&topic, queue, &[message]).await {
            tracing::warn!(%error, "a reply message could not be stored");
        }
    }
}
