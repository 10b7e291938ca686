//! Sending: SEND_MESSAGE (10, long names), V2, batch and reply (310, 320, 324, 325), its answer, and
//! CONSUMER_SEND_MSG_BACK (36), END_TRANSACTION (37). RocketMQ: `SendMessageRequestHeader(V2)`.

use super::headers;

headers! {
    /// A message to store; the body is its body. Long and one-letter names are both read; the
    /// one-letter names are written.
    Send<'a> {
        /// The producer's group.
        producer_group: &'a str = "a" | "producerGroup",
        /// Where it goes.
        topic: &'a str = "b" | "topic",
        /// The template for creating the topic.
        default_topic: &'a str = "c" | "defaultTopic",
        /// Queues to create at most.
        default_topic_queue_nums: i32 = "d" | "defaultTopicQueueNums",
        /// The queue; below 0 the broker picks one.
        queue_id: i32 = "e" | "queueId",
        /// Compression and transaction bits.
        sys_flag: i32 = "f" | "sysFlag",
        /// When the client made it, in milliseconds since 1970.
        born_timestamp: i64 = "g" | "bornTimestamp",
        /// The application's flag.
        flag: i32 = "h" | "flag",
        /// Properties, separated by 0x01 and 0x02.
        properties: Option<&'a str> = "i" | "properties",
        /// How often it was consumed before.
        reconsume_times: Option<i32> = "j" | "reconsumeTimes",
        /// Historic.
        unit_mode: Option<bool> = "k" | "unitMode",
        /// Only meaningful on retry topics.
        max_reconsume_times: Option<i32> = "l" | "maxReconsumeTimes",
        /// Whether the body is a batch of messages.
        batch: Option<bool> = "m" | "batch",
        /// The broker name the client thinks it addresses.
        broker_name: Option<&'a str> = "n" | "bname",
    }

    /// The answer to a send, also for the codes 10, 11 and 12.
    Sent<'a> {
        /// The message's address as text; of a batch, a comma list.
        msg_id: &'a str = "msgId",
        /// Where it went.
        queue_id: i32 = "queueId",
        /// Its (first) offset.
        queue_offset: i64 = "queueOffset",
        /// The client's unique key.
        transaction_id: Option<&'a str> = "transactionId",
        /// The same of a batch.
        batch_uniq_id: Option<&'a str> = "batchUniqId",
        /// Of a timer message.
        recall_handle: Option<&'a str> = "recallHandle",
        /// Java reads this from the map without a look.
        msg_region: &'a str = "MSG_REGION",
        /// Tracing is off only when this is "false".
        trace_on: bool = "TRACE_ON",
    }

    /// A consumer sends a message back.
    SendBack<'a> {
        /// The message's physical offset.
        offset: i64 = "offset",
        /// The consumer group.
        group: &'a str = "group",
        /// The wanted delay level; 0: by the number of attempts; below 0: dead letter.
        delay_level: i32 = "delayLevel",
        /// The message's first id.
        origin_msg_id: Option<&'a str> = "originMsgId",
        /// The topic it was consumed from.
        origin_topic: Option<&'a str> = "originTopic",
        /// Historic.
        unit_mode: Option<bool> = "unitMode",
        /// Attempts before the dead letter queue.
        max_reconsume_times: Option<i32> = "maxReconsumeTimes",
    }

    /// The end of a transaction.
    EndTransaction<'a> {
        /// Absent from Go, C++ and 4.x.
        topic: Option<&'a str> = "topic",
        /// The producer's group.
        producer_group: &'a str = "producerGroup",
        /// The half message's queue offset.
        tran_state_table_offset: i64 = "tranStateTableOffset",
        /// The half message's physical offset.
        commit_log_offset: i64 = "commitLogOffset",
        /// 0 unknown, 8 commit, 12 roll back.
        commit_or_rollback: i32 = "commitOrRollback",
        /// Whether it answers a check.
        from_transaction_check: Option<bool> = "fromTransactionCheck",
        /// The client's unique key.
        msg_id: Option<&'a str> = "msgId",
        /// The same, usually.
        transaction_id: Option<&'a str> = "transactionId",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fields;

    #[test]
    fn both_spellings_read_the_same() {
        let letters: Fields = [
            ("a", "pg"),
            ("b", "t"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "-1"),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", "K\u{1}v\u{2}"),
            ("m", "true"),
            ("x", "kept"),
        ]
        .into_iter()
        .collect();
        let names: Fields = [
            ("producerGroup", "pg"),
            ("topic", "t"),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "-1"),
            ("sysFlag", "0"),
            ("bornTimestamp", "1700000000000"),
            ("flag", "0"),
            ("properties", "K\u{1}v\u{2}"),
            ("batch", "TRUE"),
        ]
        .into_iter()
        .collect();
        let send = Send::read(&letters).unwrap();
        assert_eq!(send, Send::read(&names).unwrap());
        assert_eq!(
            (send.queue_id, send.batch, send.reconsume_times),
            (-1, Some(true), None)
        );
        let mut written = Fields::new();
        send.write(&mut written);
        assert_eq!(Send::read(&written).unwrap(), send);
    }

    #[test]
    fn errors_name_the_field() {
        let fields: Fields = [("a", "pg"), ("b", "t"), ("c", "T")].into_iter().collect();
        let error = Send::read(&fields).unwrap_err();
        assert_eq!(error.to_string(), "the custom field <d> is null");
        let fields: Fields = [("offset", "1x"), ("group", "g")].into_iter().collect();
        let error = SendBack::read(&fields).unwrap_err();
        assert_eq!(
            (error.field, error.value.as_deref()),
            ("offset", Some("1x"))
        );
    }
}
