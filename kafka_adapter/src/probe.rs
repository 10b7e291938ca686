//! One frame through everything that reads a client's bytes, for the fuzzer.

use crate::frame::{self, Limits, Look};
use crate::{guard, table};
use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Decodable;

const LIMITS: Limits = Limits {
    produce: 1 << 20,
    other: 1 << 20,
    elements: 10_000,
};

/// Reads a frame (without its length prefix) as the connection does, and drops what comes of it.
pub fn probe(body: &[u8]) {
    let Ok(length) = i32::try_from(body.len()) else {
        return;
    };
    let mut buffer = BytesMut::new();
    buffer.put_i32(length);
    buffer.put_slice(body);
    let Ok(Look::Frame(length)) = frame::look(&buffer, LIMITS) else {
        return;
    };
    let Ok(request) = frame::take(&mut buffer, length, LIMITS) else {
        return;
    };
    let frame::Request {
        key, version, body, ..
    } = request.clone();
    if table::admit(&request).is_err()
        || guard::check(key, version, &body, LIMITS.elements).is_err()
    {
        return;
    }
    macro_rules! decode {
        ($($key:literal => $type:ty),* $(,)?) => {
            match key {
                $($key => drop(<$type>::decode(&mut body.clone(), version)),)*
                _ => {}
            }
        };
    }
    decode!(
        0 => ProduceRequest,
        1 => FetchRequest,
        2 => ListOffsetsRequest,
        3 => MetadataRequest,
        8 => OffsetCommitRequest,
        9 => OffsetFetchRequest,
        10 => FindCoordinatorRequest,
        11 => JoinGroupRequest,
        12 => HeartbeatRequest,
        13 => LeaveGroupRequest,
        14 => SyncGroupRequest,
        15 => DescribeGroupsRequest,
        16 => ListGroupsRequest,
        18 => ApiVersionsRequest,
        19 => CreateTopicsRequest,
        20 => DeleteTopicsRequest,
        21 => DeleteRecordsRequest,
        22 => InitProducerIdRequest,
        23 => OffsetForLeaderEpochRequest,
        32 => DescribeConfigsRequest,
        33 => AlterConfigsRequest,
        35 => DescribeLogDirsRequest,
        37 => CreatePartitionsRequest,
        42 => DeleteGroupsRequest,
        43 => ElectLeadersRequest,
        44 => IncrementalAlterConfigsRequest,
        46 => ListPartitionReassignmentsRequest,
        47 => OffsetDeleteRequest,
        60 => DescribeClusterRequest,
        75 => DescribeTopicPartitionsRequest,
    );
}
