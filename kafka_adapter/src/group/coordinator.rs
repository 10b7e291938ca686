//! Drives the groups: one lock per group around the pure state machine, the parked answers, one timer
//! for all, the stored records in order, the roster that both protocols share.
//!
//! Promises: no lock is held over an await; a group's records reach the log in the order the group
//! made them; an answer that promises a stored record leaves after the record is readable; what a
//! client waits for is answered or, when it goes away, dropped without harm.
//! Leaves out: other brokers. Every group is this broker's.

use super::event::{
    Action, Answer, Event, GroupRecord, Join, Leaver, MemberId, Moment, ReplyId, StoreId, Sync,
    Tick,
};
use super::record;
use super::state::Group;
use super::{GroupConfig, TEXT_MAX};
use crate::error::Refusal;
use crate::metrics::GroupMetrics;
use kafka_protocol::ResponseError;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use twinmq_core::Core;
use twinmq_core::roster::Tongue;
use twinmq_store::{Clock, Timestamp};
use uuid::Uuid;

/// Longest part of a client id that goes into a member id.
const ID_PREFIX_MAX: usize = 255;
/// How long closing waits for records under way.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A group with what its requests wait for.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) group: Group,
    pub(super) parked: HashMap<ReplyId, oneshot::Sender<Answer>>,
    /// Records to be stored, in order; `writing` while a task does so.
    pub(super) writes: VecDeque<(StoreId, GroupRecord)>,
    pub(super) writing: bool,
    /// The entry of the timer heap that counts.
    pub(super) armed: Option<Tick>,
    pub(super) warned_mixed: bool,
    /// The generation and members that the metrics know of.
    pub(super) counted: (i32, usize),
}

/// When to look at which group, the earliest first.
pub(super) type Timers = BinaryHeap<Reverse<(Tick, Arc<str>)>>;

/// A group's slot, shared with what works on it.
pub(super) type Shared = Arc<Mutex<Slot>>;

/// Every group of this broker that speaks the classic protocol.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(super) config: Arc<GroupConfig>,
    pub(super) core: Core,
    pub(super) retention_ms: i64,
    pub(super) groups: Mutex<HashMap<Arc<str>, Shared>>,
    pub(super) metrics: GroupMetrics,
    clock: Arc<dyn Clock>,
    pub(super) started: Instant,
    pub(super) replies: AtomicU64,
    pub(super) timers: Mutex<Timers>,
    pub(super) earlier: Notify,
    pub(super) writers: AtomicUsize,
    pub(super) written: Notify,
    pub(super) closed: watch::Sender<bool>,
}

impl Coordinator {
    /// Loads the stored groups and starts the timer. Offsets of groups that nobody uses are kept for
    /// `retention_minutes`. Needs a tokio runtime.
    pub(crate) fn open(
        core: &Core,
        config: GroupConfig,
        retention_minutes: u64,
        clock: Arc<dyn Clock>,
        metrics: GroupMetrics,
    ) -> Arc<Self> {
        let minutes = i64::try_from(retention_minutes).unwrap_or(i64::MAX);
        let coordinator = Arc::new(Self {
            config: Arc::new(config),
            core: core.clone(),
            retention_ms: minutes.saturating_mul(60_000),
            groups: Mutex::default(),
            metrics,
            clock,
            started: Instant::now(),
            replies: AtomicU64::new(0),
            timers: Mutex::default(),
            earlier: Notify::new(),
            writers: AtomicUsize::new(0),
            written: Notify::new(),
            closed: watch::Sender::new(false),
        });
        for (name, bytes) in core.offsets.group_records() {
            match record::decode(&bytes) {
                Ok(record) => coordinator.load(name, record),
                Err(error) => tracing::error!(group = %name, %error, "stored group is unreadable"),
            }
        }
        tokio::spawn(Arc::clone(&coordinator).keep_time());
        coordinator
    }

    fn load(self: &Arc<Self>, name: Arc<str>, record: GroupRecord) {
        let now = self.now();
        let group = Group::stored(Arc::clone(&self.config), record, now);
        let members: Vec<MemberId> = group.members().map(|member| member.id.clone()).collect();
        let slot = self.slot_of(group);
        let mut held = slot.lock();
        let mut actions: Vec<Action> = members.into_iter().map(Action::Changed).collect();
        held.group.shrink(now, &mut actions);
        self.carry_out(&name, &slot, &mut held, actions);
        drop(held);
        let mut groups = self.groups.lock();
        groups.insert(name, slot);
        self.count_groups(groups.len());
    }

    fn slot_of(&self, group: Group) -> Shared {
        let counted = (group.generation(), 0);
        Arc::new(Mutex::new(Slot {
            group,
            parked: HashMap::new(),
            writes: VecDeque::new(),
            writing: false,
            armed: None,
            warned_mixed: false,
            counted,
        }))
    }

    /// Answers everything parked, ends the timer and waits for records under way.
    pub(crate) async fn close(&self) {
        self.closed.send_replace(true);
        let slots: Vec<Shared> = self.groups.lock().values().cloned().collect();
        for slot in slots {
            let mut slot = slot.lock();
            let mut actions = Vec::new();
            slot.group.close(&mut actions);
            for action in actions {
                if let Action::Reply { to, answer } = action {
                    slot.reply(to, answer);
                }
            }
            slot.parked.clear();
        }
        let idle = async {
            loop {
                let written = self.written.notified();
                if self.writers.load(Ordering::Acquire) == 0 {
                    return;
                }
                written.await;
            }
        };
        if tokio::time::timeout(CLOSE_WAIT, idle).await.is_err() {
            tracing::warn!("group records were still being stored when the groups closed");
        }
    }

    /// JoinGroup; waits for the rebalance.
    pub(crate) async fn join(self: &Arc<Self>, group: &str, join: Join) -> Answer {
        let refused = |code, member_id: &Arc<str>| Answer::JoinRefused {
            code,
            member_id: Arc::clone(member_id),
        };
        let member_id = Arc::clone(&join.member_id);
        if group.is_empty() || group.len() > TEXT_MAX {
            return refused(ResponseError::InvalidGroupId, &member_id);
        }
        if let Err(code) = self.config.check(&join) {
            return refused(code, &member_id);
        }
        let create = member_id.is_empty();
        match self
            .ask(group, create, |reply| Event::Join { reply, join })
            .await
        {
            Ok(answer) => answer,
            Err(code) => refused(code, &member_id),
        }
    }

    /// SyncGroup; waits for the leader's assignment.
    pub(crate) async fn sync(self: &Arc<Self>, group: &str, sync: Sync) -> Answer {
        let asked = self.ask_known(group, |reply| Event::Sync { reply, sync });
        asked.await.unwrap_or_else(Answer::Refused)
    }

    /// Heartbeat.
    pub(crate) async fn heartbeat(
        self: &Arc<Self>,
        group: &str,
        member_id: Arc<str>,
        instance_id: Option<Arc<str>>,
        generation: i32,
    ) -> Result<(), ResponseError> {
        let asked = self.ask_known(group, |reply| Event::Heartbeat {
            reply,
            member_id,
            instance_id,
            generation,
        });
        match asked.await? {
            Answer::Refused(code) => Err(code),
            _ => Ok(()),
        }
    }

    /// LeaveGroup: one result per leaver, or a refusal of all.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        group: &str,
        leavers: Vec<Leaver>,
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        let count = leavers.len();
        match self
            .ask_known(group, |reply| Event::Leave { reply, leavers })
            .await
        {
            Ok(Answer::Left(results)) => Ok(results),
            Ok(Answer::Refused(code)) => Err(code),
            Err(ResponseError::UnknownMemberId) | Ok(_) => {
                Ok(vec![Err(ResponseError::UnknownMemberId); count])
            }
            Err(code) => Err(code),
        }
    }

    /// Whether an OffsetCommit of this member and generation is taken. `missing` is the answer where
    /// a generation is claimed of a group that does not exist; it depends on the version.
    pub(crate) fn may_commit(
        &self,
        group: &str,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        missing: ResponseError,
    ) -> Result<(), ResponseError> {
        if group.len() > TEXT_MAX {
            return Err(ResponseError::InvalidGroupId);
        }
        let Some(slot) = self.slot(group) else {
            return if generation < 0 { Ok(()) } else { Err(missing) };
        };
        let now = self.now();
        slot.lock()
            .group
            .may_commit(member_id, instance_id, generation, now)
    }

    /// Deletes a group without members, with its offsets.
    pub(crate) async fn delete(self: &Arc<Self>, group: &str) -> Result<(), ResponseError> {
        if group.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        if self.has_native_members(group) {
            return Err(ResponseError::NonEmptyGroup);
        }
        match self.ask_known(group, |reply| Event::Delete { reply }).await {
            Ok(Answer::Refused(code)) => return Err(code),
            Ok(_) => {}
            Err(ResponseError::UnknownMemberId) => {
                let known = self.core.offsets.groups();
                if !known.iter().any(|name| &**name == group) {
                    return Err(ResponseError::GroupIdNotFound);
                }
            }
            Err(code) => return Err(code),
        }
        // Not cut short when the client goes away: the group is dead already.
        let removal = tokio::spawn(Arc::clone(self).bury(group.into()));
        removal
            .await
            .unwrap_or(Err(ResponseError::UnknownServerError))
    }

    /// Removes what is stored of a dead group.
    async fn bury(self: Arc<Self>, group: Arc<str>) -> Result<(), ResponseError> {
        self.written_out(&group).await;
        let removed = self.core.offsets.remove_group(&group).await;
        // Gone either way: a group whose tombstone failed is found again when the log is reopened.
        self.forget(&group);
        removed.map_err(|error| Refusal::from(&error).code)
    }

    /// Whether RocketMQ clients are in a group now.
    pub(crate) fn has_native_members(&self, group: &str) -> bool {
        self.core.roster.speaks(group, Tongue::Native)
    }

    /// A member id for a client, made of its client id or instance.
    pub(crate) fn fresh_id(prefix: &str) -> MemberId {
        let mut end = prefix.len().min(ID_PREFIX_MAX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}-{}", &prefix[..end], Uuid::new_v4()).into()
    }

    pub(super) fn now(&self) -> Moment {
        let ms = self.started.elapsed().as_millis();
        Moment {
            tick: Tick(u64::try_from(ms).unwrap_or(u64::MAX)),
            wall: self.wall(),
        }
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn slot(&self, group: &str) -> Option<Shared> {
        self.groups.lock().get(group).cloned()
    }

    /// The group's slot, which is made if need be.
    fn slot_or_new(&self, group: &str) -> Result<Shared, ResponseError> {
        let now = self.now();
        let mut groups = self.groups.lock();
        if let Some(slot) = groups.get(group) {
            return Ok(Arc::clone(slot));
        }
        if groups.len() >= self.config.groups_max {
            tracing::warn!(group, max = self.config.groups_max, "groups_max reached");
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        let slot = self.slot_of(Group::new(Arc::clone(&self.config), now));
        groups.insert(group.into(), Arc::clone(&slot));
        self.count_groups(groups.len());
        Ok(slot)
    }

    pub(super) fn count_groups(&self, groups: usize) {
        self.metrics
            .groups
            .set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// A request about a group that should exist.
    async fn ask_known(
        self: &Arc<Self>,
        group: &str,
        event: impl FnOnce(ReplyId) -> Event,
    ) -> Result<Answer, ResponseError> {
        if group.is_empty() {
            return Err(ResponseError::InvalidGroupId);
        }
        self.ask(group, false, event).await
    }

    /// Hands a request to its group and waits for the answer. An unknown group answers
    /// UNKNOWN_MEMBER_ID unless it may be created.
    async fn ask(
        self: &Arc<Self>,
        group: &str,
        create: bool,
        event: impl FnOnce(ReplyId) -> Event,
    ) -> Result<Answer, ResponseError> {
        if *self.closed.borrow() {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        let slot = if create {
            self.slot_or_new(group)?
        } else {
            self.slot(group).ok_or(ResponseError::UnknownMemberId)?
        };
        let reply = ReplyId(self.replies.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        let name: Arc<str> = group.into();
        {
            let mut held = slot.lock();
            if *self.closed.borrow() {
                return Err(ResponseError::CoordinatorNotAvailable);
            }
            held.parked.insert(reply, sender);
            let actions = held.group.on(event(reply), self.now());
            self.carry_out(&name, &slot, &mut held, actions);
            if create {
                self.warn_if_mixed(&name, &mut held);
            }
        }
        drop(slot);
        let answer = receiver.await;
        self.forget_if_blank(&name);
        answer.map_err(|_| ResponseError::CoordinatorNotAvailable)
    }

    fn warn_if_mixed(&self, name: &Arc<str>, slot: &mut Slot) {
        if !slot.warned_mixed && self.has_native_members(name) {
            slot.warned_mixed = true;
            tracing::warn!(
                group = %name,
                "Kafka and RocketMQ members are in one group; each kind shares the queues among itself, so records reach both"
            );
        }
    }
}

impl Slot {
    pub(super) fn reply(&mut self, to: ReplyId, answer: Answer) {
        if let Some(sender) = self.parked.remove(&to) {
            // The client may have gone away meanwhile; then nobody wants the answer.
            let _ = sender.send(answer);
        }
    }
}
