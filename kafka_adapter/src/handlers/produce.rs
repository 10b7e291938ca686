//! Produce v3-v13: batches go to the log as they came; the answer waits for what acks asks.
//!
//! Batch contents are checked by the broker's core; here only the shape that decides which batch it
//! is. Transactional batches are refused: transactions are not answered yet.

use crate::error::{Close, Refusal};
use crate::frame::Request;
use crate::serve::Front;
use crate::table::{self, Reply};
use crate::topology::{self, Client};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::PartitionProduceData;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::catalog::Topic;
use twinmq_core::produce::{BatchIn, BatchOut, ProduceError};
use twinmq_metrics::{Stage, StageClock};
use twinmq_store::LogOffset;

/// The Java admin client's id; only it may write to internal topics.
const ADMIN_CLIENT: &str = "__admin_client";
/// Bytes of a v2 batch header.
const BATCH_HEADER: usize = 61;

pub(crate) async fn handle(
    front: Arc<Front>,
    client: Arc<Client>,
    request: Request,
    mut clock: StageClock,
) -> Result<Reply, Close> {
    let key = request.key;
    let (decoded, version, correlation) =
        table::open::<ProduceRequest>(&front, request, &mut clock)?;
    let row = front.row(key);
    let acks = decoded.acks;
    let timeout_ms = u64::try_from(decoded.timeout_ms).unwrap_or(0);
    let refusal = whole_request(&decoded);
    let mut sorted = sort(&front, &client, decoded, version, refusal);
    let taken = front.core.producing.batches(&sorted.batches).await;
    sorted.batches = Vec::new();
    clock.lap(row, Stage::Append);
    if acks == 0 {
        let failed = taken
            .iter()
            .find_map(|out| out.as_ref().err())
            .map(Refusal::from);
        return match failed.or(sorted.first_refusal()) {
            // Without an answer, closing is all that tells the client (as Kafka does).
            Some(refusal) => Err(Close::because(format!(
                "Produce with acks=0 failed: {} ({})",
                refusal.message, refusal.code
            ))),
            None => Ok(Reply::Nothing),
        };
    }
    let mut wait = None;
    let response = sorted.answer(&front, taken, version, &mut wait);
    let header = i16::from(version >= 9);
    let Some(wait) = wait else {
        let answer = table::encode(&response, version, header, correlation)?;
        clock.lap(row, Stage::Encode);
        return Ok(Reply::Now(answer));
    };
    let limit = Duration::from_millis(timeout_ms.min(front.config.produce_wait_max_ms));
    Ok(Reply::Later(Box::pin(async move {
        let response = durable(&front, response, wait, limit, version).await;
        clock.lap(front.row(key), Stage::Sync);
        table::encode(&response, version, header, correlation)
    })))
}

/// Reasons that refuse every partition of a request.
fn whole_request(request: &ProduceRequest) -> Option<Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Some(Refusal::new(
            ResponseError::InvalidRequiredAcks,
            format!("acks = {} is none of -1, 0, 1", request.acks),
        ));
    }
    let transactional = request
        .topic_data
        .iter()
        .flat_map(|topic| &topic.partition_data)
        .filter_map(|partition| partition.records.as_ref())
        .any(|records| attributes(records).is_some_and(|bits| bits & 0x10 != 0));
    match (transactional, &request.transactional_id) {
        (true, None) => Some(Refusal::new(
            ResponseError::TransactionalIdAuthorizationFailed,
            "a transactional batch in a request without transactional.id",
        )),
        (true, Some(_)) => Some(Refusal::new(
            ResponseError::InvalidTxnState,
            "this broker does not take part in transactions yet",
        )),
        (false, _) => None,
    }
}

/// The attributes of the first batch of a record set.
fn attributes(records: &[u8]) -> Option<u16> {
    records
        .get(21..23)
        .and_then(|bits| bits.try_into().ok())
        .map(u16::from_be_bytes)
}

/// A partition of the request: refused, or the place of its batch.
struct Slot {
    index: i32,
    place: Result<usize, Refusal>,
}

/// The request's partitions, and the batches to append.
struct Sorted {
    topics: Vec<(TopicProduceResponse, Vec<Slot>)>,
    batches: Vec<BatchIn>,
}

fn sort(
    front: &Front,
    client: &Client,
    request: ProduceRequest,
    version: i16,
    refusal: Option<Refusal>,
) -> Sorted {
    let mut sorted = Sorted {
        topics: Vec::with_capacity(request.topic_data.len()),
        batches: Vec::new(),
    };
    for asked in request.topic_data {
        let mut answer = TopicProduceResponse::default();
        let topic = if version >= 13 {
            answer.topic_id = asked.topic_id;
            topology::identified(&front.core.catalog, asked.topic_id)
        } else {
            answer.name = asked.name;
            topology::named(&front.core.catalog, &answer.name)
        };
        let mut slots = Vec::with_capacity(asked.partition_data.len());
        for partition in asked.partition_data {
            let index = partition.index;
            let place = match (&refusal, &topic) {
                (Some(refusal), _) => Err(refusal.clone()),
                (None, Err(code)) => Err(Refusal::new(*code, "no such topic")),
                (None, Ok(topic)) => {
                    check(topic, partition, client, version).map(|(queue, batch)| {
                        sorted.batches.push(BatchIn {
                            topic: Arc::clone(topic),
                            queue,
                            batch,
                        });
                        sorted.batches.len() - 1
                    })
                }
            };
            slots.push(Slot { index, place });
        }
        sorted.topics.push((answer, slots));
    }
    sorted
}

/// The queue and the one batch of a partition.
fn check(
    topic: &Topic,
    partition: PartitionProduceData,
    client: &Client,
    version: i16,
) -> Result<(u32, Bytes), Refusal> {
    let Some(queue) = topology::ordinal(topic, partition.index) else {
        return Err(Refusal::new(
            ResponseError::UnknownTopicOrPartition,
            format!("the topic has {} partitions", topic.queues.len()),
        ));
    };
    if topology::internal(topic) && &*client.id != ADMIN_CLIENT {
        return Err(Refusal::new(
            ResponseError::InvalidTopicException,
            "internal topics are written by the broker only",
        ));
    }
    let records = partition.records.unwrap_or_default();
    let invalid = |text: &str| Err(Refusal::new(ResponseError::InvalidRecord, text));
    if records.is_empty() {
        return invalid("exactly one record batch is expected, there is none");
    }
    if let Some(magic) = records.get(16)
        && *magic != 2
    {
        return invalid("only record batches of magic 2 are taken");
    }
    if records.len() < BATCH_HEADER {
        return Err(Refusal::new(
            ResponseError::CorruptMessage,
            "the record batch ends inside its header",
        ));
    }
    let length = records[8..12].try_into().map_or(-1, i32::from_be_bytes);
    if usize::try_from(length).is_ok_and(|length| length + 12 < records.len()) {
        return invalid("exactly one record batch is expected, there are more bytes");
    }
    if version < 7 && attributes(&records).is_some_and(|bits| bits & 7 == 4) {
        return Err(Refusal::new(
            ResponseError::UnsupportedCompressionType,
            "zstd needs Produce version 7",
        ));
    }
    Ok((queue, records))
}

impl Sorted {
    fn first_refusal(self) -> Option<Refusal> {
        self.topics
            .into_iter()
            .flat_map(|(_, slots)| slots)
            .find_map(|slot| slot.place.err())
    }

    /// The answer as it stands after the append; `wait` is where the log must be durable up to.
    fn answer(
        self,
        front: &Front,
        taken: Vec<Result<BatchOut, ProduceError>>,
        version: i16,
        wait: &mut Option<LogOffset>,
    ) -> ProduceResponse {
        let mut responses = Vec::with_capacity(self.topics.len());
        for (topic, slots) in self.topics {
            let mut partitions = Vec::with_capacity(slots.len());
            for slot in slots {
                let mut answer = PartitionProduceResponse::default()
                    .with_index(slot.index)
                    .with_base_offset(-1)
                    .with_log_append_time_ms(-1);
                match slot.place.as_ref().map(|place| taken.get(*place)) {
                    Ok(Some(Ok(out))) => {
                        answer.base_offset = signed(out.base.0);
                        answer.log_append_time_ms = out.log_append_time.map_or(-1, |time| time.0);
                        if version >= 5 {
                            answer.log_start_offset = signed(out.first.0);
                        }
                        *wait = (*wait).max(out.wait);
                    }
                    Ok(Some(Err(error))) => {
                        refuse(front, &mut answer, Refusal::from(error), version);
                        name_record(&mut answer, error, version);
                    }
                    Ok(None) => {
                        let lost = Refusal::new(ResponseError::UnknownServerError, "lost");
                        refuse(front, &mut answer, lost, version);
                    }
                    Err(refusal) => refuse(front, &mut answer, refusal.clone(), version),
                }
                partitions.push(answer);
            }
            responses.push(topic.with_partition_responses(partitions));
        }
        ProduceResponse::default().with_responses(responses)
    }
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

fn refuse(front: &Front, answer: &mut PartitionProduceResponse, refusal: Refusal, version: i16) {
    front
        .metrics
        .partition_error("Produce", refusal.code.code());
    answer.error_code = refusal.code.code();
    answer.base_offset = -1;
    answer.log_append_time_ms = -1;
    answer.log_start_offset = -1;
    if version >= 8 {
        answer.error_message = Some(StrBytes::from_string(refusal.message));
    }
}

/// Names the record that made a whole batch be refused (v8+).
fn name_record(answer: &mut PartitionProduceResponse, error: &ProduceError, version: i16) {
    let (ProduceError::InvalidTimestamp { record, .. } | ProduceError::NoKey { record }) = error
    else {
        return;
    };
    if version >= 8 {
        answer.record_errors = vec![
            BatchIndexAndErrorMessage::default()
                .with_batch_index(i32::try_from(*record).unwrap_or(i32::MAX))
                .with_batch_index_error_message(Some(StrBytes::from_string(error.to_string()))),
        ];
    }
}

/// Waits for the disk; partitions that are not known to be there in time say so.
async fn durable(
    front: &Front,
    mut response: ProduceResponse,
    wait: LogOffset,
    limit: Duration,
    version: i16,
) -> ProduceResponse {
    let refusal = match tokio::time::timeout(limit, front.core.producing.synced(wait)).await {
        Ok(Ok(())) => return response,
        Ok(Err(error)) => Refusal::from(&error),
        Err(_) => Refusal::new(
            ResponseError::RequestTimedOut,
            "written, but not known to be on disk within timeout_ms",
        ),
    };
    for partition in response
        .responses
        .iter_mut()
        .flat_map(|topic| &mut topic.partition_responses)
    {
        if partition.error_code == 0 {
            refuse(front, partition, refusal.clone(), version);
        }
    }
    response
}
