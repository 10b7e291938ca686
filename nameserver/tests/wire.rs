//! Bytes in, bytes out, over a real socket.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use twinmq_metrics::Registry;
use twinmq_nameserver::{Nameserver, NameserverConfig, NameserverMetrics};
use twinmq_remoting::bodies::DataVersion;
use twinmq_remoting::bodies::registration::RegisterBrokerBody;
use twinmq_remoting::bodies::topic::{TopicConfig, TopicTable};
use twinmq_remoting::code::request;
use twinmq_remoting::{Caller, Command, Limits, RemotingMetrics};

const LIMIT: Duration = Duration::from_secs(5);

struct World {
    server: Nameserver,
    registry: Registry,
    _dir: tempfile::TempDir,
}

async fn world(change: impl FnOnce(&mut NameserverConfig)) -> World {
    let dir = tempfile::tempdir().unwrap();
    let mut config = NameserverConfig {
        kv_path: dir.path().join("ns/kvConfig.json"),
        ..NameserverConfig::default()
    };
    change(&mut config);
    let registry = Registry::new();
    let metrics = NameserverMetrics::register(&registry).unwrap();
    let wire = RemotingMetrics::register(&registry)
        .unwrap()
        .listener("nameserver");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Nameserver::start(listener, config, metrics, wire).unwrap();
    World {
        server,
        registry,
        _dir: dir,
    }
}

impl World {
    async fn caller(&self) -> Caller {
        Caller::connect(self.server.addr(), Limits::default(), LIMIT)
            .await
            .unwrap()
    }
}

/// Sends one raw frame with a JSON header, gives back the raw answer's header and body.
async fn raw(stream: &mut TcpStream, header: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut frame = Vec::new();
    frame.extend_from_slice(
        &u32::try_from(4 + header.len() + body.len())
            .unwrap()
            .to_be_bytes(),
    );
    frame.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    stream.write_all(&frame).await.unwrap();
    let total = stream.read_u32().await.unwrap() as usize;
    let header_len = stream.read_u32().await.unwrap() as usize;
    let mut rest = vec![0; total - 4];
    stream.read_exact(&mut rest).await.unwrap();
    let body = rest.split_off(header_len);
    (String::from_utf8(rest).unwrap(), body)
}

fn body(counter: i64) -> RegisterBrokerBody {
    let topic = |name: &str| {
        let config = TopicConfig {
            topic_name: name.into(),
            read_queue_nums: 4,
            write_queue_nums: 4,
            ..TopicConfig::default()
        };
        (name.to_owned(), config)
    };
    RegisterBrokerBody {
        topic_config_serialize_wrapper: TopicTable {
            data_version: DataVersion {
                counter,
                state_version: 0,
                timestamp: 1,
            },
            topic_config_table: BTreeMap::from([topic("t"), topic("TBW102")]),
            ..TopicTable::default()
        },
        ..RegisterBrokerBody::default()
    }
}

fn broker_command(code: i32) -> Command {
    Command::request(code)
        .with_field("brokerName", "broker-a")
        .with_field("brokerAddr", "10.0.0.1:10911")
        .with_field("clusterName", "c")
        .with_field("haServerAddr", "10.0.0.1:10912")
        .with_field("brokerId", 0)
}

#[tokio::test]
async fn java_go_and_unknown_topics_get_exactly_their_route() {
    let world = world(|_| {}).await;
    let broker = world.caller().await;
    let packed = body(1).packed().unwrap();
    let sum = crc32fast::hash(&packed) & 0x7FFF_FFFF;
    let register = broker_command(request::REGISTER_BROKER)
        .with_field("compressed", true)
        .with_field("bodyCrc32", sum)
        .with_body(packed.clone());
    assert_eq!(broker.call(register, LIMIT).await.unwrap().code, 0);
    let mut client = TcpStream::connect(world.server.addr()).await.unwrap();
    let go = r#"{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"extFields":{"topic":"t"}}"#;
    let (header, route) = raw(&mut client, go, b"").await;
    assert_eq!(
        header,
        r#"{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}"#
    );
    let route = String::from_utf8(route).unwrap();
    assert_eq!(
        route,
        r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#
    );
    let java = r#"{"code":105,"extFields":{"topic":"t"},"flag":0,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":475}"#;
    let (_, standard) = raw(&mut client, java, b"").await;
    assert_eq!(
        String::from_utf8(standard).unwrap(),
        route.replace("{0:", "{\"0\":")
    );
    let missing = r#"{"code":105,"extFields":{"topic":"none"},"flag":0,"opaque":3,"version":475}"#;
    let (header, _) = raw(&mut client, missing, b"").await;
    assert!(header.contains(r#""code":17"#), "{header}");
    assert!(
        header
            .contains(r#""remark":"No topic route info in name server for the topic: none\nSee "#),
        "{header}"
    );
    let (header, _) = raw(&mut client, r#"{"code":999,"opaque":4,"version":475}"#, b"").await;
    assert!(
        header.contains(r#""code":3"#)
            && header.contains(r#""remark":" request type 999 not supported""#)
    );
    let (header, _) = raw(&mut client, r#"{"code":105,"opaque":5,"version":475}"#, b"").await;
    assert!(header.contains("<topic>"), "{header}");
    let text = world.registry.text();
    assert!(text.contains("twinmq_nameserver_topics 2"), "{text}");
    assert!(text.contains(r#"twinmq_nameserver_requests_total{request="GET_ROUTEINFO_BY_TOPIC",result="TOPIC_NOT_EXIST"} 1"#));
    let damaged = broker_command(request::REGISTER_BROKER)
        .with_field("compressed", true)
        .with_field("bodyCrc32", sum ^ 1)
        .with_body(packed);
    let refused = broker.call(damaged, LIMIT).await.unwrap();
    assert_eq!(
        (refused.code, refused.remark.as_deref()),
        (1, Some("crc32 not match"))
    );
    broker.close().await;
    world.server.shutdown().await;
}

#[tokio::test]
async fn a_broker_whose_connection_closes_is_out() {
    let world = world(|_| {}).await;
    let broker = world.caller().await;
    let register = broker_command(request::REGISTER_BROKER).with_body(body(1).json());
    assert_eq!(broker.call(register, LIMIT).await.unwrap().code, 0);
    assert!(world.server.routes().route("t").is_some());
    broker.close().await;
    gone(&world).await;
}

#[tokio::test]
async fn a_silent_broker_is_out_and_its_connection_closed() {
    let world = world(|config| config.scan_seconds = 1).await;
    let broker = world.caller().await;
    let register = broker_command(request::REGISTER_BROKER)
        .with_field("heartbeatTimeoutMillis", 50)
        .with_body(body(1).json());
    assert_eq!(broker.call(register, LIMIT).await.unwrap().code, 0);
    gone(&world).await;
    tokio::time::timeout(LIMIT, async {
        while !broker.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
}

async fn gone(world: &World) {
    tokio::time::timeout(LIMIT, async {
        while world.server.routes().route("t").is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the broker is out");
}

#[tokio::test]
async fn versions_write_permission_lists_and_unregistering() {
    let world = world(|_| {}).await;
    let tool = world.caller().await;
    let ask = |command: Command| tool.call(command, LIMIT);
    let version = br#"{"counter":1,"stateVersion":0,"timestamp":1}"#;
    let query = || broker_command(request::QUERY_DATA_VERSION).with_body(&version[..]);
    let answer = ask(query()).await.unwrap();
    assert_eq!(
        (answer.fields.get("changed"), answer.body.len()),
        (Some("true"), 0)
    );
    ask(broker_command(request::REGISTER_BROKER).with_body(body(1).json()))
        .await
        .unwrap();
    let answer = ask(query()).await.unwrap();
    assert_eq!(
        (answer.fields.get("changed"), &answer.body[..]),
        (Some("false"), &version[..])
    );
    assert_eq!(
        ask(broker_command(request::BROKER_HEARTBEAT))
            .await
            .unwrap()
            .code,
        0
    );
    let wiped = ask(broker_command(request::WIPE_WRITE_PERM_OF_BROKER))
        .await
        .unwrap();
    assert_eq!(wiped.fields.get("wipeTopicCount"), Some("2"));
    assert_eq!(
        world.server.routes().route("t").unwrap().queue_datas[0].perm,
        4
    );
    let given = ask(broker_command(request::ADD_WRITE_PERM_OF_BROKER))
        .await
        .unwrap();
    assert_eq!(given.fields.get("addTopicCount"), Some("2"));
    let clusters = ask(Command::request(request::GET_BROKER_CLUSTER_INFO))
        .await
        .unwrap();
    assert_eq!(&clusters.body[..], br#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c","enableActingMaster":false}},"clusterAddrTable":{"c":["broker-a"]}}"#);
    let list = |code: i32| Command::request(code).with_field("cluster", "c");
    for (code, expected) in [
        (
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            r#"{"topicList":["TBW102","t"]}"#,
        ),
        (
            request::GET_TOPICS_BY_CLUSTER,
            r#"{"topicList":["TBW102","t"]}"#,
        ),
        (
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS,
            r#"{"brokerAddr":"10.0.0.1:10911","topicList":["c","broker-a"]}"#,
        ),
        (request::GET_UNIT_TOPIC_LIST, r#"{"topicList":[]}"#),
        (request::GET_BROKER_MEMBER_GROUP, ""),
    ] {
        let answer = ask(list(code)
            .with_field("clusterName", "c")
            .with_field("brokerName", "broker-a"))
        .await
        .unwrap();
        assert_eq!(answer.code, 0);
        if !expected.is_empty() {
            assert_eq!(&answer.body[..], expected.as_bytes());
        }
    }
    let added = Command::request(request::REGISTER_TOPIC_IN_NAMESRV).with_field("topic", "new").with_body(
        &br#"{"brokerDatas":[],"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"writeQueueNums":1}]}"#[..],
    );
    assert_eq!(ask(added).await.unwrap().code, 0);
    assert!(world.server.routes().route("new").is_some());
    let deleted = Command::request(request::DELETE_TOPIC_IN_NAMESRV).with_field("topic", "new");
    assert_eq!(ask(deleted).await.unwrap().code, 0);
    assert!(world.server.routes().route("new").is_none());
    assert_eq!(
        ask(broker_command(request::UNREGISTER_BROKER))
            .await
            .unwrap()
            .code,
        0
    );
    assert!(world.server.routes().route("t").is_none());
    assert_eq!(
        ask(Command::request(request::UPDATE_NAMESRV_CONFIG))
            .await
            .unwrap()
            .code,
        16
    );
    assert_eq!(
        ask(Command::request(request::GET_NAMESRV_CONFIG))
            .await
            .unwrap()
            .code,
        0
    );
}

#[tokio::test]
async fn kv_config_is_kept_and_order_topics_come_with_routes() {
    let world = world(|config| config.order_topics = true).await;
    let tool = world.caller().await;
    let entry = |code: i32| {
        Command::request(code)
            .with_field("namespace", "ORDER_TOPIC_CONFIG")
            .with_field("key", "t")
    };
    let missing = tool
        .call(entry(request::GET_KV_CONFIG), LIMIT)
        .await
        .unwrap();
    assert_eq!(
        (missing.code, missing.remark.as_deref()),
        (
            22,
            Some("No config item, Namespace: ORDER_TOPIC_CONFIG Key: t")
        )
    );
    assert_eq!(
        tool.call(entry(request::GET_KVLIST_BY_NAMESPACE), LIMIT)
            .await
            .unwrap()
            .code,
        22
    );
    let put = entry(request::PUT_KV_CONFIG).with_field("value", "broker-a:4");
    assert_eq!(tool.call(put, LIMIT).await.unwrap().code, 0);
    let got = tool
        .call(entry(request::GET_KV_CONFIG), LIMIT)
        .await
        .unwrap();
    assert_eq!(got.fields.get("value"), Some("broker-a:4"));
    let register = broker_command(request::REGISTER_BROKER).with_body(body(1).json());
    let registered = tool.call(register, LIMIT).await.unwrap();
    assert_eq!(&registered.body[..], br#"{"table":{"t":"broker-a:4"}}"#);
    let route = Command::request(request::GET_ROUTEINFO_BY_TOPIC).with_field("topic", "t");
    let route = tool.call(route, LIMIT).await.unwrap();
    assert!(String::from_utf8_lossy(&route.body).contains(r#""orderTopicConf":"broker-a:4""#));
    assert_eq!(
        tool.call(entry(request::DELETE_KV_CONFIG), LIMIT)
            .await
            .unwrap()
            .code,
        0
    );
    assert_eq!(
        tool.call(entry(request::GET_KV_CONFIG), LIMIT)
            .await
            .unwrap()
            .code,
        22
    );
}

#[tokio::test]
async fn a_first_registration_of_one_topic_is_refused_and_one_way_is_never_answered() {
    let world = world(|_| {}).await;
    let broker = world.caller().await;
    let mut small = body(1);
    small
        .topic_config_serialize_wrapper
        .topic_config_table
        .remove("t");
    let register = broker_command(request::REGISTER_BROKER).with_body(small.json());
    let refused = broker.call(register, LIMIT).await.unwrap();
    assert_eq!(
        (refused.code, refused.remark.as_deref()),
        (1, Some("register broker failed"))
    );
    let mut stream = TcpStream::connect(world.server.addr()).await.unwrap();
    let one_way = r#"{"code":999,"flag":2,"opaque":1,"version":475}"#;
    let mut frame = u32::try_from(4 + one_way.len())
        .unwrap()
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(&u32::try_from(one_way.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(one_way.as_bytes());
    stream.write_all(&frame).await.unwrap();
    let (header, _) = raw(&mut stream, r#"{"code":106,"opaque":2,"version":475}"#, b"").await;
    assert!(header.contains(r#""opaque":2"#), "{header}");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(stream.read(&mut [0; 10]).await.unwrap_or(0), 0);
}
