//! Acceptance test that stays for ever: frames that abort, freeze or bloat a naive broker are sent over a real
//! socket; the broker closes that connection and serves the next one within a second.

mod harness;

use bytes::{BufMut, BytesMut};
use harness::{Broker, Client, PLAIN, batch, prefixed, records, sealed};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiVersionsRequest, ProduceRequest, TopicName};
use std::time::{Duration, Instant};
use twinmq_records::compression::{Codec, compress};

fn head(key: i16, version: i16, flexible: bool) -> BytesMut {
    let mut body = BytesMut::new();
    body.put_i16(key);
    body.put_i16(version);
    body.put_i32(1);
    body.put_i16(-1);
    if flexible {
        body.put_u8(0);
    }
    body
}

async fn still_serves(broker: &Broker) {
    let begun = Instant::now();
    let request = ApiVersionsRequest::default()
        .with_client_software_name("test".into())
        .with_client_software_version("1".into());
    let response = broker.connect().await.call(&request, 3).await;
    assert_eq!(response.error_code, 0);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

async fn refused(broker: &Broker, bytes: &[u8], what: &str) {
    let mut client = broker.connect().await;
    client.raw(bytes).await;
    tokio::time::timeout(Duration::from_secs(5), client.closed())
        .await
        .unwrap_or_else(|_| panic!("{what}: not closed"));
    still_serves(broker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_that_nothing_bears_out_close_the_connection() {
    let broker = Broker::start().await;
    // Danger 1: array counts. Old and compact form, in several places.
    let claims: [(i16, i16, bool, Vec<u8>); 8] = [
        (3, 1, false, vec![0x7f, 0xff, 0xff, 0xff]),
        (3, 9, true, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0]),
        (
            0,
            3,
            false,
            vec![0xff, 0xff, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
        ),
        (
            0,
            9,
            true,
            vec![0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ),
        (1, 4, false, [vec![0; 17], vec![0x40, 0, 0, 0]].concat()),
        (
            11,
            0,
            false,
            [
                vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
                vec![0x7f, 0xff, 0xff, 0xff],
            ]
            .concat(),
        ),
        (19, 5, true, vec![0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (20, 1, false, vec![0x7f, 0, 0, 0]),
    ];
    for (key, version, flexible, rest) in claims {
        let mut body = head(key, version, flexible);
        body.put_slice(&rest);
        refused(&broker, &prefixed(&body), &format!("API {key} v{version}")).await;
    }
    // Danger 9: many tiny elements, and many empty tagged fields.
    let mut body = head(20, 1, false);
    body.put_i32(400_000);
    body.put_bytes(0, 800_000);
    refused(&broker, &prefixed(&body), "a flood of elements").await;
    let mut body = head(18, 3, true);
    body.put_slice(&[2, b'x', 2, b'1']);
    body.put_slice(&[0xc8, 0x9a, 0x0c]);
    body.put_bytes(0, 400_100);
    refused(&broker, &prefixed(&body), "a flood of tagged fields").await;
    let mut body = head(0, 9, false);
    body.put_slice(&[0xc8, 0x9a, 0x0c]);
    body.put_bytes(0, 600_000);
    refused(
        &broker,
        &prefixed(&body),
        "a flood of tagged fields in the header",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_none_close_the_connection() {
    let broker = Broker::start().await;
    // Danger 5: shorter than a header. Then lengths out of bounds, other protocols, unknown APIs.
    let frames: [(&[u8], &str); 12] = [
        (&[0, 0, 0, 0], "empty"),
        (&[0, 0, 0, 1, 0], "one byte"),
        (&[0, 0, 0, 3, 0, 3, 0], "three bytes"),
        (&[0, 0, 0, 7, 0, 3, 0, 0, 0, 0, 0], "seven bytes"),
        (&[0, 0, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0], "no client id"),
        (&[0x7f, 0xff, 0xff, 0xff, 0, 0], "2 GiB"),
        (&[0xff, 0xff, 0xff, 0xff], "negative"),
        (&[2, 0, 0, 0, 0, 3, 0, 0], "32 MiB of Metadata"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], "TLS"),
        (
            &[0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
            "unknown API",
        ),
        (
            &[0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff],
            "unknown version",
        ),
    ];
    for (bytes, what) in frames {
        refused(&broker, bytes, what).await;
    }
    let mut remoting = BytesMut::new();
    let json = br#"{"code":105,"language":"JAVA","version":0,"opaque":1,"flag":0}"#;
    remoting.put_u32(u32::try_from(json.len() + 4).unwrap());
    remoting.put_u32(u32::try_from(json.len()).unwrap());
    remoting.put_slice(json);
    refused(&broker, &remoting, "RocketMQ").await;
    // Transactions are not answered, so they are not advertised, so they close.
    for key in [4_i16, 5, 6, 7, 17, 24, 25, 26, 27, 28, 36, 68, 71, 72] {
        let mut body = head(key, 0, false);
        body.put_bytes(0, 32);
        refused(&broker, &prefixed(&body), &format!("API {key}")).await;
    }
}

async fn produce(client: &mut Client, records: bytes::Bytes) -> i16 {
    produce_as(client, records, 8).await
}

async fn produce_as(client: &mut Client, records: bytes::Bytes, version: i16) -> i16 {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(records));
    let topic = TopicProduceData::default()
        .with_name(TopicName("t".into()))
        .with_partition_data(vec![partition]);
    let request = ProduceRequest::default()
        .with_acks(1)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic]);
    let answer = client.call(&request, version).await;
    answer.responses[0].partition_responses[0].error_code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_of_every_codec_are_too_large() {
    let broker = Broker::with(|settings| settings.core.decompressed_bytes_max = 1 << 20).await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let begun = Instant::now();
    let batch = |value: usize, codec: Codec| {
        let records = records(&[&vec![0; value]]);
        let packed = compress(codec, &records).unwrap();
        assert!(packed.len() < 1 << 20, "{codec:?}: {} bytes", packed.len());
        sealed(&packed, 1, 0, PLAIN, codec as i16)
    };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let (bomb, good) = (batch(16 << 20, codec), batch(1000, codec));
        // Zstandard is legal from 7 on (KIP-110); 9 is the first flexible one.
        for version in [3, 7, 8, 9, 12] {
            let zstd_too_early = codec == Codec::Zstd && version < 7;
            let (bad, well) = if zstd_too_early { (76, 76) } else { (10, 0) };
            let code = produce_as(&mut client, bomb.clone(), version).await;
            assert_eq!(code, bad, "{codec:?}, version {version}");
            let code = produce_as(&mut client, good.clone(), version).await;
            assert_eq!(code, well, "{codec:?}, version {version}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    still_serves(&broker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_lie_are_refused_at_little_cost() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let begun = Instant::now();
    // Danger 2: record and header counts.
    let empty = sealed(&[], 1 << 28, 0, PLAIN, 0);
    assert_ne!(produce(&mut client, empty).await, 0);
    let headers = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    assert_ne!(
        produce(&mut client, sealed(&headers, 1, 0, PLAIN, 0)).await,
        0
    );
    // Danger 3: a snappy block that claims 4 GiB, and garbage in every codec.
    let mut snappy = vec![
        0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
    ];
    snappy.extend_from_slice(&[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
    assert_ne!(
        produce(&mut client, sealed(&snappy, 1, 0, PLAIN, 2)).await,
        0
    );
    for codec in 1..8 {
        assert_ne!(
            produce(&mut client, sealed(&[1, 2, 3, 4], 1, 0, PLAIN, codec)).await,
            0
        );
    }
    // Sums, sizes, magic, several batches, none.
    let good = batch(&[b"v"], 0, PLAIN, 0);
    for (place, code) in [(17, 2), (16, 87), (11, 2), (60, 2)] {
        let mut bad = good.to_vec();
        bad[place] ^= 1;
        assert_eq!(produce(&mut client, bad.into()).await, code, "byte {place}");
    }
    assert_eq!(
        produce(&mut client, [&good[..], &good[..]].concat().into()).await,
        87
    );
    assert_eq!(produce(&mut client, bytes::Bytes::new()).await, 87);
    assert_eq!(produce(&mut client, good.slice(..40)).await, 2);
    assert_eq!(produce(&mut client, good).await, 0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    still_serves(&broker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_stall_are_closed() {
    let broker = Broker::with(|settings| {
        settings.kafka.output_stall_ms = 300;
        settings.kafka.request_stall_ms = 300;
        settings.kafka.connections_max_idle_ms = 600;
        settings.kafka.output_bytes_max = 64 << 10;
    })
    .await;
    broker.create_topic("t", 1, &[]).await;
    // Begins a frame and stops.
    let mut half = broker.connect().await;
    half.raw(&[0, 0, 1, 0, 0, 3, 0, 0]).await;
    // Says nothing at all.
    let mut idle = broker.connect().await;
    // Asks and never reads.
    let mut deaf = broker.connect().await;
    let mut asks = BytesMut::new();
    for correlation in 0..20_000 {
        let request =
            kafka_protocol::messages::DescribeClusterRequest::default().with_endpoint_type(1);
        asks.extend_from_slice(&harness::frame(&request, 1, correlation));
    }
    let writing = tokio::spawn(async move {
        for _ in 0..400 {
            if tokio::io::AsyncWriteExt::write_all(&mut deaf.stream, &asks)
                .await
                .is_err()
            {
                return true;
            }
        }
        false
    });
    half.closed().await;
    idle.closed().await;
    assert!(
        tokio::time::timeout(Duration::from_secs(20), writing)
            .await
            .unwrap()
            .unwrap()
    );
    still_serves(&broker).await;
    assert!(
        broker
            .registry
            .text()
            .contains("twinmq_kafka_connections_closed_for_cause_total 2")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_above_the_limit_are_closed_at_once() {
    let broker = Broker::with(|settings| settings.kafka.connections_max = 2).await;
    let mut first = broker.connect().await;
    let request = ApiVersionsRequest::default();
    first.call(&request, 0).await;
    let mut second = broker.connect().await;
    second.call(&request, 0).await;
    broker.connect().await.closed().await;
    drop(second);
    // The slot comes back.
    let begun = Instant::now();
    loop {
        let mut third = broker.connect().await;
        third.send(&request, 0).await;
        if third.frame().await.is_some() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
