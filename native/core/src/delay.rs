//! Delayed messages: they lie in `SCHEDULE_TOPIC_XXXX`, one queue per delay level, until their time.
//!
//! Delivery appends the message to its real topic and the level's progress to an internal queue as
//! one run, so that a crash neither loses nor repeats a message. Within a level the order of arrival
//! is the order of due times, so only the head of each level is looked at: the task sleeps until the
//! earliest head is due and is woken by arrivals in empty levels only.
//!
//! The facts (levels, properties that stay) are RocketMQ's `ScheduleMessageService` and `HookUtils`.

use crate::catalog::{Catalog, Topic, system};
use crate::codec::{Put, Take};
use crate::config::OpenError;
use crate::metrics::CoreMetrics;
use crate::payload::{self, Pair};
use crate::produce::{self, Target};
use crate::retry;
use crate::state::{self as machine, Image, Plan, SharedClock};
use parking_lot::Mutex;
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
const FORMAT: u32 = 1;
/// Most messages, and about the most bytes, delivered in one run.
const RUN_MESSAGES: u32 = 64;
const RUN_BYTES: u32 = 1 << 20;
/// Pause after the log or the disk refused.
const PAUSE: Duration = Duration::from_secs(1);

/// The delay of each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps(Vec<u64>);

impl Steps {
    /// Reads RocketMQ's `messageDelayLevel`: numbers with s, m, h or d, level 1 first.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for word in text.split_whitespace() {
            let bad = || format!("{word:?} is not a number with s, m, h or d");
            let unit = match word.as_bytes().last() {
                Some(b's') => 1000,
                Some(b'm') => 60_000,
                Some(b'h') => 3_600_000,
                Some(b'd') => 86_400_000,
                _ => return Err(bad()),
            };
            let count: u32 = word[..word.len() - 1].parse().map_err(|_| bad())?;
            steps.push(u64::from(count) * unit);
        }
        if steps.is_empty() || steps.len() > 255 {
            return Err("from 1 to 255 levels".to_owned());
        }
        Ok(Self(steps))
    }

    /// How many levels there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Delay of a level's queue (level minus 1), in ms.
    fn of_queue(&self, queue: u32) -> i64 {
        let ms = self.0.get(queue as usize).copied().unwrap_or(0);
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    /// The longest delay, in ms.
    pub(crate) fn longest(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// The state machine: how far each level is delivered.
#[derive(Debug, Default)]
struct Progress {
    levels: Vec<QueueOffset>,
    next: QueueOffset,
    changed: bool,
}

impl Progress {
    fn apply(&mut self, level: u32, to: QueueOffset) {
        let place = level as usize;
        if self.levels.len() <= place {
            self.levels.resize(place + 1, QueueOffset(0));
        }
        if let Some(slot) = self.levels.get_mut(place) {
            *slot = to;
        }
        self.changed = true;
    }

    fn of(&self, level: u32) -> QueueOffset {
        self.levels.get(level as usize).copied().unwrap_or_default()
    }
}

fn encode(level: u32, to: QueueOffset) -> Pair {
    Pair {
        key: format!("delay/{level}").into_bytes(),
        value: Some(to.0.to_string().into_bytes()),
    }
}

fn decode(key: &[u8], value: Option<&[u8]>) -> Result<(u32, QueueOffset), String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "not text".to_owned());
    let level = text(key)?
        .strip_prefix("delay/")
        .and_then(|level| level.parse().ok())
        .filter(|level| *level < 256)
        .ok_or_else(|| "an unknown key".to_owned())?;
    let to = text(value.unwrap_or_default())?
        .parse()
        .map_err(|_| "progress is not a number".to_owned())?;
    Ok((level, QueueOffset(to)))
}

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
        let heads = vec![None; steps.count() as usize];
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
        let mut bytes = Vec::new();
        bytes.put(&FORMAT.to_be_bytes());
        bytes.put(&progress.next.0.to_be_bytes());
        let count = u32::try_from(progress.levels.len()).unwrap_or(0);
        bytes.put(&count.to_be_bytes());
        for level in &progress.levels {
            bytes.put(&level.0.to_be_bytes());
        }
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
            if self.newly_empty(&mut watch, &topic) {
                continue;
            }
            match next {
                None => watch.changed().await,
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
    fn newly_empty(&self, watch: &mut EmptyLevels, _topic: &Topic) -> bool {
        let heads = self.heads.lock();
        heads
            .iter()
            .zip(&watch.empty)
            .any(|(head, watched)| head.is_none() && !watched)
    }

    /// Delivers everything that is due, in order of due time. Returns when the next one is.
    async fn pass(&self, topic: &Topic) -> Result<Option<Timestamp>, DeliveryError> {
        for level in 0..self.steps.count() {
            let known = self.heads.lock()[level as usize].is_some();
            if !known {
                self.look(topic, level).await?;
            }
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

    /// Store time plus the level's step; a message from the future (the clock went back) is due now.
    fn due(&self, level: u32, stored: &Stored) -> Timestamp {
        let stored_at = stored.header.store_time.0;
        if stored_at > self.clock.now().0 {
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

struct EmptyLevels {
    watch: Watch,
    empty: Vec<bool>,
}

impl EmptyLevels {
    async fn changed(&mut self) {
        self.watch.changed().await;
    }
}

fn restore(bytes: &[u8]) -> Result<Progress, String> {
    let mut take = Take::new(bytes);
    let mut read = || {
        let format = take.u32()?;
        let mut progress = Progress {
            next: QueueOffset(take.u64()?),
            ..Progress::default()
        };
        for _ in 0..take.u32()? {
            progress.levels.push(QueueOffset(take.u64()?));
        }
        Ok::<_, crate::codec::Short>((format, progress))
    };
    match read() {
        Ok((FORMAT, progress)) => Ok(progress),
        Ok((format, _)) => Err(format!("snapshot format {format} is unknown")),
        Err(short) => Err(short.to_string()),
    }
}

#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_in_rocketmqs_spelling() {
        let steps = Steps::parse("1s 5s 10s 30s 1m 2m 2h 1d").expect("legal");
        assert_eq!(steps.count(), 8);
        assert_eq!(steps.of_queue(0), 1000);
        assert_eq!(steps.of_queue(6), 7_200_000);
        assert_eq!(steps.longest(), 86_400_000);
        for bad in ["", "5", "s", "1w", "-1s", "99999999999s"] {
            assert!(Steps::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn progress_records_come_back() {
        let pair = encode(17, QueueOffset(99));
        let back = decode(&pair.key, pair.value.as_deref());
        assert_eq!(back, Ok((17, QueueOffset(99))));
        assert!(decode(b"delay/999", Some(b"1")).is_err());
        assert!(decode(b"delay/1", Some(b"x")).is_err());
        assert!(decode(b"delay/1", None).is_err());
    }
}
