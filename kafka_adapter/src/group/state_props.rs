//! Random events against the classic group's state machine, with the promises of [`super::state`]
//! checked after each.

use super::GroupConfig;
use super::event::{Action, Answer, Event, Join, Leaver, Moment, ReplyId, StoreId, Sync, Tick};
use super::state::{Group, State};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use twinmq_store::Timestamp;

#[derive(Clone, Debug)]
enum Step {
    Come {
        fixed: Option<u8>,
        id_required: bool,
        taste: u8,
    },
    Rejoin {
        who: u8,
        taste: u8,
    },
    Sync {
        who: u8,
        stale: bool,
    },
    Heartbeat {
        who: u8,
    },
    Leave {
        who: u8,
    },
    Commit {
        who: u8,
    },
    Store {
        fine: bool,
    },
    Pass {
        ms: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let who = any::<u8>();
    prop_oneof![
        3 => (proptest::option::of(0u8..3), any::<bool>(), 0u8..3)
            .prop_map(|(fixed, id_required, taste)| Step::Come { fixed, id_required, taste }),
        4 => (who, 0u8..3).prop_map(|(who, taste)| Step::Rejoin { who, taste }),
        5 => (who, proptest::bool::weighted(0.1)).prop_map(|(who, stale)| Step::Sync { who, stale }),
        3 => who.prop_map(|who| Step::Heartbeat { who }),
        1 => who.prop_map(|who| Step::Leave { who }),
        1 => who.prop_map(|who| Step::Commit { who }),
        3 => proptest::bool::weighted(0.9).prop_map(|fine| Step::Store { fine }),
        4 => (0u16..9000).prop_map(|ms| Step::Pass { ms }),
    ]
}

struct World {
    group: Group,
    now: u64,
    fresh: u32,
    asked: u64,
    open: BTreeSet<ReplyId>,
    known: BTreeSet<Arc<str>>,
    handed_out: Vec<Arc<str>>,
    stores: Vec<StoreId>,
    generation: i32,
}

impl World {
    fn new() -> Self {
        let config = GroupConfig {
            max_size: 6,
            pending_max: 6,
            ..GroupConfig::default()
        };
        let now = Moment::default();
        Self {
            group: Group::new(Arc::new(config), now),
            now: 0,
            fresh: 0,
            asked: 0,
            open: BTreeSet::new(),
            known: BTreeSet::new(),
            handed_out: Vec::new(),
            stores: Vec::new(),
            generation: 0,
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            tick: Tick(self.now),
            wall: Timestamp(i64::try_from(self.now).unwrap()),
        }
    }

    fn tell(&mut self, event: Event) {
        let actions = self.group.on(event, self.moment());
        for action in actions {
            match action {
                Action::Reply { to, answer } => self.answered(to, answer),
                Action::Store { id, record } => {
                    assert_eq!(record.members.len(), self.group.members().count());
                    self.stores.push(id);
                }
                Action::Changed(id) => {
                    self.known.insert(id);
                }
                Action::Gone(id) => {
                    self.known.remove(&id);
                }
            }
        }
        self.check();
    }

    fn answered(&mut self, to: ReplyId, answer: Answer) {
        assert!(
            self.open.remove(&to),
            "answered twice, or never asked: {to:?}"
        );
        match answer {
            Answer::JoinRefused {
                code: ResponseError::MemberIdRequired,
                member_id,
            } => {
                self.handed_out.push(member_id);
            }
            Answer::Joined(answer) => {
                assert!(answer.generation >= 1 && answer.generation <= self.group.generation());
                if !answer.members.is_empty() && !answer.skip_assignment {
                    assert_eq!(
                        answer.leader, answer.member_id,
                        "only the leader sees members"
                    );
                }
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        let members: BTreeSet<Arc<str>> = self.group.members().map(|m| m.id.clone()).collect();
        assert_eq!(
            members, self.known,
            "members come and go only with an action"
        );
        assert!(self.group.generation() >= self.generation);
        self.generation = self.group.generation();
        let parked = self
            .group
            .members()
            .flat_map(|member| [member.joining, member.syncing])
            .flatten();
        for reply in parked {
            assert!(self.open.contains(&reply), "parked but answered");
        }
        match self.group.state() {
            State::Empty => assert!(members.is_empty()),
            State::CompletingRebalance | State::Stable => {
                let leader = self.group.leader.as_ref().unwrap();
                assert!(members.contains(leader), "the leader is a member");
                assert!(self.group.protocol().is_some());
                let joining = self.group.members().any(|member| member.joining.is_some());
                assert!(!joining, "nobody waits to join a running generation");
            }
            State::PreparingRebalance(_) => {
                assert!(self.group.members().all(|member| member.syncing.is_none()));
            }
            State::Dead => panic!("nobody deleted it"),
        }
        if self.group.state() == State::Stable {
            assert!(self.group.members().all(|member| member.syncing.is_none()));
        }
        for (instance, id) in &self.group.instances {
            let member = self.group.member(id).expect("a static member is a member");
            assert_eq!(member.instance_id.as_ref(), Some(instance));
        }
    }

    fn ask(&mut self, event: impl FnOnce(ReplyId) -> Event) {
        self.asked += 1;
        let reply = ReplyId(self.asked);
        self.open.insert(reply);
        let event = event(reply);
        self.tell(event);
    }

    fn pick(&self, who: u8) -> Arc<str> {
        let handed = self.handed_out.iter().cloned();
        let all: Vec<_> = self.known.iter().cloned().chain(handed).collect();
        if all.is_empty() {
            return "stranger".into();
        }
        all[usize::from(who) % all.len()].clone()
    }

    fn instance_of(&self, id: &str) -> Option<Arc<str>> {
        self.group.member(id).and_then(|m| m.instance_id.clone())
    }

    fn join(
        &mut self,
        member_id: Arc<str>,
        instance_id: Option<Arc<str>>,
        required: bool,
        taste: u8,
    ) {
        self.fresh += 1;
        let names: &[&'static str] = match taste {
            0 => &["x", "y"],
            1 => &["y", "x"],
            _ => &["y"],
        };
        let join = Join {
            member_id,
            instance_id,
            fresh_id: format!("m{}", self.fresh).into(),
            id_required: required,
            can_skip_assignment: taste != 0,
            client_id: "c".into(),
            client_host: "/h".into(),
            session_timeout_ms: 6000 + 1000 * i32::from(taste),
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".into(),
            protocols: names
                .iter()
                .map(|n| (Arc::from(*n), Bytes::new()))
                .collect(),
        };
        self.ask(|reply| Event::Join { reply, join });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come {
                fixed,
                id_required,
                taste,
            } => {
                let instance = fixed.map(|number| Arc::from(format!("i{number}")));
                self.join("".into(), instance, id_required, taste);
            }
            Step::Rejoin { who, taste } => {
                let id = self.pick(who);
                let instance = self.instance_of(&id);
                self.join(id, instance, true, taste);
            }
            Step::Sync { who, stale } => {
                let member_id = self.pick(who);
                let ids = self.known.iter().cloned();
                let sync = Sync {
                    instance_id: self.instance_of(&member_id),
                    member_id,
                    generation: self.group.generation() - i32::from(stale),
                    protocol_type: None,
                    protocol: None,
                    assignments: ids.map(|id| (id, Bytes::from_static(b"part"))).collect(),
                };
                self.ask(|reply| Event::Sync { reply, sync });
            }
            Step::Heartbeat { who } => {
                let member_id = self.pick(who);
                let instance_id = self.instance_of(&member_id);
                let generation = self.group.generation();
                self.ask(|reply| Event::Heartbeat {
                    reply,
                    member_id,
                    instance_id,
                    generation,
                });
            }
            Step::Leave { who } => {
                let member_id = self.pick(who);
                let instance_id = self.instance_of(&member_id);
                let leavers = vec![Leaver {
                    member_id,
                    instance_id,
                }];
                self.ask(|reply| Event::Leave { reply, leavers });
            }
            Step::Commit { who } => {
                let id = self.pick(who);
                let now = self.moment();
                let generation = self.group.generation();
                let _ = self.group.may_commit(&id, None, generation, now);
            }
            Step::Store { fine } => self.store(fine),
            Step::Pass { ms } => self.pass(u64::from(ms)),
        }
    }

    fn store(&mut self, fine: bool) {
        if self.stores.is_empty() {
            return;
        }
        let id = self.stores.remove(0);
        let result = if fine {
            Ok(())
        } else {
            Err(ResponseError::CoordinatorNotAvailable)
        };
        self.tell(Event::Stored { id, result });
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(due) = self.group.due().filter(|due| due.0 <= end) {
            self.now = self.now.max(due.0);
            self.tell(Event::Time);
            let next = self.group.due();
            assert!(
                next.is_none_or(|next| next.0 > self.now),
                "time does not get on"
            );
        }
        self.now = end;
    }

    /// Silence from now on: everything asked must get its answer.
    fn end(&mut self) {
        for _ in 0..20 {
            while !self.stores.is_empty() {
                self.store(true);
            }
            self.pass(400_000);
        }
        assert!(self.open.is_empty(), "never answered: {:?}", self.open);
        assert!(
            self.known.is_empty(),
            "silent members are dropped: {:?}",
            self.known
        );
        assert_eq!(self.group.state(), State::Empty);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn a_group_keeps_its_promises(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.end();
    }
}
