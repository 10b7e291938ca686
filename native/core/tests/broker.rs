//! The core on a real store in a temporary directory: what survives reopening, what crosses.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::catalog::{CatalogError, NewTopic, Origin, Perm, Topic, TopicChange, system};
use twinmq_core::consume::{Batches, Filter, Messages, Portion};
use twinmq_core::groups::Group;
use twinmq_core::offsets::Committed;
use twinmq_core::produce::{BatchIn, MessageIn, ProduceError};
use twinmq_core::retry::SendBack;
use twinmq_core::{Core, CoreConfig};
use twinmq_records::batch::{self, Writer};
use twinmq_records::compression::Codec;
use twinmq_records::message::{self, MessageView};
use twinmq_store::{
    Address, Clock, Draft, Flags, Kind, OpenError, Producer, QueueNumber, QueueOffset, Store,
    StoreConfig, StoreMetrics, Timestamp, Upto, WallClock,
};

const PORTION: Portion = Portion {
    messages: 1000,
    bytes: 1 << 20,
    message_bytes: u32::MAX,
};

fn store(dir: &Path) -> Store {
    let config = StoreConfig {
        file_bytes: 16 << 20,
        run_bytes_max: 4 << 20,
        ..StoreConfig::default()
    };
    // Tasks that were not awaited may hold the last one for a moment.
    for _ in 0..200 {
        let clock = Arc::new(WallClock);
        match Store::open(dir, config.clone(), clock, StoreMetrics::default()) {
            Err(OpenError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened.expect("opens"),
        }
    }
    panic!("the store stays locked");
}

fn config() -> CoreConfig {
    CoreConfig {
        message_delay_level: "1s 1s 1s 1s".to_owned(),
        commit_linger_ms: 20,
        ..CoreConfig::default()
    }
}

struct Node {
    store: Store,
    core: Core,
}

impl Node {
    async fn open(dir: &Path) -> Self {
        let store = store(dir);
        let core = Core::open(store.clone(), config()).await.expect("opens");
        Self { store, core }
    }

    async fn close(self) {
        self.core.close().await;
        let store = self.store;
        drop(self.core);
        tokio::task::spawn_blocking(move || store.close())
            .await
            .expect("closes");
    }

    /// As close as a test in one process comes to kill -9: no snapshots, nothing that lingers.
    async fn vanish(self) {
        let closing = self.store.clone();
        tokio::task::spawn_blocking(move || closing.close())
            .await
            .expect("closes");
    }

    async fn topic(&self, name: &str, origin: Origin, queues: u32) -> Arc<Topic> {
        self.core
            .catalog
            .create(new(name, origin, queues))
            .await
            .expect("creates")
    }

    async fn send(&self, topic: &Arc<Topic>, queue: u32, messages: &[MessageIn]) -> Vec<u64> {
        let sent = self
            .core
            .producing
            .messages(topic, queue, messages)
            .await
            .expect("stores");
        sent.iter().map(|out| out.offset.0).collect()
    }

    async fn produce(
        &self,
        topic: &Arc<Topic>,
        queue: u32,
        batch: Bytes,
    ) -> Result<u64, ProduceError> {
        let batch = BatchIn {
            topic: Arc::clone(topic),
            queue,
            batch,
        };
        let mut results = self.core.producing.batches(&[batch]).await;
        results.remove(0).map(|out| out.base.0)
    }

    async fn pull(&self, topic: &Topic, queue: u32, from: u64, filter: &Filter) -> Messages {
        let from = QueueOffset(from);
        let read = self
            .core
            .consuming
            .messages(topic, queue, from, PORTION, filter);
        read.await.expect("reads")
    }

    async fn fetch(&self, topic: &Topic, queue: u32, from: u64) -> Batches {
        let from = QueueOffset(from);
        let read = self
            .core
            .consuming
            .batches(topic, queue, from, 1 << 20, true, false);
        read.await.expect("reads")
    }

    async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        for _ in 0..400 {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no {what} within 4 s");
    }
}

fn new(name: &str, origin: Origin, queues: u32) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        origin,
        queues,
        perm: Perm(6),
        order: false,
        sys_flag: 0,
        multi_tag: false,
        attributes: BTreeMap::new(),
        settings: BTreeMap::new(),
    }
}

fn text(body: &str, properties: &[(&str, &str)]) -> MessageIn {
    let mut all = String::new();
    for (name, value) in properties {
        all.push_str(&format!("{name}\u{1}{value}\u{2}"));
    }
    MessageIn {
        flag: 0,
        sys_flag: 0,
        born_time: 1_700_000_000_000,
        born_host: ([127, 0, 0, 1], 5000).into(),
        reconsume_times: 0,
        properties: Bytes::from(all),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

/// Key, value, headers.
type Text<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn batch_of(records: &[Text<'_>]) -> Bytes {
    let mut writer = Writer::new(0, -1);
    for (key, value, headers) in records {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())))
            .collect();
        let time = Timestamp::UNKNOWN.0;
        let pushed = writer.push(time, Some(key.as_bytes()), Some(value.as_bytes()), &headers);
        pushed.expect("fits");
    }
    writer.finish()
}

/// (offset, body, topic) of each message.
fn seen(messages: &Messages) -> Vec<(i64, String)> {
    let all = messages
        .chunks
        .iter()
        .flat_map(|chunk| message::iter(chunk));
    all.map(|view| {
        let view = view.expect("sound");
        let body = String::from_utf8_lossy(view.body).into_owned();
        (view.queue_offset, body)
    })
    .collect()
}

fn records(batches: &Batches) -> Vec<(i64, Option<String>, String)> {
    let mut all = Vec::new();
    for chunk in &batches.chunks {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let header = batch::Header::decode(rest).expect("a batch");
            assert!(batch::crc_is_right(&rest[..header.size()]));
            let opened = batch::open(rest, 1 << 20).expect("opens");
            for record in opened.records() {
                let record = record.expect("sound");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                all.push((
                    header.base_offset + i64::from(record.offset_delta),
                    record.key.map(text),
                    record.value.map(text).unwrap_or_default(),
                ));
            }
            rest = &rest[header.size()..];
        }
    }
    all
}

fn committed(offset: i64) -> Committed {
    Committed {
        offset,
        leader_epoch: 1,
        metadata: "here".to_owned(),
        commit_time: Timestamp(1),
        expires: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn system_topics_are_there_from_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let catalog = &node.core.catalog;
    let offsets = catalog.by_kafka(system::OFFSETS_TOPIC).expect("there");
    assert_eq!(offsets.queues.len(), 50);
    assert!(offsets.resolved.compact && !offsets.perm.write());
    assert_eq!(catalog.by_native("TBW102").expect("there").perm, Perm(7));
    assert!(catalog.by_kafka("TBW102").is_none());
    assert!(catalog.by_kafka(system::HALF_TOPIC).is_none());
    let refused = catalog.create(new("TBW102", Origin::Kafka, 1)).await;
    assert!(matches!(
        refused,
        Err(CatalogError::Reserved(_) | CatalogError::Exists(_))
    ));
    let refused = catalog
        .create(new("__consumer_offsets", Origin::Native, 1))
        .await;
    assert!(matches!(
        refused,
        Err(CatalogError::Exists(_) | CatalogError::Reserved(_))
    ));
    let refused = catalog.create(new("a b", Origin::Kafka, 1)).await;
    assert!(matches!(refused, Err(CatalogError::InvalidName { .. })));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cross_and_those_that_differ_only_in_dots_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let dotted = node.topic("a.b", Origin::Kafka, 1).await;
    assert_eq!(dotted.native.as_deref(), Some("a%2Eb"));
    let retry = node.topic("%RETRY%g", Origin::Native, 1).await;
    assert_eq!(retry.kafka.as_deref(), Some("RETRY-g"));
    let refused = node.core.catalog.create(new("a_b", Origin::Kafka, 1)).await;
    assert!(matches!(refused, Err(CatalogError::InvalidName { .. })));
    let refused = node
        .core
        .catalog
        .create(new("RETRY-g", Origin::Kafka, 1))
        .await;
    assert!(matches!(refused, Err(CatalogError::Exists(_))));
    let refused = node
        .core
        .catalog
        .create(new("a%2Eb", Origin::Native, 1))
        .await;
    assert!(matches!(refused, Err(CatalogError::Exists(_))));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_topic_is_a_new_one_and_inherits_no_progress() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let old = node.topic("orders", Origin::Kafka, 2).await;
    node.send(&old, 0, &[text("a", &[]), text("b", &[])]).await;
    let entries = [(Arc::clone(&old), 0, committed(2))];
    node.core
        .offsets
        .commit("g", &entries)
        .await
        .expect("commits");
    node.core.offsets.commit_later("h", &old, 1, 7);
    node.core.catalog.delete("orders").await.expect("deletes");
    assert!(node.core.catalog.by_kafka("orders").is_none());
    assert!(node.core.catalog.by_id(old.id).is_none());
    let young = node.topic("orders", Origin::Kafka, 2).await;
    assert_ne!(young.id, old.id);
    assert!(young.queues.iter().all(|queue| !old.queues.contains(queue)));
    assert_eq!(node.core.offsets.get("g", &young, 0), None);
    assert_eq!(node.core.offsets.get("h", &young, 1), None);
    // A commit that was on its way for the old topic does not reach the new one.
    node.core
        .offsets
        .commit("g", &entries)
        .await
        .expect("is left out");
    node.core.offsets.commit_later("h", &old, 1, 9);
    assert_eq!(node.core.offsets.get("g", &young, 0), None);
    assert_eq!(node.core.offsets.get("h", &young, 1), None);
    assert_eq!(node.send(&young, 0, &[text("c", &[])]).await, [0]);
    node.vanish().await;

    let node = Node::open(dir.path()).await;
    let again = node.core.catalog.by_kafka("orders").expect("there");
    assert_eq!((again.id, &again.queues), (young.id, &young.queues));
    assert_eq!(node.core.offsets.get("g", &again, 0), None);
    let next = node.topic("later", Origin::Kafka, 1).await;
    assert!(next.queues[0] > *young.queues.last().expect("two queues"));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_grow_and_settings_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Native, 2).await;
    let change = TopicChange {
        write_queues: Some(4),
        read_queues: Some(4),
        settings: Some(BTreeMap::from([(
            "retention.ms".to_owned(),
            "1000".to_owned(),
        )])),
        ..TopicChange::default()
    };
    let grown = node
        .core
        .catalog
        .change("t", change)
        .await
        .expect("changes");
    assert_eq!(grown.queues.len(), 4);
    assert_eq!(grown.queues[..2], topic.queues[..]);
    assert_eq!(grown.resolved.retention_ms, Some(1000));
    let shrink = TopicChange {
        write_queues: Some(1),
        ..TopicChange::default()
    };
    let shrunk = node
        .core
        .catalog
        .change("t", shrink)
        .await
        .expect("changes");
    assert_eq!((shrunk.queues.len(), shrunk.write_queues), (4, 1));
    let refused = node
        .core
        .producing
        .messages(&shrunk, 1, &[text("x", &[])])
        .await;
    assert!(matches!(refused, Err(ProduceError::NotWritable(_))));
    let refused = node
        .core
        .producing
        .messages(&shrunk, 4, &[text("x", &[])])
        .await;
    assert!(matches!(refused, Err(ProduceError::NoSuchQueue(4))));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_and_groups_survive_with_and_without_a_snapshot() {
    for snapshot in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let node = Node::open(dir.path()).await;
        let topic = node.topic("t", Origin::Kafka, 3).await;
        let entries = [
            (Arc::clone(&topic), 0, committed(5)),
            (Arc::clone(&topic), 1, committed(6)),
        ];
        node.core
            .offsets
            .commit("g", &entries)
            .await
            .expect("commits");
        node.core
            .offsets
            .remove("g", &[(Arc::clone(&topic), 1)])
            .await
            .expect("removes");
        let record = Bytes::from_static(b"\x00\x03record");
        node.core
            .offsets
            .put_group_record("g", Some(record.clone()))
            .await
            .expect("stores");
        node.core.offsets.commit_later("native", &topic, 2, 42);
        let group = Group {
            group_name: "native".to_owned(),
            retry_max_times: 3,
            ..Group::default()
        };
        node.core.groups.put(group).await.expect("stores");
        assert_eq!(
            node.core
                .offsets
                .get("native", &topic, 2)
                .expect("at once")
                .offset,
            42
        );
        let lag = |node: &Node| {
            let partition = twinmq_core::offsets::partition_of("native");
            let offsets = node
                .core
                .catalog
                .by_kafka(system::OFFSETS_TOPIC)
                .expect("there");
            node.core.consuming.ends(&offsets, partition, false).end.0
        };
        let before = lag(&node);
        node.until("lingering commit", async || {
            (lag(&node) > before || before > 0).then_some(())
        })
        .await;
        // The same value again costs nothing.
        let written = lag(&node);
        node.core.offsets.commit_later("native", &topic, 2, 42);
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(lag(&node), written);
        if snapshot {
            node.close().await;
        } else {
            node.vanish().await;
        }

        let node = Node::open(dir.path()).await;
        for machine in ["catalog", "offsets"] {
            assert_eq!(
                node.store.snapshot(machine).is_some(),
                snapshot,
                "{machine}"
            );
        }
        let topic = node.core.catalog.by_kafka("t").expect("there");
        assert_eq!(
            node.core.offsets.get("g", &topic, 0),
            Some(committed(5)),
            "{snapshot}"
        );
        assert_eq!(node.core.offsets.get("g", &topic, 1), None);
        assert_eq!(
            node.core
                .offsets
                .get("native", &topic, 2)
                .expect("kept")
                .offset,
            42
        );
        assert_eq!(node.core.offsets.group_records(), [("g".into(), record)]);
        assert_eq!(
            node.core
                .groups
                .get("native")
                .expect("kept")
                .retry_max_times,
            3
        );
        let names: Vec<_> = node
            .core
            .offsets
            .groups()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["g", "native"]);
        node.core.offsets.remove_group("g").await.expect("removes");
        assert!(node.core.offsets.of_group("g").is_empty());
        assert!(node.core.offsets.group_records().is_empty());
        node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_side_wrote_the_other_reads_at_the_same_offsets() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    let first = node
        .send(&topic, 0, &[text("m0", &[("KEYS", "k0")]), text("m1", &[])])
        .await;
    assert_eq!(first, [0, 1]);
    let batch = batch_of(&[
        ("k2", "b2", &[("TAGS", "red")]),
        ("k3", "b3", &[("TAGS", "blue"), ("color", "x")]),
        ("k4", "b4", &[]),
    ]);
    assert_eq!(node.produce(&topic, 0, batch).await.expect("stores"), 2);
    assert_eq!(
        node.send(&topic, 0, &[text("m5", &[("TAGS", "red")])])
            .await,
        [5]
    );

    for _ in 0..2 {
        let pulled = node.pull(&topic, 0, 0, &Filter::All).await;
        let want = ["m0", "m1", "b2", "b3", "b4", "m5"];
        let want: Vec<_> = (0..).zip(want.map(str::to_owned)).collect();
        assert_eq!(seen(&pulled), want);
        assert_eq!((pulled.count, pulled.next.0, pulled.end.0), (6, 6, 6));
        let fetched = node.fetch(&topic, 0, 0).await;
        let want = [
            (0, Some("k0"), "m0"),
            (1, None, "m1"),
            (2, Some("k2"), "b2"),
            (3, Some("k3"), "b3"),
            (4, Some("k4"), "b4"),
            (5, None, "m5"),
        ];
        let got = records(&fetched);
        let got: Vec<_> = got
            .iter()
            .map(|(at, k, v)| (*at, k.as_deref(), &v[..]))
            .collect();
        assert_eq!(got, want);
        assert_eq!(fetched.next.0, 6);
    }
    // From the middle of a batch; a native reader gets exactly what it asked for.
    assert_eq!(
        seen(&node.pull(&topic, 0, 3, &Filter::All).await)[0].1,
        "b3"
    );
    assert_eq!(
        records(&node.fetch(&topic, 0, 3).await)[0].2,
        "b2",
        "the whole batch"
    );
    let two = Portion {
        messages: 2,
        ..PORTION
    };
    let some = node
        .core
        .consuming
        .messages(&topic, 0, QueueOffset(1), two, &Filter::All);
    let some = some.await.expect("reads");
    assert_eq!((seen(&some).len(), some.next.0), (2, 3));
    let red = node
        .pull(&topic, 0, 0, &Filter::Tags(vec![message::java_hash("red")]))
        .await;
    let bodies: Vec<_> = seen(&red).into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, ["b2", "m5"]);
    assert_eq!(red.next.0, 6);
    let none = node.pull(&topic, 0, 0, &Filter::Tags(vec![1])).await;
    assert_eq!((none.count, none.next.0), (0, 6));
    // By address.
    let pulled = node.pull(&topic, 0, 4, &Filter::All).await;
    let view = MessageView::parse(&pulled.chunks[0]).expect("sound");
    let address = Address(u64::try_from(view.physic_offset).expect("positive"));
    let alone = node
        .core
        .consuming
        .message_at(address)
        .await
        .expect("reads");
    assert_eq!(MessageView::parse(&alone).expect("sound").body, b"b4");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_rules_are_held_against_batches() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let set = |name: &str, settings: &[(&str, &str)]| {
        let mut topic = new(name, Origin::Kafka, 1);
        for (key, value) in settings {
            topic
                .settings
                .insert((*key).to_owned(), (*value).to_owned());
        }
        topic
    };
    let create = async |topic| node.core.catalog.create(topic).await.expect("creates");
    let small = create(set("small", &[("max.message.bytes", "100")])).await;
    let large = batch_of(&[("k", &"x".repeat(200), &[])]);
    let refused = node.produce(&small, 0, large.clone()).await;
    assert!(matches!(
        refused,
        Err(ProduceError::TooLarge { max: 100, .. })
    ));
    let stamped = create(set(
        "stamped",
        &[("message.timestamp.type", "LogAppendTime")],
    ))
    .await;
    node.produce(&stamped, 0, large.clone())
        .await
        .expect("stores");
    let fetched = node.fetch(&stamped, 0, 0).await;
    let header = batch::Header::decode(&fetched.chunks[0]).expect("a batch");
    assert!(header.has(batch::LOG_APPEND_TIME) && batch::crc_is_right(&fetched.chunks[0]));
    assert!(header.max_timestamp > 1_700_000_000_000);
    let compact = create(set("compact", &[("cleanup.policy", "compact")])).await;
    let mut keyless = Writer::new(0, -1);
    keyless.push(-1, Some(b"k"), Some(b"v"), &[]).expect("fits");
    keyless.push(-1, None, Some(b"v"), &[]).expect("fits");
    let refused = node.produce(&compact, 0, keyless.finish()).await;
    assert!(matches!(refused, Err(ProduceError::NoKey { record: 1 })));
    let plain = create(set("plain", &[])).await;
    let mut late = Writer::new(0, -1);
    late.push(-1, None, Some(b"v"), &[]).expect("fits");
    late.push(i64::MAX / 2, None, Some(b"v"), &[])
        .expect("fits");
    let refused = node.produce(&plain, 0, late.finish()).await;
    assert!(
        matches!(
            refused,
            Err(ProduceError::InvalidTimestamp { record: 1, .. })
        ),
        "{refused:?}"
    );
    let mut damaged = large.to_vec();
    *damaged.last_mut().expect("long") ^= 1;
    let refused = node.produce(&plain, 0, damaged.into()).await;
    assert!(matches!(refused, Err(ProduceError::Batch(_))));
    let offsets = node
        .core
        .catalog
        .by_kafka(system::OFFSETS_TOPIC)
        .expect("there");
    let refused = node.produce(&offsets, 0, large).await;
    assert!(matches!(refused, Err(ProduceError::NotWritable(_))));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_comes_once_even_after_reopening() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Native, 2).await;
    node.send(
        &topic,
        1,
        &[text("early", &[("DELAY", "1"), ("TAGS", "a")])],
    )
    .await;
    assert_eq!(node.pull(&topic, 1, 0, &Filter::All).await.count, 0);
    let got = node
        .until("delivery", async || {
            let pulled = node.pull(&topic, 1, 0, &Filter::All).await;
            (pulled.count > 0).then_some(pulled)
        })
        .await;
    assert_eq!(seen(&got), [(0, "early".to_owned())]);
    let view = MessageView::parse(&got.chunks[0]).expect("sound");
    assert_eq!((view.topic, view.queue_id), ("t", 1));
    assert_eq!(view.properties().get("REAL_TOPIC"), Some("t"));
    assert_eq!(view.properties().get("DELAY"), Some("1"));
    let tagged = node.pull(&topic, 1, 0, &Filter::Tags(vec![97])).await;
    assert_eq!(tagged.count, 1);
    node.send(&topic, 0, &[text("later", &[("DELAY", "99")])])
        .await;
    node.vanish().await;

    let node = Node::open(dir.path()).await;
    let topic = node.core.catalog.by_native("t").expect("there");
    node.until("delivery", async || {
        (node.pull(&topic, 0, 0, &Filter::All).await.count > 0).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        seen(&node.pull(&topic, 0, 0, &Filter::All).await),
        [(0, "later".to_owned())]
    );
    assert_eq!(
        seen(&node.pull(&topic, 1, 0, &Filter::All).await),
        [(0, "early".to_owned())]
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_message_is_retried_and_ends_among_the_dead_letters() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    node.produce(&topic, 0, batch_of(&[("k", "v", &[("h", "x")])]))
        .await
        .expect("stores");
    let group = Group {
        group_name: "g".to_owned(),
        retry_max_times: 1,
        ..Group::default()
    };
    node.core.groups.put(group).await.expect("stores");
    let back = async |chunk: &Bytes| {
        let view = MessageView::parse(chunk).expect("sound");
        let back = SendBack {
            group: "g".to_owned(),
            address: Address(u64::try_from(view.physic_offset).expect("positive")),
            delay_level: 0,
            max_reconsume_times: None,
        };
        node.core
            .retry
            .send_back(back)
            .await
            .expect("takes it back");
    };
    let pulled = node.pull(&topic, 0, 0, &Filter::All).await;
    back(&pulled.chunks[0]).await;
    let retry = node.core.catalog.by_native("%RETRY%g").expect("created");
    let again = node
        .until("retry", async || {
            let pulled = node.pull(&retry, 0, 0, &Filter::All).await;
            (pulled.count > 0).then_some(pulled)
        })
        .await;
    let view = MessageView::parse(&again.chunks[0]).expect("sound");
    assert_eq!((view.body, view.reconsume_times), (&b"v"[..], 1));
    assert_eq!(view.properties().get("RETRY_TOPIC"), Some("t"));
    assert_eq!(view.properties().get("DELAY"), Some("3"));
    let origin = view
        .properties()
        .get("ORIGIN_MESSAGE_ID")
        .expect("set")
        .to_owned();
    back(&again.chunks[0]).await;
    let dead = node
        .core
        .catalog
        .by_kafka("DLQ-g")
        .expect("created, and visible to Kafka");
    let dead = node.pull(&dead, 0, 0, &Filter::All).await;
    let view = MessageView::parse(&dead.chunks[0]).expect("at once");
    assert_eq!((view.body, view.reconsume_times), (&b"v"[..], 2));
    assert_eq!(
        view.properties().get("ORIGIN_MESSAGE_ID"),
        Some(&origin[..])
    );
    let gone = SendBack {
        group: "g".to_owned(),
        address: Address(1 << 40),
        delay_level: 0,
        max_reconsume_times: None,
    };
    assert!(node.core.retry.send_back(gone).await.is_err());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_room_for_a_retry_is_a_dead_letter() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Native, 1).await;
    let group = Group {
        group_name: "g".to_owned(),
        ..Group::default()
    };
    node.core.groups.put(group).await.expect("stores");
    // Properties of so many bytes, and which of what the broker adds is there afterwards.
    let cases = [
        (32_000, "%RETRY%g", true, true),
        (32_690, "%RETRY%g", true, false),
        (32_740, "%DLQ%g", true, false),
        (32_767, "%DLQ%g", false, false),
    ];
    for (bytes, to, retry_topic, id) in cases {
        let filler = "x".repeat(bytes - "filler\u{1}\u{2}".len());
        let messages = [text(to, &[("filler", &filler)])];
        assert_eq!(messages[0].properties.len(), bytes);
        let sent = node.core.producing.messages(&topic, 0, &messages);
        let sent = sent.await.expect("stores");
        let back = SendBack {
            group: "g".to_owned(),
            address: sent[0].address,
            delay_level: 1,
            max_reconsume_times: None,
        };
        node.core.retry.send_back(back).await.expect("takes it");
        let returned = node
            .until("the message", async || {
                let topic = node.core.catalog.by_native(to)?;
                let all = node.pull(&topic, 0, 0, &Filter::All).await.chunks;
                let mut views = all.iter().flat_map(|chunk| message::iter(chunk));
                views.find_map(|view| {
                    let view = view.expect("sound");
                    let same = view.properties().get("filler") == Some(&filler);
                    same.then(|| {
                        assert_eq!(view.reconsume_times, 1);
                        let has = |name| view.properties().get(name).is_some();
                        (has("RETRY_TOPIC"), has("ORIGIN_MESSAGE_ID"))
                    })
                })
            })
            .await;
        assert_eq!(returned, (retry_topic, id), "{bytes} bytes");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_searches_by_record_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    for times in [[100, 300], [200, 400]] {
        let mut writer = Writer::new(0, -1);
        for time in times {
            writer.push(time, None, Some(b"v"), &[]).expect("fits");
        }
        node.produce(&topic, 0, writer.finish())
            .await
            .expect("stores");
    }
    let at = async |time| {
        let consuming = &node.core.consuming;
        let found = consuming
            .offset_by_record_time(&topic, 0, Timestamp(time), false)
            .await;
        found
            .expect("reads")
            .map(|(offset, time, _)| (offset.0, time.0))
    };
    assert_eq!(at(0).await, Some((0, 100)));
    assert_eq!(at(150).await, Some((1, 300)));
    assert_eq!(at(301).await, Some((3, 400)));
    assert_eq!(at(401).await, None);
    let latest = node
        .core
        .consuming
        .latest_record(&topic, 0)
        .await
        .expect("reads");
    assert_eq!(
        latest.map(|(offset, time, _)| (offset.0, time.0)),
        Some((3, 400))
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_is_told_in_records_and_seconds() {
    let dir = tempfile::tempdir().expect("a directory");
    let registry = twinmq_metrics::Registry::new();
    let metrics = twinmq_core::CoreMetrics::register(&registry).expect("registers");
    let store = store(dir.path());
    let core = Core::open_with(store.clone(), config(), metrics, Arc::new(WallClock));
    let node = Node {
        core: core.await.expect("opens"),
        store,
    };
    let topic = node.topic("t", Origin::Kafka, 1).await;
    node.send(&topic, 0, &[text("a", &[]), text("b", &[]), text("c", &[])])
        .await;
    let entries = [(Arc::clone(&topic), 0, committed(1))];
    node.core
        .offsets
        .commit("g", &entries)
        .await
        .expect("commits");
    let text = registry.text();
    for line in [
        "twinmq_core_group_lag_records{group=\"g\",topic=\"t\"} 2",
        "rocketmq_consumer_lag_messages{consumer_group=\"g\",topic=\"t\"} 2",
        "kafka_consumergroup_lag{consumergroup=\"g\",partition=\"0\",topic=\"t\"} 2",
        "twinmq_core_offset_commits_total{kind=\"answered\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.contains("twinmq_core_group_lag_seconds{group=\"g\",topic=\"t\"} "));
    node.close().await;
}

fn transactional(producer: i64, sequence: i32, value: &str) -> Bytes {
    let mut writer = Writer::new(0, -1).producer(producer, 0, sequence, true);
    writer
        .push(-1, Some(b"k"), Some(value.as_bytes()), &[])
        .expect("fits");
    writer.finish()
}

/// What the Kafka front will do at a transaction's end.
async fn end(node: &Node, topic: &Topic, producer: u64, commit: bool) {
    let id = i64::try_from(producer).expect("small");
    let payload = batch::control_batch(commit, id, 0, 0, 1);
    let marker = if commit {
        Flags::COMMIT_MARKER
    } else {
        Flags::ABORT_MARKER
    };
    let draft = Draft {
        kind: Kind::Batch,
        flags: Flags::TRANSACTIONAL.with(marker),
        queue: topic.queues[0],
        span: 1,
        record_time: Timestamp(1),
        tag_hash: 0,
        producer: Some(Producer {
            id: producer,
            epoch: 0,
            first_sequence: -1,
        }),
        head: 21,
        payload_sum: u32::from_be_bytes(payload[17..21].try_into().expect("four")),
        places: Default::default(),
        payload,
    };
    node.store.append(&[draft]).await.expect("stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn native_readers_see_neither_pending_nor_aborted_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    node.produce(&topic, 0, batch_of(&[("k", "plain", &[])]))
        .await
        .expect("stores");
    node.produce(&topic, 0, transactional(7, 0, "aborted"))
        .await
        .expect("stores");
    node.produce(&topic, 0, transactional(8, 0, "committed"))
        .await
        .expect("stores");
    let pulled = node.pull(&topic, 0, 0, &Filter::All).await;
    assert_eq!(seen(&pulled), [(0, "plain".to_owned())]);
    assert_eq!(
        (pulled.next.0, pulled.end.0),
        (1, 1),
        "the end is the last stable offset"
    );
    assert_eq!(node.core.consuming.ends(&topic, 0, true).end.0, 1);
    assert_eq!(node.core.consuming.ends(&topic, 0, false).end.0, 3);
    end(&node, &topic, 7, false).await;
    end(&node, &topic, 8, true).await;
    let pulled = node.pull(&topic, 0, 0, &Filter::All).await;
    let want = [(0, "plain".to_owned()), (2, "committed".to_owned())];
    assert_eq!(seen(&pulled), want);
    assert_eq!((pulled.next.0, pulled.end.0), (5, 5), "past the markers");
    let from = QueueOffset(0);
    let read = node
        .core
        .consuming
        .batches(&topic, 0, from, 1 << 20, true, true);
    let fetched = read.await.expect("reads");
    let aborted: Vec<_> = fetched
        .aborted
        .iter()
        .map(|a| (a.producer, a.first.0))
        .collect();
    assert_eq!(aborted, [(7, 1)]);
    assert_eq!(fetched.next.0, 5);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_unpacks_to_much_is_opened_in_pieces() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    let mut writer = Writer::new(0, -1);
    let value = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        writer.push(-1, None, Some(&value), &[]).expect("fits");
    }
    let batch = writer.finish_compressed(Codec::Zstd).expect("packs");
    node.produce(&topic, 0, batch).await.expect("stores");
    let mut next = QueueOffset(0);
    let mut offsets = Vec::new();
    let mut addresses = Vec::new();
    while next.0 < 20 {
        let portion = Portion {
            bytes: 3 << 20,
            ..PORTION
        };
        let read = node
            .core
            .consuming
            .messages(&topic, 0, next, portion, &Filter::All);
        let read = read.await.expect("reads");
        assert!(read.next > next && read.count <= 3);
        next = read.next;
        for view in read.chunks.iter().flat_map(|chunk| message::iter(chunk)) {
            let view = view.expect("sound");
            assert_eq!(view.body.len(), 1 << 20);
            offsets.push(view.queue_offset);
            addresses.push(view.physic_offset);
        }
    }
    assert_eq!(offsets, (0..20).collect::<Vec<_>>());
    let last = Address(u64::try_from(addresses[19]).expect("positive"));
    let alone = node.core.consuming.message_at(last).await.expect("reads");
    assert_eq!(MessageView::parse(&alone).expect("sound").queue_offset, 19);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_no_frame_holds_stand_in_nobodys_way() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    let zeros = vec![0; 17 << 20];
    let packed = |values: &[&[u8]]| {
        let mut writer = Writer::new(0, -1);
        for value in values {
            writer.push(-1, None, Some(value), &[]).expect("fits");
        }
        writer.finish_compressed(Codec::Zstd).expect("packs")
    };
    for batch in [
        packed(&[b"0", &zeros, b"2"]),
        packed(&[&zeros]),
        packed(&[b"4"]),
    ] {
        node.produce(&topic, 0, batch).await.expect("stores");
    }
    node.send(&topic, 0, &[text("5", &[])]).await;
    let pull = async |from, most: Portion| {
        let from = QueueOffset(from);
        let consuming = &node.core.consuming;
        let read = consuming.messages(&topic, 0, from, most, &Filter::All);
        read.await.expect("reads")
    };
    let frame = Portion {
        message_bytes: 16 << 20,
        ..PORTION
    };
    let read = pull(0, frame).await;
    let others = ["0", "2", "4", "5"];
    let bodies: Vec<_> = seen(&read).into_iter().map(|(_, body)| body).collect();
    assert_eq!((bodies, read.next.0), (others.map(str::to_owned).into(), 6));
    // Where there is nothing else, the reader is told where to go on.
    let one = Portion {
        messages: 1,
        ..frame
    };
    let read = pull(3, one).await;
    assert_eq!((read.count, read.next.0), (0, 4));
    let read = pull(1, one).await;
    assert_eq!((seen(&read)[0].0, read.next.0), (2, 3));
    // Whose frames are larger gets them.
    let read = pull(3, PORTION).await;
    assert_eq!((read.count, read.next.0), (1, 4));
    assert!(read.chunks[0].len() > 17 << 20);
    // A message longer than that is passed over like a record.
    let short = Portion {
        message_bytes: 10,
        ..PORTION
    };
    let read = pull(5, short).await;
    assert_eq!((read.count, read.next.0), (0, 6));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_topic_tells_what_to_wait_for_and_shows_only_what_is_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let mut sync = new("t", Origin::Native, 1);
    sync.settings
        .insert("flush.messages".to_owned(), "1".to_owned());
    let topic = node.core.catalog.create(sync).await.expect("creates");
    let mut watch = node.core.consuming.watch(&[(&topic, 0)], true);
    let sent = node
        .core
        .producing
        .messages(&topic, 0, &[text("m", &[])])
        .await
        .expect("stores");
    let wait = sent[0].wait.expect("something to wait for");
    node.core.producing.synced(wait).await.expect("syncs");
    assert!(node.store.progress().synced >= wait);
    assert_eq!(node.pull(&topic, 0, 0, &Filter::All).await.count, 1);
    let told = tokio::time::timeout(Duration::from_secs(2), watch.changed()).await;
    told.expect("the reader is woken");
    assert!(node.core.consuming.is_hot(&topic, 0, QueueOffset(0)));
    let plain = node.topic("u", Origin::Native, 1).await;
    let sent = node
        .core
        .producing
        .messages(&plain, 0, &[text("m", &[])])
        .await
        .expect("stores");
    assert_eq!(sent[0].wait, None);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_many_groups_at_once_all_survive() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 4).await;
    let mut tasks = tokio::task::JoinSet::new();
    for group in 0..100 {
        let (offsets, topic) = (Arc::clone(&node.core.offsets), Arc::clone(&topic));
        tasks.spawn(async move {
            let group = format!("g{group}");
            for offset in 0..20 {
                let entries = [(Arc::clone(&topic), 0, committed(offset))];
                offsets.commit(&group, &entries).await.expect("commits");
                offsets.commit_later(&group, &topic, 1, offset);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    // The lingering ones are written within 20 ms of the last.
    tokio::time::sleep(Duration::from_millis(200)).await;
    node.vanish().await;
    let node = Node::open(dir.path()).await;
    for group in 0..100 {
        let all = node.core.offsets.of_group(&format!("g{group}"));
        let all: Vec<_> = all.iter().map(|(_, queue, c)| (*queue, c.offset)).collect();
        assert_eq!(all, [(0, 19), (1, 19)], "g{group}");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_no_longer_allowed_at_the_append_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 1).await;
    let offsets = &node.core.offsets;
    let at = |offset| [(Arc::clone(&topic), 0, committed(offset))];
    let taken = offsets.commit_if("g", &at(7), || Ok::<(), u8>(())).await;
    assert_eq!(taken.expect("commits"), Ok(()));
    let refused = offsets.commit_if("g", &at(3), || Err(22_u8)).await;
    assert_eq!(refused.expect("no error of the log"), Err(22));
    let now = offsets.get("g", &topic, 0).map(|found| found.offset);
    assert_eq!(now, Some(7));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_let_the_internal_queues_go_and_still_bring_everything_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = CoreConfig {
        snapshot_interval_ms: 1000,
        snapshot_log_bytes: 1 << 20,
        ..config()
    };
    let log = store(dir.path());
    let core = Core::open(log.clone(), config).await.expect("opens");
    let node = Node { store: log, core };
    let topic = node.topic("t", Origin::Kafka, 1).await;
    let catalog = QueueNumber::FIRST_OF_CORE;
    let first = |node: &Node| node.store.ends(catalog, Upto::default()).first.0;
    let body = "x".repeat(64 << 10);
    let mut offset = 0;
    node.until("release of the catalog's old records", async || {
        let sent = node.send(&topic, 0, &[text(&body, &[])]).await;
        offset = i64::try_from(sent[0]).expect("small");
        let entries = [(Arc::clone(&topic), 0, committed(offset))];
        node.core
            .offsets
            .commit("g", &entries)
            .await
            .expect("commits");
        (first(&node) > 0).then_some(())
    })
    .await;
    node.vanish().await;
    let node = Node::open(dir.path()).await;
    assert!(first(&node) > 0);
    let again = node.core.catalog.by_kafka("t").expect("there");
    assert_eq!(again.id, topic.id);
    let kept = node.core.offsets.get("g", &again, 0).expect("there");
    assert_eq!(kept.offset, offset);
    assert!(node.topic("u", Origin::Kafka, 1).await.queues[0] > topic.queues[0]);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_several_topics_are_told_of_each_as_soon_as_it_may_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let mut sync = new("s", Origin::Native, 1);
    sync.settings
        .insert("flush.messages".to_owned(), "1".to_owned());
    let sync = node.core.catalog.create(sync).await.expect("creates");
    let plain = node.topic("a", Origin::Native, 1).await;
    for topic in [&plain, &sync] {
        let queues: [(&Topic, u32); 2] = [(&sync, 0), (&plain, 0)];
        let mut watch = node.core.consuming.watch(&queues, true);
        let sent = node
            .core
            .producing
            .messages(topic, 0, &[text("m", &[])])
            .await
            .expect("stores");
        if let Some(wait) = sent[0].wait {
            node.core.producing.synced(wait).await.expect("syncs");
        }
        // The disk is synced for the plain one in 500 ms only.
        let told = tokio::time::timeout(Duration::from_millis(200), watch.changed()).await;
        told.unwrap_or_else(|_| panic!("the reader is not woken by {}", topic.key()));
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_messages_are_framed_into_batches_of_a_bounded_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Native, 1).await;
    let body = vec![b'x'; 1 << 20];
    let packed = twinmq_records::compression::compress_body(
        twinmq_records::compression::BodyCodec::Zlib,
        &body,
    )
    .expect("packs");
    let message = MessageIn {
        sys_flag: message::SYS_COMPRESSED,
        body: Bytes::from(packed),
        ..text("", &[])
    };
    for _ in 0..10 {
        node.send(&topic, 0, std::slice::from_ref(&message)).await;
    }
    let mut next = 0;
    let mut offsets = Vec::new();
    while next < 10 {
        let fetched = node.fetch(&topic, 0, next).await;
        assert!(fetched.bytes < 3 << 20, "{} bytes", fetched.bytes);
        for (offset, _, value) in records(&fetched) {
            assert_eq!(value.len(), 1 << 20);
            offsets.push(offset);
        }
        assert!(fetched.next.0 > next);
        next = fetched.next.0;
    }
    assert_eq!(offsets, (0..10).collect::<Vec<_>>());
    // A second reader finds the same in the cache.
    let again = node.fetch(&topic, 0, 0).await;
    assert!(again.bytes < 3 << 20 && again.next.0 > 0);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_of_one_group_with_many_queues_is_bounded_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    let topic = node.topic("t", Origin::Kafka, 50).await;
    for queue in 0..50 {
        node.core.offsets.commit_later("g", &topic, queue, 0);
    }
    let now = Timestamp(1_700_000_000_000);
    let (catalog, offsets) = (&node.core.catalog, &node.core.offsets);
    let some = twinmq_core::lag::all(&node.store, catalog, offsets, now, 10);
    assert_eq!(some.len(), 10);
    let all = twinmq_core::lag::all(&node.store, catalog, offsets, now, 1000);
    assert_eq!(all.len(), 50);
    node.close().await;
}

/// Runs behind the wall clock.
#[derive(Debug)]
struct Behind(i64);

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        Timestamp(WallClock.now().0 - self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_put_back_a_little_makes_no_delay_vanish() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store(dir.path());
    let metrics = twinmq_core::CoreMetrics::default();
    let core = Core::open_with(store.clone(), config(), metrics, Arc::new(Behind(300)));
    let node = Node {
        core: core.await.expect("opens"),
        store,
    };
    let topic = node.topic("t", Origin::Native, 1).await;
    node.send(&topic, 0, &[text("m", &[("DELAY", "1")])]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let early = node.pull(&topic, 0, 0, &Filter::All).await;
    assert_eq!(early.count, 0, "delivered before its second is over");
    node.until("delivery", async || {
        (node.pull(&topic, 0, 0, &Filter::All).await.count > 0).then_some(())
    })
    .await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_made_on_demand_never_replaces_what_an_operator_defined() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::open(dir.path()).await;
    for round in 0..50 {
        let name = format!("g{round}");
        let defined = Group {
            group_name: name.clone(),
            retry_max_times: 3,
            others: BTreeMap::from([("groupRetryPolicy".to_owned(), "x".into())]),
            ..Group::default()
        };
        let (one, other) = (Arc::clone(&node.core.groups), Arc::clone(&node.core.groups));
        let demanded = tokio::spawn(async move { one.ensure(&name).await });
        let put = tokio::spawn(async move { other.put(defined).await });
        demanded.await.expect("no panic").expect("made");
        put.await.expect("no panic").expect("made");
    }
    node.vanish().await;
    let node = Node::open(dir.path()).await;
    for round in 0..50 {
        let group = node.core.groups.get(&format!("g{round}")).expect("there");
        assert_eq!((group.retry_max_times, group.others.len()), (3, 1));
    }
    node.close().await;
}
