//! What a classic group is told and what it answers: the events, answers and actions of the state
//! machine in [`super::state`]. Plain data; no behaviour, no wire.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::sync::Arc;
use twinmq_store::Timestamp;

/// Milliseconds on a clock that never goes back. Timers use it; it means nothing across processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// The moment `ms` milliseconds later.
    pub(crate) fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// Now, on both clocks: timers run on `tick`, records carry `wall`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moment {
    /// The clock of timers.
    pub(crate) tick: Tick,
    /// The clock of records.
    pub(crate) wall: Timestamp,
}

/// A request that waits for an answer; given by the driver, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ReplyId(pub(crate) u64);

/// A group record that was handed out to be stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct StoreId(pub(crate) u64);

/// A member's id, unique in its group.
pub(crate) type MemberId = Arc<str>;

/// JoinGroup, with what the connection knows of the client.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// Empty for a member that has no id yet.
    pub(crate) member_id: Arc<str>,
    /// `group.instance.id` of a static member (KIP-345).
    pub(crate) instance_id: Option<Arc<str>>,
    /// The id the member gets if it needs one; unique, made by the driver.
    pub(crate) fresh_id: MemberId,
    /// Whether a dynamic member without id is sent back with one first (v4, KIP-394).
    pub(crate) id_required: bool,
    /// Whether the client understands `skip_assignment` (v9, KIP-814).
    pub(crate) can_skip_assignment: bool,
    /// The client's `client.id`.
    pub(crate) client_id: Arc<str>,
    /// Where it connects from, as Kafka prints it: `/1.2.3.4`.
    pub(crate) client_host: Arc<str>,
    /// Milliseconds without a heartbeat after which the member is dropped.
    pub(crate) session_timeout_ms: i32,
    /// Milliseconds the group waits for this member in a rebalance.
    pub(crate) rebalance_timeout_ms: i32,
    /// "consumer", "connect", ...
    pub(crate) protocol_type: Arc<str>,
    /// Assignors in order of preference, each with its metadata.
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
}

/// SyncGroup.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    /// Who asks.
    pub(crate) member_id: Arc<str>,
    /// Its instance, if static.
    pub(crate) instance_id: Option<Arc<str>>,
    /// The generation it believes in.
    pub(crate) generation: i32,
    /// What it believes the protocol type to be (v5, KIP-559).
    pub(crate) protocol_type: Option<Arc<str>>,
    /// What it believes the protocol to be (v5).
    pub(crate) protocol: Option<Arc<str>>,
    /// From the leader: who gets what. From others: empty.
    pub(crate) assignments: Vec<(Arc<str>, Bytes)>,
}

/// Who leaves: by id, by instance, or both.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    /// May be empty when `instance_id` is given (v3).
    pub(crate) member_id: Arc<str>,
    /// The static member's instance.
    pub(crate) instance_id: Option<Arc<str>>,
}

/// Something happened to a group.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A member joins or rejoins.
    Join {
        /// Whom to answer.
        reply: ReplyId,
        /// The request.
        join: Join,
    },
    /// A member asks for its assignment, the leader brings all of them.
    Sync {
        /// Whom to answer.
        reply: ReplyId,
        /// The request.
        sync: Sync,
    },
    /// A member is alive.
    Heartbeat {
        /// Whom to answer.
        reply: ReplyId,
        /// Who.
        member_id: Arc<str>,
        /// Its instance, if static.
        instance_id: Option<Arc<str>>,
        /// The generation it believes in.
        generation: i32,
    },
    /// Members leave.
    Leave {
        /// Whom to answer.
        reply: ReplyId,
        /// Who.
        leavers: Vec<Leaver>,
    },
    /// A record from [`Action::Store`] is readable in the log, or was refused.
    Stored {
        /// Which.
        id: StoreId,
        /// How it went.
        result: Result<(), ResponseError>,
    },
    /// Time has passed: [`super::state::Group::due`] was reached.
    Time,
    /// The group is deleted.
    Delete {
        /// Whom to answer.
        reply: ReplyId,
    },
}

/// A member as the leader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    /// Its id.
    pub(crate) member_id: MemberId,
    /// Its instance, if static.
    pub(crate) instance_id: Option<Arc<str>>,
    /// Its metadata for the chosen protocol.
    pub(crate) metadata: Bytes,
}

/// An answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Member of a generation.
    Joined(JoinAnswer),
    /// Not joined; `member_id` is what the answer names (the id to use with MEMBER_ID_REQUIRED).
    JoinRefused {
        /// Why.
        code: ResponseError,
        /// The id named in the answer.
        member_id: Arc<str>,
    },
    /// An assignment.
    Synced {
        /// The group's protocol type.
        protocol_type: Option<Arc<str>>,
        /// The chosen protocol.
        protocol: Option<Arc<str>>,
        /// The member's part.
        assignment: Bytes,
    },
    /// One result per leaver, in order.
    Left(Vec<Result<(), ResponseError>>),
    /// Done.
    Done,
    /// Refused as a whole (SyncGroup, Heartbeat, LeaveGroup, DeleteGroups).
    Refused(ResponseError),
}

/// What a member learns when it has joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JoinAnswer {
    /// The generation.
    pub(crate) generation: i32,
    /// The group's protocol type.
    pub(crate) protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub(crate) protocol: Option<Arc<str>>,
    /// The leader's id.
    pub(crate) leader: MemberId,
    /// The member's own id.
    pub(crate) member_id: MemberId,
    /// A leader that need not compute an assignment (v9).
    pub(crate) skip_assignment: bool,
    /// All members, for the leader; empty for others.
    pub(crate) members: Vec<Joined>,
}

/// What the driver has to do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Answer a request.
    Reply {
        /// Which.
        to: ReplyId,
        /// With what.
        answer: Answer,
    },
    /// Store the group's record; report with [`Event::Stored`]. Records of one group are stored in
    /// the order of their ids.
    Store {
        /// The record's number.
        id: StoreId,
        /// The record.
        record: GroupRecord,
    },
    /// A member came, or its subscription or assignment changed.
    Changed(MemberId),
    /// A member is no longer one.
    Gone(MemberId),
}

/// A group as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct GroupRecord {
    /// "consumer", ...; empty when there never was a member.
    pub(crate) protocol_type: Arc<str>,
    /// The generation.
    pub(crate) generation: i32,
    /// The chosen protocol; `None` in an empty group.
    pub(crate) protocol: Option<Arc<str>>,
    /// The leader; `None` in an empty group.
    pub(crate) leader: Option<MemberId>,
    /// Since when the group is in its state.
    pub(crate) since: Timestamp,
    /// The members, with their assignments.
    pub(crate) members: Vec<MemberRecord>,
}

/// A member as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MemberRecord {
    /// Its id.
    pub(crate) member_id: MemberId,
    /// Its instance, if static.
    pub(crate) instance_id: Option<Arc<str>>,
    /// Its `client.id`.
    pub(crate) client_id: Arc<str>,
    /// Where it connected from.
    pub(crate) client_host: Arc<str>,
    /// Milliseconds.
    pub(crate) rebalance_timeout_ms: i32,
    /// Milliseconds.
    pub(crate) session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    pub(crate) subscription: Bytes,
    /// Its part.
    pub(crate) assignment: Bytes,
}
