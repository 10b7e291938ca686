//! Drives the groups: one lock per group around the pure state machine, the parked answers, one timer
//! for all, the stored records in order, the roster that both protocols share.
//!
//! Promises: no lock is held over an await; a group's records reach the log in the order the group
//! made them; an answer that promises a stored record leaves after the record is readable; what a
//! client waits for is answered or, when it goes away, dropped without harm.
//! Leaves out: other brokers. Every group is this broker's.

use super::GroupConfig;
use super::event::{
    Action, Answer, Event, GroupRecord, Join, Leaver, MemberId, Moment, ReplyId, StoreId, Sync,
    Tick,
};
use super::record;
use super::state::{Group, State};
use super::subscription::{assigned_partitions, subscribed_topics};
use crate::error::Refusal;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use twinmq_core::Core;
use twinmq_core::roster::{Member as Listed, Tongue};
use twinmq_store::{Clock, Timestamp};
use uuid::Uuid;

/// Topics and partitions of one member that the roster shows at most.
pub(super) const SHOWN_MAX: usize = 100_000;
/// Longest part of a client id that goes into a member id.
const ID_PREFIX_MAX: usize = 255;
/// How long closing waits for records under way.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A group with what its requests wait for.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) group: Group,
    parked: HashMap<ReplyId, oneshot::Sender<Answer>>,
    /// Records to be stored, in order; `writing` while a task does so.
    writes: VecDeque<(StoreId, GroupRecord)>,
    writing: bool,
    /// The entry of the timer heap that counts.
    armed: Option<Tick>,
    warned_mixed: bool,
}

/// A group's slot, shared with what works on it.
pub(super) type Shared = Arc<Mutex<Slot>>;

/// Every group of this broker that speaks the classic protocol.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(super) config: Arc<GroupConfig>,
    pub(super) core: Core,
    pub(super) retention_ms: i64,
    pub(super) groups: Mutex<HashMap<Arc<str>, Shared>>,
    clock: Arc<dyn Clock>,
    started: Instant,
    replies: AtomicU64,
    timers: Mutex<BinaryHeap<Reverse<(Tick, Arc<str>)>>>,
    earlier: Notify,
    writers: AtomicUsize,
    written: Notify,
    closed: watch::Sender<bool>,
}

impl Coordinator {
    /// Loads the stored groups and starts the timer. Offsets of groups that nobody uses are kept for
    /// `retention_minutes`. Needs a tokio runtime.
    pub(crate) fn open(
        core: &Core,
        config: GroupConfig,
        retention_minutes: u64,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let minutes = i64::try_from(retention_minutes).unwrap_or(i64::MAX);
        let coordinator = Arc::new(Self {
            config: Arc::new(config),
            core: core.clone(),
            retention_ms: minutes.saturating_mul(60_000),
            groups: Mutex::default(),
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
        self.groups.lock().insert(name, slot);
    }

    fn slot_of(&self, group: Group) -> Shared {
        Arc::new(Mutex::new(Slot {
            group,
            parked: HashMap::new(),
            writes: VecDeque::new(),
            writing: false,
            armed: None,
            warned_mixed: false,
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
        if group.is_empty() {
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
        self.written_out(group).await;
        let removed = self.core.offsets.remove_group(group).await;
        // Dead either way: a group whose tombstone failed is found again when the log is reopened.
        self.forget(group);
        removed.map_err(|error| Refusal::from(&error).code)
    }

    /// Waits until no record of the group is on its way to the log.
    async fn written_out(&self, group: &str) {
        let Some(slot) = self.slot(group) else {
            return;
        };
        loop {
            let written = self.written.notified();
            if !slot.lock().writing {
                return;
            }
            written.await;
        }
    }

    /// Whether RocketMQ clients are in a group now.
    pub(crate) fn has_native_members(&self, group: &str) -> bool {
        let members = self.core.roster.members(group);
        members.iter().any(|member| member.tongue == Tongue::Native)
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
        Ok(slot)
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

    /// Does what a group decided. The group's lock is held.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        name: &Arc<str>,
        shared: &Shared,
        slot: &mut Slot,
        actions: Vec<Action>,
    ) {
        for action in actions {
            match action {
                Action::Reply { to, answer } => slot.reply(to, answer),
                Action::Store { id, record } => {
                    slot.writes.push_back((id, record));
                    if !slot.writing {
                        slot.writing = true;
                        self.writers.fetch_add(1, Ordering::AcqRel);
                        tokio::spawn(Arc::clone(self).write(Arc::clone(name), Arc::clone(shared)));
                    }
                }
                Action::Changed(id) => self.show(name, slot, &id),
                Action::Gone(id) => {
                    tracing::debug!(group = %name, member = %id, "left the group");
                    self.core.roster.remove(name, &id);
                }
            }
        }
        self.arm(name, slot);
    }

    /// Shows a member in the roster.
    fn show(&self, name: &Arc<str>, slot: &Slot, id: &str) {
        let group = &slot.group;
        let Some(member) = group.member(id) else {
            return;
        };
        let consumer = group
            .protocol_type()
            .is_some_and(|kind| &**kind == "consumer");
        let (topics, held) = if consumer {
            let metadata = group.metadata_of(member);
            (
                subscribed_topics(&metadata, SHOWN_MAX).unwrap_or_default(),
                assigned_partitions(&member.assignment, SHOWN_MAX).unwrap_or_default(),
            )
        } else {
            (Vec::new(), Vec::new())
        };
        let listed = Listed {
            id: member.id.clone(),
            tongue: Tongue::Kafka,
            client_id: member.client_id.clone(),
            host: host_of(&member.client_host),
            topics,
            held,
        };
        self.core.roster.put(name, listed);
    }

    /// Stores a group's records, one after the other, until there are none.
    async fn write(self: Arc<Self>, name: Arc<str>, shared: Shared) {
        loop {
            let (id, record) = {
                let mut slot = shared.lock();
                let Some(next) = slot.writes.pop_front() else {
                    slot.writing = false;
                    break;
                };
                next
            };
            let result = self.store(&name, &record).await;
            let mut slot = shared.lock();
            let actions = slot.group.on(Event::Stored { id, result }, self.now());
            self.carry_out(&name, &shared, &mut slot, actions);
            tracing::debug!(
                group = %name,
                generation = slot.group.generation(),
                state = slot.group.state().name(),
                "group stored"
            );
        }
        self.writers.fetch_sub(1, Ordering::AcqRel);
        self.written.notify_waiters();
    }

    async fn store(&self, name: &str, record: &GroupRecord) -> Result<(), ResponseError> {
        let bytes: Bytes = record::encode(record).map_err(|error| {
            tracing::warn!(group = name, %error, "group cannot be stored");
            ResponseError::UnknownServerError
        })?;
        let stored = self.core.offsets.put_group_record(name, Some(bytes)).await;
        stored.map_err(|error| {
            tracing::warn!(group = name, %error, "group was not stored");
            match Refusal::from(&error).code {
                ResponseError::OffsetMetadataTooLarge => ResponseError::UnknownServerError,
                code => code,
            }
        })
    }

    /// Makes sure that the timer looks at the group in time.
    fn arm(&self, name: &Arc<str>, slot: &mut Slot) {
        let Some(due) = slot.group.due() else {
            return;
        };
        if slot.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        slot.armed = Some(due);
        let mut timers = self.timers.lock();
        let first = timers.peek().is_none_or(|Reverse((first, _))| due < *first);
        timers.push(Reverse((due, Arc::clone(name))));
        if first {
            self.earlier.notify_one();
        }
    }

    /// The one timer: tells groups the time when they asked for it, and lets offsets expire.
    async fn keep_time(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        let every = self.config.offsets_retention_check_interval_ms.max(1000);
        let mut expiry = tokio::time::interval(Duration::from_millis(every));
        expiry.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        expiry.tick().await;
        loop {
            let next = self.timers.lock().peek().map(|Reverse((at, _))| *at);
            let sleep = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep_until(self.started + Duration::from_millis(at.0)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => self.ring(),
                () = self.earlier.notified() => {}
                _ = expiry.tick() => self.expire().await,
                () = async { drop(closed.wait_for(|closed| *closed).await) } => return,
            }
        }
    }

    /// Tells every group whose time has come.
    fn ring(self: &Arc<Self>) {
        let now = self.now();
        loop {
            let (at, name) = {
                let mut timers = self.timers.lock();
                match timers.peek() {
                    Some(Reverse((at, _))) if *at <= now.tick => {}
                    _ => return,
                }
                let Some(Reverse(first)) = timers.pop() else {
                    return;
                };
                first
            };
            let Some(shared) = self.slot(&name) else {
                continue;
            };
            {
                let mut slot = shared.lock();
                if slot.armed != Some(at) {
                    continue; // an earlier entry took its place
                }
                slot.armed = None;
                let actions = slot.group.on(Event::Time, now);
                self.carry_out(&name, &shared, &mut slot, actions);
            }
            drop(shared);
            self.forget_if_blank(&name);
        }
    }

    /// A group that only ever handed out member ids leaves nothing behind.
    fn forget_if_blank(&self, name: &str) {
        let mut groups = self.groups.lock();
        let Some(shared) = groups.get(name) else {
            return;
        };
        let blank = {
            // Whoever fetched the slot meanwhile holds a count of it; then it stays for now.
            let unshared = Arc::strong_count(shared) == 1;
            let slot = shared.lock();
            unshared && slot.parked.is_empty() && slot.group.is_blank()
        };
        if blank {
            groups.remove(name);
        }
    }

    /// Takes a dead group out of the map.
    pub(super) fn forget(&self, name: &str) {
        let mut groups = self.groups.lock();
        let dead = groups
            .get(name)
            .is_some_and(|shared| shared.lock().group.state() == State::Dead);
        if dead {
            groups.remove(name);
        }
    }

    /// Marks an empty group dead, so that nobody joins it while it is removed. Whether it was.
    pub(super) fn retire(&self, shared: &Shared) -> bool {
        let mut slot = shared.lock();
        let idle = slot.group.state() == State::Empty && slot.parked.is_empty() && !slot.writing;
        if idle {
            let reply = ReplyId(self.replies.fetch_add(1, Ordering::Relaxed));
            // The answer goes nowhere: nobody is waiting for it.
            let _ = slot.group.on(Event::Delete { reply }, self.now());
        }
        idle
    }
}

impl Slot {
    fn reply(&mut self, to: ReplyId, answer: Answer) {
        if let Some(sender) = self.parked.remove(&to) {
            // The client may have gone away meanwhile; then nobody wants the answer.
            let _ = sender.send(answer);
        }
    }
}

/// The address in Kafka's spelling of it, `/1.2.3.4`; the port is not known.
fn host_of(client_host: &str) -> SocketAddr {
    let ip = client_host.trim_start_matches('/').parse();
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0)
}
