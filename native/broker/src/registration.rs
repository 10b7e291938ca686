//! Tells every name server who we are and what topics we have: at start, every
//! `register_interval_ms`, and when the catalogue changes: at once, but after a pause that follows how
//! long the last round took, so that changes that come thick are told together. Says good-bye at the
//! end. One task per name server, so that a dead one delays nobody.
//!
//! Between the full rounds only what changed is told. A name server looks at the topics only when the
//! data version is another one than before: version and topics are always of one moment. Leaves out the answer's table of ordered topics (`ORDER_TOPIC_CONFIG`).

use crate::error::Refusal;
use crate::metrics::NativeMetrics;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, interval, sleep_until, timeout};
use twinmq_core::catalog::{Catalog, Class, Topic};
use twinmq_remoting::bodies::registration::RegisterBrokerBody;
use twinmq_remoting::bodies::topic::{TopicConfig, TopicTable};
use twinmq_remoting::bodies::{DataVersion, MessageQueue, QueueKey};
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::fields::route::{BrokerIs, RegisterBroker};
use twinmq_remoting::{Caller, Command, Limits};
use twinmq_store::Timestamp;

/// Rounds for changes take at most a fourth of the time: the pause after each is so many times as long.
const PAUSE_TIMES: u32 = 3;
/// But no pause is longer.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Longest that a creator waits until the name servers know.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause after a name server did not answer.
const RETRY: Duration = Duration::from_secs(3);

/// Who we are.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: Arc<str>,
    pub(crate) broker: Arc<str>,
    /// `host:port` as clients reach it.
    pub(crate) address: String,
    /// `host:port` as replicas will reach it.
    pub(crate) ha_address: String,
    /// Further fields, each name starting with `twinmq`.
    pub(crate) extras: Vec<(String, String)>,
}

/// How far one name server has been told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    version: Option<u64>,
    reachable: bool,
}

/// Lets creators of topics wait until name servers know them.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    catalog: Arc<Catalog>,
    told: Arc<Vec<watch::Receiver<Told>>>,
}

impl Registered {
    /// Waits until every reachable name server knows the catalogue as it is now, at most a second.
    pub(crate) async fn wait(&self) {
        let target = self.catalog.version().0;
        let all = async {
            for told in self.told.iter() {
                let mut told = told.clone();
                let _ = told
                    .wait_for(|told| {
                        !told.reachable || told.version.is_some_and(|version| version >= target)
                    })
                    .await;
            }
        };
        if timeout(WAIT_MAX, all).await.is_err() {
            tracing::warn!("a name server is slow to take a change of the topics");
        }
    }
}

/// One name server's task.
pub(crate) struct Registrar {
    server: String,
    identity: Identity,
    catalog: Arc<Catalog>,
    interval: Duration,
    limit: Duration,
    told: watch::Sender<Told>,
    metrics: NativeMetrics,
    caller: Option<Caller>,
    /// The version that was taken last.
    known: Option<u64>,
    /// When the whole table was told last.
    whole_at: Instant,
}

/// The registrars of all name servers, and the handle to wait on them.
pub(crate) fn registrars(
    servers: &[String],
    identity: &Identity,
    catalog: &Arc<Catalog>,
    interval: Duration,
    limit: Duration,
    metrics: &NativeMetrics,
) -> (Vec<Registrar>, Registered) {
    let (registrars, told) = servers
        .iter()
        .map(|server| {
            let (told, seen) = watch::channel(Told::default());
            let registrar = Registrar {
                server: server.clone(),
                identity: identity.clone(),
                catalog: catalog.clone(),
                interval,
                limit,
                told,
                metrics: metrics.clone(),
                caller: None,
                known: None,
                whole_at: Instant::now(),
            };
            (registrar, seen)
        })
        .unzip();
    let registered = Registered {
        catalog: catalog.clone(),
        told: Arc::new(told),
    };
    (registrars, registered)
}

impl Registrar {
    /// Registers until `stop`, then unregisters.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut changes = self.catalog.changes();
        let mut full = true;
        loop {
            changes.borrow_and_update();
            let began = Instant::now();
            let told = self.round(full).await;
            let rest = Instant::now() + (began.elapsed() * PAUSE_TIMES).min(PAUSE_MAX);
            let ok = told.is_some();
            self.told.send_replace(Told {
                version: told,
                reachable: ok,
            });
            // However many changes come in between: it is also what keeps us registered.
            let due = if ok {
                self.whole_at + self.interval
            } else {
                Instant::now() + RETRY
            };
            tokio::select! {
                () = sleep_until(due) => full = true,
                // A name server drops a broker whose connection has closed.
                () = self.hung_up(), if ok => full = true,
                changed = changes.changed(), if ok => {
                    if changed.is_err() {
                        sleep_until(due).await;
                    }
                    full = false;
                    tokio::select! {
                        () = sleep_until(rest) => {}
                        () = stopped(&mut stop) => break,
                    }
                }
                () = stopped(&mut stop) => break,
            }
        }
        self.unregister().await;
    }

    /// Resolves when the connection is gone.
    async fn hung_up(&self) {
        let mut tick = interval(Duration::from_millis(500));
        while self
            .caller
            .as_ref()
            .is_some_and(|caller| !caller.is_closed())
        {
            tick.tick().await;
        }
    }

    /// One registration; the version that the name server knows now, `None` when it was not taken.
    async fn round(&mut self, full: bool) -> Option<u64> {
        let news = self.known.filter(|_| !full);
        let news = news.and_then(|version| self.catalog.changed_since(version));
        let whole = news.is_none();
        let (mut topics, version) = news.unwrap_or_else(|| self.catalog.all_with_version());
        topics.retain(|topic| is_visible(topic));
        if topics.is_empty() && !whole {
            // Only groups changed, which name servers do not know.
            self.known = Some(version.0);
            return self.known;
        }
        let body = RegisterBrokerBody {
            topic_config_serialize_wrapper: TopicTable {
                data_version: version_of(version),
                mapping_data_version: DataVersion::default(),
                topic_config_table: table(&topics),
                ..TopicTable::default()
            },
            ..RegisterBrokerBody::default()
        }
        .json();
        let mut command = Command::request(code::REGISTER_BROKER);
        RegisterBroker {
            broker_name: &self.identity.broker,
            broker_addr: &self.identity.address,
            cluster_name: &self.identity.cluster,
            ha_server_addr: &self.identity.ha_address,
            broker_id: 0,
            heartbeat_timeout_millis: None,
            enable_acting_master: None,
            compressed: Some(false),
            body_crc32: Some(crc(&body)),
        }
        .write(&mut command.fields);
        for (name, value) in &self.identity.extras {
            command.fields.set(name, value);
        }
        if whole {
            // Ours then drops what is absent; Apache's looks at no such field.
            command.fields.set("twinmqWhole", "true");
        }
        match self.call(command.with_body(body)).await {
            Ok(()) => {
                self.known = Some(version.0);
                if whole {
                    self.whole_at = Instant::now();
                }
                self.known
            }
            Err(why) => {
                self.metrics.register_failures.inc();
                if self.told.borrow().reachable || self.known.is_none() {
                    tracing::warn!(name_server = self.server, why, "registration failed");
                }
                self.caller = None;
                None
            }
        }
    }

    async fn unregister(&mut self) {
        let mut command = Command::request(code::UNREGISTER_BROKER);
        BrokerIs {
            broker_name: &self.identity.broker,
            broker_addr: &self.identity.address,
            cluster_name: &self.identity.cluster,
            broker_id: 0,
        }
        .write(&mut command.fields);
        if self.told.borrow().reachable
            && let Err(why) = self.call(command).await
        {
            tracing::info!(name_server = self.server, why, "unregistration failed");
        }
        if let Some(caller) = self.caller.take() {
            caller.close().await;
        }
    }

    async fn call(&mut self, command: Command) -> Result<(), String> {
        let caller = match self.caller.take().filter(|caller| !caller.is_closed()) {
            Some(caller) => caller,
            None => Caller::connect(&*self.server, Limits::default(), self.limit)
                .await
                .map_err(|error| format!("cannot connect: {error}"))?,
        };
        let answer = caller.call(command, self.limit).await;
        self.caller = Some(caller);
        match answer {
            Ok(answer) if answer.code == response::SUCCESS => Ok(()),
            Ok(answer) => Err(format!(
                "answered {}: {}",
                answer.code,
                answer.remark.unwrap_or_default()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// CRC-32 as `java.util.zip`, without the sign bit; 0 would mean "not given".
fn crc(body: &[u8]) -> i32 {
    i32::try_from(crc32fast::hash(body) & 0x7FFF_FFFF).unwrap_or(0)
}

/// Topics that native clients may know of, in name order.
pub(crate) fn visible(catalog: &Catalog) -> Vec<Arc<Topic>> {
    let mut topics = catalog.all();
    topics.retain(|topic| is_visible(topic));
    topics
}

fn is_visible(topic: &Topic) -> bool {
    topic.native.is_some() && topic.class != Class::Internal
}

fn table(topics: &[Arc<Topic>]) -> BTreeMap<String, TopicConfig> {
    topics
        .iter()
        .filter_map(|topic| {
            let config = config(topic)?;
            Some((config.topic_name.clone(), config))
        })
        .collect()
}

/// A topic as RocketMQ describes it; `None` where it has no native name.
pub(crate) fn config(topic: &Topic) -> Option<TopicConfig> {
    Some(TopicConfig {
        attributes: topic.attributes.clone(),
        order: topic.order,
        perm: i32::from(topic.perm.0),
        read_queue_nums: i32::try_from(topic.read_queues).ok()?,
        topic_filter_type: if topic.multi_tag {
            "MULTI_TAG".to_owned()
        } else {
            "SINGLE_TAG".to_owned()
        },
        topic_name: topic.native.as_ref()?.to_string(),
        topic_sys_flag: topic.sys_flag,
        write_queue_nums: i32::try_from(topic.write_queues).ok()?,
    })
}

/// The catalogue's version.
pub(crate) fn data_version(catalog: &Catalog) -> DataVersion {
    version_of(catalog.version())
}

fn version_of((changes, time): (u64, Timestamp)) -> DataVersion {
    DataVersion {
        counter: i64::try_from(changes).unwrap_or(i64::MAX),
        state_version: 0,
        timestamp: time.0,
    }
}

/// A queue of ours as a map's key.
pub(crate) fn queue_key(topic: &str, broker: &str, queue: u32) -> Result<QueueKey, Refusal> {
    Ok(QueueKey(MessageQueue {
        broker_name: broker.to_owned(),
        queue_id: i32::try_from(queue).map_err(Refusal::system)?,
        topic: topic.to_owned(),
    }))
}
