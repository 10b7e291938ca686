//! PULL_MESSAGE (11), LITE_PULL_MESSAGE (361) and their answer. RocketMQ: `PullMessageRequestHeader`.

use super::headers;

/// Bits of [`Pull::sys_flag`].
pub mod flag {
    /// `commit_offset` is to be stored.
    pub const COMMIT_OFFSET: i32 = 1;
    /// The broker may hold the request.
    pub const SUSPEND: i32 = 2;
    /// `subscription` is there.
    pub const SUBSCRIPTION: i32 = 4;
    /// A filter class; historic.
    pub const CLASS_FILTER: i32 = 8;
    /// A lite pull.
    pub const LITE: i32 = 16;
}

headers! {
    /// A wish for messages.
    Pull<'a> {
        /// The consumer group.
        consumer_group: &'a str = "consumerGroup",
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// From which offset on.
        queue_offset: i64 = "queueOffset",
        /// Messages at most.
        max_msg_nums: i32 = "maxMsgNums",
        /// See [`flag`].
        sys_flag: i32 = "sysFlag",
        /// Progress to store, when its flag is set.
        commit_offset: i64 = "commitOffset",
        /// How long to hold at most, in milliseconds.
        suspend_timeout_millis: i64 = "suspendTimeoutMillis",
        /// The expression, when its flag is set.
        subscription: Option<&'a str> = "subscription",
        /// The subscription's version as the client knows it.
        sub_version: i64 = "subVersion",
        /// TAG, which is also the default, or SQL92.
        expression_type: Option<&'a str> = "expressionType",
        /// Bytes at most; 5.x.
        max_msg_bytes: Option<i32> = "maxMsgBytes",
        /// Of the 5.x proxy.
        request_source: Option<i32> = "requestSource",
    }

    /// The answer: with 0, 19, 20 and 21 Java reads the first four without a look.
    Pulled {
        /// The broker id to ask next time.
        suggest_which_broker_id: i64 = "suggestWhichBrokerId",
        /// Where to go on.
        next_begin_offset: i64 = "nextBeginOffset",
        /// The queue's first offset.
        min_offset: i64 = "minOffset",
        /// The queue's end.
        max_offset: i64 = "maxOffset",
        /// 5.x; 0.
        topic_sys_flag: Option<i32> = "topicSysFlag",
        /// 5.x; 0.
        group_sys_flag: Option<i32> = "groupSysFlag",
        /// With code 16: 1 broker, 2 group, 3 topic, 4 broadcast, 5 subscription.
        forbidden_type: Option<i32> = "forbiddenType",
    }
}
