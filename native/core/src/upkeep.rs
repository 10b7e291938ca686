//! The background tasks: delayed delivery, lingering commits, retention, snapshots. Started with the
//! core, awaited when it closes.
//!
//! Snapshots also let the log go: the internal queues keep their records only from the older of the
//! two kept snapshots on, so that they do not pin files for ever.

use crate::catalog::{Catalog, Class, Topic, system};
use crate::config::CoreConfig;
use crate::delay::Delays;
use crate::metrics::CoreMetrics;
use crate::offsets::Offsets;
use crate::state::{self as machine, Image};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use twinmq_store::{Keep, LogOffset, QueueNumber, QueueOffset, Store};

/// A day more than the longest delay is kept of the schedule topic.
const SCHEDULE_SLACK_MS: u64 = 86_400_000;
/// Longest wait for a lingering write at closing.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// What the tasks work on.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) config: Arc<CoreConfig>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) delays: Arc<Delays>,
    pub(crate) longest_delay_ms: u64,
    pub(crate) metrics: CoreMetrics,
}

/// The running tasks.
#[derive(Debug)]
pub(crate) struct Upkeep {
    parts: Arc<Parts>,
    snapshots: Arc<tokio::sync::Mutex<Snapshots>>,
    stop: watch::Sender<bool>,
    tasks: Mutex<Option<JoinSet<()>>>,
}

/// What the newest snapshots cover, per machine.
#[derive(Debug, Default)]
struct Snapshots {
    last: HashMap<&'static str, Last>,
    catalog_version: Option<u64>,
}

/// A machine's last snapshot.
#[derive(Debug)]
struct Last {
    at: LogOffset,
    /// What lies below may go once another snapshot has been written.
    positions: Vec<(QueueNumber, QueueOffset)>,
}

impl Upkeep {
    pub(crate) fn start(parts: Parts) -> Self {
        let parts = Arc::new(parts);
        let stop = watch::Sender::new(false);
        let snapshots = Arc::new(tokio::sync::Mutex::new(Snapshots::default()));
        let mut tasks = JoinSet::new();
        let delays = Arc::clone(&parts.delays);
        tasks.spawn(until(stop.subscribe(), async move { delays.run().await }));
        let offsets = Arc::clone(&parts.offsets);
        tasks.spawn(until(
            stop.subscribe(),
            async move { offsets.linger().await },
        ));
        let (own, mut stopped) = (Arc::clone(&parts), stop.subscribe());
        tasks.spawn(async move {
            while pause(&mut stopped, own.config.retention_interval_ms).await {
                own.retain().await;
            }
        });
        let (own, state, mut stopped) =
            (Arc::clone(&parts), Arc::clone(&snapshots), stop.subscribe());
        tasks.spawn(async move {
            while pause(&mut stopped, own.config.snapshot_interval_ms).await {
                own.snapshot(&mut *state.lock().await).await;
            }
        });
        Self {
            parts,
            snapshots,
            stop,
            tasks: Mutex::new(Some(tasks)),
        }
    }

    /// Ends the tasks, writes what lingers, snapshots. A second call does nothing.
    pub(crate) async fn close(&self) {
        self.stop.send_replace(true);
        let tasks = self.tasks.lock().take();
        let Some(mut tasks) = tasks else { return };
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a background task failed");
            }
        }
        match tokio::time::timeout(CLOSE_WAIT, self.parts.offsets.write_lingering()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "lingering commits are lost"),
            Err(_) => tracing::error!("lingering commits are lost: the log took too long"),
        }
        self.parts.snapshot(&mut *self.snapshots.lock().await).await;
        self.parts.metrics.show(None);
    }
}

/// Waits; false if the core is closing. What comes after is not cut short.
async fn pause(stop: &mut watch::Receiver<bool>, ms: u64) -> bool {
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => false,
        () = tokio::time::sleep(Duration::from_millis(ms)) => true,
    }
}

/// Work that may be cut short at any await: what it appends, it applies without one in between.
async fn until(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

impl Parts {
    /// One round of retention.
    async fn retain(&self) {
        self.catalog.drop_deleted().await;
        let keep = |queue: QueueNumber| self.keep(queue);
        if let Err(error) = self.store.retain(&keep).await {
            tracing::warn!(%error, "a retention round failed");
        }
    }

    /// How long a queue's records are kept. Internal queues move by snapshots only.
    fn keep(&self, queue: QueueNumber) -> Keep {
        match self.catalog.by_queue(queue) {
            Some((topic, _)) => self.keep_of(&topic),
            None => Keep::default(),
        }
    }

    fn keep_of(&self, topic: &Topic) -> Keep {
        let resolved = &topic.resolved;
        if topic.class == Class::Internal || (resolved.compact && !resolved.delete) {
            return Keep::default();
        }
        let mut ms = resolved.retention_ms;
        if topic.native.as_deref() == Some(system::SCHEDULE_TOPIC) {
            let least = self.longest_delay_ms.saturating_add(SCHEDULE_SLACK_MS);
            ms = ms.map(|ms| ms.max(least));
        }
        Keep {
            ms,
            bytes: resolved.retention_bytes,
        }
    }

    /// Snapshots every machine that changed, and those whose last snapshot would pin old files.
    async fn snapshot(&self, state: &mut Snapshots) {
        let version = self.catalog.version().0;
        if state.catalog_version != Some(version) || self.old(state, "catalog") {
            let (image, positions) = self.catalog.image();
            if self.save(state, image, positions).await {
                state.catalog_version = Some(version);
            }
        }
        if let Some((image, positions)) = self.offsets.image(self.old(state, "offsets"))
            && !self.save(state, image, positions).await
        {
            self.offsets.image_lost();
        }
        if let Some((image, positions)) = self.delays.image(self.old(state, "delays"))
            && !self.save(state, image, positions).await
        {
            self.delays.image_lost();
        }
    }

    /// Whether the log has gone on by much since a machine's last snapshot.
    fn old(&self, state: &Snapshots, name: &str) -> bool {
        let written = self.store.progress().written.0;
        let last = state.last.get(name).map_or(0, |last| last.at.0);
        written.saturating_sub(last) > self.config.snapshot_log_bytes
    }

    /// Writes an image. What only the snapshot before the last one needed may go then.
    async fn save(
        &self,
        state: &mut Snapshots,
        image: Image,
        positions: Vec<(QueueNumber, QueueOffset)>,
    ) -> bool {
        let (name, at) = (image.name, image.at);
        if let Err(reason) = machine::save(&self.store, image).await {
            self.metrics.snapshots_failed.inc();
            tracing::warn!(machine = name, %reason, "a snapshot could not be written");
            return false;
        }
        self.metrics.snapshots.inc();
        tracing::debug!(machine = name, %at, "snapshot written");
        if let Some(older) = state.last.insert(name, Last { at, positions })
            && self.worth_it(at)
        {
            self.release(&older.positions).await;
        }
        true
    }

    /// Raising first offsets costs a write per queue: only when the log is longer than what the
    /// retention of a file could win.
    fn worth_it(&self, at: LogOffset) -> bool {
        at.0.saturating_sub(self.store.progress().head.0) > self.config.snapshot_log_bytes
    }

    async fn release(&self, positions: &[(QueueNumber, QueueOffset)]) {
        for (queue, to) in positions {
            if self.store.ends(*queue, twinmq_store::Upto::default()).first >= *to {
                continue;
            }
            if let Err(error) = self.store.raise_first(*queue, *to).await {
                tracing::warn!(%error, %queue, "an internal queue keeps records that a snapshot holds");
                return;
            }
        }
    }
}
