//! The broker in no protocol's words: topics and names, queues, groups and offsets, retry and dead
//! letters, who may read what. Both fronts call it; it calls the store.

mod cache;
pub mod catalog;
mod codec;
mod config;
pub mod consume;
mod delay;
pub mod groups;
pub mod lag;
mod metrics;
pub mod offsets;
mod payload;
pub mod produce;
pub mod retry;
pub mod roster;
pub mod settings;
mod shelf;
mod state;
pub mod tally;
mod upkeep;

pub use config::{CoreConfig, OpenError};
pub use metrics::CoreMetrics;

use state::SharedClock;
use std::sync::Arc;
use std::time::Duration;
use twinmq_store::{Store, WallClock};
use upkeep::Upkeep;

/// The parts of the broker. Callers take the parts they need and hand out only those.
#[derive(Clone, Debug)]
pub struct Core {
    /// Topics, both names, settings, queue numbers.
    pub catalog: Arc<catalog::Catalog>,
    /// Definitions of consumer groups (RocketMQ subscription groups).
    pub groups: Arc<groups::Groups>,
    /// Committed offsets: one table for both protocols.
    pub offsets: Arc<offsets::Offsets>,
    /// Who is in which group now.
    pub roster: Arc<roster::Roster>,
    /// The way in.
    pub producing: Arc<produce::Producing>,
    /// The way out.
    pub consuming: Arc<consume::Consuming>,
    /// Sent-back and delayed messages.
    pub retry: Arc<retry::Retry>,
    upkeep: Arc<Upkeep>,
}

impl Core {
    /// Rebuilds the broker's state from the log: newest snapshots, then replay. Creates the internal
    /// and system topics on an empty log, and starts the background tasks (delayed delivery, lingering
    /// commits, retention, snapshots), which end with [`Core::close`].
    ///
    /// # Errors
    /// The log could not be read, or a snapshot and the log contradict each other.
    pub async fn open(store: Store, config: CoreConfig) -> Result<Self, OpenError> {
        Self::open_with(store, config, CoreMetrics::default(), Arc::new(WallClock)).await
    }

    /// [`Core::open`] with registered metrics and a clock.
    ///
    /// # Errors
    /// See [`Core::open`].
    pub async fn open_with(
        store: Store,
        config: CoreConfig,
        metrics: CoreMetrics,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let config = Arc::new(config);
        let machines = Machines::open(&store, &config, &metrics, &clock).await?;
        let Machines {
            catalog,
            offsets,
            delays,
            steps,
        } = machines;
        let groups = Arc::new(groups::Groups::new(Arc::clone(&catalog)));
        let producing = Arc::new(produce::Producing::new(
            store.clone(),
            Arc::clone(&config),
            Arc::clone(&catalog),
            Arc::clone(&clock),
            steps.count(),
        ));
        let consuming = Arc::new(consume::Consuming::new(
            store.clone(),
            &config,
            Arc::clone(&catalog),
            Arc::clone(&producing),
            metrics.clone(),
        ));
        let retry = Arc::new(retry::Retry::new(
            store.clone(),
            Arc::clone(&config),
            Arc::clone(&catalog),
            Arc::clone(&groups),
            Arc::clone(&producing),
            Arc::clone(&consuming),
            metrics.clone(),
        ));
        metrics.show(Some(lag::Source {
            store: store.clone(),
            catalog: Arc::downgrade(&catalog),
            offsets: Arc::downgrade(&offsets),
            overdue: Arc::downgrade(&delays),
            clock,
            series_max: config.lag_series_max,
        }));
        let upkeep = Arc::new(Upkeep::start(upkeep::Parts {
            store,
            config,
            catalog: Arc::clone(&catalog),
            offsets: Arc::clone(&offsets),
            delays,
            longest_delay_ms: steps.longest(),
            metrics,
        }));
        Ok(Self {
            catalog,
            groups,
            offsets,
            roster: Arc::default(),
            producing,
            consuming,
            retry,
            upkeep,
        })
    }

    /// Writes what lingers, snapshots the state machines and ends the background tasks.
    pub async fn close(&self) {
        self.upkeep.close().await;
    }
}

/// What is rebuilt from the log.
struct Machines {
    catalog: Arc<catalog::Catalog>,
    offsets: Arc<offsets::Offsets>,
    delays: Arc<delay::Delays>,
    steps: delay::Steps,
}

impl Machines {
    async fn open(
        store: &Store,
        config: &Arc<CoreConfig>,
        metrics: &CoreMetrics,
        clock: &SharedClock,
    ) -> Result<Self, OpenError> {
        let refused = |(part, reason)| OpenError { part, reason };
        config.validate().map_err(refused)?;
        let steps = delay::Steps::parse(&config.message_delay_level)
            .map_err(|reason| refused(("broker.message_delay_level", reason)))?;
        let table = Arc::new(offsets::Table::default());
        let catalog = catalog::Catalog::open(
            store.clone(),
            Arc::clone(config),
            Arc::clone(clock),
            Arc::clone(&table),
            steps.count(),
        );
        let catalog = Arc::new(catalog.await?);
        let offsets = offsets::Offsets::open(
            store.clone(),
            Arc::clone(&catalog),
            Arc::clone(clock),
            table,
            metrics.clone(),
            Duration::from_millis(config.commit_linger_ms),
        );
        let offsets = Arc::new(offsets.await?);
        let delays = delay::Delays::open(
            store.clone(),
            Arc::clone(&catalog),
            Arc::clone(clock),
            metrics.clone(),
            steps.clone(),
        );
        let delays = Arc::new(delays.await?);
        Ok(Self {
            catalog,
            offsets,
            delays,
            steps,
        })
    }
}
