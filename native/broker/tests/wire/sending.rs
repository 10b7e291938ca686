//! Sends: what is stored, what is answered, what is refused.

use crate::broker::{LONG, call, messages, number, pull_from, request, send_to, start, start_with};
use bytes::{BufMut, BytesMut};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::{Caller, Limits};

#[tokio::test]
async fn a_message_comes_back_as_it_was_sent_with_the_brokers_marks() {
    let broker = start().await;
    let caller = broker.connect().await;
    let sent = call(
        &caller,
        send_to(
            "Orders",
            2,
            "TAGS\u{1}a\u{2}UNIQ_KEY\u{1}K1\u{2}mine\u{1}x",
            "hello",
        ),
    )
    .await;
    assert_eq!(sent.code, response::SUCCESS, "{sent:?}");
    assert_eq!(number(&sent, "queueId"), 2);
    assert_eq!(number(&sent, "queueOffset"), 0);
    assert_eq!(sent.fields.get("transactionId"), Some("K1"));
    assert_eq!(sent.fields.get("MSG_REGION"), Some("DefaultRegion"));
    assert_eq!(sent.fields.get("TRACE_ON"), Some("true"));
    let id = sent.fields.get("msgId").expect("an id").to_owned();

    let pulled = call(&caller, pull_from("g", "Orders", 2, 0, 4, 0, "*")).await;
    assert_eq!(pulled.code, response::SUCCESS, "{pulled:?}");
    assert_eq!(pulled.remark.as_deref(), Some("FOUND"));
    assert_eq!(number(&pulled, "nextBeginOffset"), 1);
    assert_eq!(number(&pulled, "minOffset"), 0);
    assert_eq!(number(&pulled, "maxOffset"), 1);
    assert_eq!(number(&pulled, "suggestWhichBrokerId"), 0);
    let found = messages(&pulled.body);
    let [message] = &found[..] else {
        panic!("{} messages", found.len())
    };
    assert_eq!(message.body, b"hello");
    assert_eq!((message.flag, message.queue_id), (5, 2));
    assert_eq!(message.store_host, broker.main);
    assert!(message.body_crc_is_right());
    let properties = message.properties();
    for (name, value) in [
        ("TAGS", "a"),
        ("UNIQ_KEY", "K1"),
        ("mine", "x"),
        ("CLUSTER", "DefaultCluster"),
        ("MSG_REGION", "DefaultRegion"),
        ("TRACE_ON", "true"),
    ] {
        assert_eq!(properties.get(name), Some(value), "{name}");
    }

    let offset = u64::from_str_radix(&id[16..], 16).expect("hex").to_string();
    let viewed = call(
        &caller,
        request(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]),
    )
    .await;
    assert_eq!(viewed.code, response::SUCCESS, "{viewed:?}");
    assert_eq!(messages(&viewed.body)[0].body, b"hello");

    let metrics = broker.registry.text();
    for line in [
        r#"twinmq_native_requests_total{code="0",request="send_message_v2"} 1"#,
        r#"twinmq_native_requests_total{code="0",request="pull_message"} 1"#,
        "rocketmq_messages_in_total 1",
        "rocketmq_throughput_in_total 5",
        "rocketmq_messages_out_total 1",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn an_unknown_topic_is_made_after_its_template_or_refused() {
    let broker = start().await;
    let caller = broker.connect().await;
    assert_eq!(
        call(&caller, send_to("Auto", 3, "", "x")).await.code,
        response::SUCCESS
    );
    let beyond = call(&caller, send_to("Auto", 4, "", "x")).await;
    assert_eq!(beyond.code, response::INVALID_PARAMETER, "{beyond:?}");
    let mut no_template = send_to("Nobody", 0, "", "x");
    no_template.fields.set("c", "Nothing");
    let refused = call(&caller, no_template).await;
    assert_eq!(refused.code, response::TOPIC_NOT_EXIST);
    assert!(
        refused
            .remark
            .expect("words")
            .contains("topic[Nobody] not exist, apply first please!")
    );
    let illegal = call(&caller, send_to("a.b", 0, "", "x")).await;
    assert_eq!(illegal.code, response::INVALID_PARAMETER);
    let system = call(&caller, send_to("SCHEDULE_TOPIC_XXXX", 0, "", "x")).await;
    assert_eq!(system.code, response::NO_PERMISSION);
    broker.stop().await;

    let strict = start_with(|_, core| core.auto_create_topics = false).await;
    let caller = strict.connect().await;
    assert_eq!(
        call(&caller, send_to("Auto", 0, "", "x")).await.code,
        response::TOPIC_NOT_EXIST
    );
    strict.stop().await;
}

fn item(body: &str, properties: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    out.put_i32(i32::try_from(22 + body.len() + properties.len()).expect("short"));
    out.put_slice(&[0; 8]);
    out.put_i32(1);
    out.put_i32(i32::try_from(body.len()).expect("short"));
    out.put_slice(body.as_bytes());
    out.put_i16(i16::try_from(properties.len()).expect("short"));
    out.put_slice(properties.as_bytes());
    out.to_vec()
}

#[tokio::test]
async fn a_batch_gets_consecutive_offsets_and_an_id_for_each() {
    let broker = start().await;
    let caller = broker.connect().await;
    let mut body = item("one", "TAGS\u{1}a\u{2}UNIQ_KEY\u{1}U1");
    body.extend(item("two", ""));
    body.extend(item("", "UNIQ_KEY\u{1}U3\u{2}"));
    let mut batch = send_to("B", 0, "UNIQ_KEY\u{1}OUTER\u{2}WAIT\u{1}true", "").with_body(body);
    batch.code = code::SEND_BATCH_MESSAGE;
    batch.fields.set("m", "true");
    call(&caller, send_to("B", 0, "", "before")).await;
    let sent = call(&caller, batch.clone()).await;
    assert_eq!(sent.code, response::SUCCESS, "{sent:?}");
    assert_eq!(number(&sent, "queueOffset"), 1);
    assert_eq!(sent.fields.get("transactionId"), Some("OUTER"));
    assert_eq!(sent.fields.get("msgId").expect("ids").split(',').count(), 3);
    let pulled = call(&caller, pull_from("g", "B", 0, 1, 4, 0, "*")).await;
    let found = messages(&pulled.body);
    let bodies: Vec<&[u8]> = found.iter().map(|message| message.body).collect();
    assert_eq!(bodies, [&b"one"[..], b"two", b""]);
    assert_eq!(found[0].properties().get("UNIQ_KEY"), Some("U1"));
    assert_eq!(
        found[1].properties().get("UNIQ_KEY").expect("made").len(),
        32
    );

    // By the header alone, as C++ does; and what no batch may be.
    batch.code = code::SEND_MESSAGE_V2;
    assert_eq!(call(&caller, batch.clone()).await.code, response::SUCCESS);
    batch.body = vec![0, 0, 0, 99, 1, 2, 3].into();
    assert_eq!(call(&caller, batch).await.code, response::MESSAGE_ILLEGAL);
    broker.stop().await;
}

#[tokio::test]
async fn half_timer_and_oversized_messages_are_refused() {
    let broker = start_with(|_, core| core.max_message_size = 1000).await;
    let caller = broker.connect().await;
    for properties in [
        "TRAN_MSG\u{1}true\u{2}",
        "TIMER_DELAY_SEC\u{1}5\u{2}",
        "TIMER_DELIVER_MS\u{1}1\u{2}",
    ] {
        let refused = call(&caller, send_to("T", 0, properties, "x")).await;
        assert_eq!(refused.code, response::MESSAGE_ILLEGAL, "{properties:?}");
        assert!(refused.remark.expect("words").contains("not supported"));
    }
    let big = call(&caller, send_to("T", 0, "", &"x".repeat(1001))).await;
    assert_eq!(big.code, response::MESSAGE_ILLEGAL, "{big:?}");
    let long = format!("k\u{1}{}\u{2}", "v".repeat(32_760));
    let long = call(&caller, send_to("T", 0, &long, "x")).await;
    assert_eq!(long.code, response::MESSAGE_ILLEGAL, "{long:?}");
    broker.stop().await;
}

#[tokio::test]
async fn a_one_way_send_is_stored_and_not_answered() {
    let broker = start().await;
    let caller = broker.connect().await;
    let mut send = send_to("W", 0, "", "quiet");
    send.flag |= 2;
    caller.notify(send).expect("sent");
    // Requests of a connection are handled in their order.
    let pulled = call(&caller, pull_from("g", "W", 0, 0, 4 | 2, 5000, "*")).await;
    assert_eq!(messages(&pulled.body)[0].body, b"quiet");
    broker.stop().await;
}

#[tokio::test]
async fn a_message_sent_back_arrives_at_the_retry_topic_and_at_last_among_the_dead() {
    let broker = start().await;
    let caller = broker.connect().await;
    let group = r#"{"groupName":"g","retryMaxTimes":1}"#.to_owned();
    let put = request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[]).with_body(group);
    assert_eq!(call(&caller, put).await.code, response::SUCCESS);
    call(&caller, send_to("T", 0, "UNIQ_KEY\u{1}K\u{2}", "again")).await;
    let pulled = call(&caller, pull_from("g", "T", 0, 0, 4, 0, "*")).await;
    let offset = messages(&pulled.body)[0].physic_offset.to_string();
    let back = |offset: &str, level: &str| {
        request(
            code::CONSUMER_SEND_MSG_BACK,
            &[
                ("offset", offset),
                ("group", "g"),
                ("delayLevel", level),
                ("originTopic", "T"),
            ],
        )
    };
    let answer = call(&caller, back(&offset, "1")).await;
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    let again = call(
        &caller,
        pull_from("g", "%RETRY%g", 0, 0, 4 | 2, 15_000, "*"),
    )
    .await;
    assert_eq!(again.code, response::SUCCESS, "{again:?}");
    let found = messages(&again.body);
    assert_eq!(
        (found[0].body, found[0].reconsume_times),
        (&b"again"[..], 1)
    );
    assert_eq!(found[0].properties().get("RETRY_TOPIC"), Some("T"));
    let offset = found[0].physic_offset.to_string();
    assert_eq!(
        call(&caller, back(&offset, "0")).await.code,
        response::SUCCESS
    );
    let dead = call(&caller, pull_from("g", "%DLQ%g", 0, 0, 4 | 2, 15_000, "*")).await;
    assert_eq!(messages(&dead.body)[0].body, b"again");

    let nothing = call(&caller, back("123456789", "0")).await;
    assert_eq!(nothing.code, response::SYSTEM_ERROR);
    let mut stranger = back(&offset, "0");
    stranger.fields.set("group", "stranger");
    assert_eq!(
        call(&caller, stranger).await.code,
        response::SUBSCRIPTION_GROUP_NOT_EXIST
    );
    broker.stop().await;
}

#[tokio::test]
async fn the_vip_port_sends_but_does_not_pull() {
    let broker = start().await;
    let vip = Caller::connect(broker.vip, Limits::default(), LONG)
        .await
        .expect("a connection");
    assert_eq!(
        call(&vip, send_to("V", 0, "", "x")).await.code,
        response::SUCCESS
    );
    let pull = call(&vip, pull_from("g", "V", 0, 0, 4, 0, "*")).await;
    assert_eq!(pull.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(
        pull.remark.as_deref(),
        Some(" request type 11 not supported")
    );
    broker.stop().await;
}
