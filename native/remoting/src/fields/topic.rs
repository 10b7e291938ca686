//! Topics: create (17), delete (215), list (21), one (351, 202, 300), times (303), messages (12, 33).

use super::headers;

headers! {
    /// UPDATE_AND_CREATE_TOPIC (17).
    CreateTopic<'a> {
        /// Its name.
        topic: &'a str = "topic",
        /// Ignored, but always there.
        default_topic: Option<&'a str> = "defaultTopic",
        /// Queues that can be read.
        read_queue_nums: i32 = "readQueueNums",
        /// Queues that can be written.
        write_queue_nums: i32 = "writeQueueNums",
        /// 4 read, 2 write.
        perm: i32 = "perm",
        /// SINGLE_TAG or MULTI_TAG.
        topic_filter_type: Option<&'a str> = "topicFilterType",
        /// Historic.
        topic_sys_flag: Option<i32> = "topicSysFlag",
        /// Whether the topic is ordered.
        order: Option<bool> = "order",
        /// `+k=v,-k`.
        attributes: Option<&'a str> = "attributes",
        /// Not looked at.
        force: Option<bool> = "force",
    }

    /// A topic: 202, 215, 300.
    TopicIs<'a> {
        /// Its name.
        topic: &'a str = "topic",
    }

    /// GET_TOPIC_CONFIG (351).
    TopicConfigOf<'a> {
        /// Its name.
        topic: &'a str = "topic",
        /// Of a static topic.
        lo: Option<bool> = "lo",
    }

    /// One page of all topics (21); all three absent: everything.
    AllTopics<'a> {
        /// From this index on.
        topic_seq: Option<i32> = "topicSeq",
        /// The data version the asker has, JSON.
        data_version: Option<&'a str> = "dataVersion",
        /// Topics at most.
        max_topic_num: Option<i32> = "maxTopicNum",
    }

    /// QUERY_CONSUME_TIME_SPAN (303).
    TimeSpanOf<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The group.
        group: &'a str = "group",
    }

    /// QUERY_MESSAGE (12).
    QueryMessage<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// A key, or a unique key.
        key: &'a str = "key",
        /// Messages at most.
        max_num: i32 = "maxNum",
        /// Milliseconds since 1970.
        begin_timestamp: i64 = "beginTimestamp",
        /// Milliseconds since 1970.
        end_timestamp: i64 = "endTimestamp",
        /// Whether the key is a unique key.
        unique_key: Option<bool> = "_UNIQUE_KEY_QUERY",
    }

    /// The answer to it, beside the body.
    QueriedMessages {
        /// Milliseconds since 1970.
        index_last_update_timestamp: i64 = "indexLastUpdateTimestamp",
        /// A physical offset.
        index_last_update_phyoffset: i64 = "indexLastUpdatePhyoffset",
    }

    /// VIEW_MESSAGE_BY_ID (33).
    ViewMessage<'a> {
        /// Its physical offset.
        offset: i64 = "offset",
        /// Its topic, from newer clients.
        topic: Option<&'a str> = "topic",
    }

    /// QUERY_CONSUME_QUEUE (321).
    QueryConsumeQueue<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// From this offset on.
        index: i64 = "index",
        /// Rows at most.
        count: i32 = "count",
        /// For its subscription.
        consumer_group: Option<&'a str> = "consumerGroup",
    }
}
