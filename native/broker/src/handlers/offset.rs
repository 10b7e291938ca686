//! Offsets of groups and of queues: QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15),
//! SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31),
//! GET_EARLIEST_MSG_STORETIME (32), INVOKE_BROKER_TO_RESET_OFFSET (222). The end of a queue is its
//! last stable offset. A topic or queue that does not exist has offsets 0, as with Apache.

use crate::error::Refusal;
use crate::names;
use crate::resets::Resets;
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, Topic};
use twinmq_core::consume::{ConsumeError, Consuming};
use twinmq_core::groups::Groups;
use twinmq_core::offsets::{Committed, Offsets};
use twinmq_remoting::code::response;
use twinmq_remoting::fields::offset::{
    QueryOffset, QueueOf, ResetOffset, SearchOffset, UpdateOffset,
};
use twinmq_remoting::{Command, Outcome};
use twinmq_store::{Boundary, Ends, QueueOffset, ReadError, Timestamp};

/// What offsets need.
#[derive(Debug)]
pub(crate) struct Offsetting {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) resets: Arc<Resets>,
    pub(crate) broker_name: Arc<str>,
}

impl Offsetting {
    /// 14: A new group starts at 0 where the queue is young: its first record is still near the
    /// tail; else the client decides (22).
    pub(crate) fn query(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = QueryOffset::read(&request.fields)?;
        let not_found = |remark: &'static str| Refusal::new(response::QUERY_NOT_FOUND, remark);
        let first_boot =
            || not_found("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
        let topic = self.catalog.by_native(head.topic);
        let queue = u32::try_from(head.queue_id).ok();
        let (Some(topic), Some(queue)) = (topic, queue) else {
            return Err(first_boot());
        };
        let key = names::group_key(head.consumer_group);
        if let Some(committed) = self.offsets.get(&key, &topic, queue) {
            return Ok(offset_is(request, committed.offset));
        }
        if head.set_zero_if_not_found == Some(false) {
            return Err(not_found(
                "Not found, do not set to zero, maybe this group boot first",
            ));
        }
        let Some(ends) = self.ends(&topic, queue) else {
            return Err(first_boot());
        };
        let empty = ends.stable == ends.first;
        if ends.first.0 == 0 && (empty || self.consuming.is_hot(&topic, queue, QueueOffset(0))) {
            return Ok(offset_is(request, 0));
        }
        Err(first_boot())
    }

    /// 15: Usually one-way: then the table knows at once and the log soon; else both before the
    /// answer.
    pub(crate) fn update(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = UpdateOffset::read(&request.fields)?;
        if self.groups.get(head.consumer_group).is_none() {
            return Err(Refusal::no_group(head.consumer_group));
        }
        let topic = self
            .catalog
            .by_native(head.topic)
            .ok_or_else(|| Refusal::no_topic(head.topic))?;
        let (queue, number) = u32::try_from(head.queue_id)
            .ok()
            .and_then(|queue| Some((queue, topic.queue(queue)?)))
            .ok_or_else(|| Refusal::parameter(format!("queueId[{}] is illegal", head.queue_id)))?;
        if head.commit_offset < 0 {
            return Err(Refusal::parameter("commitOffset is below 0"));
        }
        let reply = Command::response_to(request, response::SUCCESS);
        if self.resets.is_pending(head.consumer_group, number) {
            return Ok(Outcome::Reply(
                reply.with_remark("Offset has been previously reset"),
            ));
        }
        let key = names::group_key(head.consumer_group);
        if request.is_oneway() {
            self.offsets
                .commit_later(&key, &topic, queue, head.commit_offset);
            return Ok(Outcome::None);
        }
        let (offsets, key) = (self.offsets.clone(), key.into_owned());
        let committed = committed(head.commit_offset);
        Ok(Outcome::later(async move {
            match offsets.commit(&key, &[(topic, queue, committed)]).await {
                Ok(()) => Some(reply),
                Err(error) => Some(crate::table::refused(&reply, error.into())),
            }
        }))
    }

    /// Code 29.
    pub(crate) async fn search(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = SearchOffset::read(&request.fields)?;
        let boundary = match head.boundary_type {
            Some(kind) if kind.eq_ignore_ascii_case("upper") => Boundary::Upper,
            _ => Boundary::Lower,
        };
        let Some((topic, queue)) = self.queue(head.topic, head.queue_id) else {
            return Ok(offset_is(request, 0));
        };
        let found = self
            .consuming
            .offset_by_store_time(&topic, queue, Timestamp(head.timestamp), boundary)
            .await?;
        Ok(offset_is(request, signed(found)))
    }

    /// Code 30.
    pub(crate) fn max(&self, request: &Command) -> Result<Outcome, Refusal> {
        let ends = self.ends_asked(request)?;
        Ok(offset_is(request, signed(ends.stable)))
    }

    /// Code 31.
    pub(crate) fn min(&self, request: &Command) -> Result<Outcome, Refusal> {
        let ends = self.ends_asked(request)?;
        Ok(offset_is(request, signed(ends.first)))
    }

    /// Code 32.
    pub(crate) async fn earliest(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = QueueOf::read(&request.fields)?;
        let mut time = -1;
        if let Some((topic, queue)) = self.queue(head.topic, head.queue_id) {
            let ends = self.consuming.ends(&topic, queue, true);
            if ends.stable > ends.first {
                time = store_time(&self.consuming, &topic, queue, ends.first)
                    .await?
                    .unwrap_or(-1);
            }
        }
        let reply = Command::response_to(request, response::SUCCESS).with_field("timestamp", time);
        Ok(Outcome::Reply(reply))
    }

    /// 222: sets the group's progress; running consumers are told by their next pull.
    pub(crate) async fn reset(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ResetOffset::read(&request.fields)?;
        let topic = self
            .catalog
            .by_native(head.topic)
            .ok_or_else(|| Refusal::no_topic(head.topic))?;
        if self.groups.get(head.group).is_none() {
            return Err(Refusal::no_group(head.group));
        }
        let queues = match head.queue_id {
            Some(queue) if queue >= 0 => {
                let queue = self
                    .known(&topic, queue)
                    .ok_or_else(|| Refusal::parameter(format!("queueId[{queue}] is illegal")))?;
                queue..queue + 1
            }
            _ => 0..topic.read_queues,
        };
        let mut targets = Vec::new();
        for queue in queues {
            let ends = self.consuming.ends(&topic, queue, true);
            let target = match head.offset.filter(|offset| *offset >= 0) {
                Some(offset) if head.queue_id.is_some_and(|queue| queue >= 0) => {
                    if offset < signed(ends.first) || offset > signed(ends.stable).saturating_add(1)
                    {
                        return Err(Refusal::system(format!(
                            "offset {offset} is outside {}..={}",
                            ends.first, ends.stable
                        )));
                    }
                    offset
                }
                _ if head.timestamp < 0 => signed(ends.stable),
                _ => signed(
                    self.consuming
                        .offset_by_store_time(
                            &topic,
                            queue,
                            Timestamp(head.timestamp),
                            Boundary::Lower,
                        )
                        .await?,
                ),
            };
            targets.push((queue, target));
        }
        let entries: Vec<_> = targets
            .iter()
            .map(|(queue, target)| (topic.clone(), *queue, committed(*target)))
            .collect();
        self.offsets
            .commit(&names::group_key(head.group), &entries)
            .await?;
        let mut table = twinmq_remoting::bodies::offset::ResetOffsets::default();
        for (queue, target) in targets {
            if let Some(number) = topic.queue(queue) {
                self.resets.put(head.group, number, target);
            }
            table.offset_table.insert(
                crate::registration::queue_key(head.topic, &self.broker_name, queue)?,
                target,
            );
        }
        tracing::info!(
            group = head.group,
            topic = head.topic,
            "offsets reset on request"
        );
        Ok(crate::table::json(request, &table))
    }

    fn queue(&self, topic: &str, queue: i32) -> Option<(Arc<Topic>, u32)> {
        let topic = self.catalog.by_native(topic)?;
        let queue = self.known(&topic, queue)?;
        Some((topic, queue))
    }

    fn known(&self, topic: &Topic, queue: i32) -> Option<u32> {
        u32::try_from(queue)
            .ok()
            .filter(|queue| topic.queue(*queue).is_some())
    }

    fn ends(&self, topic: &Topic, queue: u32) -> Option<Ends> {
        topic
            .queue(queue)
            .map(|_| self.consuming.ends(topic, queue, true))
    }

    fn ends_asked(&self, request: &Command) -> Result<Ends, Refusal> {
        let head = QueueOf::read(&request.fields)?;
        Ok(self
            .queue(head.topic, head.queue_id)
            .and_then(|(topic, queue)| self.ends(&topic, queue))
            .unwrap_or_default())
    }
}

/// Store time of a record in milliseconds; `None` when retention was faster.
pub(crate) async fn store_time(
    consuming: &Consuming,
    topic: &Topic,
    queue: u32,
    offset: QueueOffset,
) -> Result<Option<i64>, Refusal> {
    match consuming.store_time(topic, queue, offset).await {
        Ok(time) => Ok(time.map(|time| time.0)),
        Err(ConsumeError::Read(ReadError::OutOfRange { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A native commit: leader epoch unknown, no text.
pub(crate) fn committed(offset: i64) -> Committed {
    Committed {
        offset,
        leader_epoch: -1,
        metadata: String::new(),
        commit_time: Timestamp(crate::now_ms()),
        expires: None,
    }
}

fn offset_is(request: &Command, offset: i64) -> Outcome {
    Outcome::Reply(Command::response_to(request, response::SUCCESS).with_field("offset", offset))
}

fn signed(offset: QueueOffset) -> i64 {
    i64::try_from(offset.0).unwrap_or(i64::MAX)
}
