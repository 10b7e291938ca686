//! What operators and their tools ask.

use crate::broker::{call, heartbeat, request, send_to, start};
use twinmq_remoting::bodies::KvTable;
use twinmq_remoting::bodies::connection::ConsumerConnections;
use twinmq_remoting::bodies::group::{AllGroups, SubscriptionGroupConfig};
use twinmq_remoting::bodies::stats::{ConsumeStats, TopicStats};
use twinmq_remoting::bodies::topic::{TopicConfig, TopicList, TopicTable};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::json;

#[tokio::test]
async fn topics_are_made_changed_listed_and_deleted() {
    let broker = start().await;
    let caller = broker.connect().await;
    let create = |queues: &str, perm: &str, attributes: &str| {
        request(
            code::UPDATE_AND_CREATE_TOPIC,
            &[
                ("topic", "Made"),
                ("defaultTopic", "TBW102"),
                ("readQueueNums", queues),
                ("writeQueueNums", queues),
                ("perm", perm),
                ("topicFilterType", "SINGLE_TAG"),
                ("topicSysFlag", "0"),
                ("order", "false"),
                ("attributes", attributes),
            ],
        )
    };
    assert_eq!(
        call(&caller, create("3", "6", "+message.type=FIFO"))
            .await
            .code,
        response::SUCCESS
    );
    assert_eq!(
        call(&caller, create("3", "6", "")).await.code,
        response::SUCCESS
    );
    assert_eq!(
        call(&caller, create("5", "4", "")).await.code,
        response::SUCCESS
    );
    let one = call(
        &caller,
        request(code::GET_TOPIC_CONFIG, &[("topic", "Made")]),
    )
    .await;
    let one: TopicConfig = json::read(&one.body).expect("a topic");
    assert_eq!(
        (one.read_queue_nums, one.write_queue_nums, one.perm),
        (5, 5, 4)
    );
    assert_eq!(
        one.attributes.get("message.type").map(String::as_str),
        Some("FIFO")
    );
    let refused = call(&caller, send_to("Made", 0, "", "x")).await;
    assert_eq!(refused.code, response::NO_PERMISSION, "{refused:?}");

    let all = call(&caller, request(code::GET_ALL_TOPIC_CONFIG, &[])).await;
    let all: TopicTable = json::read(&all.body).expect("topics");
    for name in [
        "Made",
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "DefaultCluster",
        "twinmq-1",
    ] {
        assert!(all.topic_config_table.contains_key(name), "{name}");
    }
    assert!(!all.topic_config_table.contains_key("__consumer_offsets"));
    let system = call(
        &caller,
        request(code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, &[]),
    )
    .await;
    let system: TopicList = json::read(&system.body).expect("topics");
    assert!(system.topic_list.iter().any(|topic| topic == "TBW102"));
    assert!(!system.topic_list.iter().any(|topic| topic == "Made"));

    let delete = |topic: &str| request(code::DELETE_TOPIC_IN_BROKER, &[("topic", topic)]);
    assert_eq!(
        call(&caller, delete("TBW102")).await.code,
        response::INVALID_PARAMETER
    );
    assert_eq!(call(&caller, delete("Made")).await.code, response::SUCCESS);
    let gone = call(
        &caller,
        request(code::GET_TOPIC_CONFIG, &[("topic", "Made")]),
    )
    .await;
    assert_eq!(gone.code, response::TOPIC_NOT_EXIST);
    broker.stop().await;
}

#[tokio::test]
async fn groups_are_made_listed_and_deleted() {
    let broker = start().await;
    let caller = broker.connect().await;
    let body = r#"{"groupName":"G","retryMaxTimes":3,"consumeEnable":true,"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5}},"attributes":{"+a":"1","+b":"2"}}"#;
    let put = request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[]).with_body(body.to_owned());
    assert_eq!(call(&caller, put).await.code, response::SUCCESS);
    let one = call(
        &caller,
        request(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "G")]),
    )
    .await;
    let one: SubscriptionGroupConfig = json::read(&one.body).expect("a group");
    assert_eq!((one.retry_max_times, one.retry_queue_nums), (3, 1));
    assert_eq!(
        one.group_retry_policy["exponentialRetryPolicy"]["initial"],
        5
    );
    assert_eq!(one.attributes.get("a").map(String::as_str), Some("1"));
    let body = r#"{"groupName":"G","attributes":{"-a":""},"subscriptionDataSet":[{"topic":"T"}]}"#;
    let put = request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[]).with_body(body.to_owned());
    assert_eq!(call(&caller, put).await.code, response::SUCCESS);
    let one = call(
        &caller,
        request(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "G")]),
    )
    .await;
    let one: SubscriptionGroupConfig = json::read(&one.body).expect("a group");
    assert_eq!(one.attributes.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(one.retry_max_times, 16);
    assert_eq!(one.subscription_data_set.expect("kept")[0]["topic"], "T");
    let all = call(
        &caller,
        request(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[]),
    )
    .await;
    let all: AllGroups = json::read(&all.body).expect("groups");
    assert!(all.subscription_group_table.contains_key("G"));
    let delete = request(code::DELETE_SUBSCRIPTIONGROUP, &[("groupName", "G")]);
    assert_eq!(call(&caller, delete).await.code, response::SUCCESS);
    let one = call(
        &caller,
        request(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "G")]),
    )
    .await;
    assert_eq!(one.code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    broker.stop().await;
}

#[tokio::test]
async fn progress_and_connections_are_shown() {
    let broker = start().await;
    let caller = broker.connect().await;
    for _ in 0..3 {
        call(&caller, send_to("T", 0, "", "x")).await;
    }
    let offline = request(
        code::GET_CONSUMER_CONNECTION_LIST,
        &[("consumerGroup", "g")],
    );
    assert_eq!(
        call(&caller, offline.clone()).await.code,
        response::CONSUMER_NOT_ONLINE
    );
    call(&caller, heartbeat("c", "g", "T", "*", 1)).await;
    let online = call(&caller, offline).await;
    let online: ConsumerConnections = json::read(&online.body).expect("connections");
    assert_eq!(online.connection_set[0].client_id, "c");
    assert!(online.subscription_table.contains_key("T"));
    let commit = request(
        code::UPDATE_CONSUMER_OFFSET,
        &[
            ("consumerGroup", "g"),
            ("topic", "T"),
            ("queueId", "0"),
            ("commitOffset", "2"),
        ],
    );
    call(&caller, commit).await;
    let stats = call(
        &caller,
        request(code::GET_CONSUME_STATS, &[("consumerGroup", "g")]),
    )
    .await;
    let text = String::from_utf8_lossy(&stats.body).into_owned();
    assert!(
        text.contains(r#"{{"brokerName":"twinmq-1","queueId":0,"topic":"T"}:{"#),
        "{text}"
    );
    let stats: ConsumeStats = json::read(&stats.body).expect("progress");
    let (_, row) = stats.offset_table.iter().next().expect("a queue");
    assert_eq!((row.broker_offset, row.consumer_offset), (3, 2));
    assert!(row.last_timestamp > 0);
    let topic = call(
        &caller,
        request(code::GET_TOPIC_STATS_INFO, &[("topic", "T")]),
    )
    .await;
    let topic: TopicStats = json::read(&topic.body).expect("ends");
    assert_eq!(topic.offset_table.len(), 4);
    let who = call(
        &caller,
        request(code::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "T")]),
    )
    .await;
    assert_eq!(&who.body[..], br#"{"groupList":["g"]}"#);
    broker.stop().await;
}

#[tokio::test]
async fn runtime_info_has_every_key_that_tools_parse() {
    let broker = start().await;
    let caller = broker.connect().await;
    call(&caller, send_to("T", 0, "", "x")).await;
    let info = call(&caller, request(code::GET_BROKER_RUNTIME_INFO, &[])).await;
    let info: KvTable = json::read(&info.body).expect("a table");
    for key in [
        "bootTimestamp",
        "runtime",
        "putMessageEntireTimeMax",
        "getMessageEntireTimeMax",
        "putMessageTimesTotal",
        "putMessageSizeTotal",
        "putMessageFailedTimes",
        "putMessageAverageSize",
        "putMessageDistributeTime",
        "putTps",
        "getFoundTps",
        "getMissTps",
        "getTotalTps",
        "getTransferredTps",
        "putLatency99",
        "putLatency999",
        "dispatchMaxBuffer",
        "commitLogDiskRatio",
        "consumeQueueDiskRatio",
        "commitLogMinOffset",
        "commitLogMaxOffset",
        "brokerActive",
        "brokerVersionDesc",
        "brokerVersion",
        "msgPutTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalTodayNow",
        "msgGetTotalYesterdayMorning",
        "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow",
        "dispatchBehindBytes",
        "pageCacheLockTimeMills",
        "earliestMessageTimeStamp",
        "startAcceptSendRequestTimeStamp",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
        "remainTransientStoreBufferNumbs",
        "remainHowManyDataToCommit",
        "remainHowManyDataToFlush",
        "commitLogDirCapacity",
        "sendThreadPoolQueueSize",
        "sendThreadPoolQueueCapacity",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueSize",
        "queryThreadPoolQueueHeadWaitTimeMills",
        "ackThreadPoolQueueHeadWaitTimeMills",
        "EndTransactionQueueSize",
        "EndTransactionThreadPoolQueueCapacity",
    ] {
        assert!(info.table.contains_key(key), "{key}");
    }
    let capacity = &info.table["commitLogDirCapacity"];
    assert!(
        capacity.starts_with("Total : ") && capacity.ends_with('.'),
        "{capacity}"
    );
    // What is not measured is zero, not invented.
    let buckets = &info.table["putMessageDistributeTime"];
    let counted = buckets.split_whitespace().filter(|b| !b.ends_with(":0"));
    assert_eq!(counted.count(), 0, "{buckets}");
    assert_eq!(info.table["sendThreadPoolQueueCapacity"], "0");
    // The log is older than the front, and its disk larger than the little log.
    let time = |key: &str| info.table[key].parse::<i64>().expect("a time");
    assert!(time("earliestMessageTimeStamp") > 0);
    assert!(time("earliestMessageTimeStamp") < time("bootTimestamp"));
    assert!(
        capacity.contains("GiB") || capacity.contains("TiB"),
        "{capacity}"
    );
    let config = call(&caller, request(code::GET_BROKER_CONFIG, &[])).await;
    assert!(String::from_utf8_lossy(&config.body).contains("brokerName=twinmq-1\n"));
    assert!(config.fields.get("version").is_some());
    // What a tool cannot change is not taken in silence.
    assert!(String::from_utf8_lossy(&config.body).contains("flushDiskType=ASYNC_FLUSH\n"));
    for (line, code) in [
        ("flushDiskType=SYNC_FLUSH", response::NO_PERMISSION),
        ("flushDiskType=ASYNC_FLUSH", response::SUCCESS),
    ] {
        let update = request(code::UPDATE_BROKER_CONFIG, &[]).with_body(line);
        assert_eq!(call(&caller, update).await.code, code);
    }
    let stats = request(
        code::VIEW_BROKER_STATS_DATA,
        &[("statsName", "TOPIC_PUT_NUMS"), ("statsKey", "Nothing")],
    );
    assert_eq!(call(&caller, stats).await.code, response::SYSTEM_ERROR);
    let unknown = call(&caller, request(12_345, &[])).await;
    assert_eq!(unknown.code, response::REQUEST_CODE_NOT_SUPPORTED);
    broker.stop().await;
}
