//! The stages a request passes, and the clock that laps them.

use crate::{RegisterError, Registry, buckets};
use prometheus::{Histogram, HistogramOpts, HistogramVec};
use std::time::Instant;

/// A room that a request passes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Stage {
    /// From the frame's last byte to a decoded request.
    Decode,
    /// Waiting for a turn.
    Queue,
    /// In the lane.
    Append,
    /// Waiting for the disk.
    Sync,
    /// Long poll.
    Wait,
    /// Reading the log.
    Read,
    /// Between the two payload layouts.
    Translate,
    /// Building the answer.
    Encode,
    /// Into the socket.
    Send,
}

const STAGES: [(Stage, &str); 9] = [
    (Stage::Decode, "decode"),
    (Stage::Queue, "queue"),
    (Stage::Append, "append"),
    (Stage::Sync, "sync"),
    (Stage::Wait, "wait"),
    (Stage::Read, "read"),
    (Stage::Translate, "translate"),
    (Stage::Encode, "encode"),
    (Stage::Send, "send"),
];

/// Stage histograms, shared by both fronts: `twinmq_request_stage_seconds{protocol,request,stage}`.
#[derive(Clone, Debug)]
pub struct StageMetrics {
    seconds: HistogramVec,
}

/// The stage histograms of one request kind, resolved up front.
#[derive(Clone, Debug)]
pub struct StageRow {
    by_stage: Vec<Histogram>,
}

impl StageMetrics {
    /// Registers the family.
    ///
    /// # Errors
    /// It is there already.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let opts = HistogramOpts::new(
            "twinmq_request_stage_seconds",
            "Time a request spent in each stage, by protocol and request kind.",
        )
        .buckets(buckets::SECONDS.to_vec());
        let seconds = HistogramVec::new(opts, &["protocol", "request", "stage"])?;
        Ok(Self {
            seconds: registry.add(seconds)?,
        })
    }

    /// The row of one request kind.
    #[must_use]
    pub fn row(&self, protocol: &str, request: &str) -> StageRow {
        let by_stage = STAGES
            .iter()
            .map(|(_, name)| self.seconds.with_label_values(&[protocol, request, name]))
            .collect();
        StageRow { by_stage }
    }
}

/// A request's clock: born with its frame, lapped in every room.
#[derive(Clone, Copy, Debug)]
pub struct StageClock {
    last: Instant,
}

impl StageClock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Ends a stage: the time since the last lap is its.
    pub fn lap(&mut self, row: &StageRow, stage: Stage) {
        let now = Instant::now();
        if let Some(histogram) = row.by_stage.get(stage as usize) {
            histogram.observe((now - self.last).as_secs_f64());
        }
        self.last = now;
    }
}
