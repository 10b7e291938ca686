//! Incremental fetch sessions (KIP-227): what a client fetches is remembered between its requests.
//!
//! Promises the exact rules for session ids and epochs, a bounded number of sessions with Kafka's
//! eviction rules, and that an incremental answer holds a partition only when something changed.
//! Having no slot is always legal: the client goes on with full fetches.

use crate::config::KafkaConfig;
use crate::metrics::KafkaMetrics;
use kafka_protocol::ResponseError;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// How a client names a topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum TopicRef {
    /// Up to v12.
    Name(Arc<str>),
    /// From v13 on.
    Id(Uuid),
}

/// One partition as it is fetched.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) topic: TopicRef,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) current_epoch: i32,
    pub(crate) last_epoch: i32,
}

type Key = (TopicRef, i32);

impl Want {
    fn key(&self) -> Key {
        (self.topic.clone(), self.partition)
    }
}

/// What decides whether an incremental answer holds a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) error: i16,
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) records: bool,
    pub(crate) diverging: bool,
}

#[derive(Debug)]
struct Cached {
    want: Want,
    high_watermark: i64,
    log_start: i64,
}

impl Cached {
    /// Whether the client has to be told, and what it knows afterwards.
    fn tell(&mut self, seen: Seen) -> bool {
        let changed = seen.records
            || seen.diverging
            || seen.error != 0
            || self.high_watermark != seen.high_watermark
            || self.log_start != seen.log_start;
        // After an error the next success is always told.
        self.high_watermark = if seen.error == 0 {
            seen.high_watermark
        } else {
            -1
        };
        self.log_start = seen.log_start;
        changed
    }
}

#[derive(Debug)]
struct Session {
    /// What the next request has to carry.
    epoch: i32,
    /// The cached partitions in fetch order; those that delivered go to the end.
    order: BTreeMap<u64, Cached>,
    places: HashMap<Key, u64>,
    next_place: u64,
    by_id: bool,
    created: i64,
    used: i64,
}

impl Session {
    fn put(&mut self, want: Want) {
        let key = want.key();
        if let Some(cached) = self
            .places
            .get(&key)
            .and_then(|place| self.order.get_mut(place))
        {
            cached.want = want;
            return;
        }
        self.places.insert(key, self.next_place);
        self.order.insert(
            self.next_place,
            Cached {
                want,
                high_watermark: -1,
                log_start: -1,
            },
        );
        self.next_place += 1;
    }

    fn forget(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.order.remove(&place);
        }
    }

    fn move_last(&mut self, key: &Key) {
        if let Some(place) = self.places.get_mut(key)
            && let Some(cached) = self.order.remove(place)
        {
            *place = self.next_place;
            self.order.insert(self.next_place, cached);
            self.next_place += 1;
        }
    }

    fn wants(&self) -> Vec<Want> {
        self.order
            .values()
            .map(|cached| cached.want.clone())
            .collect()
    }
}

/// How a request is answered with respect to sessions.
#[derive(Debug)]
pub(crate) enum Plan {
    /// All that was asked for, session id 0.
    Sessionless(Vec<Want>),
    /// All that was asked for; a session may be made of it.
    Full(Vec<Want>),
    /// What changed among these.
    Incremental {
        id: i32,
        /// The session's epoch after this request.
        epoch: i32,
        wants: Vec<Want>,
    },
}

impl Plan {
    pub(crate) fn wants(&self) -> &[Want] {
        match self {
            Self::Sessionless(wants) | Self::Full(wants) | Self::Incremental { wants, .. } => wants,
        }
    }
}

/// The session part of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    /// Topics are named by id (v13+).
    pub(crate) by_id: bool,
    pub(crate) wants: Vec<Want>,
    pub(crate) forgotten: Vec<(TopicRef, i32)>,
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<i32, Session>>,
    sessions_max: usize,
    idle_ms: i64,
    partitions_max: usize,
    metrics: KafkaMetrics,
}

/// Closes a session whatever its epoch; the request itself is a full one.
const FINAL_EPOCH: i32 = -1;
/// Asks for a new session.
const INITIAL_EPOCH: i32 = 0;

impl Sessions {
    pub(crate) fn new(config: &KafkaConfig, metrics: &KafkaMetrics) -> Self {
        Self {
            sessions: Mutex::new(HashMap::new()),
            sessions_max: config.fetch_sessions_max,
            idle_ms: i64::try_from(config.fetch_session_idle_ms).unwrap_or(i64::MAX),
            partitions_max: config.fetch_session_partitions_max,
            metrics: metrics.clone(),
        }
    }

    /// Resolves a request's session (the table of KIP-227).
    ///
    /// # Errors
    /// The top-level error to answer with, session id 0.
    pub(crate) fn plan(&self, asked: Asked, now: i64) -> Result<Plan, ResponseError> {
        if asked.epoch == FINAL_EPOCH || asked.epoch == INITIAL_EPOCH {
            if asked.id != 0 {
                self.remove(asked.id);
            }
            return Ok(if asked.epoch == FINAL_EPOCH {
                Plan::Sessionless(asked.wants)
            } else {
                Plan::Full(asked.wants)
            });
        }
        let mut sessions = self.sessions.lock();
        let others: usize = if asked.wants.is_empty() {
            0
        } else {
            usize::try_from(self.metrics.fetch_session_partitions.get()).unwrap_or(0)
        };
        let Some(session) = sessions.get_mut(&asked.id) else {
            return Err(ResponseError::FetchSessionIdNotFound);
        };
        if asked.epoch < 0 || session.epoch != asked.epoch {
            return Err(ResponseError::InvalidFetchSessionEpoch);
        }
        if session.by_id != asked.by_id {
            return Err(ResponseError::FetchSessionTopicIdError);
        }
        let before = session.order.len();
        if others + asked.wants.len() > self.partitions_max {
            sessions.remove(&asked.id);
            self.count(sessions.len(), before, 0);
            return Err(ResponseError::FetchSessionIdNotFound);
        }
        for want in asked.wants {
            session.put(want);
        }
        for key in &asked.forgotten {
            session.forget(key);
        }
        session.epoch = if session.epoch == i32::MAX {
            1
        } else {
            session.epoch + 1
        };
        session.used = now;
        let after = session.order.len();
        let plan = if after == 0 {
            sessions.remove(&asked.id);
            Plan::Sessionless(Vec::new())
        } else {
            Plan::Incremental {
                id: asked.id,
                epoch: session.epoch,
                wants: session.wants(),
            }
        };
        self.count(sessions.len(), before, after);
        Ok(plan)
    }

    /// Makes a session of a full fetch. Returns its id, or 0 where there is no slot.
    pub(crate) fn open(&self, wants: Vec<Want>, seen: &[Seen], by_id: bool, now: i64) -> i32 {
        let held = usize::try_from(self.metrics.fetch_session_partitions.get()).unwrap_or(0);
        if wants.is_empty() || self.sessions_max == 0 || held + wants.len() > self.partitions_max {
            return 0;
        }
        let mut sessions = self.sessions.lock();
        if sessions.len() >= self.sessions_max {
            let Some(victim) = evictable(&sessions, wants.len(), now, self.idle_ms) else {
                return 0;
            };
            let gone = sessions
                .remove(&victim)
                .map_or(0, |session| session.order.len());
            self.metrics.fetch_session_evictions.inc();
            self.count(sessions.len(), gone, 0);
        }
        let id = loop {
            let id = rand::random_range(1..i32::MAX);
            if !sessions.contains_key(&id) {
                break id;
            }
        };
        let mut session = Session {
            epoch: 1,
            order: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            by_id,
            created: now,
            used: now,
        };
        for (want, seen) in wants.into_iter().zip(seen) {
            let key = want.key();
            session.put(want);
            if let Some(cached) = session
                .places
                .get(&key)
                .and_then(|place| session.order.get_mut(place))
            {
                cached.tell(*seen);
            }
        }
        let partitions = session.order.len();
        sessions.insert(id, session);
        self.count(sessions.len(), 0, partitions);
        id
    }

    /// Which of an incremental fetch's partitions (by place in its plan) the answer holds.
    ///
    /// # Errors
    /// The session moved on or went away while this request was parked.
    pub(crate) fn changed(
        &self,
        id: i32,
        epoch: i32,
        wants: &[Want],
        seen: &[Seen],
    ) -> Result<Vec<bool>, ResponseError> {
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(&id) else {
            return Err(ResponseError::FetchSessionIdNotFound);
        };
        if session.epoch != epoch {
            return Err(ResponseError::InvalidFetchSessionEpoch);
        }
        let mut told = Vec::with_capacity(wants.len());
        for (want, seen) in wants.iter().zip(seen) {
            let key = want.key();
            let cached = session
                .places
                .get(&key)
                .and_then(|place| session.order.get_mut(place));
            told.push(cached.is_some_and(|cached| cached.tell(*seen)));
            if seen.records {
                session.move_last(&key);
            }
        }
        Ok(told)
    }

    fn remove(&self, id: i32) {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.remove(&id) {
            self.count(sessions.len(), session.order.len(), 0);
        }
    }

    fn count(&self, sessions: usize, before: usize, after: usize) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.fetch_sessions.set(gauge(sessions));
        self.metrics
            .fetch_session_partitions
            .add(gauge(after) - gauge(before));
    }
}

/// Kafka's rule: the longest unused one when it is idle for long; else the smallest among those that
/// lived long enough, when it is smaller than the newcomer.
fn evictable(
    sessions: &HashMap<i32, Session>,
    newcomer: usize,
    now: i64,
    idle_ms: i64,
) -> Option<i32> {
    let (id, oldest) = sessions.iter().min_by_key(|(_, session)| session.used)?;
    if now.saturating_sub(oldest.used) > idle_ms {
        return Some(*id);
    }
    sessions
        .iter()
        .filter(|(_, session)| now.saturating_sub(session.created) > idle_ms)
        .min_by_key(|(id, session)| (session.order.len(), **id))
        .filter(|(_, session)| session.order.len() < newcomer)
        .map(|(id, _)| *id)
}

#[cfg(test)]
mod tests;
