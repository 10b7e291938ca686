//! Which APIs and versions are answered, and by whom. ApiVersions is printed from [`APIS`].
//!
//! Ranges are those that Apache Kafka 4.x answers, as far as both this broker and the decoders go;
//! low floors stay because clients with fixed versions exist. Not answered and therefore not listed:
//! transactions, SASL, ACLs, quotas, tokens, the newer group protocols, telemetry, inter-broker APIs.

use crate::error::Close;
use crate::frame::Request;
use crate::guard;
use crate::handlers;
use crate::output::Answer;
use crate::serve::Front;
use crate::topology::Client;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use twinmq_metrics::{Stage, StageClock};

/// One API that is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    pub(crate) key: i16,
    pub(crate) name: &'static str,
    /// Versions answered.
    pub(crate) lowest: i16,
    pub(crate) highest: i16,
    /// Lowest version in the ApiVersions list.
    pub(crate) shown_lowest: i16,
}

const fn api(key: i16, name: &'static str, lowest: i16, highest: i16) -> Api {
    Api {
        key,
        name,
        lowest,
        highest,
        shown_lowest: lowest,
    }
}

/// Everything that is answered; the busiest first.
pub(crate) const APIS: &[Api] = &[
    // Shown from 0: librdkafka before 2.11.1 otherwise switches off features that it ties to
    // Produce 0 to 2 (KAFKA-18659). Such a request is refused by closing, as Kafka does.
    Api {
        key: 0,
        name: "Produce",
        lowest: 3,
        highest: 13,
        shown_lowest: 0,
    },
    api(1, "Fetch", 4, 17),
    api(2, "ListOffsets", 1, 10),
    api(3, "Metadata", 0, 13),
    api(18, "ApiVersions", 0, 4),
    api(19, "CreateTopics", 2, 7),
    api(20, "DeleteTopics", 1, 6),
    api(21, "DeleteRecords", 0, 2),
    api(23, "OffsetForLeaderEpoch", 2, 4),
    api(32, "DescribeConfigs", 1, 4),
    api(33, "AlterConfigs", 0, 2),
    api(35, "DescribeLogDirs", 1, 4),
    api(37, "CreatePartitions", 0, 3),
    api(43, "ElectLeaders", 0, 2),
    api(44, "IncrementalAlterConfigs", 0, 1),
    api(46, "ListPartitionReassignments", 0, 0),
    api(60, "DescribeCluster", 0, 2),
    api(75, "DescribeTopicPartitions", 0, 0),
    api(8, "OffsetCommit", 2, 9),
    api(9, "OffsetFetch", 1, 9),
    api(10, "FindCoordinator", 0, 6),
    api(11, "JoinGroup", 0, 9),
    api(12, "Heartbeat", 0, 4),
    api(13, "LeaveGroup", 0, 5),
    api(14, "SyncGroup", 0, 5),
    api(15, "DescribeGroups", 0, 6),
    api(16, "ListGroups", 0, 5),
    api(22, "InitProducerId", 0, 5),
    api(42, "DeleteGroups", 0, 2),
    api(47, "OffsetDelete", 0, 0),
];

/// Place of an API in [`APIS`].
pub(crate) fn place(key: i16) -> Option<usize> {
    APIS.iter().position(|api| api.key == key)
}

/// What a request came to.
pub(crate) enum Reply {
    /// Nothing is sent (acks=0).
    Nothing,
    /// An answer.
    Now(Answer),
    /// The request has taken effect and following ones may start, but its answer has to wait.
    Later(Later),
}

/// A request being handled. Dropped when the client goes away.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Reply, Close>> + Send>>;
/// The rest of a request that has taken effect.
pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Answer, Close>> + Send>>;

/// Starts one request. Its effects come in the order of the calls if each [`Work`] is finished before
/// the next is started.
pub(crate) fn start(front: Arc<Front>, client: Arc<Client>, request: Request) -> Work {
    let clock = StageClock::start();
    macro_rules! answer {
        ($type:ty, |$decoded:ident, $version:ident, $client:ident| $handle:expr) => {
            Box::pin(async move {
                let mut clock = clock;
                let key = request.key;
                let $client = &*client;
                let ($decoded, $version, correlation) = open::<$type>(&front, request, &mut clock)?;
                let row = front.row(key);
                let response = $handle.await?;
                clock.lap(row, Stage::Wait);
                // Response header v1 (with tags) goes with flexible versions; ApiVersions is no case of this.
                let header = i16::from($version >= guard::flexible_from(key));
                let answer = encode(&response, $version, header, correlation)?;
                clock.lap(row, Stage::Encode);
                Ok(Reply::Now(answer))
            })
        };
    }
    match request.key {
        0 => Box::pin(handlers::produce::handle(front, client, request, clock)),
        1 => Box::pin(handlers::fetch::handle(front, client, request, clock)),
        2 => answer!(ListOffsetsRequest, |request, version, _client| {
            handlers::list_offsets::handle(&front.core, request, version)
        }),
        3 => answer!(MetadataRequest, |request, version, client| {
            handlers::metadata::handle(&front, request, version, client)
        }),
        18 => Box::pin(
            async move { handlers::api_versions::handle(&front, &request).map(Reply::Now) },
        ),
        19 => answer!(CreateTopicsRequest, |request, version, _client| {
            handlers::create_topics::handle(
                &front.core.catalog,
                &front.defaults,
                &front.topology,
                request,
                version,
            )
        }),
        20 => answer!(DeleteTopicsRequest, |request, version, _client| {
            handlers::delete_topics::handle(
                &front.core.catalog,
                front.config.delete_topic_enable,
                request,
                version,
            )
        }),
        21 => answer!(DeleteRecordsRequest, |request, _version, _client| {
            handlers::delete_records::handle(&front.core, request)
        }),
        23 => answer!(OffsetForLeaderEpochRequest, |request, _version, _client| {
            handlers::offset_for_leader_epoch::handle(&front.core, request)
        }),
        32 => answer!(DescribeConfigsRequest, |request, version, _client| {
            handlers::describe_configs::handle(&front, request, version)
        }),
        33 => answer!(AlterConfigsRequest, |request, _version, _client| {
            handlers::alter_configs::handle(&front, request)
        }),
        35 => answer!(DescribeLogDirsRequest, |request, version, _client| {
            handlers::describe_log_dirs::handle(&front.core, request, version)
        }),
        37 => answer!(CreatePartitionsRequest, |request, _version, _client| {
            handlers::create_partitions::handle(&front.core.catalog, &front.topology, request)
        }),
        43 => answer!(ElectLeadersRequest, |request, version, _client| {
            handlers::elect_leaders::handle(&front.core.catalog, request, version)
        }),
        44 => answer!(
            IncrementalAlterConfigsRequest,
            |request, _version, _client| {
                handlers::incremental_alter_configs::handle(&front, request)
            }
        ),
        8 => answer!(OffsetCommitRequest, |request, version, _client| {
            let now = front.clock.now();
            let metadata_max = front.config.group.offset_metadata_max_bytes;
            handlers::offset_commit::handle(
                &front.core,
                &front.coordinator,
                metadata_max,
                now,
                request,
                version,
            )
        }),
        9 => answer!(OffsetFetchRequest, |request, version, _client| {
            handlers::offset_fetch::handle(&front.core, request, version)
        }),
        10 => answer!(FindCoordinatorRequest, |request, version, client| {
            handlers::find_coordinator::handle(&front.topology, request, version, client)
        }),
        11 => answer!(JoinGroupRequest, |request, version, client| {
            handlers::join_group::handle(&front.coordinator, request, version, client)
        }),
        12 => answer!(HeartbeatRequest, |request, _version, _client| {
            handlers::heartbeat::handle(&front.coordinator, request)
        }),
        13 => answer!(LeaveGroupRequest, |request, version, _client| {
            handlers::leave_group::handle(&front.coordinator, request, version)
        }),
        14 => answer!(SyncGroupRequest, |request, version, _client| {
            handlers::sync_group::handle(&front.coordinator, request, version)
        }),
        15 => answer!(DescribeGroupsRequest, |request, version, _client| {
            handlers::describe_groups::handle(&front.coordinator, request, version)
        }),
        16 => answer!(ListGroupsRequest, |request, version, _client| {
            handlers::list_groups::handle(&front.coordinator, request, version)
        }),
        22 => answer!(InitProducerIdRequest, |request, _version, _client| {
            handlers::init_producer_id::handle(&front.core.producing, request)
        }),
        42 => answer!(DeleteGroupsRequest, |request, _version, _client| {
            handlers::delete_groups::handle(&front.coordinator, request)
        }),
        46 => answer!(
            ListPartitionReassignmentsRequest,
            |_request, _version, _client| handlers::list_partition_reassignments::handle()
        ),
        47 => answer!(OffsetDeleteRequest, |request, _version, _client| {
            handlers::offset_delete::handle(&front.core, &front.coordinator, request)
        }),
        60 => answer!(DescribeClusterRequest, |request, version, client| {
            handlers::describe_cluster::handle(&front.topology, request, version, client)
        }),
        75 => answer!(
            DescribeTopicPartitionsRequest,
            |request, _version, _client| {
                handlers::describe_topic_partitions::handle(&front, request)
            }
        ),
        key => {
            Box::pin(async move { Err(Close::because(format!("API key {key} is not answered"))) })
        }
    }
}

/// Refuses what is not answered; an ApiVersions of any version passes (KIP-511).
pub(crate) fn admit(request: &Request) -> Result<(), Close> {
    let Some(place) = place(request.key) else {
        return Err(Close::because(format!(
            "API key {} is not answered",
            request.key
        )));
    };
    let api = &APIS[place];
    let fits = (api.lowest..=api.highest).contains(&request.version);
    if fits || (request.key == ApiKey::ApiVersions as i16 && request.version >= 0) {
        return Ok(());
    }
    Err(Close::because(format!(
        "{} version {} is outside {}..={}",
        api.name, request.version, api.lowest, api.highest
    )))
}

/// The body of a request, decoded, with its version and correlation id; its frame is let go of.
///
/// # Errors
/// See [`decode`].
pub(crate) fn open<T: Decodable>(
    front: &Front,
    request: Request,
    clock: &mut StageClock,
) -> Result<(T, i16, i32), Close> {
    let decoded = decode(front, &request)?;
    clock.lap(front.row(request.key), Stage::Decode);
    Ok((decoded, request.version, request.correlation))
}

/// Guards, then decodes a request's body.
///
/// # Errors
/// Claims that the bytes do not bear out, or what the decoder refuses: the connection is closed.
pub(crate) fn decode<T: Decodable>(front: &Front, request: &Request) -> Result<T, Close> {
    guard::check(
        request.key,
        request.version,
        &request.body,
        front.config.request_elements_max,
    )?;
    let mut body = request.body.clone();
    let decoded = T::decode(&mut body, request.version).map_err(|error| {
        Close::because(format!(
            "API key {} version {}: {error}",
            request.key, request.version
        ))
    })?;
    if !body.is_empty() {
        tracing::debug!(
            key = request.key,
            version = request.version,
            bytes = body.len(),
            "bytes left over behind a request"
        );
    }
    Ok(decoded)
}

/// Frames a response: length, correlation id, header tags from response header v1 on, body.
///
/// # Errors
/// A field that the version cannot carry: a defect of the handler; the connection is closed.
pub(crate) fn encode<T: Encodable>(
    response: &T,
    version: i16,
    header_version: i16,
    correlation: i32,
) -> Result<Answer, Close> {
    let failed = |error| Close::because(format!("the answer cannot be encoded: {error}"));
    let size = response.compute_size(version).map_err(failed)?;
    let mut frame = BytesMut::with_capacity(size + 16);
    frame.put_i32(0);
    frame.put_i32(correlation);
    if header_version >= 1 {
        frame.put_u8(0);
    }
    response.encode(&mut frame, version).map_err(failed)?;
    finish(&mut frame, 0)?;
    Ok(Answer::single(frame))
}

/// Writes the length prefix of a frame that goes on for `more` bytes behind `frame`.
pub(crate) fn finish(frame: &mut BytesMut, more: usize) -> Result<(), Close> {
    let length = i32::try_from(frame.len() - 4 + more)
        .map_err(|_| Close::because("an answer above 2 GiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Text of a client id; checked by the frame.
pub(crate) fn client_id(bytes: &Bytes) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::protocol::Message;

    #[test]
    fn nothing_is_answered_that_the_decoder_or_the_guard_lacks() {
        for api in APIS {
            let key = ApiKey::try_from(api.key).unwrap();
            let range = key.valid_versions();
            assert!(
                api.lowest >= range.min && api.highest <= range.max,
                "{}",
                api.name
            );
            assert!(
                guard::check(api.key, api.highest, &[], 10).is_ok()
                    || guard::check(api.key, api.highest, &[], 10)
                        .unwrap_err()
                        .reason
                        .contains("ends inside")
                    || guard::check(api.key, api.highest, &[], 10)
                        .unwrap_err()
                        .reason
                        .contains("claims"),
                "{}",
                api.name
            );
        }
        // The crate's list is wrong for these; the decoders decide.
        assert_eq!(OffsetCommitRequest::VERSIONS.max, 9);
        assert_eq!(OffsetFetchRequest::VERSIONS.max, 9);
        assert_eq!(InitProducerIdRequest::VERSIONS.max, 5);
    }
}
