//! The running name server: its listener, the look for silent brokers, its end.

use crate::config::NameserverConfig;
use crate::error::{RouteError, StartError};
use crate::kv::Kv;
use crate::metrics::NameserverMetrics;
use crate::routing::{Bounds, Fallen, Member, Registered, Registration, Table};
use crate::table;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use twinmq_remoting::bodies::route::{QueueData, TopicRouteData};
use twinmq_remoting::{Channel, Command, ListenerMetrics, Outcome, Serve, serve};

/// The table as everyone in the process shares it. A broker of the same process may register here
/// directly; it then has no connection whose end would drop it, and must come again before it counts
/// as silent, or unregister.
#[derive(Clone, Debug)]
pub struct Routes {
    table: Arc<RwLock<Table>>,
    silence: Duration,
    bounds: Bounds,
    metrics: NameserverMetrics,
}

impl Routes {
    /// Takes a registration.
    ///
    /// # Errors
    /// It is not whole though it is the first, or the table is full.
    pub fn register(&self, registration: Registration) -> Result<Registered, RouteError> {
        self.write(|table| table.register(registration, Instant::now(), self.silence, self.bounds))
    }

    /// Takes a member out.
    pub fn unregister(&self, member: &Member, name: &str) {
        self.write(|table| table.unregister(member, name));
    }

    /// Where a topic is; `None` when nobody has it.
    #[must_use]
    pub fn route(&self, topic: &str) -> Option<TopicRouteData> {
        self.read(|table| table.route(topic))
    }

    /// Looks at the table.
    pub fn read<R>(&self, look: impl FnOnce(&Table) -> R) -> R {
        look(&self.table.read())
    }

    pub(crate) fn add_topic(&self, topic: &str, queues: Vec<QueueData>) -> Result<(), RouteError> {
        self.write(|table| table.add_topic(topic, queues, self.bounds))
    }

    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.write();
        let result = change(&mut table);
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.brokers.set(count(table.broker_count()));
        self.metrics.topics.set(count(table.topic_count()));
        result
    }
}

/// What handlers see.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: NameserverConfig,
    pub(crate) port: u16,
    pub(crate) routes: Routes,
    pub(crate) kv: Arc<Kv>,
    /// Connections over which brokers have registered.
    registered: Mutex<HashMap<u64, Channel>>,
}

impl State {
    /// A broker registers over this connection.
    pub(crate) fn remember(&self, channel: &Channel) {
        self.registered.lock().insert(channel.id(), channel.clone());
    }
}

struct Front {
    state: Arc<State>,
    metrics: NameserverMetrics,
}

impl Serve for Front {
    type Peer = Channel;

    fn opened(&self, channel: &Channel) -> Arc<Channel> {
        Arc::new(channel.clone())
    }

    async fn handle(&self, peer: &Arc<Channel>, request: Command) -> Outcome {
        let answer = table::answer(&self.state, peer, &request).await;
        self.metrics.request(request.code, answer.code);
        Outcome::Reply(answer)
    }

    fn closed(&self, peer: &Arc<Channel>) {
        if self.state.registered.lock().remove(&peer.id()).is_some() {
            for out in self
                .state
                .routes
                .write(|table| table.disconnected(peer.id()))
            {
                tell(&out, "its connection closed");
            }
        }
    }
}

fn tell(out: &Fallen, why: &str) {
    tracing::warn!(
        broker = out.name,
        addr = out.member.addr,
        "a broker is out: {why}"
    );
}

/// A running name server.
#[derive(Debug)]
pub struct Nameserver {
    addr: SocketAddr,
    routes: Routes,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    scanning: JoinHandle<()>,
}

impl Nameserver {
    /// Starts serving a bound listener.
    ///
    /// # Errors
    /// The settings or the KV config cannot be used.
    pub fn start(
        listener: TcpListener,
        config: NameserverConfig,
        metrics: NameserverMetrics,
        wire: ListenerMetrics,
    ) -> Result<Self, StartError> {
        config.validate().map_err(StartError::Config)?;
        let addr = listener.local_addr().map_err(StartError::Listener)?;
        let kv = Arc::new(Kv::open(config.kv_path.clone(), config.kv_bytes_max)?);
        let bounds = Bounds {
            brokers_max: config.brokers_max,
            topics_max: config.topics_max,
        };
        let routes = Routes {
            table: Arc::default(),
            silence: config.silence(),
            bounds,
            metrics: metrics.clone(),
        };
        let limits = config.limits.clone();
        let state = Arc::new(State {
            config,
            port: addr.port(),
            routes: routes.clone(),
            kv,
            registered: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let front = Arc::new(Front {
            state: Arc::clone(&state),
            metrics: metrics.clone(),
        });
        let scanning = tokio::spawn(scan(state, metrics, stopped.clone()));
        let serving = tokio::spawn(serve(listener, front, limits, wire, until(stopped)));
        Ok(Self {
            addr,
            routes,
            stop,
            serving,
            scanning,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The table, for a broker of the same process.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Accepts no more, answers what was asked, and ends.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        for task in [self.serving, self.scanning] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the name server failed");
            }
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A dropped sender is a stop, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Looks for silent brokers until the stop, and closes their connections.
async fn scan(state: Arc<State>, metrics: NameserverMetrics, stopped: watch::Receiver<bool>) {
    let mut stopped = std::pin::pin!(until(stopped));
    let mut ticks = tokio::time::interval(state.config.scan());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => return,
        }
        for out in state.routes.write(|table| table.expire(Instant::now())) {
            tell(&out, "it was silent for too long");
            metrics.expired.inc();
            let channel = out
                .channel
                .and_then(|id| state.registered.lock().get(&id).cloned());
            if let Some(channel) = channel {
                channel.close("its broker was silent for too long");
            }
        }
    }
}
