//! The RocketMQ front: what a broker of RocketMQ does on the wire, over the one log.
//!
//! Reading order: [`Native::start`] puts the parts together; `table` leads from a request's code to
//! its handler; `handlers` hold one family of requests each; `members` knows who is connected;
//! `registration` tells the name servers; `error` is the only place where a failure becomes a code.
//!
//! A send's walk: connection → `table` → `handlers/send` (checks, properties) → core → answer. A
//! pull's: connection → `table` → `handlers/pull` (checks, filter) → core → slices of the log.
//!
//! Left out as yet: half messages, timer messages, POP, search by key, SQL filters; each is refused
//! with the code and words of a broker that has it switched off.

mod config;
mod empty_bodies;
mod error;
mod filter;
mod front;
mod handlers;
mod members;
mod metrics;
mod names;
mod peer;
mod queue_locks;
mod registration;
mod resets;
mod stamp;
mod table;
mod tallies;
mod topics;

pub use config::{ConfigError, NativeConfig};
pub use front::Parts;
pub use metrics::NativeMetrics;

use crate::front::Front;
use crate::peer::Port;
use crate::queue_locks::QueueLocks;
use crate::registration::Identity;
use crate::table::Door;
use crate::tallies::Tallies;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::interval;
use twinmq_remoting::{RemotingMetrics, serve};
use twinmq_store::{Clock, WallClock};

/// How often silent clients and expired locks are looked for (RocketMQ scans every 10 s).
const SWEEP: Duration = Duration::from_secs(tallies::SAMPLE_SECONDS);

/// The bound sockets.
#[derive(Debug)]
pub struct Listeners {
    /// The main port.
    pub main: TcpListener,
    /// The VIP port, two below.
    pub vip: Option<TcpListener>,
}

/// The metrics of the front and of its connections.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The front's own.
    pub native: NativeMetrics,
    /// The connections'.
    pub remoting: RemotingMetrics,
}

/// Why the front did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings contradict each other.
    #[error("native: {0}")]
    Config(#[from] ConfigError),
    /// A socket would not tell its address.
    #[error("native: the listening socket")]
    Socket(#[source] std::io::Error),
    /// The advertised host has no address.
    #[error("native.advertised_host: {0} has no address")]
    Host(String),
}

/// The running front.
#[derive(Debug)]
pub struct Native {
    advertised: SocketAddr,
    stop: watch::Sender<bool>,
    registrars: JoinSet<()>,
    others: JoinSet<()>,
}

impl Native {
    /// Serves the listeners and registers with the name servers. Returns at once; the first
    /// registration is under way.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(
        parts: Parts,
        config: NativeConfig,
        metrics: Metrics,
        listeners: Listeners,
    ) -> Result<Self, StartError> {
        config.validate()?;
        let bound = listeners.main.local_addr().map_err(StartError::Socket)?;
        let (advertised, shown) = advertised(&config, bound).await?;
        parts.core.producing.set_store_host(advertised);
        let identity = Identity {
            cluster: Arc::from(parts.core_config.cluster_name.as_str()),
            broker: Arc::from(parts.core_config.broker_name.as_str()),
            address: format!("{shown}:{}", advertised.port()),
            ha_address: format!("{shown}:{}", advertised.port().saturating_add(1)),
            extras: parts.extras.clone(),
        };
        let (registrars, registered) = registration::registrars(
            &config.name_servers,
            &identity,
            &parts.core.catalog,
            Duration::from_millis(config.register_interval_ms),
            Duration::from_millis(config.register_timeout_ms),
            &metrics.native,
        );
        let lease = i64::try_from(config.queue_lock_ms).unwrap_or(i64::MAX);
        let locks = Arc::new(Mutex::new(QueueLocks::new(lease)));
        let tallies = Arc::new(Tallies::new(metrics.native.clone()));
        let front = Arc::new(Front::new(
            &parts,
            &config,
            advertised,
            &registered,
            &metrics.native,
            &locks,
            &tallies,
        ));
        let (stop, stopped) = watch::channel(false);
        let mut others = JoinSet::new();
        let doors = [
            (Some(listeners.main), Port::Main, "native"),
            (listeners.vip, Port::Vip, "native-vip"),
        ];
        for (listener, port, name) in doors {
            let Some(listener) = listener else { continue };
            let door = Arc::new(Door {
                front: front.clone(),
                port,
            });
            let mut stopped = stopped.clone();
            others.spawn(serve(
                listener,
                door,
                config.limits.clone(),
                metrics.remoting.listener(name),
                async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                },
            ));
        }
        others.spawn(sweep(
            front,
            locks,
            tallies,
            i64::try_from(config.client_expiry_ms).unwrap_or(i64::MAX),
            stopped.clone(),
        ));
        let mut tasks = JoinSet::new();
        for registrar in registrars {
            tasks.spawn(registrar.run(stopped.clone()));
        }
        Ok(Self {
            advertised,
            stop,
            registrars: tasks,
            others,
        })
    }

    /// What clients are told to connect to.
    #[must_use]
    pub fn advertised(&self) -> SocketAddr {
        self.advertised
    }

    /// Takes leave of the name servers, accepts no more, lets requests under way finish, and
    /// returns when every connection is closed (at most `limits.drain_seconds_max` and a little).
    pub async fn drain(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.registrars.join_next().await {
            report(ended);
        }
        while let Some(ended) = self.others.join_next().await {
            report(ended);
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of the RocketMQ front failed");
    }
}

async fn sweep(
    front: Arc<Front>,
    locks: Arc<Mutex<QueueLocks>>,
    tallies: Arc<Tallies>,
    expiry_ms: i64,
    mut stop: watch::Receiver<bool>,
) {
    let mut tick = interval(SWEEP);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let now = now_ms();
        front.clients.expire(now.saturating_sub(expiry_ms));
        locks.lock().sweep(now);
        tallies.sample(now);
    }
}

/// The address for storeHost and the host text for routes.
async fn advertised(
    config: &NativeConfig,
    bound: SocketAddr,
) -> Result<(SocketAddr, String), StartError> {
    let port = match config.advertised_port {
        0 => bound.port(),
        port => port,
    };
    let host = config.advertised_host.trim();
    if host.is_empty() {
        let ip = if bound.ip().is_unspecified() {
            std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)
        } else {
            bound.ip()
        };
        return Ok((SocketAddr::new(ip, port), ip.to_string()));
    }
    let no_address = || StartError::Host(host.to_owned());
    let mut found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|_| no_address())?
        .collect();
    // Old clients read IPv4 ids only.
    found.sort_by_key(SocketAddr::is_ipv6);
    let first = found.first().copied().ok_or_else(no_address)?;
    Ok((first, host.to_owned()))
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    WallClock.now().0
}
