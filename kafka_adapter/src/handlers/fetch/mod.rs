//! Fetch v4-v17: whole batches straight from the log, parked until there is enough or time is up.
//!
//! Incremental sessions (KIP-227) are in `session.rs`; diverging epochs (KIP-320) are told; topics by
//! id from v13 on. A parked fetch is a suspended future that holds a watch on its queues. Leaves out:
//! preferred replicas (always -1) and followers (a fetch with a replica id is a consumer's).

mod answer;
mod read;

use crate::error::Close;
use crate::frame::Request;
use crate::serve::Front;
use crate::session::{Asked, Plan, TopicRef, Want};
use crate::table::{self, Reply};
use crate::topology::Client;
use answer::Told;
use kafka_protocol::messages::FetchRequest;
use read::{Read, Reading, resolve};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use twinmq_metrics::{Stage, StageClock};

pub(crate) async fn handle(
    front: Arc<Front>,
    _client: Arc<Client>,
    request: Request,
    mut clock: StageClock,
) -> Result<Reply, Close> {
    let row = front.row(request.key);
    let (decoded, version, correlation) = table::open::<FetchRequest>(&front, request, &mut clock)?;
    let limits = Limits::of(&decoded, &front);
    let now = front.clock.now().0;
    let plan = match front.sessions.plan(asked(decoded, version), now) {
        Ok(plan) => plan,
        Err(error) => {
            let answer = answer::encode(version, correlation, error.code(), 0, &[])?;
            return Ok(Reply::Now(answer));
        }
    };
    let (reads, waited) = gather(&front, plan.wants(), &limits, version).await;
    clock.lap(row, if waited { Stage::Wait } else { Stage::Read });
    for read in reads.iter().filter(|read| read.error != 0) {
        front.metrics.partition_error("Fetch", read.error);
    }
    let answer = tell(&front, plan, reads, version, correlation, now)?;
    clock.lap(row, Stage::Encode);
    Ok(Reply::Now(answer))
}

/// What a request allows.
struct Limits {
    wait: Duration,
    bytes_min: usize,
    bytes_max: u32,
    committed: bool,
}

impl Limits {
    fn of(request: &FetchRequest, front: &Front) -> Self {
        let bytes_max = u32::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(front.config.fetch_bytes_max);
        let wait = u64::try_from(request.max_wait_ms)
            .unwrap_or(0)
            .min(front.config.fetch_wait_max_ms);
        Self {
            wait: Duration::from_millis(wait),
            bytes_min: usize::try_from(request.min_bytes)
                .unwrap_or(0)
                .min(bytes_max as usize),
            bytes_max,
            committed: request.isolation_level == 1,
        }
    }
}

/// The request as its session sees it. Names are copied: they may be kept.
fn asked(request: FetchRequest, version: i16) -> Asked {
    let by_id = version >= 13;
    let topic = |name: &str, id| {
        if by_id {
            TopicRef::Id(id)
        } else {
            TopicRef::Name(Arc::from(name))
        }
    };
    let mut wants = Vec::new();
    for asked in &request.topics {
        let named = topic(&asked.topic, asked.topic_id);
        wants.extend(asked.partitions.iter().map(|partition| Want {
            topic: named.clone(),
            partition: partition.partition,
            offset: partition.fetch_offset,
            bytes_max: partition.partition_max_bytes,
            current_epoch: partition.current_leader_epoch,
            last_epoch: partition.last_fetched_epoch,
        }));
    }
    let mut forgotten = Vec::new();
    for asked in &request.forgotten_topics_data {
        let named = topic(&asked.topic, asked.topic_id);
        forgotten.extend(
            asked
                .partitions
                .iter()
                .map(|partition| (named.clone(), *partition)),
        );
    }
    let (id, epoch) = if version >= 7 {
        (request.session_id, request.session_epoch)
    } else {
        (0, -1)
    };
    Asked {
        id,
        epoch,
        by_id,
        wants,
        forgotten,
    }
}

/// Reads until the request is satisfied. True if it was parked.
async fn gather(front: &Front, wants: &[Want], limits: &Limits, version: i16) -> (Vec<Read>, bool) {
    let deadline = Instant::now() + limits.wait;
    let (version_before, _) = front.core.catalog.version();
    let mut resolved = resolve(front, wants);
    let reading = Reading {
        consuming: &front.core.consuming,
        bytes_max: limits.bytes_max,
        committed: limits.committed,
        version,
    };
    let first = reading.pass(wants, &resolved).await;
    if limits.wait.is_zero() || satisfied(&first, wants, limits) {
        return (first, false);
    }
    let mut changes = front.core.catalog.changes();
    if *changes.borrow_and_update() != version_before {
        resolved = resolve(front, wants);
    }
    loop {
        // Register, then look, then wait: nothing that comes in between is missed.
        let mut watch = {
            let queues: Vec<_> = resolved
                .iter()
                .filter_map(|found| found.as_ref().ok())
                .map(|(topic, queue)| (&**topic, *queue))
                .collect();
            front.core.consuming.watch(&queues, limits.committed)
        };
        loop {
            let reads = reading.pass(wants, &resolved).await;
            if satisfied(&reads, wants, limits) {
                return (reads, true);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline) => return (reads, true),
                changed = changes.changed() => {
                    if changed.is_ok() && outdated(front, wants, &resolved) {
                        // A topic was deleted or made anew.
                        resolved = resolve(front, wants);
                        break;
                    }
                }
            }
        }
    }
}

/// Whether a change of the catalogue concerns one of the topics fetched.
fn outdated(front: &Front, wants: &[Want], resolved: &[read::Resolved]) -> bool {
    resolve(front, wants)
        .iter()
        .zip(resolved)
        .any(|(new, old)| match (new, old) {
            (Ok((new, _)), Ok((old, _))) => {
                new.id != old.id || new.resolved.flush_sync != old.resolved.flush_sync
            }
            (Err(_), Err(_)) => false,
            _ => true,
        })
}

/// Answer now: enough bytes, an error or divergence, or nothing asked.
fn satisfied(reads: &[Read], wants: &[Want], limits: &Limits) -> bool {
    wants.is_empty()
        || reads
            .iter()
            .any(|read| read.error != 0 || read.diverging.is_some())
        || reads.iter().map(|read| read.bytes).sum::<usize>() >= limits.bytes_min
}

/// Settles the session and encodes.
fn tell(
    front: &Front,
    plan: Plan,
    reads: Vec<Read>,
    version: i16,
    correlation: i32,
    now: i64,
) -> Result<crate::output::Answer, Close> {
    let seen: Vec<_> = reads.iter().map(Read::seen).collect();
    let everything = |wants: Vec<Want>, reads: Vec<Read>| -> Vec<Told> {
        wants
            .into_iter()
            .zip(reads)
            .map(|(want, read)| Told {
                topic: want.topic,
                partition: want.partition,
                read,
            })
            .collect()
    };
    match plan {
        Plan::Sessionless(wants) => {
            answer::encode(version, correlation, 0, 0, &everything(wants, reads))
        }
        Plan::Full(wants) => {
            let id = front
                .sessions
                .open(wants.clone(), &seen, version >= 13, now);
            answer::encode(version, correlation, 0, id, &everything(wants, reads))
        }
        Plan::Incremental { id, epoch, wants } => {
            match front.sessions.changed(id, epoch, &wants, &seen) {
                Err(error) => answer::encode(version, correlation, error.code(), 0, &[]),
                Ok(changed) => {
                    let mut told = everything(wants, reads);
                    let mut changed = changed.into_iter();
                    told.retain(|_| changed.next().unwrap_or(false));
                    answer::encode(version, correlation, 0, id, &told)
                }
            }
        }
    }
}
