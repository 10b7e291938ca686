//! Where counts and lengths sit in each request that this broker answers, by version.
//!
//! The field order is that of Apache Kafka's message schemas (`clients/.../common/message/*.json`).
//! Names are for log lines only.

use super::Kind::{Array, Blob, F1, F2, F4, F8, F16, Maybe, Str, Struct};
use super::{Fields, Kind, MAX, Schema, f, t};

const PRODUCE: Fields = Fields(&[
    f("transactional_id", 3, MAX, Str),
    f("acks", 3, MAX, F2),
    f("timeout_ms", 3, MAX, F4),
    f(
        "topic_data",
        3,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 3, 12, Str),
            f("topic_id", 13, MAX, F16),
            f(
                "partition_data",
                3,
                MAX,
                Array(&Struct(&Fields(&[
                    f("index", 3, MAX, F4),
                    f("records", 3, MAX, Blob),
                ]))),
            ),
        ]))),
    ),
]);

const FETCH: Fields = Fields(&[
    f("replica_id", 4, 14, F4),
    f("max_wait_ms", 4, MAX, F4),
    f("min_bytes", 4, MAX, F4),
    f("max_bytes", 4, MAX, F4),
    f("isolation_level", 4, MAX, F1),
    f("session_id", 7, MAX, F4),
    f("session_epoch", 7, MAX, F4),
    f(
        "topics",
        4,
        MAX,
        Array(&Struct(&Fields(&[
            f("topic", 4, 12, Str),
            f("topic_id", 13, MAX, F16),
            f(
                "partitions",
                4,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition", 4, MAX, F4),
                    f("current_leader_epoch", 9, MAX, F4),
                    f("fetch_offset", 4, MAX, F8),
                    f("last_fetched_epoch", 12, MAX, F4),
                    f("log_start_offset", 5, MAX, F8),
                    f("partition_max_bytes", 4, MAX, F4),
                    t(0, 17, F16),
                    t(1, 18, F8),
                ]))),
            ),
        ]))),
    ),
    f(
        "forgotten_topics_data",
        7,
        MAX,
        Array(&Struct(&Fields(&[
            f("topic", 7, 12, Str),
            f("topic_id", 13, MAX, F16),
            f("partitions", 7, MAX, Array(&F4)),
        ]))),
    ),
    f("rack_id", 11, MAX, Str),
    t(0, 0, Str),
    t(
        1,
        15,
        Struct(&Fields(&[
            f("replica_id", 15, MAX, F4),
            f("replica_epoch", 15, MAX, F8),
        ])),
    ),
]);

const LIST_OFFSETS: Fields = Fields(&[
    f("replica_id", 1, MAX, F4),
    f("isolation_level", 2, MAX, F1),
    f(
        "topics",
        1,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 1, MAX, Str),
            f(
                "partitions",
                1,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition_index", 1, MAX, F4),
                    f("current_leader_epoch", 4, MAX, F4),
                    f("timestamp", 1, MAX, F8),
                ]))),
            ),
        ]))),
    ),
    f("timeout_ms", 10, MAX, F4),
]);

const METADATA: Fields = Fields(&[
    f(
        "topics",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("topic_id", 10, MAX, F16),
            f("name", 0, MAX, Str),
        ]))),
    ),
    f("allow_auto_topic_creation", 4, MAX, F1),
    f("include_cluster_authorized_operations", 8, 10, F1),
    f("include_topic_authorized_operations", 8, MAX, F1),
]);

const OFFSET_COMMIT: Fields = Fields(&[
    f("group_id", 2, MAX, Str),
    f("generation_id_or_member_epoch", 2, MAX, F4),
    f("member_id", 2, MAX, Str),
    f("group_instance_id", 7, MAX, Str),
    f("retention_time_ms", 2, 4, F8),
    f(
        "topics",
        2,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 2, MAX, Str),
            f(
                "partitions",
                2,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition_index", 2, MAX, F4),
                    f("committed_offset", 2, MAX, F8),
                    f("committed_leader_epoch", 6, MAX, F4),
                    f("committed_metadata", 2, MAX, Str),
                ]))),
            ),
        ]))),
    ),
]);

const OFFSET_FETCH: Fields = Fields(&[
    f("group_id", 1, 7, Str),
    f(
        "topics",
        1,
        7,
        Array(&Struct(&Fields(&[
            f("name", 1, 7, Str),
            f("partition_indexes", 1, 7, Array(&F4)),
        ]))),
    ),
    f(
        "groups",
        8,
        MAX,
        Array(&Struct(&Fields(&[
            f("group_id", 8, MAX, Str),
            f("member_id", 9, MAX, Str),
            f("member_epoch", 9, MAX, F4),
            f(
                "topics",
                8,
                MAX,
                Array(&Struct(&Fields(&[
                    f("name", 8, MAX, Str),
                    f("partition_indexes", 8, MAX, Array(&F4)),
                ]))),
            ),
        ]))),
    ),
    f("require_stable", 7, MAX, F1),
]);

const FIND_COORDINATOR: Fields = Fields(&[
    f("key", 0, 3, Str),
    f("key_type", 1, MAX, F1),
    f("coordinator_keys", 4, MAX, Array(&Str)),
]);

const JOIN_GROUP: Fields = Fields(&[
    f("group_id", 0, MAX, Str),
    f("session_timeout_ms", 0, MAX, F4),
    f("rebalance_timeout_ms", 1, MAX, F4),
    f("member_id", 0, MAX, Str),
    f("group_instance_id", 5, MAX, Str),
    f("protocol_type", 0, MAX, Str),
    f(
        "protocols",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 0, MAX, Str),
            f("metadata", 0, MAX, Blob),
        ]))),
    ),
    f("reason", 8, MAX, Str),
]);

const HEARTBEAT: Fields = Fields(&[
    f("group_id", 0, MAX, Str),
    f("generation_id", 0, MAX, F4),
    f("member_id", 0, MAX, Str),
    f("group_instance_id", 3, MAX, Str),
]);

const LEAVE_GROUP: Fields = Fields(&[
    f("group_id", 0, MAX, Str),
    f("member_id", 0, 2, Str),
    f(
        "members",
        3,
        MAX,
        Array(&Struct(&Fields(&[
            f("member_id", 3, MAX, Str),
            f("group_instance_id", 3, MAX, Str),
            f("reason", 5, MAX, Str),
        ]))),
    ),
]);

const SYNC_GROUP: Fields = Fields(&[
    f("group_id", 0, MAX, Str),
    f("generation_id", 0, MAX, F4),
    f("member_id", 0, MAX, Str),
    f("group_instance_id", 3, MAX, Str),
    f("protocol_type", 5, MAX, Str),
    f("protocol_name", 5, MAX, Str),
    f(
        "assignments",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("member_id", 0, MAX, Str),
            f("assignment", 0, MAX, Blob),
        ]))),
    ),
]);

const DESCRIBE_GROUPS: Fields = Fields(&[
    f("groups", 0, MAX, Array(&Str)),
    f("include_authorized_operations", 3, MAX, F1),
]);

const LIST_GROUPS: Fields = Fields(&[
    f("states_filter", 4, MAX, Array(&Str)),
    f("types_filter", 5, MAX, Array(&Str)),
]);

const API_VERSIONS: Fields = Fields(&[
    f("client_software_name", 3, MAX, Str),
    f("client_software_version", 3, MAX, Str),
]);

const CREATE_TOPICS: Fields = Fields(&[
    f(
        "topics",
        2,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 2, MAX, Str),
            f("num_partitions", 2, MAX, F4),
            f("replication_factor", 2, MAX, F2),
            f(
                "assignments",
                2,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition_index", 2, MAX, F4),
                    f("broker_ids", 2, MAX, Array(&F4)),
                ]))),
            ),
            f(
                "configs",
                2,
                MAX,
                Array(&Struct(&Fields(&[
                    f("name", 2, MAX, Str),
                    f("value", 2, MAX, Str),
                ]))),
            ),
        ]))),
    ),
    f("timeout_ms", 2, MAX, F4),
    f("validate_only", 2, MAX, F1),
]);

const DELETE_TOPICS: Fields = Fields(&[
    f(
        "topics",
        6,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 6, MAX, Str),
            f("topic_id", 6, MAX, F16),
        ]))),
    ),
    f("topic_names", 1, 5, Array(&Str)),
    f("timeout_ms", 1, MAX, F4),
]);

const DELETE_RECORDS: Fields = Fields(&[
    f(
        "topics",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 0, MAX, Str),
            f(
                "partitions",
                0,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition_index", 0, MAX, F4),
                    f("offset", 0, MAX, F8),
                ]))),
            ),
        ]))),
    ),
    f("timeout_ms", 0, MAX, F4),
]);

const INIT_PRODUCER_ID: Fields = Fields(&[
    f("transactional_id", 0, MAX, Str),
    f("transaction_timeout_ms", 0, MAX, F4),
    f("producer_id", 3, MAX, F8),
    f("producer_epoch", 3, MAX, F2),
]);

const OFFSET_FOR_LEADER_EPOCH: Fields = Fields(&[
    f("replica_id", 3, MAX, F4),
    f(
        "topics",
        2,
        MAX,
        Array(&Struct(&Fields(&[
            f("topic", 2, MAX, Str),
            f(
                "partitions",
                2,
                MAX,
                Array(&Struct(&Fields(&[
                    f("partition", 2, MAX, F4),
                    f("current_leader_epoch", 2, MAX, F4),
                    f("leader_epoch", 2, MAX, F4),
                ]))),
            ),
        ]))),
    ),
]);

const DESCRIBE_CONFIGS: Fields = Fields(&[
    f(
        "resources",
        1,
        MAX,
        Array(&Struct(&Fields(&[
            f("resource_type", 1, MAX, F1),
            f("resource_name", 1, MAX, Str),
            f("configuration_keys", 1, MAX, Array(&Str)),
        ]))),
    ),
    f("include_synonyms", 1, MAX, F1),
    f("include_documentation", 3, MAX, F1),
]);

const ALTER_CONFIGS: Fields = Fields(&[
    f(
        "resources",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("resource_type", 0, MAX, F1),
            f("resource_name", 0, MAX, Str),
            f(
                "configs",
                0,
                MAX,
                Array(&Struct(&Fields(&[
                    f("name", 0, MAX, Str),
                    f("value", 0, MAX, Str),
                ]))),
            ),
        ]))),
    ),
    f("validate_only", 0, MAX, F1),
]);

const CREATE_PARTITIONS: Fields = Fields(&[
    f(
        "topics",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 0, MAX, Str),
            f("count", 0, MAX, F4),
            f(
                "assignments",
                0,
                MAX,
                Array(&Struct(&Fields(&[f("broker_ids", 0, MAX, Array(&F4))]))),
            ),
        ]))),
    ),
    f("timeout_ms", 0, MAX, F4),
    f("validate_only", 0, MAX, F1),
]);

const DELETE_GROUPS: Fields = Fields(&[f("groups_names", 0, MAX, Array(&Str))]);

const INCREMENTAL_ALTER_CONFIGS: Fields = Fields(&[
    f(
        "resources",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("resource_type", 0, MAX, F1),
            f("resource_name", 0, MAX, Str),
            f(
                "configs",
                0,
                MAX,
                Array(&Struct(&Fields(&[
                    f("name", 0, MAX, Str),
                    f("config_operation", 0, MAX, F1),
                    f("value", 0, MAX, Str),
                ]))),
            ),
        ]))),
    ),
    f("validate_only", 0, MAX, F1),
]);

const OFFSET_DELETE: Fields = Fields(&[
    f("group_id", 0, MAX, Str),
    f(
        "topics",
        0,
        MAX,
        Array(&Struct(&Fields(&[
            f("name", 0, MAX, Str),
            f(
                "partitions",
                0,
                MAX,
                Array(&Struct(&Fields(&[f("partition_index", 0, MAX, F4)]))),
            ),
        ]))),
    ),
]);

const DESCRIBE_CLUSTER: Fields = Fields(&[
    f("include_cluster_authorized_operations", 0, MAX, F1),
    f("endpoint_type", 1, MAX, F1),
    f("include_fenced_brokers", 2, MAX, F1),
]);

const TOPICS_AND_PARTITIONS: Kind = Array(&Struct(&Fields(&[
    f("topic", 0, MAX, Str),
    f("partitions", 0, MAX, Array(&F4)),
])));

const DESCRIBE_LOG_DIRS: Fields = Fields(&[f("topics", 0, MAX, TOPICS_AND_PARTITIONS)]);

const ELECT_LEADERS: Fields = Fields(&[
    f("election_type", 1, MAX, F1),
    f("topic_partitions", 0, MAX, TOPICS_AND_PARTITIONS),
    f("timeout_ms", 0, MAX, F4),
]);

const LIST_PARTITION_REASSIGNMENTS: Fields = Fields(&[
    f("timeout_ms", 0, MAX, F4),
    f("topics", 0, MAX, TOPICS_AND_PARTITIONS),
]);

const DESCRIBE_TOPIC_PARTITIONS: Fields = Fields(&[
    f(
        "topics",
        0,
        MAX,
        Array(&Struct(&Fields(&[f("name", 0, MAX, Str)]))),
    ),
    f("response_partition_limit", 0, MAX, F4),
    f(
        "cursor",
        0,
        MAX,
        Maybe(&Fields(&[
            f("topic_name", 0, MAX, Str),
            f("partition_index", 0, MAX, F4),
        ])),
    ),
]);

/// The schema of one API's request.
pub(super) const fn of(key: i16) -> Option<Schema> {
    let (flexible_from, fields) = match key {
        0 => (9, &PRODUCE),
        1 => (12, &FETCH),
        2 => (6, &LIST_OFFSETS),
        3 => (9, &METADATA),
        8 => (8, &OFFSET_COMMIT),
        9 => (6, &OFFSET_FETCH),
        10 => (3, &FIND_COORDINATOR),
        11 => (6, &JOIN_GROUP),
        12 => (4, &HEARTBEAT),
        13 => (4, &LEAVE_GROUP),
        14 => (4, &SYNC_GROUP),
        15 => (5, &DESCRIBE_GROUPS),
        16 => (3, &LIST_GROUPS),
        18 => (3, &API_VERSIONS),
        19 => (5, &CREATE_TOPICS),
        20 => (4, &DELETE_TOPICS),
        21 => (2, &DELETE_RECORDS),
        22 => (2, &INIT_PRODUCER_ID),
        23 => (4, &OFFSET_FOR_LEADER_EPOCH),
        32 => (4, &DESCRIBE_CONFIGS),
        33 => (2, &ALTER_CONFIGS),
        35 => (2, &DESCRIBE_LOG_DIRS),
        37 => (2, &CREATE_PARTITIONS),
        42 => (2, &DELETE_GROUPS),
        43 => (2, &ELECT_LEADERS),
        44 => (1, &INCREMENTAL_ALTER_CONFIGS),
        46 => (0, &LIST_PARTITION_REASSIGNMENTS),
        47 => (i16::MAX, &OFFSET_DELETE),
        60 => (0, &DESCRIBE_CLUSTER),
        75 => (0, &DESCRIBE_TOPIC_PARTITIONS),
        _ => return None,
    };
    Some(Schema {
        flexible_from,
        fields,
    })
}
