//! The guard and kafka-protocol's decoders must agree on every API and version.

use super::*;
use crate::table::APIS;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;
use proptest::test_runner::TestRng;

const ELEMENTS: u32 = 10_000;

/// Writes a request that fits the schema, with random contents.
struct Maker<'a> {
    rng: &'a mut TestRng,
    out: BytesMut,
    version: i16,
    flexible: bool,
}

impl Maker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.next_u32()).unwrap() % bound
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.put_u8(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.out.put_u8(u8::try_from(value).unwrap());
    }

    fn length(&mut self, length: usize, wide: bool) {
        if self.flexible {
            self.varint(length + 1);
        } else if wide {
            self.out.put_i32(i32::try_from(length).unwrap());
        } else {
            self.out.put_i16(i16::try_from(length).unwrap());
        }
    }

    fn kind(&mut self, kind: &Kind) {
        let fixed = match kind {
            Kind::F1 => 1,
            Kind::F2 => 2,
            Kind::F4 => 4,
            Kind::F8 => 8,
            Kind::F16 => 16,
            Kind::Str | Kind::Blob => {
                let length = self.below(200);
                self.length(length, matches!(kind, Kind::Blob));
                (0..length).for_each(|_| self.out.put_u8(b'x'));
                return;
            }
            Kind::Array(element) => {
                let count = self.below(4);
                self.length(count, true);
                (0..count).for_each(|_| self.kind(element));
                return;
            }
            Kind::Struct(fields) => return self.fields(fields),
            Kind::Maybe(fields) => {
                let there = self.below(2) == 1;
                self.out.put_i8(if there { 1 } else { -1 });
                if there {
                    self.fields(fields);
                }
                return;
            }
        };
        for _ in 0..fixed {
            let byte = u8::try_from(self.below(256)).unwrap();
            self.out.put_u8(byte);
        }
    }

    fn fields(&mut self, fields: &Fields) {
        for field in fields.0 {
            if field.tag.is_none() && (field.from..=field.to).contains(&self.version) {
                self.kind(&field.kind);
            }
        }
        if !self.flexible {
            return;
        }
        let known: Vec<_> = fields
            .0
            .iter()
            .filter(|field| field.tag.is_some() && field.from <= self.version)
            .collect();
        let unknown = self.below(2);
        self.varint(known.len() + unknown);
        for field in known {
            self.varint(usize::try_from(field.tag.unwrap()).unwrap());
            let before = std::mem::take(&mut self.out);
            self.kind(&field.kind);
            let content = std::mem::replace(&mut self.out, before);
            self.varint(content.len());
            self.out.put_slice(&content);
        }
        for _ in 0..unknown {
            self.varint(99);
            self.varint(3);
            self.out.put_slice(b"???");
        }
    }
}

/// Decodes; gives back what is left over, and the request encoded again.
fn decode(key: i16, version: i16, body: &Bytes) -> Result<(usize, BytesMut), String> {
    macro_rules! with {
        ($($type:ty),*) => {
            $(if <$type as kafka_protocol::protocol::Request>::KEY == key {
                let mut rest = body.clone();
                let decoded = <$type>::decode(&mut rest, version).map_err(|e| e.to_string())?;
                let mut again = BytesMut::new();
                decoded.encode(&mut again, version).map_err(|e| e.to_string())?;
                return Ok((rest.len(), again));
            })*
        };
    }
    with!(
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        CreatePartitionsRequest,
        DeleteGroupsRequest,
        IncrementalAlterConfigsRequest,
        DescribeLogDirsRequest,
        ElectLeadersRequest,
        ListPartitionReassignmentsRequest,
        DescribeTopicPartitionsRequest,
        OffsetDeleteRequest,
        DescribeClusterRequest
    );
    panic!("API {key} is missing in this test");
}

fn make(rng: &mut TestRng, key: i16, version: i16) -> Bytes {
    let schema = schema::of(key).unwrap();
    let mut maker = Maker {
        rng,
        out: BytesMut::new(),
        version,
        flexible: version >= schema.flexible_from,
    };
    maker.fields(schema.fields);
    maker.out.freeze()
}

fn every_version() -> impl Iterator<Item = (i16, i16)> {
    APIS.iter()
        .flat_map(|api| (api.lowest..=api.highest).map(|version| (api.key, version)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A request that the schema makes is one that the decoder reads to its last byte, and what the
    /// crate itself encodes passes the guard.
    #[test]
    fn schema_and_decoder_agree(mut rng in any::<[u8; 32]>().prop_map(|seed| {
        TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed)
    })) {
        for (key, version) in every_version() {
            let body = make(&mut rng, key, version);
            prop_assert_eq!(check(key, version, &body, ELEMENTS), Ok(body.len()), "{} v{}", key, version);
            let (left, again) = decode(key, version, &body)
                .map_err(|error| TestCaseError::fail(format!("API {key} v{version}: {error}")))?;
            prop_assert_eq!(left, 0, "API {} v{}", key, version);
            prop_assert_eq!(check(key, version, &again, ELEMENTS), Ok(again.len()), "{} v{}", key, version);
        }
    }

    /// Whatever is done to a request: no panic, and what passes decodes within its means.
    #[test]
    fn mutations_never_panic(
        mut rng in any::<[u8; 32]>().prop_map(|seed| {
            TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed)
        }),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for (key, version) in every_version() {
            let mut body = make(&mut rng, key, version).to_vec();
            for (place, byte) in &changes {
                if !body.is_empty() {
                    let place = place.index(body.len());
                    body[place] = *byte;
                }
            }
            body.truncate(cut.index(body.len() + 1).max(body.len() / 2));
            let body = Bytes::from(body);
            if check(key, version, &body, ELEMENTS).is_ok() {
                let _ = decode(key, version, &body);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let body = Bytes::from(body);
        for (key, version) in every_version() {
            if check(key, version, &body, ELEMENTS).is_ok() {
                let _ = decode(key, version, &body);
            }
        }
    }
}

#[test]
fn claims_beyond_the_bytes_are_refused() {
    // Metadata v1 with 2^31-1 topics, v9 with 2^32-2.
    assert!(check(3, 1, &[0x7f, 0xff, 0xff, 0xff], ELEMENTS).is_err());
    assert!(check(3, 9, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0], ELEMENTS).is_err());
    // As many as there are bytes, but too many to hold.
    let mut body = vec![0, 0, 0x27, 0x11];
    body.extend(std::iter::repeat_n(0, 40_000));
    assert!(
        check(3, 1, &body, ELEMENTS)
            .unwrap_err()
            .reason
            .contains("request_elements_max")
    );
    // A known tagged field whose size is a lie (Fetch v12, tag 0).
    let plain = [0; 21];
    assert!(check(1, 12, &plain, ELEMENTS).is_err());
    // Null arrays are no claim.
    assert_eq!(check(3, 1, &[0xff, 0xff, 0xff, 0xff], ELEMENTS), Ok(4));
    // Below null is.
    assert!(check(3, 1, &[0xff, 0xff, 0xff, 0xfe], ELEMENTS).is_err());
}
