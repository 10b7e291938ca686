//! A whole front on port 0 over a log in a temporary directory, and requests to it.

use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use twinmq_core::{Core, CoreConfig};
use twinmq_metrics::{Registry, StageMetrics};
use twinmq_native::{Listeners, Metrics, Native, NativeConfig, NativeMetrics, Parts};
use twinmq_records::message::{self, MessageView};
use twinmq_remoting::bodies::heartbeat::{
    ConsumeType, ConsumerData, HeartbeatData, ProducerData, SubscriptionData,
};
use twinmq_remoting::code::request as code;
use twinmq_remoting::{Caller, Command, Limits, RemotingMetrics, json};
use twinmq_store::{Store, StoreConfig, StoreMetrics, WallClock};

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Broker {
    _dir: TempDir,
    native: Native,
    core: Core,
    store: Store,
    pub(crate) registry: Registry,
    pub(crate) main: std::net::SocketAddr,
    pub(crate) vip: std::net::SocketAddr,
}

pub(crate) async fn start() -> Broker {
    start_with(|_, _| {}).await
}

pub(crate) async fn start_with(change: impl FnOnce(&mut NativeConfig, &mut CoreConfig)) -> Broker {
    let dir = tempfile::tempdir().expect("a directory");
    let registry = Registry::new();
    let store_config = StoreConfig {
        file_bytes: 64 << 20,
        run_bytes_max: 16 << 20,
        ..StoreConfig::default()
    };
    let store = Store::open(
        dir.path(),
        store_config,
        std::sync::Arc::new(WallClock),
        StoreMetrics::register(&registry).expect("new"),
    )
    .expect("a store");
    let mut config = NativeConfig::default();
    let mut core_config = CoreConfig::default();
    change(&mut config, &mut core_config);
    let core = Core::open(store.clone(), core_config.clone())
        .await
        .expect("a core");
    let main = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let vip = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addresses = (
        main.local_addr().expect("bound"),
        vip.local_addr().expect("bound"),
    );
    let stages = StageMetrics::register(&registry).expect("new");
    let metrics = Metrics {
        native: NativeMetrics::register(&registry, &stages).expect("new"),
        remoting: RemotingMetrics::register(&registry).expect("new"),
    };
    let parts = Parts {
        core: core.clone(),
        core_config,
        store: store.clone(),
        extras: Vec::new(),
    };
    let listeners = Listeners {
        main,
        vip: Some(vip),
    };
    let native = Native::start(parts, config, metrics, listeners)
        .await
        .expect("a front");
    Broker {
        _dir: dir,
        native,
        core,
        store,
        registry,
        main: addresses.0,
        vip: addresses.1,
    }
}

impl Broker {
    pub(crate) async fn connect(&self) -> Caller {
        Caller::connect(self.main, Limits::default(), LONG)
            .await
            .expect("a connection")
    }

    pub(crate) async fn stop(self) {
        self.native.drain().await;
        self.core.close().await;
        self.store.close();
    }
}

/// A request with these fields.
pub(crate) fn request(number: i32, fields: &[(&str, &str)]) -> Command {
    let mut command = Command::request(number);
    for (name, value) in fields {
        command.fields.set(name, value);
    }
    command
}

pub(crate) async fn call(caller: &Caller, command: Command) -> Command {
    caller.call(command, LONG).await.expect("an answer")
}

/// A field of an answer as a number.
pub(crate) fn number(answer: &Command, field: &str) -> i64 {
    answer
        .fields
        .get(field)
        .unwrap_or_else(|| panic!("{field} is missing in {answer:?}"))
        .parse()
        .expect("a number")
}

pub(crate) fn send_to(topic: &str, queue: i32, properties: &str, body: &str) -> Command {
    request(
        code::SEND_MESSAGE_V2,
        &[
            ("a", "pg"),
            ("b", topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &queue.to_string()),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "5"),
            ("i", properties),
            ("j", "0"),
        ],
    )
    .with_body(body.to_owned())
}

pub(crate) fn pull_from(
    group: &str,
    topic: &str,
    queue: i32,
    offset: i64,
    flags: i32,
    hold_ms: u64,
    tags: &str,
) -> Command {
    request(
        code::PULL_MESSAGE,
        &[
            ("consumerGroup", group),
            ("topic", topic),
            ("queueId", &queue.to_string()),
            ("queueOffset", &offset.to_string()),
            ("maxMsgNums", "32"),
            ("sysFlag", &flags.to_string()),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", &hold_ms.to_string()),
            ("subVersion", "0"),
            ("subscription", tags),
        ],
    )
}

/// The messages of a pull's answer.
pub(crate) fn messages(body: &[u8]) -> Vec<MessageView<'_>> {
    message::iter(body)
        .collect::<Result<_, _>>()
        .expect("messages")
}

/// A client's heartbeat as a consumer of one topic and a producer.
pub(crate) fn heartbeat(
    client: &str,
    group: &str,
    topic: &str,
    tags: &str,
    version: i64,
) -> Command {
    let subscription = SubscriptionData {
        topic: topic.to_owned(),
        sub_string: tags.to_owned(),
        sub_version: version,
        ..SubscriptionData::default()
    };
    let beat = HeartbeatData {
        client_id: client.to_owned(),
        consumer_data_set: vec![ConsumerData {
            group_name: group.to_owned(),
            consume_type: ConsumeType::Passively,
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        }],
        producer_data_set: vec![ProducerData {
            group_name: "pg".to_owned(),
        }],
        ..HeartbeatData::default()
    };
    Command::request(code::HEART_BEAT).with_body(json::write(&beat))
}
