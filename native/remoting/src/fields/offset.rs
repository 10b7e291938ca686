//! Offsets: query (14), update (15), by time (29), highest (30), lowest (31), earliest store time (32).

use super::headers;

headers! {
    /// The progress of a group in a queue.
    QueryOffset<'a> {
        /// The consumer group.
        consumer_group: &'a str = "consumerGroup",
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// 5.x: false means "not found" instead of 0 for a new group.
        set_zero_if_not_found: Option<bool> = "setZeroIfNotFound",
    }

    /// Stores the progress of a group in a queue.
    UpdateOffset<'a> {
        /// The consumer group.
        consumer_group: &'a str = "consumerGroup",
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// The next offset to consume.
        commit_offset: i64 = "commitOffset",
    }

    /// The offset at a time.
    SearchOffset<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// Milliseconds since 1970.
        timestamp: i64 = "timestamp",
        /// LOWER (default) or UPPER, in any case.
        boundary_type: Option<&'a str> = "boundaryType",
    }

    /// One queue: of the highest and lowest offset, of the earliest store time.
    QueueOf<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The queue.
        queue_id: i32 = "queueId",
        /// Only readable messages; default true.
        committed: Option<bool> = "committed",
    }

    /// The answer that is one offset.
    OffsetIs {
        /// It.
        offset: i64 = "offset",
    }

    /// The answer that is one time.
    TimestampIs {
        /// Milliseconds since 1970; -1: none.
        timestamp: i64 = "timestamp",
    }

    /// INVOKE_BROKER_TO_RESET_OFFSET (222) and RESET_CONSUMER_CLIENT_OFFSET (220).
    ResetOffset<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The consumer group.
        group: &'a str = "group",
        /// Milliseconds since 1970; -1: the end.
        timestamp: i64 = "timestamp",
        /// Also when it means going forward.
        is_force: bool = "isForce",
        /// One queue, or all: -1 or absent.
        queue_id: Option<i32> = "queueId",
        /// To this offset instead of a time.
        offset: Option<i64> = "offset",
    }
}
