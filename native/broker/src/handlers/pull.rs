//! PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). Answers at once when there is something to say;
//! a pull at the end of its queue is held until a message for it arrives or its time is over. A
//! held pull never holds up the connection. Bodies are slices of the log.
//!
//! Filters by TAG, from the group's heartbeat or, with flag 4, from the request. SQL92 is refused
//! (1), as by a broker with `enablePropertyFilter=false`. suggestWhichBrokerId is always 0.

use crate::error::Refusal;
use crate::filter;
use crate::members::{Members, Wanted};
use crate::names;
use crate::resets::Resets;
use crate::tallies::Tallies;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use twinmq_core::catalog::{Catalog, Topic};
use twinmq_core::consume::{ConsumeError, Consuming, Filter, Messages};
use twinmq_core::groups::{Group, Groups};
use twinmq_core::offsets::Offsets;
use twinmq_remoting::code::response;
use twinmq_remoting::fields::pull::{Pull, flag};
use twinmq_remoting::{Command, Outcome};
use twinmq_store::{QueueOffset, ReadError};

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
    pub(crate) hold_max: Duration,
    pub(crate) long_polling: bool,
}

/// One pull after its checks: owns what it needs, so that it may outlive the request.
struct Window {
    consuming: Arc<Consuming>,
    resets: Arc<Resets>,
    tallies: Arc<Tallies>,
    topic: Arc<Topic>,
    topic_name: Arc<str>,
    group: Arc<Group>,
    group_name: String,
    queue: u32,
    from: i64,
    count_max: u32,
    bytes_max: u32,
    filter: Filter,
    reply: Command,
}

/// What a look at the queue came to.
struct Found {
    code: i32,
    status: &'static str,
    next: i64,
    first: u64,
    end: u64,
    messages: Option<Messages>,
}

impl Pulling {
    /// 11 and 361.
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
            && !self.resets.is_pending(head.consumer_group, head.topic, queue)
        {
            self.offsets.commit_later(
                &names::group_key(head.consumer_group),
                &topic,
                queue,
                head.commit_offset,
            );
        }
        let hold = (self.long_polling && head.sys_flag & flag::SUSPEND != 0).then(|| {
            let asked = u64::try_from(head.suspend_timeout_millis).unwrap_or(0);
            Duration::from_millis(asked).min(self.hold_max)
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
            count_max: u32::try_from(head.max_msg_nums)
                .unwrap_or(1)
                .clamp(1, self.messages_max),
            bytes_max,
            filter,
            reply: Command::response_to(request, response::SUCCESS),
        };
        Ok(window.start(hold).await)
    }

    async fn group(&self, name: &str) -> Result<Arc<Group>, Refusal> {
        let group = match self.groups.get(name) {
            Some(group) => group,
            None if self.auto_create_groups && names::is_group(name) => {
                let group = Group {
                    group_name: name.to_owned(),
                    ..Group::default()
                };
                self.groups.put(group).await?
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

impl Window {
    /// The first look; a queue without news is waited for when `hold` allows. What is not ready at
    /// once (a read from disk) goes on beside the connection.
    async fn start(self, hold: Option<Duration>) -> Outcome {
        let mut first = Box::pin(async move {
            let found = self.look().await;
            (self, found)
        });
        let at_once = poll_fn(|cx| match first.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        match at_once {
            Some((window, Ok(found))) => match hold {
                Some(hold) if found.code == response::PULL_NOT_FOUND => {
                    Outcome::parked(window.held(hold))
                }
                _ => Outcome::Reply(window.answer(found)),
            },
            Some((window, Err(refusal))) => {
                Outcome::Reply(crate::table::refused(&window.reply, refusal))
            }
            None => Outcome::parked(async move {
                match first.await {
                    (window, Ok(found)) => match hold {
                        Some(hold) if found.code == response::PULL_NOT_FOUND => {
                            window.held(hold).await
                        }
                        _ => Some(window.answer(found)),
                    },
                    (window, Err(refusal)) => Some(crate::table::refused(&window.reply, refusal)),
                }
            }),
        }
    }

    /// Waits for a message that passes the filter. Messages that do not pass are stepped over; if
    /// the time is over after some, the client is told where to go on.
    async fn held(mut self, hold: Duration) -> Option<Command> {
        let deadline = Instant::now() + hold;
        let asked = self.from;
        let topic = self.topic.clone();
        let mut watch = self.consuming.watch(&[(&topic, self.queue)], true);
        loop {
            let mut found = match self.look().await {
                Ok(found) => found,
                Err(refusal) => return Some(crate::table::refused(&self.reply, refusal)),
            };
            match found.code {
                response::PULL_RETRY_IMMEDIATELY => {
                    self.from = found.next;
                    if Instant::now() < deadline {
                        continue;
                    }
                    return Some(self.answer(found));
                }
                response::PULL_NOT_FOUND => {}
                _ => return Some(self.answer(found)),
            }
            if timeout_at(deadline, watch.changed()).await.is_err() {
                if self.from > asked {
                    found.code = response::PULL_RETRY_IMMEDIATELY;
                    found.status = "NO_MATCHED_MESSAGE";
                }
                return Some(self.answer(found));
            }
        }
    }

    /// One look at the queue. The statuses and where to go on are those of RocketMQ's
    /// `DefaultMessageStore.getMessage`.
    async fn look(&self) -> Result<Found, Refusal> {
        let reset = self
            .resets
            .take(&self.group_name, &self.topic_name, self.queue);
        if let Some(offset) = reset {
            let ends = self.consuming.ends(&self.topic, self.queue, true);
            return Ok(Found {
                code: response::PULL_OFFSET_MOVED,
                status: "OFFSET_RESET",
                next: offset,
                first: ends.first.0,
                end: ends.stable.0,
                messages: None,
            });
        }
        let Ok(from) = u64::try_from(self.from) else {
            let ends = self.consuming.ends(&self.topic, self.queue, true);
            return Ok(self.out_of_range(ends.first.0, ends.stable.0));
        };
        let read = self
            .consuming
            .messages(
                &self.topic,
                self.queue,
                QueueOffset(from),
                self.count_max,
                self.bytes_max,
                &self.filter,
            )
            .await;
        match read {
            Ok(messages) if messages.count > 0 => Ok(Found {
                code: response::SUCCESS,
                status: "FOUND",
                next: signed(messages.next.0),
                first: messages.first.0,
                end: messages.end.0,
                messages: Some(messages),
            }),
            Ok(messages) if messages.next.0 > from => Ok(Found {
                code: response::PULL_RETRY_IMMEDIATELY,
                status: "NO_MATCHED_MESSAGE",
                next: signed(messages.next.0),
                first: messages.first.0,
                end: messages.end.0,
                messages: None,
            }),
            Ok(messages) => Ok(self.out_of_range(messages.first.0, messages.end.0)),
            Err(ConsumeError::Read(ReadError::OutOfRange { first, end, .. })) => {
                Ok(self.out_of_range(first.0, end.0))
            }
            Err(error) => {
                tracing::warn!(
                    topic = &*self.topic_name, queue = self.queue, offset = from, %error,
                    "a pull could not be read"
                );
                Err(error.into())
            }
        }
    }

    /// Nothing to read at the asked offset: at the end, beyond it, or before the first.
    fn out_of_range(&self, first: u64, end: u64) -> Found {
        let from = self.from;
        let (code, status, next) = if end == 0 {
            let code = if from == 0 {
                response::PULL_NOT_FOUND
            } else {
                response::PULL_OFFSET_MOVED
            };
            (code, "NO_MESSAGE_IN_QUEUE", 0)
        } else if from < signed(first) {
            (response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", signed(first))
        } else if from > signed(end) {
            (response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", signed(end))
        } else {
            (response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", from)
        };
        Found {
            code,
            status,
            next,
            first,
            end,
            messages: None,
        }
    }

    fn answer(self, found: Found) -> Command {
        let now_ms = crate::now_ms();
        let mut reply = self.reply;
        reply.code = found.code;
        reply.remark = Some(found.status.into());
        let fields = &mut reply.fields;
        fields.set("suggestWhichBrokerId", "0");
        fields.put("nextBeginOffset", found.next);
        fields.put("minOffset", found.first);
        fields.put("maxOffset", found.end);
        fields.put("topicSysFlag", self.topic.sys_flag);
        fields.put("groupSysFlag", self.group.group_sys_flag);
        match found.messages {
            Some(messages) => {
                let bytes: usize = messages.chunks.iter().map(bytes::Bytes::len).sum();
                self.tallies.got(
                    &self.topic,
                    &self.group_name,
                    u64::from(messages.count),
                    bytes as u64,
                    now_ms,
                );
                reply.chunks = messages.chunks;
            }
            None => self.tallies.missed(),
        }
        reply
    }
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
