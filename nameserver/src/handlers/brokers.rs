//! Brokers: register (103), unregister (104), data version (322), heartbeat (904), clusters (106),
//! members (901), write permission (205, 327).

use super::ok;
use crate::error::RouteError;
use crate::kv::ORDER_TOPICS;
use crate::routing::{Member, Registration};
use crate::server::State;
use std::time::{Duration, Instant};
use twinmq_remoting::bodies::cluster::BrokerMemberGroup;
use twinmq_remoting::bodies::registration::{BODY_SINCE, RegisterBrokerBody};
use twinmq_remoting::bodies::topic::TopicTable;
use twinmq_remoting::bodies::{DataVersion, KvTable};
use twinmq_remoting::fields::route::{
    BrokerHeartbeat, BrokerIs, BrokerNameIs, DataVersionIs, MembersOf, RegisterBroker, Registered,
};
use twinmq_remoting::{Channel, Command, json};

/// Field of a TwinMQ broker's registration: its table is complete.
const WHOLE: &str = "twinmqWhole";
/// Start of the names of what only TwinMQ brokers say of themselves.
const EXTRA: &str = "twinmq";
/// Most such texts of one broker.
const EXTRAS_MAX: usize = 32;
/// A broker's zone.
const ZONE: &str = "__ZONE_NAME";

/// REGISTER_BROKER: the body is checked, then decoded; the answer carries the master for a replica and
/// the order configuration for all.
pub(crate) fn register(
    state: &State,
    channel: &Channel,
    asked: &Command,
) -> Result<Command, RouteError> {
    let header = RegisterBroker::read(&asked.fields)?;
    if let Some(wanted) = header.body_crc32.filter(|wanted| *wanted != 0)
        && crc32fast::hash(&asked.body) & 0x7FFF_FFFF != wanted.cast_unsigned()
    {
        return Err(RouteError::Crc);
    }
    let table = topic_table(
        asked,
        header.compressed == Some(true),
        state.config.registration_bytes_max,
    )?;
    let extra = asked
        .fields
        .iter()
        .filter(|(name, _)| name.starts_with(EXTRA))
        .take(EXTRAS_MAX);
    let registration = Registration {
        cluster: header.cluster_name.to_owned(),
        name: header.broker_name.to_owned(),
        addr: header.broker_addr.to_owned(),
        id: header.broker_id,
        ha_addr: header.ha_server_addr.to_owned(),
        silence_max: silence(header.heartbeat_timeout_millis),
        acting_master: header.enable_acting_master,
        zone: asked
            .fields
            .get(ZONE)
            .filter(|zone| !zone.is_empty())
            .map(str::to_owned),
        version: table.data_version,
        topics: table.topic_config_table,
        whole: asked.fields.get(WHOLE) == Some("true"),
        extra: extra
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        channel: Some(channel.id()),
    };
    let (name, addr) = (registration.name.clone(), registration.addr.clone());
    state.remember(channel);
    let registered = state.routes.register(registration);
    let registered = registered.inspect_err(|error| {
        tracing::warn!(broker = name, addr, %error, "a registration was refused");
    })?;
    let mut answer = ok(asked);
    Registered {
        ha_server_addr: registered.ha_addr.as_deref(),
        master_addr: registered.master_addr.as_deref(),
    }
    .write(&mut answer.fields);
    if let Some(table) = state.kv.namespace(ORDER_TOPICS) {
        answer.body = json::write(&KvTable { table });
    }
    Ok(answer)
}

fn topic_table(
    asked: &Command,
    compressed: bool,
    unpacked_max: usize,
) -> Result<TopicTable, RouteError> {
    if asked.body.is_empty() {
        return Ok(TopicTable::default());
    }
    if asked.version < BODY_SINCE {
        return Ok(json::read(&asked.body)?);
    }
    let body = RegisterBrokerBody::decode(&asked.body, compressed, unpacked_max)?;
    Ok(body.topic_config_serialize_wrapper)
}

fn silence(millis: Option<i64>) -> Option<Duration> {
    millis
        .and_then(|millis| u64::try_from(millis).ok())
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis)
}

/// UNREGISTER_BROKER (104).
pub(crate) fn unregister(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = BrokerIs::read(&asked.fields)?;
    state.routes.unregister(
        &member(header.cluster_name, header.broker_addr),
        header.broker_name,
    );
    tracing::info!(
        broker = header.broker_name,
        addr = header.broker_addr,
        "a broker went"
    );
    Ok(ok(asked))
}

/// QUERY_DATA_VERSION (322).
pub(crate) fn data_version(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = BrokerIs::read(&asked.fields)?;
    let version: DataVersion = json::read(&asked.body)?;
    let member = member(header.cluster_name, header.broker_addr);
    let (changed, known) = state
        .routes
        .write(|table| table.compare(&member, &version, Instant::now()));
    let mut answer = ok(asked);
    DataVersionIs { changed }.write(&mut answer.fields);
    if let Some(known) = known {
        answer.body = json::write(&known);
    }
    Ok(answer)
}

/// BROKER_HEARTBEAT (904).
pub(crate) fn heartbeat(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = BrokerHeartbeat::read(&asked.fields)?;
    let member = member(header.cluster_name, header.broker_addr);
    state
        .routes
        .write(|table| table.heartbeat(&member, Instant::now()));
    Ok(ok(asked))
}

/// GET_BROKER_CLUSTER_INFO (106).
pub(crate) fn clusters(state: &State, asked: &Command) -> Command {
    let info = state.routes.read(crate::routing::Table::clusters);
    ok(asked).with_body(json::write(&info))
}

/// GET_BROKER_MEMBER_GROUP (901).
pub(crate) fn members(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = MembersOf::read(&asked.fields)?;
    let members = state
        .routes
        .read(|table| table.members(header.cluster_name, header.broker_name));
    let body = BrokerMemberGroup {
        broker_member_group: members,
    };
    Ok(ok(asked).with_body(json::write(&body)))
}

/// 205 and 327.
pub(crate) fn set_writable(
    state: &State,
    asked: &Command,
    writable: bool,
) -> Result<Command, RouteError> {
    let header = BrokerNameIs::read(&asked.fields)?;
    let count = state
        .routes
        .write(|table| table.set_writable(header.broker_name, writable));
    tracing::info!(
        broker = header.broker_name,
        writable,
        topics = count,
        "write permission changed"
    );
    let field = if writable {
        "addTopicCount"
    } else {
        "wipeTopicCount"
    };
    Ok(ok(asked).with_field(field, count))
}

fn member(cluster: &str, addr: &str) -> Member {
    Member {
        cluster: cluster.to_owned(),
        addr: addr.to_owned(),
    }
}
