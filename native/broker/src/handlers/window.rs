//! One pull after its checks: looks at its queue, waits when there is nothing, answers. The answer
//! codes, their remarks and where to go on are those of RocketMQ's `DefaultMessageStore.getMessage`
//! and `PullMessageProcessor`.

use crate::empty_bodies;
use crate::error::Refusal;
use crate::resets::Resets;
use crate::tallies::Tallies;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use twinmq_core::catalog::Topic;
use twinmq_core::consume::{ConsumeError, Consuming, Filter, Messages, Portion};
use twinmq_core::groups::Group;
use twinmq_remoting::code::response;
use twinmq_remoting::{Command, Outcome};
use twinmq_store::{QueueOffset, ReadError};

/// A pull: owns what it needs, so that it may outlive the request.
pub(crate) struct Window {
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) resets: Arc<Resets>,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) topic: Arc<Topic>,
    pub(crate) topic_name: Arc<str>,
    pub(crate) group: Arc<Group>,
    pub(crate) group_name: String,
    pub(crate) queue: u32,
    pub(crate) from: i64,
    pub(crate) portion: Portion,
    pub(crate) filter: Filter,
    pub(crate) reply: Command,
    /// The client fails on messages without a body.
    pub(crate) fill_empty: bool,
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

impl Window {
    /// The first look; a queue without news is waited for when `hold` allows. What is not ready at
    /// once (a read from disk) goes on beside the connection.
    pub(crate) async fn start(self, hold: Option<Duration>) -> Outcome {
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
                        // A long stretch of other tags is no reason to keep a worker.
                        tokio::task::yield_now().await;
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

    /// One look at the queue.
    async fn look(&self) -> Result<Found, Refusal> {
        let number = self.topic.queue(self.queue);
        let reset = number.and_then(|number| self.resets.take(&self.group_name, number));
        // Who already asks at that place goes on; told so, it would drop the queue for a while.
        if let Some(offset) = reset.filter(|offset| *offset != self.from) {
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
                self.portion,
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
            (
                response::PULL_OFFSET_MOVED,
                "OFFSET_TOO_SMALL",
                signed(first),
            )
        } else if from > signed(end) {
            (
                response::PULL_OFFSET_MOVED,
                "OFFSET_OVERFLOW_BADLY",
                signed(end),
            )
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
                reply.chunks = if self.fill_empty {
                    empty_bodies::filled(messages.chunks)
                } else {
                    messages.chunks
                };
            }
            None => self.tallies.missed(),
        }
        reply
    }
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
