//! Delayed messages: they lie in `SCHEDULE_TOPIC_XXXX`, one queue per delay level, until their time.
//!
//! Delivery appends the message to its real topic and the level's progress to an internal queue as
//! one run, so that a crash neither loses nor repeats a message. Within a level the order of arrival
//! is the order of due times, so only the head of each level is looked at: the task sleeps until the
//! earliest head is due and is woken by arrivals in empty levels only.
//!
//! The facts (levels, properties that stay) are RocketMQ's `ScheduleMessageService` and `HookUtils`.

mod progress;
mod steps;

pub(crate) use steps::Steps;

use crate::catalog::{Catalog, Topic, system};
use crate::config::OpenError;
use crate::metrics::CoreMetrics;
use crate::payload;
use crate::produce::{self, Target};
use crate::retry;
use crate::state::{self as machine, Image, Plan, SharedClock};
use parking_lot::Mutex;
use progress::{Progress, decode, encode, restore};
use std::sync::Arc;
use std::time::Duration;
use twinmq_records::message::MessageView;
use twinmq_records::properties;
use twinmq_store::{
    AppendError, Draft, QueueNumber, QueueOffset, ReadError, Store, Stored, Timestamp, Watch,
    Window,
};

const NAME: &str = "delays";
/// The internal queue of the levels' progress.
pub(crate) const QUEUE: QueueNumber = QueueNumber(QueueNumber::FIRST_OF_CORE.0 + 1);
/// Most messages, and about the most bytes, delivered in one run.
const RUN_MESSAGES: u32 = 64;
const RUN_BYTES: u32 = 1 << 20;
/// A clock put back by less only makes deliveries late by so much.
const CLOCK_BACK_MS: i64 = 60_000;
/// Pause after the log or the disk refused.
const PAUSE: Duration = Duration::from_secs(1);

/// Delivers delayed messages when their time comes.
#[derive(Debug)]
pub(crate) struct Delays {
    store: Store,
    catalog: Arc<Catalog>,
    clock: SharedClock,
    metrics: CoreMetrics,
    steps: Steps,
    progress: Mutex<Progress>,
    /// When the head of each level is due; `None` = empty, or not looked at yet.
    heads: Mutex<Vec<Option<Timestamp>>>,
}

impl Delays {
    pub(crate) async fn open(
        store: Store,
        catalog: Arc<Catalog>,
        clock: SharedClock,
        metrics: CoreMetrics,
        steps: Steps,
    ) -> Result<Self, OpenError> {
        let mut progress = Progress::default();
        if let Some(snapshot) = store.snapshot(NAME) {
            progress =
                restore(&snapshot.bytes).map_err(|reason| OpenError { part: NAME, reason })?;
        }
        let from = progress.next;
        progress.next = machine::replay(&store, NAME, QUEUE, from, |stored| {
            payload::unpack(stored, |_, key, value| {
                let (level, to) = decode(key, value)?;
                progress.apply(level, to);
                Ok(())
            })
        })
        .await?;
        // Levels that the configuration no longer has are due at once.
        let queues = catalog
            .by_native(system::SCHEDULE_TOPIC)
            .map_or(0, |topic| topic.queues.len());
        let heads = vec![None; queues.max(steps.count() as usize)];
        Ok(Self {
            store,
            catalog,
            clock,
            metrics,
            steps,
            progress: Mutex::new(progress),
            heads: Mutex::new(heads),
        })
    }

    /// How long the oldest due message has been waiting, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ms is 285,000 years")]
    pub(crate) fn overdue(&self, now: Timestamp) -> f64 {
        let heads = self.heads.lock();
        let oldest = heads.iter().flatten().min();
        oldest.map_or(0.0, |due| ((now.0 - due.0).max(0) as f64) / 1000.0)
    }

    /// The state, and up to where of its queue it goes. `None` if nothing changed and that
    /// is not wanted all the same.
    pub(crate) fn image(
        &self,
        unchanged_too: bool,
    ) -> Option<(Image, Vec<(QueueNumber, QueueOffset)>)> {
        let mut progress = self.progress.lock();
        if !std::mem::take(&mut progress.changed) && !unchanged_too {
            return None;
        }
        let at = self.store.progress().written;
        let bytes = progress.image();
        let image = Image {
            name: NAME,
            at,
            upto: at,
            bytes,
        };
        Some((image, vec![(QUEUE, progress.next)]))
    }

    /// An image could not be saved: the next one is due whatever happens.
    pub(crate) fn image_lost(&self) {
        self.progress.lock().changed = true;
    }

    /// The task: delivers what is due, sleeps until the next is.
    pub(crate) async fn run(&self) {
        loop {
            let Some(topic) = self.catalog.by_native(system::SCHEDULE_TOPIC) else {
                return;
            };
            // Arrivals in levels that have a head cannot come before it.
            let mut watch = self.watch_empty(&topic);
            let next = match self.pass(&topic).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "delayed messages are late");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if self.newly_empty(&watch) {
                continue;
            }
            match next {
                None => watch.watch.changed().await,
                Some(due) => {
                    let wait = due.0.saturating_sub(self.clock.now().0).max(0);
                    let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
                    tokio::select! {
                        () = watch.watch.changed() => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// Registers for the levels that have no head.
    fn watch_empty(&self, topic: &Topic) -> EmptyLevels {
        let heads = self.heads.lock();
        let empty: Vec<_> = heads.iter().map(Option::is_none).collect();
        let queues: Vec<_> = topic
            .queues
            .iter()
            .zip(&empty)
            .filter_map(|(queue, empty)| empty.then_some(*queue))
            .collect();
        EmptyLevels {
            watch: self.store.watch(&queues, topic.upto(true)),
            empty,
        }
    }

    /// Whether a level became empty after the watch was made: it is not watched then.
    fn newly_empty(&self, watch: &EmptyLevels) -> bool {
        let heads = self.heads.lock();
        heads
            .iter()
            .zip(&watch.empty)
            .any(|(head, watched)| head.is_none() && !watched)
    }

    /// Delivers everything that is due, in order of due time. Returns when the next one is.
    async fn pass(&self, topic: &Topic) -> Result<Option<Timestamp>, DeliveryError> {
        let unknown: Vec<u32> = {
            let heads = self.heads.lock();
            let levels = heads.iter().zip(0..);
            levels
                .filter_map(|(head, level)| head.is_none().then_some(level))
                .collect()
        };
        for level in unknown {
            self.look(topic, level).await?;
        }
        loop {
            let first = {
                let heads = self.heads.lock();
                let dated = heads
                    .iter()
                    .zip(0..)
                    .filter_map(|(due, level)| Some(((*due)?, level)));
                dated.min()
            };
            match first {
                Some((due, level)) if due <= self.clock.now() => {
                    self.deliver(topic, level).await?;
                    self.look(topic, level).await?;
                }
                first => return Ok(first.map(|(due, _)| due)),
            }
        }
    }

    async fn page(
        &self,
        topic: &Topic,
        level: u32,
        entries: u32,
        bytes: u32,
    ) -> Result<Vec<Stored>, DeliveryError> {
        let Some(queue) = topic.queue(level) else {
            return Ok(Vec::new());
        };
        let upto = topic.upto(true);
        let from = self.progress.lock().of(level);
        // Retention may have taken what nobody delivered while the broker was down.
        let from = from.max(self.store.ends(queue, upto).first);
        let window = Window {
            queue,
            from,
            bytes_max: bytes,
            entries_max: entries,
            scan_max: entries,
            upto,
            pass: None,
        };
        Ok(self.store.read(window).await?.entries)
    }

    /// Finds the head of a level.
    async fn look(&self, topic: &Topic, level: u32) -> Result<(), DeliveryError> {
        let entries = self.page(topic, level, 1, 1).await?;
        let due = entries.first().map(|stored| self.due(level, stored));
        if let Some(head) = self.heads.lock().get_mut(level as usize) {
            *head = due;
        }
        Ok(())
    }

    /// Store time plus the level's step; a message from far in the future (the clock was put back) is
    /// due now. Store times never go back, so a clock put back a little makes all look so for a while.
    fn due(&self, level: u32, stored: &Stored) -> Timestamp {
        let stored_at = stored.header.store_time.0;
        if stored_at.saturating_sub(CLOCK_BACK_MS) > self.clock.now().0 {
            return Timestamp(0);
        }
        Timestamp(stored_at.saturating_add(self.steps.of_queue(level)))
    }

    /// Delivers the due messages at the head of a level: one run with the progress.
    async fn deliver(&self, topic: &Topic, level: u32) -> Result<(), DeliveryError> {
        let entries = self.page(topic, level, RUN_MESSAGES, RUN_BYTES).await?;
        let now = self.clock.now();
        let mut run = Vec::new();
        let mut to = None;
        let mut delivered = 0;
        for stored in &entries {
            if self.due(level, stored) > now {
                break;
            }
            to = Some(stored.header.next());
            match self.real_message(stored).await {
                Some(draft) => {
                    run.push(draft);
                    delivered += 1;
                }
                None => self.metrics.delayed_discarded.inc(),
            }
        }
        let Some(to) = to else { return Ok(()) };
        run.push(payload::pack(QUEUE, now, &[encode(level, to)]));
        machine::transact(
            &self.store,
            &self.progress,
            |_| {
                Ok::<_, AppendError>(Some(Plan {
                    run: run.clone(),
                    change: (),
                }))
            },
            |progress, (), _| {
                progress.apply(level, to);
                progress.next = progress.next.plus(1);
            },
        )
        .await?;
        self.metrics.delayed_delivered.inc_by(delivered);
        Ok(())
    }

    /// The message as it goes to its real topic. Property text stays as it is, `DELAY` and `REAL_*`
    /// included. `None`: its topic is gone, or it was never one.
    async fn real_message(&self, stored: &Stored) -> Option<Draft> {
        let message = MessageView::parse(&stored.payload)
            .inspect_err(|error| {
                tracing::error!(%error, at = %stored.header.log_offset, "a delayed message is damaged");
            })
            .ok()?;
        let name = message.properties().get(properties::REAL_TOPIC)?;
        let topic = match self.catalog.by_native(name) {
            Some(topic) => topic,
            None => retry::create_if_returned(&self.catalog, name).await?,
        };
        if system::never_sent_to(name) {
            return None;
        }
        let queue: u32 = message
            .properties()
            .get(properties::REAL_QID)
            .and_then(|queue| queue.parse().ok())
            .unwrap_or(0);
        let count = u32::try_from(topic.queues.len()).unwrap_or(1).max(1);
        let target = Target::of(&topic, queue % count)?;
        produce::restored(&target, &message)
            .inspect_err(
                |error| tracing::error!(%error, "a delayed message cannot be stored again"),
            )
            .ok()
    }
}

/// Interest in the levels that were empty when it was made.
struct EmptyLevels {
    watch: Watch,
    empty: Vec<bool>,
}

#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
}
