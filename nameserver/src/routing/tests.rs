//! The table's rules, one a test.

use super::*;
use proptest::prelude::*;
use twinmq_remoting::bodies::topic::TopicConfig;

const BOUNDS: Bounds = Bounds {
    brokers_max: 10,
    topics_max: 100,
};
const SILENCE: Duration = Duration::from_secs(120);

fn topic(name: &str, queues: i32) -> (String, TopicConfig) {
    let config = TopicConfig {
        topic_name: name.into(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        ..TopicConfig::default()
    };
    (name.to_owned(), config)
}

fn registration(name: &str, id: i64, counter: i64, topics: &[(&str, i32)]) -> Registration {
    Registration {
        cluster: "c".into(),
        name: name.into(),
        addr: format!("{name}-{id}:10911"),
        id,
        ha_addr: format!("{name}-{id}:10912"),
        version: DataVersion {
            counter,
            ..DataVersion::default()
        },
        topics: topics
            .iter()
            .map(|(name, queues)| topic(name, *queues))
            .collect(),
        channel: Some(1),
        ..Registration::default()
    }
}

fn member(from: &Registration) -> Member {
    Member {
        cluster: from.cluster.clone(),
        addr: from.addr.clone(),
    }
}

struct World {
    table: Table,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            table: Table::default(),
            now: Instant::now(),
        }
    }

    fn register(&mut self, from: Registration) -> Result<Registered, RouteError> {
        self.table.register(from, self.now, SILENCE, BOUNDS)
    }

    fn queues(&self, topic: &str) -> Vec<i32> {
        let route = self.table.route(topic).unwrap_or_default();
        route
            .queue_datas
            .iter()
            .map(|queues| queues.write_queue_nums)
            .collect()
    }
}

#[test]
fn a_route_names_all_brokers_of_a_topic() {
    let mut world = World::new();
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    world
        .register(registration("b", 0, 1, &[("t", 2), ("y", 1)]))
        .unwrap();
    let route = world.table.route("t").unwrap();
    assert_eq!(world.queues("t"), [4, 2]);
    assert_eq!(route.broker_datas[1].broker_addrs[&0], "b-0:10911");
    assert_eq!(world.table.route("nothing"), None);
    assert_eq!(world.table.clusters().cluster_addr_table["c"].len(), 2);
    assert_eq!(world.table.topics_of("c").count(), 3);
    assert_eq!(world.table.topics_of("d").count(), 0);
}

#[test]
fn topics_change_only_with_the_version_and_stay_when_an_update_leaves_them_out() {
    let mut world = World::new();
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    world
        .register(registration("a", 0, 1, &[("t", 8), ("x", 1)]))
        .unwrap();
    assert_eq!(world.queues("t"), [4]);
    world
        .register(registration("a", 0, 2, &[("t", 8)]))
        .unwrap();
    assert_eq!((world.queues("t"), world.queues("x")), (vec![8], vec![1]));
    let whole = Registration {
        whole: true,
        ..registration("a", 0, 3, &[("t", 8)])
    };
    world.register(whole).unwrap();
    assert_eq!(world.table.route("x"), None);
}

#[test]
fn a_first_registration_with_one_topic_is_refused() {
    let mut world = World::new();
    let refused = world.register(registration("a", 0, 1, &[("t", 4)]));
    assert!(matches!(refused, Err(RouteError::NotWhole)));
    assert_eq!(world.table.broker_count(), 0);
    world.register(registration("a", 0, 1, &[])).unwrap();
    world
        .register(registration("a", 0, 2, &[("t", 4)]))
        .unwrap();
    assert_eq!(world.queues("t"), [4]);
}

#[test]
fn a_replica_learns_its_master_and_brings_no_topics() {
    let mut world = World::new();
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    let answer = world
        .register(registration("a", 1, 1, &[("t", 9), ("z", 1)]))
        .unwrap();
    assert_eq!(answer.master_addr.as_deref(), Some("a-0:10911"));
    assert_eq!(answer.ha_addr.as_deref(), Some("a-0:10912"));
    assert_eq!((world.queues("t"), world.queues("z")), (vec![4], vec![]));
}

#[test]
fn an_address_has_one_id_and_an_id_one_address() {
    let mut world = World::new();
    let master = registration("a", 0, 1, &[]);
    world
        .register(Registration {
            id: 3,
            ..master.clone()
        })
        .unwrap();
    world.register(master.clone()).unwrap();
    let addrs = world.table.clusters().broker_addr_table["a"]
        .broker_addrs
        .clone();
    assert_eq!(addrs, [(0, "a-0:10911".to_owned())].into());
    // A newcomer with the same id takes over, unless the holder is of a later term.
    let late = DataVersion {
        state_version: 5,
        ..DataVersion::default()
    };
    world
        .register(Registration {
            addr: "new:1".into(),
            version: late,
            ..master.clone()
        })
        .unwrap();
    world
        .register(Registration {
            addr: "old:1".into(),
            ..master
        })
        .unwrap();
    let addrs = world.table.clusters().broker_addr_table["a"]
        .broker_addrs
        .clone();
    assert_eq!(addrs, [(0, "new:1".to_owned())].into());
}

#[test]
fn a_broker_that_changes_its_name_or_cluster_leaves_nothing_behind() {
    let mut world = World::new();
    let first = registration("a", 0, 1, &[("t", 4), ("x", 1)]);
    world.register(first.clone()).unwrap();
    let renamed = Registration {
        name: "b".into(),
        ..first.clone()
    };
    world.register(renamed.clone()).unwrap();
    let info = world.table.clusters();
    assert_eq!(info.broker_addr_table.keys().collect::<Vec<_>>(), ["b"]);
    world.now += SILENCE - Duration::from_secs(1);
    world
        .register(Registration {
            cluster: "d".into(),
            ..renamed
        })
        .unwrap();
    assert!(
        world
            .table
            .expire(world.now + Duration::from_secs(5))
            .is_empty()
    );
    let info = world.table.clusters();
    assert_eq!(info.cluster_addr_table.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(world.queues("t"), [4]);
}

#[test]
fn silence_and_closed_channels_drop_a_broker_and_its_topics() {
    let mut world = World::new();
    let own = Some(Duration::from_secs(1));
    let quick = Registration {
        silence_max: own,
        ..registration("b", 0, 1, &[])
    };
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    world.register(quick).unwrap();
    assert!(
        world
            .table
            .expire(world.now + Duration::from_secs(1))
            .is_empty()
    );
    let fallen = world.table.expire(world.now + Duration::from_secs(2));
    assert_eq!(
        fallen.iter().map(|out| &out.name[..]).collect::<Vec<_>>(),
        ["b"]
    );
    let a = member(&registration("a", 0, 1, &[]));
    world
        .table
        .heartbeat(&a, world.now + Duration::from_secs(60));
    assert!(
        world
            .table
            .expire(world.now + SILENCE + Duration::from_secs(1))
            .is_empty()
    );
    assert_eq!(world.table.expire(world.now + SILENCE * 2).len(), 1);
    assert_eq!(
        (world.table.broker_count(), world.table.topic_count()),
        (0, 0)
    );
    assert!(world.table.clusters().cluster_addr_table.is_empty());
}

#[test]
fn the_end_of_an_old_connection_does_not_drop_a_fresh_registration() {
    let mut world = World::new();
    let first = registration("a", 0, 1, &[("t", 4), ("x", 1)]);
    world.register(first.clone()).unwrap();
    world
        .register(Registration {
            channel: Some(2),
            ..first
        })
        .unwrap();
    assert!(world.table.disconnected(1).is_empty());
    assert!(world.table.route("t").is_some());
    assert_eq!(world.table.disconnected(2).len(), 1);
    assert!(world.table.route("t").is_none());
}

#[test]
fn versions_are_compared_and_equal_ones_count_as_life() {
    let mut world = World::new();
    let from = registration("a", 0, 7, &[]);
    assert_eq!(
        world
            .table
            .compare(&member(&from), &from.version, world.now),
        (true, None)
    );
    world.register(from.clone()).unwrap();
    let later = world.now + Duration::from_secs(100);
    let same = world.table.compare(&member(&from), &from.version, later);
    assert_eq!(same, (false, Some(from.version)));
    let other = world
        .table
        .compare(&member(&from), &DataVersion::default(), later);
    assert_eq!(other, (true, Some(from.version)));
    assert!(
        world
            .table
            .expire(later + Duration::from_secs(119))
            .is_empty()
    );
}

#[test]
fn write_permission_goes_and_comes_back_and_is_reset_by_a_changed_version() {
    let mut world = World::new();
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    assert_eq!(world.table.set_writable("a", false), 2);
    let perm = |world: &World| world.table.route("t").unwrap().queue_datas[0].perm;
    assert_eq!(perm(&world), 4);
    assert_eq!(world.table.set_writable("a", true), 2);
    assert_eq!(perm(&world), 6);
    world.table.set_writable("a", false);
    world
        .register(registration("a", 0, 2, &[("t", 4), ("x", 1)]))
        .unwrap();
    assert_eq!(perm(&world), 6);
    assert_eq!(world.table.set_writable("nobody", false), 0);
}

#[test]
fn topics_are_deleted_everywhere_or_in_one_cluster() {
    let mut world = World::new();
    world
        .register(registration("a", 0, 1, &[("t", 4), ("x", 1)]))
        .unwrap();
    let other = Registration {
        cluster: "d".into(),
        ..registration("b", 0, 1, &[("t", 2), ("x", 1)])
    };
    world.register(other).unwrap();
    world.table.delete_topic("t", Some("d"));
    assert_eq!(world.queues("t"), [4]);
    world.table.delete_topic("x", None);
    assert_eq!(world.table.topics().collect::<Vec<_>>(), ["t"]);
    let queues = QueueData {
        broker_name: "b".into(),
        write_queue_nums: 3,
        ..QueueData::default()
    };
    let stranger = QueueData {
        broker_name: "nobody".into(),
        ..QueueData::default()
    };
    world
        .table
        .add_topic("t", vec![queues, stranger], BOUNDS)
        .unwrap();
    assert_eq!(world.queues("t"), [4, 3]);
}

#[test]
fn the_table_has_bounds() {
    let mut world = World::new();
    for name in 0..10 {
        world
            .register(registration(&format!("b{name}"), 0, 1, &[]))
            .unwrap();
    }
    let full = world.register(registration("more", 0, 1, &[]));
    assert!(matches!(
        full,
        Err(RouteError::TooMany {
            key: "brokers_max",
            ..
        })
    ));
    let topics: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let topics: Vec<(&str, i32)> = topics.iter().map(|name| (&name[..], 1)).collect();
    let full = world.register(registration("b0", 0, 2, &topics));
    assert!(matches!(
        full,
        Err(RouteError::TooMany {
            key: "topics_max",
            ..
        })
    ));
}

proptest! {
    /// Whatever happens, a route never names a broker without an address, and what is empty is gone.
    #[test]
    fn routes_are_always_whole(steps in proptest::collection::vec((0u8..6, 0u8..3, 0i64..3, 0i64..4), 0..60)) {
        let mut world = World::new();
        for (step, name, id, counter) in steps {
            let name = format!("b{name}");
            let from = Registration {
                channel: Some(u64::try_from(counter).unwrap()),
                acting_master: (counter == 2).then_some(true),
                ..registration(&name, id, counter, &[("t", 1), (&format!("own-{name}"), 1)])
            };
            match step {
                0 | 1 => { world.register(from).unwrap(); }
                2 => world.table.unregister(&member(&from), &name),
                3 => { world.table.disconnected(u64::try_from(counter).unwrap()); }
                4 => {
                    world.now += Duration::from_secs(50);
                    world.table.expire(world.now);
                }
                _ => { world.table.set_writable(&name, id == 0); }
            }
            let info = world.table.clusters();
            for topic in world.table.topics() {
                let route = world.table.route(topic).expect("every topic has a broker");
                prop_assert_eq!(route.queue_datas.len(), route.broker_datas.len());
                prop_assert!(route.broker_datas.iter().all(|broker| !broker.broker_addrs.is_empty()));
            }
            let named: usize = info.cluster_addr_table.values().map(BTreeSet::len).sum();
            prop_assert_eq!(named, info.broker_addr_table.len());
            let addresses: usize = info.broker_addr_table.values().map(|broker| broker.broker_addrs.len()).sum();
            prop_assert_eq!(addresses, world.table.live.len());
        }
    }
}
