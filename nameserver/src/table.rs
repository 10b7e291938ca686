//! Which request code goes to which handler.

use crate::error::RouteError;
use crate::handlers::{brokers, kv, topics};
use crate::server::State;
use twinmq_remoting::code::{self, request};
use twinmq_remoting::{Channel, Command};

/// Answers a request, whatever it is.
pub(crate) async fn answer(state: &State, channel: &Channel, asked: &Command) -> Command {
    let result: Result<Command, RouteError> = match asked.code {
        request::REGISTER_BROKER => brokers::register(state, channel, asked),
        request::UNREGISTER_BROKER => brokers::unregister(state, asked),
        request::QUERY_DATA_VERSION => brokers::data_version(state, asked),
        request::BROKER_HEARTBEAT => brokers::heartbeat(state, asked),
        request::GET_BROKER_CLUSTER_INFO => Ok(brokers::clusters(state, asked)),
        request::GET_BROKER_MEMBER_GROUP => brokers::members(state, asked),
        request::WIPE_WRITE_PERM_OF_BROKER => brokers::set_writable(state, asked, false),
        request::ADD_WRITE_PERM_OF_BROKER => brokers::set_writable(state, asked, true),
        request::GET_ROUTEINFO_BY_TOPIC => topics::route(state, asked),
        request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => Ok(topics::all(state, asked)),
        request::GET_TOPICS_BY_CLUSTER => topics::of_cluster(state, asked),
        request::GET_SYSTEM_TOPIC_LIST_FROM_NS => Ok(topics::system(state, asked)),
        request::GET_UNIT_TOPIC_LIST => Ok(topics::unit(state, asked, Some(true), None)),
        request::GET_HAS_UNIT_SUB_TOPIC_LIST => Ok(topics::unit(state, asked, None, Some(true))),
        request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
            Ok(topics::unit(state, asked, Some(false), Some(true)))
        }
        request::DELETE_TOPIC_IN_NAMESRV => topics::delete(state, asked),
        request::REGISTER_TOPIC_IN_NAMESRV => topics::register(state, asked),
        request::PUT_KV_CONFIG => kv::put(state, asked).await,
        request::GET_KV_CONFIG => kv::get(state, asked),
        request::DELETE_KV_CONFIG => kv::delete(state, asked).await,
        request::GET_KVLIST_BY_NAMESPACE => kv::list(state, asked),
        request::GET_NAMESRV_CONFIG => Ok(kv::settings(state, asked)),
        request::UPDATE_NAMESRV_CONFIG => Err(RouteError::Settings),
        _ => Ok(code::not_supported(asked)),
    };
    result.unwrap_or_else(|error| error.answer(asked))
}
