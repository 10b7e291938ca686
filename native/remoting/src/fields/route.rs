//! The name server's headers: brokers (103, 104, 322, 904), routes (105), KV config (100-102, 219),
//! write permission (205, 327), topics (216, 217, 224), members (901).

use super::headers;

headers! {
    /// GET_ROUTEINFO_BY_TOPIC (105).
    RouteOf<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// Wants standard JSON whatever its version.
        accept_standard_json_only: Option<bool> = "acceptStandardJsonOnly",
    }

    /// REGISTER_BROKER (103).
    RegisterBroker<'a> {
        /// The broker's name.
        broker_name: &'a str = "brokerName",
        /// Where clients reach it, `host:port`.
        broker_addr: &'a str = "brokerAddr",
        /// Its cluster.
        cluster_name: &'a str = "clusterName",
        /// Where its replicas reach it, `host:port`.
        ha_server_addr: &'a str = "haServerAddr",
        /// 0 is the master.
        broker_id: i64 = "brokerId",
        /// Silence after which it counts as gone, in milliseconds; absent: 120,000.
        heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMillis",
        /// Whether a replica may stand in for the master.
        enable_acting_master: Option<bool> = "enableActingMaster",
        /// Whether the body is the compressed form.
        compressed: Option<bool> = "compressed",
        /// CRC-32 of the body, without its top bit; 0: not given.
        body_crc32: Option<i32> = "bodyCrc32",
    }

    /// The answer to it, beside the body.
    Registered<'a> {
        /// The master's address for replicas.
        ha_server_addr: Option<&'a str> = "haServerAddr",
        /// The master's address.
        master_addr: Option<&'a str> = "masterAddr",
    }

    /// UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322).
    BrokerIs<'a> {
        /// The broker's name.
        broker_name: &'a str = "brokerName",
        /// Its address.
        broker_addr: &'a str = "brokerAddr",
        /// Its cluster.
        cluster_name: &'a str = "clusterName",
        /// 0 is the master.
        broker_id: i64 = "brokerId",
    }

    /// BROKER_HEARTBEAT (904).
    BrokerHeartbeat<'a> {
        /// Its cluster.
        cluster_name: &'a str = "clusterName",
        /// Its address.
        broker_addr: &'a str = "brokerAddr",
        /// The broker's name.
        broker_name: &'a str = "brokerName",
        /// 0 is the master.
        broker_id: Option<i64> = "brokerId",
    }

    /// The answer to QUERY_DATA_VERSION.
    DataVersionIs {
        /// Whether the name server knows another version.
        changed: bool = "changed",
    }

    /// PUT_KV_CONFIG (100).
    PutKv<'a> {
        /// Namespace.
        namespace: &'a str = "namespace",
        /// Key.
        key: &'a str = "key",
        /// Value.
        value: &'a str = "value",
    }

    /// GET_KV_CONFIG (101), DELETE_KV_CONFIG (102).
    KvOf<'a> {
        /// Namespace.
        namespace: &'a str = "namespace",
        /// Key.
        key: &'a str = "key",
    }

    /// GET_KVLIST_BY_NAMESPACE (219).
    NamespaceIs<'a> {
        /// Namespace.
        namespace: &'a str = "namespace",
    }

    /// WIPE_WRITE_PERM_OF_BROKER (205), ADD_WRITE_PERM_OF_BROKER (327).
    BrokerNameIs<'a> {
        /// The broker's name.
        broker_name: &'a str = "brokerName",
    }

    /// DELETE_TOPIC_IN_NAMESRV (216), REGISTER_TOPIC_IN_NAMESRV (217).
    TopicIn<'a> {
        /// The topic.
        topic: &'a str = "topic",
        /// Only in this cluster.
        cluster_name: Option<&'a str> = "clusterName",
    }

    /// GET_TOPICS_BY_CLUSTER (224).
    ClusterIs<'a> {
        /// The cluster.
        cluster: &'a str = "cluster",
    }

    /// GET_BROKER_MEMBER_GROUP (901).
    MembersOf<'a> {
        /// The cluster.
        cluster_name: &'a str = "clusterName",
        /// The broker's name.
        broker_name: &'a str = "brokerName",
    }
}
