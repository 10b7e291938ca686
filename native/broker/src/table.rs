//! Code to handler, the answer for codes that are not served, and what every answer has in common.

use crate::error::Refusal;
use crate::front::Front;
use crate::peer::{Peer, Port};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use twinmq_metrics::{Stage, StageClock};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::{Channel, Command, Outcome, Serve, json as dialect};

macro_rules! kinds {
    ($($kind:ident = $code:ident, $name:literal;)*) => {
        /// The kinds of requests that are served.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kind { $($kind,)* Unknown }

        impl Kind {
            /// All of them.
            pub(crate) const ALL: &[Kind] = &[$(Kind::$kind,)* Kind::Unknown];

            fn of(number: i32) -> Self {
                match number { $(code::$code => Kind::$kind,)* _ => Kind::Unknown }
            }

            /// Its label in metrics.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* Kind::Unknown => "unknown" }
            }
        }
    };
}

kinds! {
    Send = SEND_MESSAGE, "send_message";
    SendV2 = SEND_MESSAGE_V2, "send_message_v2";
    SendBatch = SEND_BATCH_MESSAGE, "send_batch_message";
    SendReply = SEND_REPLY_MESSAGE, "send_reply_message";
    SendReplyV2 = SEND_REPLY_MESSAGE_V2, "send_reply_message_v2";
    PutTopics = UPDATE_AND_CREATE_TOPIC_LIST, "update_and_create_topic_list";
    PutGroups = UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "update_and_create_subscriptiongroup_list";
    ConsumerStatus = INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "invoke_broker_to_get_consumer_status";
    TimeSpan = QUERY_CONSUME_TIME_SPAN, "query_consume_time_span";
    BrokerConsumeStats = GET_BROKER_CONSUME_STATS, "get_broker_consume_stats";
    HaStatus = GET_BROKER_HA_STATUS, "get_broker_ha_status";
    CleanQueues = CLEAN_EXPIRED_CONSUMEQUEUE, "clean_expired_consumequeue";
    CleanTopics = CLEAN_UNUSED_TOPIC, "clean_unused_topic";
    CleanLog = DELETE_EXPIRED_COMMITLOG, "delete_expired_commitlog";
    SendBack = CONSUMER_SEND_MSG_BACK, "consumer_send_msg_back";
    Pull = PULL_MESSAGE, "pull_message";
    LitePull = LITE_PULL_MESSAGE, "lite_pull_message";
    QueryOffset = QUERY_CONSUMER_OFFSET, "query_consumer_offset";
    UpdateOffset = UPDATE_CONSUMER_OFFSET, "update_consumer_offset";
    SearchOffset = SEARCH_OFFSET_BY_TIMESTAMP, "search_offset_by_timestamp";
    MaxOffset = GET_MAX_OFFSET, "get_max_offset";
    MinOffset = GET_MIN_OFFSET, "get_min_offset";
    EarliestTime = GET_EARLIEST_MSG_STORETIME, "get_earliest_msg_storetime";
    ResetOffset = INVOKE_BROKER_TO_RESET_OFFSET, "invoke_broker_to_reset_offset";
    Heartbeat = HEART_BEAT, "heart_beat";
    Unregister = UNREGISTER_CLIENT, "unregister_client";
    ConsumerList = GET_CONSUMER_LIST_BY_GROUP, "get_consumer_list_by_group";
    CheckClient = CHECK_CLIENT_CONFIG, "check_client_config";
    ConsumerConnections = GET_CONSUMER_CONNECTION_LIST, "get_consumer_connection_list";
    ProducerConnections = GET_PRODUCER_CONNECTION_LIST, "get_producer_connection_list";
    AllProducers = GET_ALL_PRODUCER_INFO, "get_all_producer_info";
    RunningInfo = GET_CONSUMER_RUNNING_INFO, "get_consumer_running_info";
    ConsumeDirectly = CONSUME_MESSAGE_DIRECTLY, "consume_message_directly";
    Lock = LOCK_BATCH_MQ, "lock_batch_mq";
    Unlock = UNLOCK_BATCH_MQ, "unlock_batch_mq";
    CreateTopic = UPDATE_AND_CREATE_TOPIC, "update_and_create_topic";
    DeleteTopic = DELETE_TOPIC_IN_BROKER, "delete_topic_in_broker";
    AllTopics = GET_ALL_TOPIC_CONFIG, "get_all_topic_config";
    TopicConfig = GET_TOPIC_CONFIG, "get_topic_config";
    TopicStats = GET_TOPIC_STATS_INFO, "get_topic_stats_info";
    SystemTopics = GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "get_system_topic_list_from_broker";
    TopicConsumedBy = QUERY_TOPIC_CONSUME_BY_WHO, "query_topic_consume_by_who";
    TopicsOfGroup = QUERY_TOPICS_BY_CONSUMER, "query_topics_by_consumer";
    SubscriptionOfGroup = QUERY_SUBSCRIPTION_BY_CONSUMER, "query_subscription_by_consumer";
    PutGroup = UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "update_and_create_subscriptiongroup";
    DeleteGroup = DELETE_SUBSCRIPTIONGROUP, "delete_subscriptiongroup";
    AllGroups = GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "get_all_subscriptiongroup_config";
    GroupConfig = GET_SUBSCRIPTIONGROUP_CONFIG, "get_subscriptiongroup_config";
    ConsumeStats = GET_CONSUME_STATS, "get_consume_stats";
    AllOffsets = GET_ALL_CONSUMER_OFFSET, "get_all_consumer_offset";
    BrokerStats = VIEW_BROKER_STATS_DATA, "view_broker_stats_data";
    ViewMessage = VIEW_MESSAGE_BY_ID, "view_message_by_id";
    UpdateConfig = UPDATE_BROKER_CONFIG, "update_broker_config";
    GetConfig = GET_BROKER_CONFIG, "get_broker_config";
    RuntimeInfo = GET_BROKER_RUNTIME_INFO, "get_broker_runtime_info";
}

impl Kind {
    /// Whether its stages are measured on their own: what clients do all day. The rest share a row.
    pub(crate) fn is_frequent(self) -> bool {
        matches!(
            self,
            Kind::Send
                | Kind::SendV2
                | Kind::SendBatch
                | Kind::SendBack
                | Kind::Pull
                | Kind::LitePull
                | Kind::QueryOffset
                | Kind::UpdateOffset
                | Kind::Heartbeat
        )
    }

    /// The VIP port serves everything but pulls (RocketMQ's `fastRemotingServer`).
    fn on_vip(self) -> bool {
        !matches!(self, Kind::Pull | Kind::LitePull)
    }
}

/// One listener's view of the front.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) front: Arc<Front>,
    pub(crate) port: Port,
}

impl Serve for Door {
    type Peer = Peer;

    fn opened(&self, channel: &Channel) -> Arc<Peer> {
        Arc::new(Peer::new(channel.clone()))
    }

    async fn handle(&self, peer: &Arc<Peer>, request: Command) -> Outcome {
        let mut clock = StageClock::start();
        let kind = Kind::of(request.code);
        let outcome = if kind == Kind::Unknown || (self.port == Port::Vip && !kind.on_vip()) {
            Ok(Outcome::Reply(twinmq_remoting::code::not_supported(
                &request,
            )))
        } else {
            dispatch(&self.front, kind, peer, &request).await
        };
        let outcome = outcome.unwrap_or_else(|refusal| {
            tracing::debug!(
                request = kind.name(), code = refusal.code, remark = refusal.remark,
                peer = %peer.channel.remote(), "refused"
            );
            let blank = Command::response_to(&request, response::SUCCESS);
            Outcome::Reply(refused(&blank, refusal))
        });
        let metrics = &self.front.metrics;
        let stage = match kind {
            Kind::Pull | Kind::LitePull => Stage::Read,
            _ => Stage::Append,
        };
        clock.lap(metrics.row(kind), stage);
        match outcome {
            Outcome::Reply(reply) => {
                metrics.answered(kind, reply.code);
                Outcome::Reply(reply)
            }
            Outcome::None => {
                metrics.answered(kind, response::SUCCESS);
                Outcome::None
            }
            Outcome::Later(answer) => {
                let metrics = metrics.clone();
                Outcome::later(async move {
                    let reply = answer.await;
                    clock.lap(metrics.row(kind), Stage::Sync);
                    metrics.answered(kind, reply.as_ref().map_or(0, |reply| reply.code));
                    reply
                })
            }
            Outcome::Parked(answer) => {
                let metrics = metrics.clone();
                Outcome::parked(async move {
                    let _held = Held::new(&metrics.held_pulls);
                    let reply = answer.await;
                    clock.lap(metrics.row(kind), Stage::Wait);
                    metrics.answered(kind, reply.as_ref().map_or(0, |reply| reply.code));
                    reply
                })
            }
        }
    }

    fn closed(&self, peer: &Arc<Peer>) {
        self.front.clients.closed(peer);
    }
}

/// Counts a held request for as long as it is held, however it ends.
struct Held(prometheus::IntGauge);

impl Held {
    fn new(gauge: &prometheus::IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn dispatch(
    front: &Front,
    kind: Kind,
    peer: &Arc<Peer>,
    request: &Command,
) -> Result<Outcome, Refusal> {
    match kind {
        Kind::Send | Kind::SendV2 => front.sending.send(peer, request, false).await,
        Kind::SendBatch => front.sending.send(peer, request, true).await,
        Kind::SendBack => front.sending.send_back(request),
        Kind::SendReply | Kind::SendReplyV2 => front.replying.reply(peer, request).await,
        Kind::Pull | Kind::LitePull => front.pulling.pull(request).await,
        Kind::QueryOffset => front.offsets.query(request),
        Kind::UpdateOffset => front.offsets.update(request),
        Kind::SearchOffset => front.offsets.search(request).await,
        Kind::MaxOffset => front.offsets.max(request),
        Kind::MinOffset => front.offsets.min(request),
        Kind::EarliestTime => front.offsets.earliest(request).await,
        Kind::ResetOffset => front.offsets.reset(request).await,
        Kind::Heartbeat => front.clients.heartbeat(peer, request).await,
        Kind::Unregister => front.clients.unregister(peer, request),
        Kind::ConsumerList => front.clients.consumer_list(request),
        Kind::CheckClient => front.clients.check(request),
        Kind::ConsumerConnections => front.clients.consumer_connections(request),
        Kind::ProducerConnections => front.clients.producer_connections(request),
        Kind::AllProducers => front.clients.all_producers(request),
        Kind::RunningInfo => front.forwarding.running_info(request),
        Kind::ConsumeDirectly => front.forwarding.consume_directly(request).await,
        Kind::PutTopics => front.topics.create_list(request).await,
        Kind::PutGroups => front.groups.put_list(request).await,
        Kind::ConsumerStatus => front.forwarding.status(request),
        Kind::TimeSpan => front.queries.time_span(request).await,
        Kind::BrokerConsumeStats => front.queries.broker_consume_stats(request).await,
        Kind::HaStatus => front.admin.ha_status(request),
        // Retention runs by itself; there is nothing else to clean.
        Kind::CleanQueues | Kind::CleanTopics | Kind::CleanLog => Ok(done(request)),
        Kind::Lock => front.locking.lock(request),
        Kind::Unlock => front.locking.unlock(request),
        Kind::CreateTopic => front.topics.create(request).await,
        Kind::DeleteTopic => front.topics.delete(request).await,
        Kind::AllTopics => front.topics.all(request),
        Kind::TopicConfig => front.topics.one(request),
        Kind::TopicStats => front.topics.stats(request).await,
        Kind::SystemTopics => front.topics.system(request),
        Kind::TopicConsumedBy => front.topics.consumed_by(request),
        Kind::TopicsOfGroup => front.groups.topics(request),
        Kind::SubscriptionOfGroup => front.groups.subscription(request),
        Kind::PutGroup => front.groups.put(request).await,
        Kind::DeleteGroup => front.groups.delete(request).await,
        Kind::AllGroups => front.groups.all(request),
        Kind::GroupConfig => front.groups.one(request),
        Kind::ConsumeStats => front.queries.consume_stats(request).await,
        Kind::AllOffsets => front.queries.all_offsets(request),
        Kind::BrokerStats => front.queries.broker_stats(request),
        Kind::ViewMessage => front.queries.view_message(request).await,
        Kind::UpdateConfig => front.admin.update_config(request),
        Kind::GetConfig => front.admin.config(request),
        Kind::RuntimeInfo => front.admin.runtime_info(request).await,
        Kind::Unknown => Ok(Outcome::Reply(twinmq_remoting::code::not_supported(
            request,
        ))),
    }
}

/// `reply` (what the request would have got) turned into the refusal.
pub(crate) fn refused(reply: &Command, refusal: Refusal) -> Command {
    let mut answer = Command {
        code: refusal.code,
        version: reply.version,
        opaque: reply.opaque,
        flag: reply.flag,
        encoding: reply.encoding,
        language: reply.language,
        ..Command::default()
    }
    .with_remark(refusal.remark);
    if let Some((name, value)) = refusal.field {
        answer.fields.put(name, value);
    }
    answer
}

/// Success with nothing to say.
pub(crate) fn done(request: &Command) -> Outcome {
    Outcome::Reply(Command::response_to(request, response::SUCCESS))
}

/// Success with a JSON body.
pub(crate) fn json<T: Serialize>(request: &Command, body: &T) -> Outcome {
    Outcome::Reply(Command::response_to(request, response::SUCCESS).with_body(encoded(body)))
}

/// A JSON body in RocketMQ's dialect.
pub(crate) fn encoded<T: Serialize>(body: &T) -> bytes::Bytes {
    dialect::write(body)
}

/// The request's JSON body.
pub(crate) fn body<T: DeserializeOwned>(request: &Command) -> Result<T, Refusal> {
    dialect::read(&request.body)
        .map_err(|error| Refusal::system(format!("the request's body: {error}")))
}
