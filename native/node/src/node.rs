//! Builds registry, store, core, fronts and endpoint in this order, and undoes it in reverse.

use crate::config::NodeConfig;
use crate::error::StartError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use twinmq_core::Core;
use twinmq_core::CoreMetrics;
use twinmq_kafka::{Bound, Kafka, KafkaMetrics};
use twinmq_metrics::{Endpoint, Readiness, Registry, StageMetrics};
use twinmq_nameserver::{Nameserver, NameserverMetrics};
use twinmq_native::{Listeners, Metrics as NativeMetricsSet, Native, NativeMetrics};
use twinmq_remoting::RemotingMetrics;
use twinmq_store::{Clock, Flush, Store, StoreMetrics, WallClock};

/// How long the start waits for the own name server to know the broker.
const REGISTRATION: Duration = Duration::from_secs(3);

/// Which roles the process has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Name server, broker and Kafka front.
    All,
    /// The name server alone.
    Nameserver,
}

/// The running process.
#[derive(Debug)]
pub(crate) struct Node {
    config: NodeConfig,
    nameserver: Nameserver,
    broker: Option<Broker>,
    endpoint: Endpoint,
    ready: Readiness,
}

/// Store, core and both fronts.
#[derive(Debug)]
struct Broker {
    store: Store,
    core: Core,
    native: Native,
    kafka: Kafka,
    kafka_addresses: Vec<SocketAddr>,
}

/// Every port, bound before anything is opened: a port in use is known at once.
struct Ports {
    nameserver: TcpListener,
    native: Option<Listeners>,
    kafka: Vec<Bound>,
    http: TcpListener,
}

impl Node {
    /// Starts the roles. Clients are served when this returns.
    ///
    /// # Errors
    /// The part that failed, and why.
    pub(crate) async fn start(mut config: NodeConfig, role: Role) -> Result<Self, StartError> {
        let ports = bind(&config, role).await?;
        let registry = Registry::new();
        let failed = |error: twinmq_metrics::RegisterError| StartError::new("metrics", &error);
        let remoting = RemotingMetrics::register(&registry).map_err(failed)?;
        let names = NameserverMetrics::register(&registry).map_err(failed)?;
        let ready = Readiness::default();
        let endpoint =
            Endpoint::start(ports.http, registry.clone(), ready.clone(), Arc::new(|| {}))
                .map_err(|error| StartError::new("http", &error))?;
        if config.nameserver.kv_path.as_os_str().is_empty() {
            config.nameserver.kv_path = config.data_dir.join("nameserver").join("kvConfig.json");
        }
        let nameserver = Nameserver::start(
            ports.nameserver,
            config.nameserver.clone(),
            names,
            remoting.listener("nameserver"),
        )
        .map_err(|error| StartError::new("nameserver", &error))?;
        let broker = match ports.native {
            Some(listeners) => {
                if config.native.name_servers.is_empty() {
                    config
                        .native
                        .name_servers
                        .push(reachable(nameserver.addr()).to_string());
                }
                let broker =
                    Broker::start(&config, &registry, remoting, listeners, ports.kafka).await?;
                registered(&nameserver, &config.native.name_servers).await;
                Some(broker)
            }
            None => None,
        };
        ready.set(true);
        Ok(Self {
            config,
            nameserver,
            broker,
            endpoint,
            ready,
        })
    }

    /// What to point each kind of client at.
    pub(crate) fn banner(&self) -> String {
        let mut lines = vec![format!("TwinMQ {}", env!("CARGO_PKG_VERSION"))];
        if let Some(broker) = &self.broker {
            for (address, listener) in broker
                .kafka_addresses
                .iter()
                .zip(&self.config.kafka.listeners)
            {
                let told = listener
                    .advertised
                    .clone()
                    .unwrap_or_else(|| "the address they connect to".to_owned());
                lines.push(format!(
                    "  Kafka     bootstrap.servers={}; clients are then told {told}",
                    reachable(*address)
                ));
            }
        }
        lines.push(format!(
            "  RocketMQ  namesrvAddr={}",
            reachable(self.nameserver.addr())
        ));
        if let Some(broker) = &self.broker {
            let address = broker.native.advertised();
            let note = if address.ip().is_loopback() {
                " (this machine only; set native.advertised_host for others)"
            } else {
                ""
            };
            lines.push(format!(
                "            clients are then told the broker is at {address}{note}"
            ));
        }
        lines.push(format!(
            "  HTTP      http://{}/metrics /healthz /readyz",
            reachable(self.endpoint.address())
        ));
        if self.broker.is_some() {
            let flush = match self.config.store.flush {
                Flush::Async => format!(
                    "acknowledged = in the page cache, on disk within {} ms",
                    self.config.store.flush_interval_ms
                ),
                Flush::Sync => "acknowledged = on disk".to_owned(),
            };
            lines.push(format!(
                "  data      {} ({flush})",
                self.config.data_dir.display()
            ));
        }
        lines.join("\n")
    }

    /// Takes no new clients, finishes what is under way within `drain_ms`, syncs and closes the log.
    pub(crate) async fn stop(self) {
        self.ready.set(false);
        let deadline = Duration::from_millis(self.config.drain_ms);
        if let Some(broker) = self.broker {
            broker.stop(deadline).await;
        }
        self.nameserver.shutdown().await;
        self.endpoint.close().await;
    }
}

impl Broker {
    async fn start(
        config: &NodeConfig,
        registry: &Registry,
        remoting: RemotingMetrics,
        listeners: Listeners,
        bound: Vec<Bound>,
    ) -> Result<Self, StartError> {
        let failed = |error: twinmq_metrics::RegisterError| StartError::new("metrics", &error);
        let stages = StageMetrics::register(registry).map_err(failed)?;
        let store_metrics = StoreMetrics::register(registry).map_err(failed)?;
        let core_metrics = CoreMetrics::register(registry).map_err(failed)?;
        let native_metrics = NativeMetricsSet {
            native: NativeMetrics::register(registry, &stages).map_err(failed)?,
            remoting,
        };
        let kafka_metrics = KafkaMetrics::register(registry, &stages).map_err(failed)?;
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let (dir, settings) = (config.data_dir.clone(), config.store.clone());
        let store_clock = Arc::clone(&clock);
        let opening = move || Store::open(&dir.join("store"), settings, store_clock, store_metrics);
        let store = tokio::task::spawn_blocking(opening)
            .await
            .map_err(|error| StartError::new("store", &error))?
            .map_err(|error| StartError::new("store", &error))?;
        let mut core_config = config.broker.clone();
        core_config.flush_sync = config.store.flush == Flush::Sync;
        let core = Core::open_with(
            store.clone(),
            core_config.clone(),
            core_metrics,
            Arc::clone(&clock),
        )
        .await
        .map_err(|error| StartError::new("broker", &error))?;
        let native = Native::start(
            twinmq_native::Parts {
                core: core.clone(),
                core_config: core_config.clone(),
                store: store.clone(),
                extras: kafka_facts(config, &bound),
            },
            config.native.clone(),
            native_metrics,
            listeners,
        )
        .await
        .map_err(|error| StartError::new("native", &error))?;
        let kafka_addresses = bound.iter().map(Bound::address).collect();
        let kafka = Kafka::start(
            twinmq_kafka::Parts {
                core: core.clone(),
                flush_sync: core_config.flush_sync,
                core_config,
                clock,
            },
            config.kafka.clone(),
            kafka_metrics,
            bound,
        );
        Ok(Self {
            store,
            core,
            native,
            kafka,
            kafka_addresses,
        })
    }

    async fn stop(self, deadline: Duration) {
        tokio::join!(self.kafka.drain(deadline), self.native.drain());
        self.core.close().await;
        let store = self.store;
        if let Err(error) = tokio::task::spawn_blocking(move || store.close()).await {
            tracing::error!(%error, "closing the log failed");
        }
    }
}

/// What name servers are told of the Kafka front, so that metadata can be computed from routes.
fn kafka_facts(config: &NodeConfig, bound: &[Bound]) -> Vec<(String, String)> {
    let listeners: Vec<String> = bound
        .iter()
        .zip(&config.kafka.listeners)
        .map(|(bound, listener)| {
            let told = listener.advertised.clone();
            let address = told.unwrap_or_else(|| reachable(bound.address()).to_string());
            format!("{}://{address}", listener.name)
        })
        .collect();
    let mut facts = vec![
        ("twinmqNodeId".to_owned(), config.broker.node_id.to_string()),
        ("twinmqKafkaListeners".to_owned(), listeners.join(",")),
    ];
    facts.extend(
        config
            .kafka
            .rack
            .iter()
            .map(|rack| ("twinmqRack".to_owned(), rack.clone())),
    );
    facts
}

async fn bind(config: &NodeConfig, role: Role) -> Result<Ports, StartError> {
    let nameserver = listener("nameserver.listen", &config.nameserver.listen).await?;
    let http = listener("http.listen", &config.http.listen.to_string()).await?;
    if role == Role::Nameserver {
        return Ok(Ports {
            nameserver,
            native: None,
            kafka: Vec::new(),
            http,
        });
    }
    let main = listener("native.listen", &config.native.listen.to_string()).await?;
    let vip = if config.native.vip {
        let mut address = main
            .local_addr()
            .map_err(|error| StartError::new("native.listen", &error))?;
        address.set_port(address.port().saturating_sub(2));
        Some(
            listener(
                "native.listen, VIP port (native.vip = false does without)",
                &address.to_string(),
            )
            .await?,
        )
    } else {
        None
    };
    let kafka =
        twinmq_kafka::bind(&config.kafka).map_err(|error| StartError::new("kafka", &error))?;
    Ok(Ports {
        nameserver,
        native: Some(Listeners { main, vip }),
        kafka,
        http,
    })
}

async fn listener(key: &str, address: &str) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| StartError::new(&format!("{key} {address}"), &error))
}

/// The address as a client on this machine types it.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    }
    address
}

/// Waits until the own name server knows the broker, where it is the one that brokers register with.
async fn registered(nameserver: &Nameserver, servers: &[String]) {
    if !servers.contains(&reachable(nameserver.addr()).to_string()) {
        return;
    }
    let known = async {
        while nameserver.routes().route("TBW102").is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(REGISTRATION, known).await.is_err() {
        tracing::warn!(
            "the own name server does not know the broker yet; RocketMQ clients find no route until it does"
        );
    }
}
