//! Each rule of the classic protocol, one test per rule, against the pure state machine.

use super::GroupConfig;
use super::event::{
    Action, Answer, Event, GroupRecord, Join, JoinAnswer, Leaver, Moment, ReplyId, StoreId, Sync,
    Tick,
};
use super::state::{Group, State, Wait};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_store::Timestamp;

/// A group with a clock, that remembers every answer.
struct Stage {
    group: Group,
    now: u64,
    next: u64,
    answers: BTreeMap<ReplyId, Answer>,
    stores: Vec<(StoreId, GroupRecord)>,
    /// Whether stores succeed at once.
    auto_store: bool,
}

fn config() -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: 3000,
        max_size: 3,
        pending_max: 4,
        ..GroupConfig::default()
    }
}

fn moment(ms: u64) -> Moment {
    Moment {
        tick: Tick(ms),
        wall: Timestamp(1_000_000 + i64::try_from(ms).unwrap()),
    }
}

fn join_as(member: &str) -> Join {
    Join {
        member_id: member.into(),
        instance_id: None,
        fresh_id: format!("fresh-{member}").into(),
        id_required: false,
        can_skip_assignment: true,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![
            ("range".into(), Bytes::from_static(b"r")),
            ("sticky".into(), Bytes::from_static(b"s")),
        ],
    }
}

fn fresh(id: &str) -> Join {
    Join {
        fresh_id: id.into(),
        ..join_as("")
    }
}

fn fixed(instance: &str, id: &str) -> Join {
    Join {
        instance_id: Some(instance.into()),
        ..fresh(id)
    }
}

fn with_protocols(mut join: Join, names: &[&str]) -> Join {
    join.protocols = names
        .iter()
        .map(|name| (Arc::from(*name), Bytes::copy_from_slice(name.as_bytes())))
        .collect();
    join
}

impl Stage {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: GroupConfig) -> Self {
        Self {
            group: Group::new(Arc::new(config), moment(0)),
            now: 0,
            next: 0,
            answers: BTreeMap::new(),
            stores: Vec::new(),
            auto_store: true,
        }
    }

    fn tell(&mut self, event: Event) {
        let actions = self.group.on(event, moment(self.now));
        for action in actions {
            match action {
                Action::Reply { to, answer } => {
                    assert!(self.answers.insert(to, answer).is_none(), "answered twice");
                }
                Action::Store { id, record } => {
                    self.stores.push((id, record));
                    if self.auto_store {
                        self.tell(Event::Stored { id, result: Ok(()) });
                    }
                }
                Action::Changed(_) | Action::Gone(_) => {}
            }
        }
    }

    fn ask(&mut self, event: impl FnOnce(ReplyId) -> Event) -> ReplyId {
        self.next += 1;
        let reply = ReplyId(self.next);
        let event = event(reply);
        self.tell(event);
        reply
    }

    fn join(&mut self, join: Join) -> ReplyId {
        self.ask(|reply| Event::Join { reply, join })
    }

    fn sync(&mut self, member: &str, generation: i32, parts: &[(&str, &str)]) -> ReplyId {
        let sync = Sync {
            member_id: member.into(),
            instance_id: None,
            generation,
            protocol_type: None,
            protocol: None,
            assignments: parts
                .iter()
                .map(|(id, part)| (Arc::from(*id), Bytes::copy_from_slice(part.as_bytes())))
                .collect(),
        };
        self.ask(|reply| Event::Sync { reply, sync })
    }

    fn heartbeat(&mut self, member: &str, generation: i32) -> Answer {
        let member_id = member.into();
        let reply = self.ask(|reply| Event::Heartbeat {
            reply,
            member_id,
            instance_id: None,
            generation,
        });
        self.answer(reply)
    }

    fn leave(&mut self, member: &str, instance: Option<&str>) -> Answer {
        let leavers = vec![Leaver {
            member_id: member.into(),
            instance_id: instance.map(Arc::from),
        }];
        let reply = self.ask(|reply| Event::Leave { reply, leavers });
        self.answer(reply)
    }

    fn answer(&mut self, reply: ReplyId) -> Answer {
        self.answers.remove(&reply).expect("no answer yet")
    }

    fn joined(&mut self, reply: ReplyId) -> JoinAnswer {
        match self.answer(reply) {
            Answer::Joined(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&mut self, reply: ReplyId) -> ResponseError {
        match self.answer(reply) {
            Answer::JoinRefused { code, .. } | Answer::Refused(code) => code,
            other => panic!("{other:?}"),
        }
    }

    fn part(&mut self, reply: ReplyId) -> Bytes {
        match self.answer(reply) {
            Answer::Synced { assignment, .. } => assignment,
            other => panic!("{other:?}"),
        }
    }

    fn waits(&self, reply: ReplyId) -> bool {
        !self.answers.contains_key(&reply)
    }

    /// Lets time pass, telling the group whenever it asked to be told.
    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(due) = self.group.due().filter(|due| due.0 <= end) {
            self.now = self.now.max(due.0);
            self.tell(Event::Time);
        }
        self.now = end;
    }

    /// Lets the joining end.
    fn settle(&mut self) {
        while matches!(self.group.state(), State::PreparingRebalance(_)) {
            self.pass(1000);
        }
    }

    /// A stable group of these members; the first leads. Returns the generation.
    fn stable(&mut self, members: &[&str]) -> i32 {
        let replies: Vec<_> = members.iter().map(|id| self.join(fresh(id))).collect();
        self.settle();
        let mut generation = 0;
        for reply in replies {
            generation = self.joined(reply).generation;
        }
        let leader = self.group.leader.clone().unwrap();
        let parts: Vec<_> = members.iter().map(|id| (*id, *id)).collect();
        for id in members.iter().filter(|id| **id != &*leader) {
            self.sync(id, generation, &[]);
        }
        self.sync(&leader, generation, &parts);
        assert_eq!(self.group.state(), State::Stable);
        generation
    }

    /// Everybody is alive during `ms`.
    fn beat(&mut self, members: &[&str], generation: i32, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.pass(1000.min(end - self.now));
            for id in members {
                self.heartbeat(id, generation);
            }
        }
    }
}

fn ok_left() -> Answer {
    Answer::Left(vec![Ok(())])
}

#[test]
fn the_first_rebalance_waits_and_is_extended_while_members_come() {
    let mut stage = Stage::new();
    let a = stage.join(fresh("a"));
    stage.pass(2000);
    let b = stage.join(fresh("b"));
    stage.pass(1000);
    assert!(stage.waits(a), "extended: b came");
    stage.pass(3000);
    let (a, b) = (stage.joined(a), stage.joined(b));
    assert_eq!((a.generation, b.generation), (1, 1));
    assert_eq!((&*a.leader, &*b.leader), ("a", "a"));
    assert_eq!(a.members.len(), 2, "the leader sees everybody");
    assert!(b.members.is_empty());
    assert_eq!(a.protocol.as_deref(), Some("range"));
    assert_eq!(a.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(stage.group.state(), State::CompletingRebalance);
}

#[test]
fn the_first_rebalance_is_never_longer_than_the_rebalance_timeout() {
    let mut stage = Stage::new();
    let mut first = fresh("a");
    first.rebalance_timeout_ms = 5000;
    let a = stage.join(first);
    stage.pass(1);
    let mut second = fresh("b");
    second.rebalance_timeout_ms = 5000;
    stage.join(second);
    stage.pass(2999);
    let mut third = fresh("c");
    third.rebalance_timeout_ms = 5000;
    stage.join(third);
    assert!(stage.waits(a));
    stage.pass(2000);
    assert_eq!(stage.joined(a).generation, 1);
}

#[test]
fn a_dynamic_member_is_given_an_id_first() {
    let mut stage = Stage::new();
    let mut ask = fresh("id-1");
    ask.id_required = true;
    let reply = stage.join(ask.clone());
    let expected = Answer::JoinRefused {
        code: ResponseError::MemberIdRequired,
        member_id: "id-1".into(),
    };
    assert_eq!(stage.answer(reply), expected);
    assert_eq!(stage.group.state(), State::Empty);
    let mut again = join_as("id-1");
    again.id_required = true;
    let reply = stage.join(again);
    stage.pass(3000);
    assert_eq!(&*stage.joined(reply).member_id, "id-1");
    // An unused id ends with the session timeout.
    ask.fresh_id = "id-2".into();
    let asked = stage.join(ask);
    assert_eq!(stage.refused(asked), ResponseError::MemberIdRequired);
    stage.pass(10_000);
    let late = stage.join(join_as("id-2"));
    assert_eq!(stage.refused(late), ResponseError::UnknownMemberId);
}

#[test]
fn a_pending_id_holds_a_rebalance_and_its_leaving_ends_it() {
    let mut stage = Stage::new();
    stage.stable(&["a"]);
    let mut ask = fresh("p");
    ask.id_required = true;
    stage.join(ask);
    let a = stage.join(join_as("a"));
    assert!(stage.waits(a));
    assert_eq!(stage.leave("p", None), ok_left());
    assert_eq!(stage.joined(a).generation, 2);
}

#[test]
fn unused_ids_are_limited() {
    let mut stage = Stage::new();
    for number in 0..5 {
        let mut ask = fresh(&format!("p{number}"));
        ask.id_required = true;
        let reply = stage.join(ask);
        let expected = if number < 4 {
            ResponseError::MemberIdRequired
        } else {
            ResponseError::GroupMaxSizeReached
        };
        assert_eq!(stage.refused(reply), expected);
    }
}

#[test]
fn a_full_group_refuses_newcomers() {
    let mut stage = Stage::new();
    let generation = stage.stable(&["a", "b", "c"]);
    let d = stage.join(fresh("d"));
    assert_eq!(stage.refused(d), ResponseError::GroupMaxSizeReached);
    assert_eq!(stage.heartbeat("a", generation), Answer::Done);
    // Preparing: only parked members count.
    let a = stage.join(join_as("a"));
    let d = stage.join(fresh("d"));
    let e = stage.join(fresh("e"));
    assert!(stage.waits(a) && stage.waits(d) && stage.waits(e));
    let f = stage.join(fresh("f"));
    assert_eq!(stage.refused(f), ResponseError::GroupMaxSizeReached);
    let b = stage.join(join_as("b"));
    assert_eq!(stage.refused(b), ResponseError::GroupMaxSizeReached);
    assert!(
        stage.group.member("b").is_none(),
        "a refused member is removed"
    );
}

#[test]
fn a_rebalance_does_not_wait_for_an_id_that_was_refused() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let mut ask = fresh("p");
    ask.id_required = true;
    stage.join(ask);
    let (a, b) = (stage.join(join_as("a")), stage.join(join_as("b")));
    let c = stage.join(fresh("c"));
    assert!(stage.waits(a) && stage.waits(b) && stage.waits(c));
    let late = stage.join(join_as("p"));
    assert_eq!(stage.refused(late), ResponseError::GroupMaxSizeReached);
    assert_eq!(stage.joined(c).generation, 2);
}

#[test]
fn protocols_must_agree() {
    for (mut join, fine) in [
        (with_protocols(fresh("b"), &["sticky"]), true),
        (with_protocols(fresh("b"), &["other"]), false),
        (with_protocols(fresh("b"), &[]), false),
    ] {
        let mut stage = Stage::new();
        stage.stable(&["a"]);
        let reply = stage.join(join.clone());
        assert_eq!(stage.waits(reply), fine, "{join:?}");
        if !fine {
            assert_eq!(
                stage.refused(reply),
                ResponseError::InconsistentGroupProtocol
            );
        }
        join.protocol_type = "connect".into();
        let reply = stage.join(join);
        assert_eq!(
            stage.refused(reply),
            ResponseError::InconsistentGroupProtocol
        );
    }
    let mut stage = Stage::new();
    let mut join = fresh("a");
    join.protocol_type = "".into();
    let reply = stage.join(join);
    assert_eq!(
        stage.refused(reply),
        ResponseError::InconsistentGroupProtocol
    );
}

#[test]
fn most_votes_choose_the_protocol() {
    let mut stage = Stage::new();
    stage.join(with_protocols(fresh("a"), &["x", "y", "z"]));
    stage.join(with_protocols(fresh("b"), &["w", "y", "x"]));
    stage.join(with_protocols(fresh("c"), &["y", "x"]));
    stage.settle();
    assert_eq!(stage.group.protocol().map(|p| &**p), Some("y"));
}

#[test]
fn an_unknown_member_is_sent_away() {
    let mut stage = Stage::new();
    let generation = stage.stable(&["a"]);
    let reply = stage.join(join_as("stranger"));
    assert_eq!(stage.refused(reply), ResponseError::UnknownMemberId);
    let code = Answer::Refused(ResponseError::UnknownMemberId);
    assert_eq!(stage.heartbeat("stranger", generation), code);
    let reply = stage.sync("stranger", generation, &[]);
    assert_eq!(stage.answer(reply), code);
    let left = Answer::Left(vec![Err(ResponseError::UnknownMemberId)]);
    assert_eq!(stage.leave("stranger", None), left);
}

#[test]
fn a_lost_join_answer_is_repeated() {
    let mut stage = Stage::new();
    let (a, b) = (stage.join(fresh("a")), stage.join(fresh("b")));
    stage.pass(6000);
    stage.joined(a);
    stage.joined(b);
    let a = stage.join(join_as("a"));
    assert_eq!(stage.joined(a).members.len(), 2);
    let b = stage.join(join_as("b"));
    let b = stage.joined(b);
    assert_eq!((b.generation, b.members.len()), (1, 0));
    // Changed metadata in Completing: a new rebalance.
    let b = stage.join(with_protocols(join_as("b"), &["range"]));
    assert!(stage.waits(b));
    assert!(matches!(
        stage.group.state(),
        State::PreparingRebalance(Wait::Until(_))
    ));
}

#[test]
fn in_a_stable_group_the_leader_and_changes_cause_a_rebalance_others_do_not() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let b = stage.join(join_as("b"));
    let b = stage.joined(b);
    assert_eq!((b.generation, b.members.len()), (1, 0));
    let a = stage.join(join_as("a"));
    assert!(stage.waits(a), "the leader asks for a rebalance by joining");
    let b = stage.join(join_as("b"));
    assert_eq!(
        (stage.joined(a).generation, stage.joined(b).generation),
        (2, 2)
    );

    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let mut changed = join_as("b");
    changed.protocols[1].1 = Bytes::from_static(b"owned partitions");
    let b = stage.join(changed);
    assert!(stage.waits(b), "cooperative: revoked, joins again");
    let a = stage.join(join_as("a"));
    assert_eq!(
        (stage.joined(a).generation, stage.joined(b).generation),
        (2, 2)
    );
}

#[test]
fn a_second_join_of_a_parked_member_gets_the_answer() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let first = stage.join(join_as("a"));
    let second = stage.join(join_as("a"));
    assert_eq!(stage.refused(first), ResponseError::RebalanceInProgress);
    let b = stage.join(join_as("b"));
    assert_eq!(
        (stage.joined(second).generation, stage.joined(b).generation),
        (2, 2)
    );
}

#[test]
fn everybody_gets_its_part_once_it_is_stored() {
    let mut stage = Stage::new();
    let (a, b) = (stage.join(fresh("a")), stage.join(fresh("b")));
    stage.pass(6000);
    stage.joined(a);
    stage.joined(b);
    stage.auto_store = false;
    let b = stage.sync("b", 1, &[]);
    let a = stage.sync("a", 1, &[("a", "pa"), ("b", "pb"), ("ghost", "pg")]);
    assert!(stage.waits(a) && stage.waits(b));
    let again = stage.sync("a", 1, &[("a", "pa")]);
    assert_eq!(stage.refused(a), ResponseError::RebalanceInProgress);
    assert_eq!(stage.stores.len(), 1, "one record per generation");
    let (id, record) = stage.stores.remove(0);
    assert_eq!(record.members.len(), 2);
    assert_eq!(record.members[1].assignment, "pb");
    assert_eq!(
        (record.generation, record.leader.as_deref()),
        (1, Some("a"))
    );
    stage.tell(Event::Stored { id, result: Ok(()) });
    assert_eq!(stage.part(again), "pa");
    assert_eq!(stage.part(b), "pb");
    assert_eq!(stage.group.state(), State::Stable);
    let b = stage.sync("b", 1, &[]);
    assert_eq!(stage.part(b), "pb", "at once when stable");
}

#[test]
fn an_assignment_that_cannot_be_stored_fails_and_rebalances() {
    let mut stage = Stage::new();
    let (a, b) = (stage.join(fresh("a")), stage.join(fresh("b")));
    stage.pass(6000);
    stage.joined(a);
    stage.joined(b);
    stage.auto_store = false;
    let b = stage.sync("b", 1, &[]);
    let a = stage.sync("a", 1, &[]);
    let id = stage.stores[0].0;
    let code = ResponseError::CoordinatorNotAvailable;
    stage.tell(Event::Stored {
        id,
        result: Err(code),
    });
    assert_eq!((stage.refused(a), stage.refused(b)), (code, code));
    assert!(matches!(
        stage.group.state(),
        State::PreparingRebalance(Wait::Until(_))
    ));
}

#[test]
fn a_record_stored_too_late_changes_nothing() {
    let mut stage = Stage::new();
    let a = stage.join(fresh("a"));
    stage.pass(3000);
    stage.joined(a);
    stage.auto_store = false;
    let a = stage.sync("a", 1, &[]);
    let b = stage.join(fresh("b"));
    assert_eq!(stage.refused(a), ResponseError::RebalanceInProgress);
    let id = stage.stores[0].0;
    stage.tell(Event::Stored { id, result: Ok(()) });
    assert!(matches!(stage.group.state(), State::PreparingRebalance(_)));
    let a = stage.join(join_as("a"));
    assert_eq!(
        (stage.joined(a).generation, stage.joined(b).generation),
        (2, 2)
    );
}

#[test]
fn sync_is_checked() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let old = stage.sync("a", 0, &[]);
    assert_eq!(stage.refused(old), ResponseError::IllegalGeneration);
    let sync = Sync {
        member_id: "a".into(),
        instance_id: None,
        generation: 1,
        protocol_type: Some("consumer".into()),
        protocol: Some("sticky".into()),
        assignments: Vec::new(),
    };
    let other = stage.ask(|reply| Event::Sync { reply, sync });
    assert_eq!(
        stage.refused(other),
        ResponseError::InconsistentGroupProtocol
    );
    stage.join(join_as("a"));
    let b = stage.sync("b", 1, &[]);
    assert_eq!(stage.refused(b), ResponseError::RebalanceInProgress);
}

#[test]
fn heartbeats_tell_of_a_rebalance_only_while_it_prepares() {
    let mut stage = Stage::new();
    let a = stage.join(fresh("a"));
    stage.pass(3000);
    stage.joined(a);
    assert_eq!(stage.heartbeat("a", 1), Answer::Done, "completing");
    let illegal = Answer::Refused(ResponseError::IllegalGeneration);
    assert_eq!(stage.heartbeat("a", 7), illegal);
    let a = stage.sync("a", 1, &[]);
    stage.part(a);
    stage.join(fresh("b"));
    let preparing = Answer::Refused(ResponseError::RebalanceInProgress);
    // 27 keeps the member alive past its session timeout.
    for _ in 0..5 {
        stage.pass(5000);
        assert_eq!(stage.heartbeat("a", 1), preparing);
    }
    assert!(stage.group.member("a").is_some());
}

#[test]
fn silence_ends_a_membership() {
    let mut stage = Stage::new();
    let generation = stage.stable(&["a", "b"]);
    stage.beat(&["a"], generation, 9000);
    assert!(stage.group.member("b").is_some());
    stage.pass(1000);
    assert!(stage.group.member("b").is_none());
    let preparing = Answer::Refused(ResponseError::RebalanceInProgress);
    assert_eq!(stage.heartbeat("a", generation), preparing);
}

#[test]
fn a_parked_member_needs_no_heartbeat_unless_it_is_new() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let mut slow = join_as("a");
    slow.rebalance_timeout_ms = 1_000_000;
    let a = stage.join(slow);
    let new = stage.join(fresh("n"));
    for _ in 0..100 {
        stage.pass(5000);
        stage.heartbeat("b", 1);
    }
    assert!(stage.waits(a), "500 s without a heartbeat, but parked");
    let gone = stage.answer(new);
    let expected = Answer::JoinRefused {
        code: ResponseError::UnknownMemberId,
        member_id: "n".into(),
    };
    assert_eq!(gone, expected, "a new member is dropped after 5 minutes");
}

#[test]
fn who_misses_a_rebalance_is_dropped_unless_static() {
    let mut stage = Stage::new();
    let (a, s) = (stage.join(fresh("a")), stage.join(fixed("i", "s")));
    let d = stage.join(fresh("d"));
    stage.settle();
    for reply in [a, s, d] {
        stage.joined(reply);
    }
    let sync = stage.sync("a", 1, &[("a", "1"), ("s", "2"), ("d", "3")]);
    stage.part(sync);
    for member in ["s", "d"] {
        let sync = stage.sync(member, 1, &[]);
        stage.part(sync);
    }
    let a = stage.join(join_as("a"));
    for _ in 0..12 {
        stage.pass(5000);
        stage.heartbeat("s", 1);
        stage.heartbeat("d", 1);
    }
    let a = stage.joined(a);
    assert_eq!(a.generation, 2);
    let ids: Vec<_> = a.members.iter().map(|m| &*m.member_id).collect();
    assert_eq!(ids, ["a", "s"]);
}

#[test]
fn a_leader_that_misses_a_rebalance_is_replaced() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let b = stage.join(with_protocols(join_as("b"), &["range"]));
    for _ in 0..12 {
        stage.pass(5000);
        stage.heartbeat("a", 1);
    }
    let b = stage.joined(b);
    assert_eq!((&*b.leader, b.members.len()), ("b", 1));
}

#[test]
fn with_only_static_members_away_the_rebalance_waits_for_them() {
    let mut stage = Stage::new();
    let (s, t) = (stage.join(fixed("i", "s")), stage.join(fresh("t")));
    stage.settle();
    stage.joined(s);
    stage.joined(t);
    let s = stage.sync("s", 1, &[]);
    stage.part(s);
    let t = stage.sync("t", 1, &[]);
    stage.part(t);
    assert_eq!(stage.leave("t", None), ok_left());
    for _ in 0..30 {
        stage.pass(5000);
        stage.heartbeat("s", 1);
    }
    assert_eq!(stage.group.generation(), 1);
    let s = stage.join(join_as("s"));
    assert_eq!(stage.joined(s).generation, 2);
}

#[test]
fn members_that_never_sync_are_removed() {
    let mut stage = Stage::new();
    let (a, b) = (stage.join(fresh("a")), stage.join(fresh("b")));
    stage.pass(6000);
    stage.joined(a);
    stage.joined(b);
    let a = stage.sync("a", 1, &[]);
    stage.part(a);
    stage.beat(&["a", "b"], 1, 59_000);
    assert!(stage.group.member("b").is_some());
    stage.beat(&["a", "b"], 1, 1000);
    assert!(stage.group.member("b").is_none());
    assert!(matches!(stage.group.state(), State::PreparingRebalance(_)));
}

#[test]
fn a_leader_that_never_assigns_is_removed_and_the_others_told() {
    let mut stage = Stage::new();
    let (a, b) = (stage.join(fresh("a")), stage.join(fresh("b")));
    stage.pass(6000);
    stage.joined(a);
    stage.joined(b);
    let b = stage.sync("b", 1, &[]);
    stage.beat(&["a"], 1, 60_000);
    assert_eq!(stage.refused(b), ResponseError::RebalanceInProgress);
    assert!(stage.group.member("a").is_none());
}

#[test]
fn leaving_rebalances_and_the_last_one_empties_the_group() {
    let mut stage = Stage::new();
    let generation = stage.stable(&["a", "b"]);
    assert_eq!(stage.leave("a", None), ok_left());
    let preparing = Answer::Refused(ResponseError::RebalanceInProgress);
    assert_eq!(stage.heartbeat("b", generation), preparing);
    assert_eq!(stage.leave("b", None), ok_left());
    assert_eq!(stage.group.state(), State::Empty);
    assert_eq!(stage.group.generation(), generation + 1);
    let record = &stage.stores.last().unwrap().1;
    assert!(record.members.is_empty() && record.protocol.is_none());
    assert_eq!(&*record.protocol_type, "consumer");
}

#[test]
fn a_parked_join_of_a_leaver_is_answered() {
    let mut stage = Stage::new();
    stage.stable(&["a", "b"]);
    let a = stage.join(join_as("a"));
    assert_eq!(stage.leave("a", None), ok_left());
    assert_eq!(stage.refused(a), ResponseError::UnknownMemberId);
}

#[test]
fn a_static_member_is_removed_by_its_instance_alone() {
    let mut stage = Stage::new();
    let s = stage.join(fixed("i", "s"));
    stage.pass(3000);
    stage.joined(s);
    let unknown = Answer::Left(vec![Err(ResponseError::UnknownMemberId)]);
    assert_eq!(stage.leave("", Some("other")), unknown);
    let fenced = Answer::Left(vec![Err(ResponseError::FencedInstanceId)]);
    assert_eq!(stage.leave("wrong", Some("i")), fenced);
    assert_eq!(stage.leave("", Some("i")), ok_left());
    assert_eq!(stage.group.state(), State::Empty);
}

/// A stable group of a static leader "s" (instance "i") and a dynamic "d".
fn with_static_leader() -> Stage {
    let mut stage = Stage::new();
    let (s, d) = (stage.join(fixed("i", "s")), stage.join(fresh("x-d")));
    stage.settle();
    stage.joined(s);
    stage.joined(d);
    let d = stage.sync("x-d", 1, &[]);
    let s = stage.sync("s", 1, &[("s", "ps"), ("x-d", "pd")]);
    assert_eq!((stage.part(s), stage.part(d)), ("ps".into(), "pd".into()));
    stage
}

#[test]
fn a_returning_static_leader_skips_the_assignment() {
    let mut stage = with_static_leader();
    stage.auto_store = false;
    let back = stage.join(fixed("i", "s2"));
    assert!(stage.waits(back), "not before it is stored");
    let (id, record) = stage.stores.pop().unwrap();
    let stored: Vec<_> = record.members.iter().map(|m| &*m.member_id).collect();
    assert_eq!(stored, ["s2", "x-d"]);
    stage.tell(Event::Stored { id, result: Ok(()) });
    let back = stage.joined(back);
    assert!(back.skip_assignment);
    assert_eq!(
        (back.generation, back.members.len(), &*back.leader),
        (1, 2, "s2")
    );
    assert_eq!(stage.group.state(), State::Stable);
    // The old id is fenced, the part has moved.
    let member_id: Arc<str> = "s".into();
    let fenced = stage.ask(|reply| Event::Heartbeat {
        reply,
        member_id,
        instance_id: Some("i".into()),
        generation: 1,
    });
    assert_eq!(stage.refused(fenced), ResponseError::FencedInstanceId);
    let unknown = Answer::Refused(ResponseError::UnknownMemberId);
    assert_eq!(stage.heartbeat("s", 1), unknown);
    let part = stage.sync("s2", 1, &[]);
    assert_eq!(stage.part(part), "ps");
}

#[test]
fn an_older_returning_static_leader_is_told_the_old_leader() {
    let mut stage = with_static_leader();
    let mut join = fixed("i", "s2");
    join.can_skip_assignment = false;
    let back = stage.join(join);
    let back = stage.joined(back);
    assert_eq!((&*back.leader, &*back.member_id), ("s", "s2"));
    assert!(back.members.is_empty() && !back.skip_assignment);
    assert_eq!(stage.group.leader.as_deref(), Some("s2"));
}

#[test]
fn a_replacement_that_cannot_be_stored_is_undone() {
    let mut stage = with_static_leader();
    stage.auto_store = false;
    let back = stage.join(fixed("i", "s2"));
    let id = stage.stores.pop().unwrap().0;
    let code = ResponseError::CoordinatorNotAvailable;
    stage.tell(Event::Stored {
        id,
        result: Err(code),
    });
    assert_eq!(stage.refused(back), code);
    assert_eq!(stage.heartbeat("s", 1), Answer::Done);
    assert_eq!(stage.group.leader.as_deref(), Some("s"));
    let part = stage.sync("s", 1, &[]);
    assert_eq!(stage.part(part), "ps");
}

#[test]
fn a_returning_static_member_that_changes_the_protocol_rebalances() {
    let mut stage = with_static_leader();
    let back = stage.join(with_protocols(fixed("i", "s2"), &["sticky"]));
    assert!(stage.waits(back));
    let d = stage.join(join_as("x-d"));
    let back = stage.joined(back);
    assert_eq!(
        (back.generation, back.protocol.as_deref()),
        (2, Some("sticky"))
    );
    stage.joined(d);
}

#[test]
fn a_static_member_returning_while_completing_rebalances() {
    let mut stage = Stage::new();
    let (s, d) = (stage.join(fixed("i", "s")), stage.join(fresh("x-d")));
    stage.settle();
    stage.joined(s);
    stage.joined(d);
    let old_sync = stage.ask(|reply| Event::Sync {
        reply,
        sync: Sync {
            member_id: "x-d".into(),
            instance_id: None,
            generation: 1,
            protocol_type: None,
            protocol: None,
            assignments: Vec::new(),
        },
    });
    let back = stage.join(fixed("i", "s2"));
    assert_eq!(stage.refused(old_sync), ResponseError::RebalanceInProgress);
    assert!(stage.waits(back));
    stage.join(join_as("x-d"));
    assert_eq!(stage.joined(back).generation, 2);
}

#[test]
fn the_parked_request_of_a_replaced_static_member_is_fenced() {
    let mut stage = with_static_leader();
    let mut join = join_as("s");
    join.instance_id = Some("i".into());
    let parked = stage.join(join);
    let back = stage.join(fixed("i", "s2"));
    assert_eq!(stage.refused(parked), ResponseError::FencedInstanceId);
    stage.join(join_as("x-d"));
    assert_eq!(stage.joined(back).generation, 2);
}

#[test]
fn commits_are_checked() {
    let unknown = Err(ResponseError::UnknownMemberId);
    let mut stage = Stage::new();
    assert_eq!(stage.group.may_commit("", None, -1, moment(0)), Ok(()));
    assert_eq!(stage.group.may_commit("a", None, 1, moment(0)), unknown);
    let a = stage.join(fresh("a"));
    stage.pass(3000);
    stage.joined(a);
    let completing = Err(ResponseError::RebalanceInProgress);
    assert_eq!(
        stage.group.may_commit("a", None, 1, moment(3000)),
        completing
    );
    let a = stage.sync("a", 1, &[]);
    stage.part(a);
    assert_eq!(stage.group.may_commit("a", None, 1, moment(3000)), Ok(()));
    let fenced = Err(ResponseError::IllegalGeneration);
    assert_eq!(stage.group.may_commit("a", None, 0, moment(3000)), fenced);
    assert_eq!(stage.group.may_commit("", None, -1, moment(3000)), unknown);
    assert_eq!(
        stage.group.may_commit("a", Some("i"), 1, moment(3000)),
        unknown
    );
    // A commit is a sign of life, and allowed while a rebalance prepares.
    stage.pass(8000);
    assert_eq!(
        stage.group.may_commit("a", None, 1, moment(stage.now)),
        Ok(())
    );
    stage.pass(8000);
    stage.join(fresh("b"));
    assert_eq!(
        stage.group.may_commit("a", None, 1, moment(stage.now)),
        Ok(())
    );
}

#[test]
fn a_group_is_deleted_only_when_empty() {
    let mut stage = Stage::new();
    stage.stable(&["a"]);
    let full = stage.ask(|reply| Event::Delete { reply });
    assert_eq!(stage.refused(full), ResponseError::NonEmptyGroup);
    stage.leave("a", None);
    let done = stage.ask(|reply| Event::Delete { reply });
    assert_eq!(stage.answer(done), Answer::Done);
    let dead = stage.join(fresh("a"));
    assert_eq!(stage.refused(dead), ResponseError::CoordinatorNotAvailable);
}

#[test]
fn a_stored_group_goes_on_where_it_was() {
    let mut stage = Stage::new();
    let generation = stage.stable(&["a", "b"]);
    let record = stage.stores.last().unwrap().1.clone();
    let mut again = Stage::new();
    again.group = Group::stored(Arc::new(config()), record, moment(0));
    assert_eq!(again.heartbeat("a", generation), Answer::Done);
    let part = again.sync("b", generation, &[]);
    assert_eq!(again.part(part), "b");
    again.pass(9999);
    again.heartbeat("a", generation);
    again.pass(1);
    assert!(again.group.member("b").is_none(), "b did not come back");
    assert!(again.group.member("a").is_some());
}
