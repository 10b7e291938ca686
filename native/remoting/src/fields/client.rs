//! Clients and groups: unregistering (35), consumer lists (38), notices (40), connections (203, 204),
//! progress (208), group settings (207, 352, 353) and requests that are passed on to a client (221, 307, 309).

use super::headers;

headers! {
    /// A client leaves.
    Unregister<'a> {
        /// The client's id.
        client_id: &'a str = "clientID",
        /// As a producer of this group.
        producer_group: Option<&'a str> = "producerGroup",
        /// As a consumer of this group.
        consumer_group: Option<&'a str> = "consumerGroup",
    }

    /// A consumer group: 38, 40, 203.
    ConsumerGroup<'a> {
        /// Its name.
        consumer_group: &'a str = "consumerGroup",
    }

    /// A producer group: 204.
    ProducerGroup<'a> {
        /// Its name.
        producer_group: &'a str = "producerGroup",
    }

    /// A group: 343, 352.
    GroupIs<'a> {
        /// Its name.
        group: &'a str = "group",
    }

    /// A group and a topic: 345, 353.
    GroupTopic<'a> {
        /// The group.
        group: &'a str = "group",
        /// The topic.
        topic: Option<&'a str> = "topic",
        /// 353: whether it may read; absent asks.
        readable: Option<bool> = "readable",
    }

    /// DELETE_SUBSCRIPTIONGROUP (207).
    DeleteGroup<'a> {
        /// Its name.
        group_name: &'a str = "groupName",
        /// Its offsets too.
        clean_offset: Option<bool> = "cleanOffset",
    }

    /// GET_CONSUME_STATS (208).
    ConsumeStatsOf<'a> {
        /// The group.
        consumer_group: &'a str = "consumerGroup",
        /// One topic, or all.
        topic: Option<&'a str> = "topic",
        /// Several, separated by `;`.
        topic_list: Option<&'a str> = "topicList",
    }

    /// One page of all groups (201); all three absent: everything.
    AllGroups<'a> {
        /// From this index on.
        group_seq: Option<i32> = "groupSeq",
        /// The data version the asker has, JSON.
        data_version: Option<&'a str> = "dataVersion",
        /// Groups at most.
        max_group_num: Option<i32> = "maxGroupNum",
    }

    /// GET_CONSUMER_RUNNING_INFO (307).
    RunningInfo<'a> {
        /// The group.
        consumer_group: &'a str = "consumerGroup",
        /// The client.
        client_id: &'a str = "clientId",
        /// With a dump of its threads.
        jstack_enable: Option<bool> = "jstackEnable",
    }

    /// CONSUME_MESSAGE_DIRECTLY (309).
    ConsumeDirectly<'a> {
        /// The group.
        consumer_group: &'a str = "consumerGroup",
        /// The client.
        client_id: Option<&'a str> = "clientId",
        /// The message.
        msg_id: Option<&'a str> = "msgId",
        /// Set by the broker.
        broker_name: Option<&'a str> = "brokerName",
        /// The message's topic.
        topic: Option<&'a str> = "topic",
    }

    /// INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and what goes to the client (221).
    ConsumerStatus<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// The group.
        group: &'a str = "group",
        /// One client, or all.
        client_addr: Option<&'a str> = "clientAddr",
    }

    /// VIEW_BROKER_STATS_DATA (315).
    StatsOf<'a> {
        /// The kind.
        stats_name: &'a str = "statsName",
        /// Of what.
        stats_key: &'a str = "statsKey",
    }

    /// GET_BROKER_CONSUME_STATS (317).
    BrokerConsumeStats {
        /// Only ordered groups, or only others.
        is_order: bool = "isOrder",
    }
}
