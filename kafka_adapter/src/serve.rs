//! Accepts connections, within a limit, and drains them at the end.

use crate::config::{KafkaConfig, ListenerConfig};
use crate::connection;
use crate::error::Close;
use crate::frame::Limits;
use crate::group::Coordinator;
use crate::metrics::{KafkaMetrics, RequestRow};
use crate::session::Sessions;
use crate::settings::Defaults;
use crate::table;
use crate::topology::Topology;
use kafka_protocol::protocol::StrBytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use twinmq_core::{Core, CoreConfig};
use twinmq_metrics::StageRow;
use twinmq_store::Clock;

/// What the front is built on.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The broker's parts.
    pub core: Core,
    /// The broker's settings, for what Kafka clients ask about them.
    pub core_config: CoreConfig,
    /// Whether topics without an own setting wait for the disk (`store.flush = "sync"`).
    pub flush_sync: bool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// A listener that could not be bound.
#[derive(Debug, Error)]
#[error("Kafka listener {name} on {address}")]
pub struct BindError {
    /// The listener's name.
    pub name: String,
    /// Where it should listen.
    pub address: SocketAddr,
    /// The system's answer.
    #[source]
    pub source: std::io::Error,
}

/// A bound listener.
#[derive(Debug)]
pub struct Bound {
    config: ListenerConfig,
    socket: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Where it really listens (port 0 asks for any).
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
    /// The listener's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }
    /// What clients of this listener are told to connect to; `None`: what they did connect to.
    #[must_use]
    pub fn advertised(&self) -> Option<&str> {
        self.config.advertised.as_deref()
    }
}

/// Connections waiting to be accepted.
const BACKLOG: i32 = 1024;

/// Binds every listener. Must be called inside a tokio runtime.
///
/// # Errors
/// The first that cannot be bound.
pub fn bind(config: &KafkaConfig) -> Result<Vec<Bound>, BindError> {
    config.listeners.iter().map(bind_one).collect()
}

fn bind_one(config: &ListenerConfig) -> Result<Bound, BindError> {
    let socket = || -> std::io::Result<(TcpListener, SocketAddr)> {
        let domain = socket2::Domain::for_address(config.bind);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&config.bind.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (socket, address) = socket().map_err(|source| BindError {
        name: config.name.clone(),
        address: config.bind,
        source,
    })?;
    Ok(Bound {
        config: config.clone(),
        socket,
        address,
    })
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) core: Core,
    pub(crate) config: KafkaConfig,
    pub(crate) defaults: Defaults,
    pub(crate) topology: Topology,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: KafkaMetrics,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    /// KiB of requests above the free share of a connection.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) complaints: Complaints,
    /// Changes of topic settings happen one after the other.
    pub(crate) altering: tokio::sync::Mutex<()>,
}

impl Front {
    /// The stages of an answered API.
    pub(crate) fn row(&self, key: i16) -> &StageRow {
        &self.request_row(key).stages
    }

    pub(crate) fn request_row(&self, key: i16) -> &RequestRow {
        // `admit` lets only listed keys through.
        &self.metrics.requests[table::place(key).unwrap_or(0)]
    }
}

/// Keeps a flood of bad clients out of the log: some lines a second, the rest is counted.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    state: parking_lot::Mutex<(i64, u32, u64)>,
}

/// Lines a second about closed connections.
const COMPLAINTS_PER_SECOND: u32 = 10;

impl Complaints {
    /// Says why a connection is closed, unless that was said too often this second.
    pub(crate) fn say(&self, now_ms: i64, peer: SocketAddr, close: &Close) {
        let silent = {
            let mut state = self.state.lock();
            if state.0 != now_ms / 1000 {
                state.0 = now_ms / 1000;
                state.1 = 0;
            }
            state.1 += 1;
            if state.1 > COMPLAINTS_PER_SECOND {
                state.2 += 1;
                return;
            }
            std::mem::take(&mut state.2)
        };
        tracing::warn!(%peer, reason = %close, more_like_it = silent, "Kafka connection closed");
    }
}

/// The running front.
#[derive(Debug)]
pub struct Kafka {
    front: Arc<Front>,
    stop: watch::Sender<bool>,
    acceptors: Vec<JoinHandle<()>>,
}

impl Kafka {
    /// Starts to serve on the bound listeners. Must be called inside a tokio runtime.
    pub fn start(
        parts: Parts,
        config: KafkaConfig,
        metrics: KafkaMetrics,
        listeners: Vec<Bound>,
    ) -> Self {
        let Parts {
            core,
            core_config,
            flush_sync,
            clock,
        } = parts;
        let coordinator = Coordinator::open(
            &core,
            config.group.clone(),
            core_config.offsets_retention_minutes,
            Arc::clone(&clock),
            metrics.groups.clone(),
        );
        let room = usize::try_from(config.requests_bytes_total_max / 1024)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        let front = Arc::new(Front {
            topology: Topology {
                node: core_config.node_id,
                cluster: StrBytes::from_string(core_config.cluster_name.clone()),
                rack: config.rack.clone().map(StrBytes::from_string),
            },
            defaults: Defaults::new(&core_config, &config, flush_sync),
            coordinator,
            sessions: Sessions::new(&config, &metrics),
            limits: Limits {
                produce: config.produce_bytes_max,
                other: config.request_bytes_max,
                elements: config.request_elements_max,
            },
            room: Arc::new(Semaphore::new(room)),
            complaints: Complaints::default(),
            altering: tokio::sync::Mutex::new(()),
            core,
            config,
            metrics,
            clock,
        });
        let (stop, stopped) = watch::channel(false);
        let slots = Arc::new(Semaphore::new(
            front.config.connections_max.min(Semaphore::MAX_PERMITS),
        ));
        let acceptors = listeners
            .into_iter()
            .map(|listener| {
                let front = Arc::clone(&front);
                tokio::spawn(accept(front, listener, Arc::clone(&slots), stopped.clone()))
            })
            .collect();
        Self {
            front,
            stop,
            acceptors,
        }
    }

    /// Accepts no more, lets begun writes finish within `deadline`, closes every connection and ends
    /// the group coordinator.
    pub async fn drain(self, deadline: Duration) {
        let _ = self.stop.send(true);
        let aborts: Vec<_> = self
            .acceptors
            .iter()
            .map(JoinHandle::abort_handle)
            .collect();
        let ended = async {
            for acceptor in self.acceptors {
                let _ = acceptor.await;
            }
        };
        if tokio::time::timeout(deadline, ended).await.is_err() {
            tracing::warn!("some Kafka requests were still waiting at the deadline");
            // Dropping an acceptor's set aborts its connections.
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        self.front.coordinator.close().await;
    }
}

/// Time to wait after the system refused to accept (out of file handles).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

async fn accept(
    front: Arc<Front>,
    listener: Bound,
    slots: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut stop = stopped.clone();
    loop {
        tokio::select! {
            biased;
            () = stopping(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.socket.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                        front.metrics.connections_refused.inc();
                        let close = Close::because("kafka.connections_max is reached");
                        front.complaints.say(front.clock.now().0, peer, &close);
                        continue;
                    };
                    front.metrics.connections_accepted.inc();
                    let local = prepare(&stream).unwrap_or(listener.address);
                    let endpoint = crate::topology::Endpoint::of(
                        listener.config.advertised.as_deref(),
                        local,
                    );
                    let front = Arc::clone(&front);
                    let stopped = stopped.clone();
                    connections.spawn(async move {
                        front.metrics.connections.inc();
                        let _gauge = Decrease(front.metrics.connections.clone());
                        connection::serve(front, stream, peer, endpoint, stopped).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, listener = listener.name(), "accepting failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Resolves when the front stops.
pub(crate) async fn stopping(stopped: &mut watch::Receiver<bool>) {
    // An error means that the front is gone altogether.
    let _ = stopped.wait_for(|stop| *stop).await;
}

struct Decrease(prometheus::IntGauge);

impl Drop for Decrease {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Sets the socket up and tells the address that the client connected to.
fn prepare(stream: &TcpStream) -> std::io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_keepalive(true)?;
    stream.local_addr()
}
