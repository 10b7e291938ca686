//! PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). Answers at once when there is something to say;
//! a pull at the end of its queue is held until a message for it arrives or its time is over. A
//! held pull never holds up the connection. Bodies are slices of the log.
//!
//! Filters by TAG, from the group's heartbeat or, with flag 4, from the request. SQL92 is refused
//! (1), as by a broker with `enablePropertyFilter=false`. suggestWhichBrokerId is always 0.

use crate::empty_bodies;
use crate::error::Refusal;
use crate::filter;
use crate::handlers::window::Window;
use crate::members::{Members, Wanted};
use crate::names;
use crate::resets::Resets;
use crate::tallies::Tallies;
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::catalog::Catalog;
use twinmq_core::consume::{Consuming, Filter, Portion};
use twinmq_core::groups::{Group, Groups};
use twinmq_core::offsets::Offsets;
use twinmq_remoting::code::response;
use twinmq_remoting::fields::pull::{Pull, flag};
use twinmq_remoting::{Command, Outcome};

/// How long a pull is held without long polling (RocketMQ's `shortPollingTimeMills`): its sender pulls
/// again as soon as it is answered.
const SHORT_POLL: Duration = Duration::from_secs(1);

/// What pulling needs.
#[derive(Debug)]
pub(crate) struct Pulling {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) members: Arc<Members>,
    pub(crate) resets: Arc<Resets>,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) auto_create_groups: bool,
    pub(crate) messages_max: u32,
    pub(crate) bytes_max: u32,
    /// Bytes of one message.
    pub(crate) message_bytes_max: u32,
    pub(crate) hold_max: Duration,
    pub(crate) long_polling: bool,
}

impl Pulling {
    /// Codes 11 and 361.
    pub(crate) async fn pull(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = Pull::read(&request.fields)?;
        let group = self.group(head.consumer_group).await?;
        let topic = self
            .catalog
            .by_native(head.topic)
            .ok_or_else(|| Refusal::no_topic(head.topic))?;
        if !topic.perm.read() {
            return Err(Refusal::new(
                response::NO_PERMISSION,
                format!("the topic[{}] pulling message is forbidden", head.topic),
            )
            .with_field("forbiddenType", 3));
        }
        let queue = u32::try_from(head.queue_id)
            .ok()
            .filter(|queue| *queue < topic.read_queues)
            .ok_or_else(|| {
                Refusal::parameter(format!(
                    "queueId[{}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}]",
                    head.queue_id, head.topic, topic.read_queues
                ))
            })?;
        let filter = self.filter(&head, &group)?;
        if head.sys_flag & flag::COMMIT_OFFSET != 0
            && head.commit_offset >= 0
            && !topic
                .queue(queue)
                .is_some_and(|number| self.resets.is_pending(head.consumer_group, number))
        {
            self.offsets.commit_later(
                &names::group_key(head.consumer_group),
                &topic,
                queue,
                head.commit_offset,
            );
        }
        let hold = (head.sys_flag & flag::SUSPEND != 0).then(|| {
            let asked = u64::try_from(head.suspend_timeout_millis).unwrap_or(0);
            if self.long_polling {
                Duration::from_millis(asked).min(self.hold_max)
            } else {
                SHORT_POLL.min(self.hold_max)
            }
        });
        let bytes_max = match head.max_msg_bytes {
            Some(bytes) => u32::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes > 0)
                .map_or(self.bytes_max, |bytes| bytes.min(self.bytes_max)),
            None => self.bytes_max,
        };
        let window = Window {
            consuming: self.consuming.clone(),
            resets: self.resets.clone(),
            tallies: self.tallies.clone(),
            topic_name: topic.native.clone().unwrap_or_else(|| head.topic.into()),
            topic,
            group,
            group_name: head.consumer_group.to_owned(),
            queue,
            from: head.queue_offset,
            portion: Portion {
                messages: u32::try_from(head.max_msg_nums)
                    .unwrap_or(1)
                    .clamp(1, self.messages_max),
                bytes: bytes_max,
                message_bytes: self.message_bytes_max,
            },
            filter,
            reply: Command::response_to(request, response::SUCCESS),
            fill_empty: empty_bodies::are_fatal_to(request),
        };
        Ok(window.start(hold).await)
    }

    async fn group(&self, name: &str) -> Result<Arc<Group>, Refusal> {
        let group = match self.groups.get(name) {
            Some(group) => group,
            None if self.auto_create_groups && names::is_group(name) => {
                self.groups.ensure(name).await?
            }
            None => return Err(Refusal::no_group(name)),
        };
        if !group.consume_enable {
            return Err(Refusal::new(
                response::NO_PERMISSION,
                format!("subscription group no permission, {name}"),
            )
            .with_field("forbiddenType", 2));
        }
        Ok(group)
    }

    /// What the reader wants, and whether the broker knows it as well as the client does.
    fn filter(&self, head: &Pull<'_>, group: &Group) -> Result<Filter, Refusal> {
        let sql = |expression_type: Option<&str>| {
            if expression_type.is_some_and(|kind| !kind.is_empty() && kind != "TAG") {
                return Err(Refusal::system(
                    "The broker does not support consumer to filter message by SQL92",
                ));
            }
            Ok(())
        };
        if head.sys_flag & flag::SUBSCRIPTION != 0 {
            sql(head.expression_type)?;
            return filter::of_expression(head.subscription.unwrap_or_default()).map_err(|_| {
                Refusal::new(
                    response::SUBSCRIPTION_PARSE_FAILED,
                    "parse the consumer's subscription failed",
                )
            });
        }
        let not_exist = |what| {
            Refusal::new(
                response::SUBSCRIPTION_NOT_EXIST,
                format!("the consumer's {what} not exist"),
            )
        };
        let (found, broadcast) = match self.members.wanted(head.consumer_group, head.topic) {
            Wanted::NoGroup => return Err(not_exist("group info")),
            Wanted::NoTopic { broadcast } => (None, broadcast),
            Wanted::Found {
                subscription,
                broadcast,
            } => (Some(subscription), broadcast),
        };
        if broadcast && !group.consume_broadcast_enable {
            return Err(Refusal::new(
                response::NO_PERMISSION,
                format!(
                    "the consumer group[{}] can not consume by broadcast way",
                    head.consumer_group
                ),
            )
            .with_field("forbiddenType", 4));
        }
        let found = found.ok_or_else(|| not_exist("subscription"))?;
        if found.data.sub_version < head.sub_version {
            return Err(Refusal::new(
                response::SUBSCRIPTION_NOT_LATEST,
                "the consumer's subscription not latest",
            ));
        }
        sql(Some(&found.data.expression_type))?;
        Ok(found.filter.clone())
    }
}
