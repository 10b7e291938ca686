//! Pulls, heartbeats, progress and locks.

use crate::broker::{
    LONG, call, heartbeat, messages, number, pull_from, request, send_to, start, start_with,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use twinmq_remoting::bodies::MessageQueue;
use twinmq_remoting::bodies::group::ConsumerList;
use twinmq_remoting::bodies::lock::{LockQueues, LockedQueues};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::{Caller, Channel, Command, Language, Limits, Outcome, Serve, json};

#[tokio::test]
async fn a_pull_is_answered_as_its_offset_deserves() {
    let broker = start().await;
    let caller = broker.connect().await;
    for body in ["0", "1", "2"] {
        call(&caller, send_to("P", 0, "TAGS\u{1}a\u{2}", body)).await;
    }
    for (queue, offset, tags, code, next, remark) in [
        (0, 0, "*", response::SUCCESS, 3, "FOUND"),
        (0, 1, "a || b", response::SUCCESS, 3, "FOUND"),
        (
            0,
            0,
            "b",
            response::PULL_RETRY_IMMEDIATELY,
            3,
            "NO_MATCHED_MESSAGE",
        ),
        (
            0,
            3,
            "*",
            response::PULL_NOT_FOUND,
            3,
            "OFFSET_OVERFLOW_ONE",
        ),
        (
            0,
            9,
            "*",
            response::PULL_OFFSET_MOVED,
            3,
            "OFFSET_OVERFLOW_BADLY",
        ),
        (
            0,
            -1,
            "*",
            response::PULL_OFFSET_MOVED,
            0,
            "OFFSET_TOO_SMALL",
        ),
        (
            1,
            0,
            "*",
            response::PULL_NOT_FOUND,
            0,
            "NO_MESSAGE_IN_QUEUE",
        ),
        (
            1,
            5,
            "*",
            response::PULL_OFFSET_MOVED,
            0,
            "NO_MESSAGE_IN_QUEUE",
        ),
    ] {
        let answer = call(&caller, pull_from("g", "P", queue, offset, 4, 0, tags)).await;
        let what = format!("queue {queue} offset {offset} tags {tags}");
        assert_eq!(answer.code, code, "{what}");
        assert_eq!(number(&answer, "nextBeginOffset"), next, "{what}");
        assert_eq!(answer.remark.as_deref(), Some(remark), "{what}");
        for field in ["minOffset", "maxOffset", "suggestWhichBrokerId"] {
            number(&answer, field);
        }
    }
    for (pull, code) in [
        (
            pull_from("g", "Nowhere", 0, 0, 4, 0, "*"),
            response::TOPIC_NOT_EXIST,
        ),
        (
            pull_from("g", "P", 99, 0, 4, 0, "*"),
            response::INVALID_PARAMETER,
        ),
        (
            pull_from("g", "P", 0, 0, 4, 0, "||"),
            response::SUBSCRIPTION_PARSE_FAILED,
        ),
        (
            pull_from("nobody", "P", 0, 0, 0, 0, ""),
            response::SUBSCRIPTION_NOT_EXIST,
        ),
        (
            pull_from("not a group", "P", 0, 0, 4, 0, "*"),
            response::SUBSCRIPTION_GROUP_NOT_EXIST,
        ),
    ] {
        assert_eq!(call(&caller, pull).await.code, code);
    }
    let mut sql = pull_from("g", "P", 0, 0, 4, 0, "a > 1");
    sql.fields.set("expressionType", "SQL92");
    assert_eq!(call(&caller, sql).await.code, response::SYSTEM_ERROR);
    broker.stop().await;
}

#[tokio::test]
async fn old_java_clients_get_a_body_where_there_is_none() {
    let broker = start().await;
    let caller = broker.connect().await;
    call(&caller, send_to("E", 0, "", "")).await;
    call(&caller, send_to("E", 0, "", "full")).await;
    let mut pull = pull_from("g", "E", 0, 0, 4, 0, "*");
    let new = call(&caller, pull.clone()).await;
    assert_eq!(messages(&new.body)[0].body, b"");
    pull.version = 395; // V4_9_1
    let old = call(&caller, pull.clone()).await;
    let found = messages(&old.body);
    assert_eq!((found[0].body, found[1].body), (&[0][..], &b"full"[..]));
    assert!(found[0].body_crc_is_right());
    pull.language = Language::CPP;
    let other = call(&caller, pull).await;
    assert_eq!(messages(&other.body)[0].body, b"");
    broker.stop().await;
}

#[tokio::test]
async fn a_held_pull_waits_for_its_tag_and_holds_up_nobody() {
    let broker = start().await;
    let caller = Arc::new(broker.connect().await);
    call(&caller, send_to("H", 0, "", "first")).await;
    let held = {
        let caller = caller.clone();
        tokio::spawn(async move {
            let pull = pull_from("g", "H", 0, 1, 4 | 2, 15_000, "wanted");
            caller.call(pull, LONG).await.expect("an answer")
        })
    };
    while !broker
        .registry
        .text()
        .contains("twinmq_native_held_pulls 1")
    {
        tokio::task::yield_now().await;
    }
    for tag in ["other", "other", "wanted"] {
        assert!(!held.is_finished());
        let sent = call(
            &caller,
            send_to("H", 0, &format!("TAGS\u{1}{tag}\u{2}"), tag),
        )
        .await;
        assert_eq!(sent.code, response::SUCCESS);
    }
    let answer = held.await.expect("no panic");
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    assert_eq!(number(&answer, "nextBeginOffset"), 4);
    assert_eq!(messages(&answer.body)[0].body, b"wanted");

    let since = Instant::now();
    let timed_out = call(&caller, pull_from("g", "H", 0, 4, 4 | 2, 200, "*")).await;
    assert_eq!(timed_out.code, response::PULL_NOT_FOUND);
    assert!(since.elapsed() >= Duration::from_millis(200));
    assert!(
        broker
            .registry
            .text()
            .contains("twinmq_native_held_pulls 0")
    );
    broker.stop().await;
}

#[tokio::test]
async fn the_subscription_of_the_heartbeat_filters() {
    let broker = start().await;
    let caller = broker.connect().await;
    for tag in ["a", "b"] {
        call(
            &caller,
            send_to("S", 0, &format!("TAGS\u{1}{tag}\u{2}"), tag),
        )
        .await;
    }
    call(&caller, heartbeat("c1", "g", "S", "b", 7)).await;
    let pull = |version: &str| {
        let mut pull = pull_from("g", "S", 0, 0, 0, 0, "");
        pull.fields.set("subVersion", version);
        pull
    };
    let answer = call(&caller, pull("7")).await;
    assert_eq!(messages(&answer.body).len(), 1);
    assert_eq!(messages(&answer.body)[0].body, b"b");
    assert_eq!(
        call(&caller, pull("8")).await.code,
        response::SUBSCRIPTION_NOT_LATEST
    );
    call(&caller, heartbeat("c1", "g", "S", "*", 6)).await;
    assert_eq!(
        messages(&call(&caller, pull("7")).await.body).len(),
        1,
        "older ones change nothing"
    );
    call(&caller, heartbeat("c1", "g", "S", "*", 8)).await;
    assert_eq!(messages(&call(&caller, pull("8")).await.body).len(), 2);
    let other = pull_from("g", "%RETRY%g", 0, 0, 0, 0, "");
    assert_eq!(
        call(&caller, other).await.code,
        response::SUBSCRIPTION_NOT_EXIST
    );
    broker.stop().await;
}

/// Notes the requests that a server sends.
struct Ear(mpsc::Sender<Command>);

impl Serve for Ear {
    type Peer = ();
    fn opened(&self, _channel: &Channel) -> Arc<()> {
        Arc::new(())
    }
    async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
        let reply = Command::response_to(&request, response::SUCCESS).with_body("mine");
        self.0.send(request.detached()).await.expect("room");
        Outcome::Reply(reply)
    }
    fn closed(&self, _peer: &Arc<()>) {}
}

#[tokio::test]
async fn members_are_listed_told_of_changes_and_gone_with_their_connection() {
    let broker = start().await;
    let (heard, mut notices) = mpsc::channel(10);
    let first = Caller::connect_with(broker.main, Arc::new(Ear(heard)), Limits::default(), LONG)
        .await
        .expect("a connection");
    let list = || request(code::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")]);
    assert_eq!(call(&first, list()).await.code, response::SYSTEM_ERROR);
    let beat = call(&first, heartbeat("c1", "g", "T", "*", 1)).await;
    assert_eq!(beat.code, response::SUCCESS);
    assert_eq!(beat.version, twinmq_remoting::VERSION);
    let told = notices.recv().await.expect("a notice");
    assert_eq!(told.code, code::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(told.fields.get("consumerGroup"), Some("g"));

    let second = broker.connect().await;
    call(&second, heartbeat("c2", "g", "T", "*", 1)).await;
    notices.recv().await.expect("a notice");
    let ids: ConsumerList = json::read(&call(&second, list()).await.body).expect("a list");
    assert_eq!(ids.consumer_id_list, ["c1", "c2"]);

    // Passed on to the client, and back.
    let info = request(
        code::GET_CONSUMER_RUNNING_INFO,
        &[("consumerGroup", "g"), ("clientId", "c1")],
    );
    let info = call(&second, info).await;
    assert_eq!(
        (info.code, &info.body[..]),
        (response::SUCCESS, &b"mine"[..])
    );
    assert_eq!(
        notices.recv().await.expect("it").code,
        code::GET_CONSUMER_RUNNING_INFO
    );

    second.close().await;
    notices.recv().await.expect("a notice of the end");
    let ids: ConsumerList = json::read(&call(&first, list()).await.body).expect("a list");
    assert_eq!(ids.consumer_id_list, ["c1"]);
    let unregister = request(
        code::UNREGISTER_CLIENT,
        &[
            ("clientID", "c1"),
            ("consumerGroup", "g"),
            ("producerGroup", "pg"),
        ],
    );
    assert_eq!(call(&first, unregister).await.code, response::SUCCESS);
    assert_eq!(call(&first, list()).await.code, response::SYSTEM_ERROR);
    broker.stop().await;
}

#[tokio::test]
async fn progress_is_kept_and_a_new_group_starts_at_a_young_queues_beginning() {
    let broker = start().await;
    let caller = broker.connect().await;
    call(&caller, send_to("O", 0, "", "x")).await;
    call(&caller, heartbeat("c", "g", "O", "*", 1)).await;
    let query = |extra: &[(&str, &str)]| {
        let mut all = vec![("consumerGroup", "g"), ("topic", "O"), ("queueId", "0")];
        all.extend_from_slice(extra);
        request(code::QUERY_CONSUMER_OFFSET, &all)
    };
    assert_eq!(number(&call(&caller, query(&[])).await, "offset"), 0);
    let strict = query(&[("setZeroIfNotFound", "false")]);
    assert_eq!(call(&caller, strict).await.code, response::QUERY_NOT_FOUND);
    let update = |topic: &str, offset: &str| {
        request(
            code::UPDATE_CONSUMER_OFFSET,
            &[
                ("consumerGroup", "g"),
                ("topic", topic),
                ("queueId", "0"),
                ("commitOffset", offset),
            ],
        )
    };
    assert_eq!(
        call(&caller, update("O", "1")).await.code,
        response::SUCCESS
    );
    assert_eq!(number(&call(&caller, query(&[])).await, "offset"), 1);
    assert_eq!(
        call(&caller, update("Nowhere", "1")).await.code,
        response::TOPIC_NOT_EXIST
    );
    let queue = &[("topic", "O"), ("queueId", "0")];
    assert_eq!(
        number(
            &call(&caller, request(code::GET_MAX_OFFSET, queue)).await,
            "offset"
        ),
        1
    );
    assert_eq!(
        number(
            &call(&caller, request(code::GET_MIN_OFFSET, queue)).await,
            "offset"
        ),
        0
    );
    let earliest = call(&caller, request(code::GET_EARLIEST_MSG_STORETIME, queue)).await;
    assert!(number(&earliest, "timestamp") > 1_700_000_000_000);
    let search = request(
        code::SEARCH_OFFSET_BY_TIMESTAMP,
        &[("topic", "O"), ("queueId", "0"), ("timestamp", "0")],
    );
    assert_eq!(number(&call(&caller, search).await, "offset"), 0);

    // A reset is told by the next pull, and until then commits change nothing.
    let reset = request(
        code::INVOKE_BROKER_TO_RESET_OFFSET,
        &[
            ("topic", "O"),
            ("group", "g"),
            ("timestamp", "0"),
            ("isForce", "true"),
        ],
    );
    assert_eq!(call(&caller, reset).await.code, response::SUCCESS);
    let ignored = call(&caller, update("O", "1")).await;
    assert_eq!(
        ignored.remark.as_deref(),
        Some("Offset has been previously reset")
    );
    let told = call(&caller, pull_from("g", "O", 0, 1, 4 | 2, 5000, "*")).await;
    assert_eq!(told.code, response::PULL_OFFSET_MOVED, "{told:?}");
    assert_eq!(number(&told, "nextBeginOffset"), 0);
    assert_eq!(call(&caller, update("O", "1")).await.remark, None);
    broker.stop().await;
}

#[tokio::test]
async fn a_commit_on_a_pull_counts() {
    let broker = start().await;
    let caller = broker.connect().await;
    call(&caller, send_to("C", 0, "", "x")).await;
    let mut pull = pull_from("g", "C", 0, 0, 4 | 1, 0, "*");
    pull.fields.set("commitOffset", "1");
    call(&caller, pull).await;
    let query = request(
        code::QUERY_CONSUMER_OFFSET,
        &[("consumerGroup", "g"), ("topic", "C"), ("queueId", "0")],
    );
    assert_eq!(number(&call(&caller, query).await, "offset"), 1);
    broker.stop().await;
}

#[tokio::test]
async fn a_queue_is_locked_for_one_client_at_a_time() {
    let broker = start_with(|config, _| config.queue_lock_ms = 60_000).await;
    let caller = broker.connect().await;
    let queue = |broker: &str, id| MessageQueue {
        broker_name: broker.to_owned(),
        queue_id: id,
        topic: "T".to_owned(),
    };
    let ask = |number, client: &str, queues: Vec<MessageQueue>| {
        let body = LockQueues {
            client_id: client.to_owned(),
            consumer_group: "g".to_owned(),
            mq_set: queues,
            only_this_broker: false,
        };
        Command::request(number).with_body(json::write(&body))
    };
    let both = vec![queue("twinmq-1", 0), queue("elsewhere", 0)];
    let answer = call(&caller, ask(code::LOCK_BATCH_MQ, "a", both)).await;
    let held: LockedQueues = json::read(&answer.body).expect("queues");
    assert_eq!(held.locked, [queue("twinmq-1", 0)]);
    let two = vec![queue("twinmq-1", 0), queue("twinmq-1", 1)];
    let answer = call(&caller, ask(code::LOCK_BATCH_MQ, "b", two.clone())).await;
    let held: LockedQueues = json::read(&answer.body).expect("queues");
    assert_eq!(held.locked, [queue("twinmq-1", 1)]);
    call(&caller, ask(code::UNLOCK_BATCH_MQ, "a", two.clone())).await;
    let answer = call(&caller, ask(code::LOCK_BATCH_MQ, "b", two)).await;
    let held: LockedQueues = json::read(&answer.body).expect("queues");
    assert_eq!(held.locked.len(), 2);
    broker.stop().await;
}

#[tokio::test]
async fn without_long_polling_a_pull_at_the_end_still_waits_a_second() {
    let broker = start_with(|config, _| config.long_polling = false).await;
    let caller = broker.connect().await;
    call(&caller, send_to("P", 0, "", "x")).await;
    let began = Instant::now();
    let pull = pull_from("g", "P", 0, 1, 2 | 4, 15_000, "*");
    let answer = call(&caller, pull).await;
    assert_eq!(answer.code, response::PULL_NOT_FOUND);
    let took = began.elapsed();
    assert!(
        (Duration::from_millis(900)..Duration::from_secs(10)).contains(&took),
        "{took:?}: clients pull again at once"
    );
    broker.stop().await;
}

#[tokio::test]
async fn a_reset_is_told_by_the_next_pull_and_ends_with_its_topic() {
    let broker = start().await;
    let caller = broker.connect().await;
    call(&caller, heartbeat("c", "g", "R", "*", 1)).await;
    for body in ["0", "1", "2"] {
        call(&caller, send_to("R", 0, "", body)).await;
    }
    let reset = |offset: &str| {
        request(
            code::INVOKE_BROKER_TO_RESET_OFFSET,
            &[
                ("topic", "R"),
                ("group", "g"),
                ("queueId", "0"),
                ("offset", offset),
                ("timestamp", "-1"),
                ("isForce", "true"),
            ],
        )
    };
    assert_eq!(call(&caller, reset("1")).await.code, response::SUCCESS);
    let told = call(&caller, pull_from("g", "R", 0, 3, 4, 0, "*")).await;
    assert_eq!(told.code, response::PULL_OFFSET_MOVED);
    assert_eq!(number(&told, "nextBeginOffset"), 1);
    let on = call(&caller, pull_from("g", "R", 0, 1, 4, 0, "*")).await;
    assert_eq!(
        (on.code, number(&on, "nextBeginOffset")),
        (response::SUCCESS, 3)
    );

    // Nobody needs to be told what it knows: a consumer that starts where the reset put the group.
    assert_eq!(call(&caller, reset("1")).await.code, response::SUCCESS);
    for _ in 0..2 {
        let started = call(&caller, pull_from("g", "R", 0, 1, 4, 0, "*")).await;
        assert_eq!(
            (started.code, number(&started, "nextBeginOffset")),
            (response::SUCCESS, 3)
        );
    }
    let on = call(&caller, pull_from("g", "R", 0, 2, 4, 0, "*")).await;
    assert_eq!(on.code, response::SUCCESS);

    assert_eq!(call(&caller, reset("3")).await.code, response::SUCCESS);
    let delete = request(code::DELETE_TOPIC_IN_BROKER, &[("topic", "R")]);
    assert_eq!(call(&caller, delete).await.code, response::SUCCESS);
    call(&caller, send_to("R", 0, "", "new")).await;
    let fresh = call(&caller, pull_from("g", "R", 0, 0, 4, 0, "*")).await;
    assert_eq!(fresh.code, response::SUCCESS, "{fresh:?}");
    broker.stop().await;
}
