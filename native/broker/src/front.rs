//! The families of handlers, each with the parts it needs, built once.

use crate::config::NativeConfig;
use crate::handlers::admin::Admin;
use crate::handlers::client::Clients;
use crate::handlers::forward::Forwarding;
use crate::handlers::group::GroupAdmin;
use crate::handlers::lock::Locking;
use crate::handlers::offset::Offsetting;
use crate::handlers::pull::Pulling;
use crate::handlers::query::Queries;
use crate::handlers::reply::Replying;
use crate::handlers::send::Sending;
use crate::handlers::topic::TopicAdmin;
use crate::members::Members;
use crate::metrics::NativeMetrics;
use crate::queue_locks::QueueLocks;
use crate::registration::Registered;
use crate::resets::Resets;
use crate::stamp::Stamp;
use crate::tallies::Tallies;
use crate::topics::Topics;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::{Core, CoreConfig};
use twinmq_store::Store;

/// All families.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) sending: Sending,
    pub(crate) replying: Replying,
    pub(crate) pulling: Pulling,
    pub(crate) offsets: Offsetting,
    pub(crate) clients: Clients,
    pub(crate) forwarding: Forwarding,
    pub(crate) locking: Locking,
    pub(crate) topics: TopicAdmin,
    pub(crate) groups: GroupAdmin,
    pub(crate) queries: Queries,
    pub(crate) admin: Admin,
    pub(crate) metrics: NativeMetrics,
}

/// What the front is built on.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The broker.
    pub core: Core,
    /// Its settings.
    pub core_config: CoreConfig,
    /// The log, for what it tells about itself.
    pub store: Store,
    /// What name servers are told besides: fields whose names start with `twinmq` (the Kafka
    /// listeners, the node id).
    pub extras: Vec<(String, String)>,
}

impl Front {
    pub(crate) fn new(
        parts: &Parts,
        config: &NativeConfig,
        advertised: SocketAddr,
        registered: &Registered,
        metrics: &NativeMetrics,
        locks: &Arc<Mutex<QueueLocks>>,
        tallies: &Arc<Tallies>,
    ) -> Self {
        let core = &parts.core;
        let settings = &parts.core_config;
        let broker_name: Arc<str> = Arc::from(settings.broker_name.as_str());
        let cluster_name: Arc<str> = Arc::from(settings.cluster_name.as_str());
        let members = Arc::new(Members::new(core.roster.clone(), config.live_groups_max));
        let topics = Arc::new(Topics {
            catalog: core.catalog.clone(),
            auto_create: settings.auto_create_topics,
        });
        let resets = Arc::new(Resets::default());
        let host = match advertised.ip() {
            IpAddr::V4(v4) => v4.octets(),
            IpAddr::V6(_) => [127, 0, 0, 1],
        };
        let stamp = Stamp::new(
            &settings.cluster_name,
            &config.region_id,
            config.trace_on,
            host,
        );
        let trace_on = if config.trace_on { "true" } else { "false" };
        let call_limit = Duration::from_millis(config.client_call_ms);
        let message_bytes_max = config.message_bytes_max();
        Self {
            sending: Sending {
                topics: topics.clone(),
                groups: core.groups.clone(),
                producing: core.producing.clone(),
                retry: core.retry.clone(),
                locks: locks.clone(),
                registered: registered.clone(),
                tallies: tallies.clone(),
                stamp: stamp.clone(),
                region_id: config.region_id.clone(),
                trace_on,
                body_bytes_max: settings.max_message_size as usize,
                batch_messages_max: config.batch_messages_max,
            },
            replying: Replying {
                members: members.clone(),
                topics: topics.clone(),
                producing: core.producing.clone(),
                stamp,
                call_limit,
                region_id: config.region_id.clone(),
                trace_on,
            },
            pulling: Pulling {
                catalog: core.catalog.clone(),
                groups: core.groups.clone(),
                consuming: core.consuming.clone(),
                offsets: core.offsets.clone(),
                members: members.clone(),
                resets: resets.clone(),
                tallies: tallies.clone(),
                auto_create_groups: settings.auto_create_groups,
                messages_max: config.pull_messages_max,
                bytes_max: config.pull_bytes_max.min(message_bytes_max),
                message_bytes_max,
                hold_max: Duration::from_millis(config.pull_hold_ms_max),
                long_polling: config.long_polling,
            },
            offsets: Offsetting {
                catalog: core.catalog.clone(),
                groups: core.groups.clone(),
                consuming: core.consuming.clone(),
                offsets: core.offsets.clone(),
                resets,
                broker_name: broker_name.clone(),
            },
            clients: Clients {
                members: members.clone(),
                groups: core.groups.clone(),
                topics: topics.clone(),
                registered: registered.clone(),
                auto_create_groups: settings.auto_create_groups,
                entries_max: config.heartbeat_entries_max,
            },
            forwarding: Forwarding {
                members: members.clone(),
                groups: core.groups.clone(),
                catalog: core.catalog.clone(),
                consuming: core.consuming.clone(),
                broker_name: broker_name.clone(),
                call_limit,
                message_bytes_max,
            },
            locking: Locking {
                locks: locks.clone(),
                broker_name: broker_name.clone(),
                queues_max: config.heartbeat_entries_max,
            },
            topics: TopicAdmin {
                topics,
                consuming: core.consuming.clone(),
                offsets: core.offsets.clone(),
                members: members.clone(),
                registered: registered.clone(),
                broker_name: broker_name.clone(),
                cluster_name: cluster_name.clone(),
            },
            groups: GroupAdmin {
                catalog: core.catalog.clone(),
                groups: core.groups.clone(),
                offsets: core.offsets.clone(),
                members: members.clone(),
            },
            queries: Queries {
                catalog: core.catalog.clone(),
                consuming: core.consuming.clone(),
                offsets: core.offsets.clone(),
                members,
                tallies: tallies.clone(),
                groups: core.groups.clone(),
                broker_name,
                cluster_name,
                address: advertised.to_string(),
                message_bytes_max,
            },
            admin: Admin {
                catalog: core.catalog.clone(),
                store: parts.store.clone(),
                tallies: tallies.clone(),
                settings: shown(settings, config, advertised),
                boot_ms: crate::now_ms(),
            },
            metrics: metrics.clone(),
        }
    }
}

/// The settings under the names that RocketMQ's tools look for.
fn shown(
    core: &CoreConfig,
    config: &NativeConfig,
    advertised: SocketAddr,
) -> BTreeMap<&'static str, String> {
    let pull_bytes = config.pull_bytes_max.to_string();
    let pull_messages = config.pull_messages_max.to_string();
    let flush = if core.flush_sync {
        "SYNC_FLUSH"
    } else {
        "ASYNC_FLUSH"
    };
    BTreeMap::from([
        ("brokerName", core.broker_name.clone()),
        ("brokerClusterName", core.cluster_name.clone()),
        ("brokerId", "0".to_owned()),
        ("brokerIP1", advertised.ip().to_string()),
        ("brokerIP2", advertised.ip().to_string()),
        ("listenPort", advertised.port().to_string()),
        ("namesrvAddr", config.name_servers.join(";")),
        ("brokerPermission", "6".to_owned()),
        ("brokerRole", "ASYNC_MASTER".to_owned()),
        ("flushDiskType", flush.to_owned()),
        ("autoCreateTopicEnable", core.auto_create_topics.to_string()),
        (
            "autoCreateSubscriptionGroup",
            core.auto_create_groups.to_string(),
        ),
        (
            "defaultTopicQueueNums",
            core.default_topic_queue_nums.to_string(),
        ),
        (
            "fileReservedTime",
            core.file_reserved_time_hours.to_string(),
        ),
        ("maxMessageSize", core.max_message_size.to_string()),
        ("messageDelayLevel", core.message_delay_level.clone()),
        ("longPollingEnable", config.long_polling.to_string()),
        ("maxTransferBytesOnMessageInMemory", pull_bytes),
        ("maxTransferCountOnMessageInMemory", pull_messages),
        (
            "registerNameServerPeriod",
            config.register_interval_ms.to_string(),
        ),
        ("regionId", config.region_id.clone()),
        ("traceOn", config.trace_on.to_string()),
        ("enablePropertyFilter", "false".to_owned()),
        ("litePullMessageEnable", "true".to_owned()),
    ])
}
