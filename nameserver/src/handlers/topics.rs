//! Topics: routes (105), lists (206, 224, 304, 311-313), delete (216), register (217).

use super::ok;
use crate::error::RouteError;
use crate::kv::ORDER_TOPICS;
use crate::server::State;
use twinmq_remoting::bodies::route::TopicRouteData;
use twinmq_remoting::bodies::topic::TopicList;
use twinmq_remoting::fields::route::{ClusterIs, RouteOf, TopicIn};
use twinmq_remoting::{Command, json};

/// 105: where a topic is, in the JSON form that the asker's version reads.
pub(crate) fn route(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = RouteOf::read(&asked.fields)?;
    let route = state.routes.read(|table| table.route(header.topic));
    let mut route = route.ok_or_else(|| RouteError::NoRoute(header.topic.to_owned()))?;
    if state.config.order_topics {
        route.order_topic_conf = state.kv.get(ORDER_TOPICS, header.topic);
    }
    if asked.fields.get("__ZONE_MODE") == Some("true")
        && let Some(zone) = asked
            .fields
            .get("__ZONE_NAME")
            .filter(|zone| !zone.is_empty())
    {
        keep_zone(&mut route, zone);
    }
    let standard_only = header.accept_standard_json_only == Some(true);
    Ok(ok(asked).with_body(route.body(asked.version, standard_only)))
}

/// Leaves the brokers of one zone, and those without a master, whose replicas serve any zone.
fn keep_zone(route: &mut TopicRouteData, zone: &str) {
    route.broker_datas.retain(|broker| {
        let same = broker
            .zone_name
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(zone));
        same || !broker.broker_addrs.contains_key(&0)
    });
    let kept: Vec<&str> = route
        .broker_datas
        .iter()
        .map(|broker| &broker.broker_name[..])
        .collect();
    route
        .queue_datas
        .retain(|queues| kept.contains(&&queues.broker_name[..]));
}

fn list(asked: &Command, broker_addr: Option<String>, topic_list: Vec<String>) -> Command {
    ok(asked).with_body(json::write(&TopicList {
        broker_addr,
        topic_list,
    }))
}

fn names<'a>(topics: impl Iterator<Item = &'a str>) -> Vec<String> {
    topics.map(str::to_owned).collect()
}

/// 206.
pub(crate) fn all(state: &State, asked: &Command) -> Command {
    list(
        asked,
        None,
        state.routes.read(|table| names(table.topics())),
    )
}

/// 224.
pub(crate) fn of_cluster(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = ClusterIs::read(&asked.fields)?;
    Ok(list(
        asked,
        None,
        state
            .routes
            .read(|table| names(table.topics_of(header.cluster))),
    ))
}

/// 304: names of clusters and brokers, and one broker to ask further.
pub(crate) fn system(state: &State, asked: &Command) -> Command {
    let info = state.routes.read(crate::routing::Table::clusters);
    let broker = info
        .broker_addr_table
        .values()
        .find_map(|broker| broker.broker_addrs.values().next());
    let broker = broker.cloned();
    let mut topics = Vec::new();
    for (cluster, brokers) in info.cluster_addr_table {
        topics.push(cluster);
        topics.extend(brokers);
    }
    list(asked, broker, topics)
}

/// 311, 312 and 313.
pub(crate) fn unit(
    state: &State,
    asked: &Command,
    unit: Option<bool>,
    sub: Option<bool>,
) -> Command {
    list(
        asked,
        None,
        state
            .routes
            .read(|table| names(table.unit_topics(unit, sub))),
    )
}

/// 216.
pub(crate) fn delete(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = TopicIn::read(&asked.fields)?;
    state
        .routes
        .write(|table| table.delete_topic(header.topic, header.cluster_name));
    tracing::info!(
        topic = header.topic,
        cluster = header.cluster_name,
        "a topic was deleted"
    );
    Ok(ok(asked))
}

/// 217.
pub(crate) fn register(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let header = TopicIn::read(&asked.fields)?;
    let route: TopicRouteData = json::read(&asked.body)?;
    state.routes.add_topic(header.topic, route.queue_datas)?;
    Ok(ok(asked))
}
