//! The driver over a real core and log: records, reopening, the timer, deletion, expiry, native members.

use super::GroupConfig;
use super::coordinator::Coordinator;
use super::event::{Answer, Join, JoinAnswer, Leaver, Sync};
use crate::metrics::GroupMetrics;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use twinmq_core::catalog::{NewTopic, Origin, Perm, Topic};
use twinmq_core::offsets::Committed;
use twinmq_core::roster::{Member, Tongue};
use twinmq_core::{Core, CoreConfig, CoreMetrics};
use twinmq_store::{Clock, Store, StoreConfig, StoreMetrics, Timestamp};

#[derive(Debug)]
struct Watch(AtomicI64);

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

struct Broker {
    dir: TempDir,
    clock: Arc<Watch>,
    core: Core,
    groups: Arc<Coordinator>,
}

const RETENTION_MINUTES: u64 = 10;

fn config() -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: 0,
        min_session_timeout_ms: 1,
        ..GroupConfig::default()
    }
}

async fn open(dir: TempDir, clock: Arc<Watch>) -> Broker {
    let store = StoreConfig {
        file_bytes: 128 << 20,
        ..StoreConfig::default()
    };
    let shared: Arc<dyn Clock> = clock.clone();
    let store = Store::open(dir.path(), store, shared.clone(), StoreMetrics::default()).unwrap();
    let core_metrics = CoreMetrics::default();
    let core = Core::open_with(store, CoreConfig::default(), core_metrics, shared.clone());
    let core = core.await.unwrap();
    let groups = Coordinator::open(&core, config(), RETENTION_MINUTES, shared, metrics());
    Broker {
        dir,
        clock,
        core,
        groups,
    }
}

fn metrics() -> GroupMetrics {
    GroupMetrics::register(&twinmq_metrics::Registry::new()).unwrap()
}

async fn broker() -> Broker {
    let clock = Arc::new(Watch(AtomicI64::new(1_700_000_000_000)));
    open(tempfile::tempdir().unwrap(), clock).await
}

impl Broker {
    async fn reopen(self) -> Self {
        self.groups.close().await;
        self.core.close().await;
        let Self {
            dir,
            clock,
            core,
            groups,
        } = self;
        drop((core, groups));
        // The store gives its directory up when the last of its threads has ended.
        tokio::time::sleep(Duration::from_millis(200)).await;
        open(dir, clock).await
    }

    fn later(&self, minutes: u64) {
        let ms = i64::try_from(minutes * 60_000).unwrap();
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    async fn topic(&self, name: &str) -> Arc<Topic> {
        let new = NewTopic {
            name: name.to_owned(),
            origin: Origin::Kafka,
            queues: 2,
            perm: Perm(6),
            order: false,
            sys_flag: 0,
            multi_tag: false,
            attributes: BTreeMap::new(),
            settings: BTreeMap::new(),
        };
        self.core.catalog.create(new).await.unwrap()
    }

    async fn commit(&self, group: &str, topic: &Arc<Topic>, offset: i64) {
        let committed = Committed {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
            commit_time: self.clock.now(),
            expires: None,
        };
        let entries = [(Arc::clone(topic), 0, committed)];
        self.core.offsets.commit(group, &entries).await.unwrap();
    }

    async fn joined(&self, group: &str, join: Join) -> JoinAnswer {
        match self.groups.join(group, join).await {
            Answer::Joined(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// A stable group of one. Returns its member id.
    async fn stable(&self, group: &str) -> Arc<str> {
        let answer = self.joined(group, join()).await;
        let sync = Sync {
            member_id: answer.member_id.clone(),
            instance_id: None,
            generation: answer.generation,
            protocol_type: Some("consumer".into()),
            protocol: Some("range".into()),
            assignments: vec![(answer.member_id.clone(), assignment())],
        };
        let synced = self.groups.sync(group, sync).await;
        assert!(matches!(synced, Answer::Synced { assignment: part, .. } if part == assignment()));
        answer.member_id
    }

    async fn leave(&self, group: &str, member_id: &Arc<str>) {
        let leavers = vec![Leaver {
            member_id: member_id.clone(),
            instance_id: None,
        }];
        let left = self.groups.leave(group, leavers).await;
        assert_eq!(left, Ok(vec![Ok(())]));
    }

    fn native(&self, group: &str) {
        let member = Member {
            id: "native@1".into(),
            tongue: Tongue::Native,
            client_id: "native@1".into(),
            host: ([127, 0, 0, 1], 9).into(),
            topics: vec!["t".into()],
            held: vec![("t".into(), 1)],
        };
        self.core.roster.put(group, member);
    }
}

fn subscription() -> Bytes {
    Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff")
}

fn assignment() -> Bytes {
    Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\xff\xff\xff\xff")
}

fn join() -> Join {
    Join {
        member_id: "".into(),
        instance_id: None,
        fresh_id: Coordinator::fresh_id("client"),
        id_required: false,
        can_skip_assignment: true,
        client_id: "client".into(),
        client_host: "/10.1.2.3".into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), subscription())],
    }
}

#[tokio::test]
async fn a_group_survives_reopening_and_shows_in_the_roster() {
    let broker = broker().await;
    let id = broker.stable("g").await;
    let broker = broker.reopen().await;
    assert_eq!(
        broker.groups.heartbeat("g", id.clone(), None, 1).await,
        Ok(())
    );
    let members = broker.core.roster.members("g");
    assert_eq!(members.len(), 1);
    assert_eq!(
        (members[0].id.clone(), members[0].tongue),
        (id.clone(), Tongue::Kafka)
    );
    assert_eq!(members[0].topics, vec!["t".into()]);
    assert_eq!(members[0].held, vec![("t".into(), 0)]);
    assert_eq!(members[0].host.ip().to_string(), "10.1.2.3");
    let metrics = broker.groups.metrics.clone();
    assert_eq!((metrics.groups.get(), metrics.members.get()), (1, 1));
    broker.leave("g", &id).await;
    assert_eq!((metrics.members.get(), metrics.rebalances.get()), (0, 1));
    assert!(broker.core.roster.members("g").is_empty());
    let broker = broker.reopen().await;
    assert_eq!(broker.groups.describe("g").unwrap().state, "Empty");
    let again = broker.joined("g", join()).await;
    assert!(
        again.generation > 2,
        "generations go on: {}",
        again.generation
    );
}

#[tokio::test]
async fn one_timer_drops_the_silent_and_forgets_blank_groups() {
    let broker = broker().await;
    let mut short = join();
    short.session_timeout_ms = 50;
    short.id_required = true;
    let refused = broker.groups.join("blank", short.clone()).await;
    assert!(matches!(
        refused,
        Answer::JoinRefused {
            code: ResponseError::MemberIdRequired,
            ..
        }
    ));
    assert!(broker.groups.slot("blank").is_some());
    short.id_required = false;
    let member = broker.joined("g", short).await;
    for _ in 0..100 {
        let state = broker.groups.describe("g").unwrap().state;
        if broker.groups.slot("blank").is_none() && state == "Empty" {
            let beat = broker
                .groups
                .heartbeat("g", member.member_id.clone(), None, 1)
                .await;
            assert_eq!(beat, Err(ResponseError::UnknownMemberId));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never dropped");
}

#[tokio::test]
async fn a_client_that_goes_away_while_parked_does_no_harm() {
    let broker = broker().await;
    let id = broker.stable("g").await;
    let mut second = join();
    second.fresh_id = "second".into();
    let parked = broker.groups.join("g", second.clone());
    assert!(
        tokio::time::timeout(Duration::from_millis(50), parked)
            .await
            .is_err()
    );
    let beat = broker.groups.heartbeat("g", id.clone(), None, 1).await;
    assert_eq!(beat, Err(ResponseError::RebalanceInProgress));
    let mut again = join();
    again.member_id = id;
    assert_eq!(broker.joined("g", again).await.members.len(), 2);
    second.member_id = "second".into();
    let second = broker.joined("g", second).await;
    assert_eq!(second.generation, 2, "its answer was lost and is repeated");
}

#[tokio::test]
async fn deletion_needs_a_known_group_without_members_of_either_kind() {
    let broker = broker().await;
    let topic = broker.topic("t").await;
    let missing = broker.groups.delete("nobody").await;
    assert_eq!(missing, Err(ResponseError::GroupIdNotFound));
    let id = broker.stable("g").await;
    assert_eq!(
        broker.groups.delete("g").await,
        Err(ResponseError::NonEmptyGroup)
    );
    broker.leave("g", &id).await;
    broker.commit("g", &topic, 5).await;
    assert_eq!(broker.groups.delete("g").await, Ok(()));
    assert!(broker.core.offsets.get("g", &topic, 0).is_none());
    assert!(broker.groups.describe("g").is_none());
    broker.commit("simple", &topic, 5).await;
    assert_eq!(broker.groups.delete("simple").await, Ok(()));
    broker.commit("native", &topic, 5).await;
    broker.native("native");
    assert_eq!(
        broker.groups.delete("native").await,
        Err(ResponseError::NonEmptyGroup)
    );
    let broker = broker.reopen().await;
    assert!(
        broker.groups.describe("g").is_none(),
        "its record is gone too"
    );
    assert!(broker.groups.describe("native").is_some());
}

#[tokio::test]
async fn native_consumers_are_listed_and_described() {
    let broker = broker().await;
    let topic = broker.topic("t").await;
    broker.commit("only-offsets", &topic, 1).await;
    broker.native("rocket");
    let listed = broker.groups.list();
    let listed: Vec<_> = listed
        .iter()
        .map(|group| (&*group.name, &*group.protocol_type, group.state))
        .collect();
    assert_eq!(
        listed,
        [
            ("only-offsets", "", "Empty"),
            ("rocket", "consumer", "Stable")
        ]
    );
    let rocket = broker.groups.describe("rocket").unwrap();
    assert_eq!(
        (rocket.members.len(), &*rocket.members[0].member_id),
        (1, "native@1")
    );
    // Kafka clients may commit for it, and an OffsetDelete of what it reads is refused.
    let may = broker
        .groups
        .may_commit("rocket", "", None, -1, ResponseError::IllegalGeneration);
    assert_eq!(may, Ok(()));
    assert!(broker.groups.subscribed("rocket").unwrap().contains("t"));
    assert!(
        !broker
            .groups
            .subscribed("only-offsets")
            .unwrap()
            .contains("t")
    );
    let unknown = broker.groups.subscribed("nobody");
    assert_eq!(unknown, Err(ResponseError::GroupIdNotFound));
}

#[tokio::test]
async fn offsets_expire_when_their_group_is_empty_for_long_unless_rocketmq_defines_it() {
    let broker = broker().await;
    let topic = broker.topic("t").await;
    let defined = twinmq_core::groups::Group {
        group_name: "defined".to_owned(),
        ..Default::default()
    };
    broker.core.groups.put(defined).await.unwrap();
    let id = broker.stable("g").await;
    for group in ["g", "simple", "defined"] {
        broker.commit(group, &topic, 1).await;
    }
    broker.later(RETENTION_MINUTES * 2);
    broker.leave("g", &id).await;
    broker.groups.written_out("g").await;
    broker.groups.expire().await;
    let kept = |group: &str| broker.core.offsets.get(group, &topic, 0).is_some();
    assert!(kept("g"), "became empty only now");
    assert!(!kept("simple"));
    broker.later(RETENTION_MINUTES);
    broker.groups.expire().await;
    assert!(!kept("g") && kept("defined"));
    assert!(broker.groups.describe("g").is_none());
}

#[tokio::test]
async fn groups_are_limited() {
    let clock = Arc::new(Watch(AtomicI64::new(1)));
    let broker = open(tempfile::tempdir().unwrap(), clock).await;
    let config = GroupConfig {
        groups_max: 1,
        ..config()
    };
    let shared: Arc<dyn Clock> = broker.clock.clone();
    let groups = Coordinator::open(&broker.core, config, RETENTION_MINUTES, shared, metrics());
    assert!(matches!(groups.join("a", join()).await, Answer::Joined(_)));
    let refused = groups.join("b", join()).await;
    assert!(matches!(
        refused,
        Answer::JoinRefused {
            code: ResponseError::CoordinatorNotAvailable,
            ..
        }
    ));
    let empty = groups.join("", join()).await;
    assert!(matches!(
        empty,
        Answer::JoinRefused {
            code: ResponseError::InvalidGroupId,
            ..
        }
    ));
}

/// What a join costs must not grow with what all other members said of themselves.
#[tokio::test]
async fn thousands_join_one_group_in_seconds() {
    const CROWD: usize = 3000;
    let broker = broker().await;
    let mut topics = vec![0_u8, 0, 0, 0, 0, 50];
    for place in 0..50 {
        topics.extend([0, 8]);
        topics.extend(format!("topic-{place:02}").as_bytes());
    }
    topics.extend([0xff; 4]);
    let topics = Bytes::from(topics);
    for place in 0..CROWD {
        let groups = Arc::clone(&broker.groups);
        let mut join = join();
        join.protocols = vec![("range".into(), topics.clone())];
        tokio::spawn(async move { groups.join("g", join).await });
        if place % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let all = async {
        while broker.core.roster.members("g").len() < CROWD {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let there = tokio::time::timeout(Duration::from_secs(20), all).await;
    assert!(there.is_ok(), "they are still joining after 20 s");
}
