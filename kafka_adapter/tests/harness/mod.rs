//! A broker with a Kafka front on a free port, a plain socket client, and record batches by hand.
#![allow(dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod requests;

#[allow(unused_imports, reason = "each test file uses its part")]
pub(crate) use requests::*;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use twinmq_core::{Core, CoreConfig};
use twinmq_kafka::{Kafka, KafkaConfig, KafkaMetrics, Parts, bind};
use twinmq_metrics::{Registry, StageMetrics};
use twinmq_store::{Store, StoreConfig, StoreMetrics, WallClock};

/// Longest wait for anything in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    kafka: Option<Kafka>,
    core: Core,
    store: Store,
    dir: tempfile::TempDir,
}

pub(crate) struct Settings {
    pub(crate) kafka: KafkaConfig,
    pub(crate) core: CoreConfig,
    pub(crate) store: StoreConfig,
}

impl Default for Settings {
    fn default() -> Self {
        let mut kafka = KafkaConfig::default();
        kafka.listeners[0].bind = SocketAddr::from(([127, 0, 0, 1], 0));
        kafka.group.initial_rebalance_delay_ms = 0;
        let store = StoreConfig {
            file_bytes: 64 << 20,
            run_bytes_max: 16 << 20,
            ..StoreConfig::default()
        };
        Self {
            kafka,
            core: CoreConfig::default(),
            store,
        }
    }
}

impl Broker {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let dir = tempfile::tempdir().unwrap();
        Self::on(dir, settings).await
    }

    async fn on(dir: tempfile::TempDir, settings: Settings) -> Self {
        let clock = Arc::new(WallClock);
        let store = Store::open(
            dir.path(),
            settings.store.clone(),
            clock.clone(),
            StoreMetrics::default(),
        )
        .unwrap();
        let core = Core::open(store.clone(), settings.core.clone())
            .await
            .unwrap();
        let registry = Registry::new();
        let stages = StageMetrics::register(&registry).unwrap();
        let metrics = KafkaMetrics::register(&registry, &stages).unwrap();
        settings.kafka.validate().unwrap();
        let bound = bind(&settings.kafka).unwrap();
        let address = bound[0].address();
        let parts = Parts {
            core: core.clone(),
            core_config: settings.core,
            flush_sync: settings.store.flush == twinmq_store::Flush::Sync,
            clock,
        };
        let kafka = Kafka::start(parts, settings.kafka, metrics, bound);
        Self {
            address,
            registry,
            kafka: Some(kafka),
            core,
            store,
            dir,
        }
    }

    /// Stops cleanly and starts again on the same data.
    pub(crate) async fn restart(mut self) -> Self {
        self.kafka
            .take()
            .unwrap()
            .drain(Duration::from_secs(5))
            .await;
        self.core.close().await;
        let Self {
            core, store, dir, ..
        } = self;
        tokio::task::spawn_blocking(move || {
            store.close();
            drop(core);
            drop(store);
        })
        .await
        .unwrap();
        Self::on(dir, Settings::default()).await
    }

    pub(crate) async fn drain(mut self) -> Duration {
        let begun = std::time::Instant::now();
        self.kafka
            .take()
            .unwrap()
            .drain(Duration::from_secs(10))
            .await;
        begun.elapsed()
    }

    pub(crate) async fn connect(&self) -> Client {
        Client {
            stream: TcpStream::connect(self.address).await.unwrap(),
            next: 1,
        }
    }

    pub(crate) async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&'static str, &'static str)],
    ) {
        use kafka_protocol::messages::create_topics_request::{
            CreatableTopic, CreatableTopicConfig,
        };
        use kafka_protocol::messages::{CreateTopicsRequest, TopicName};
        let topic = CreatableTopic::default()
            .with_name(TopicName(name.to_owned().into()))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(
                configs
                    .iter()
                    .map(|(name, value)| {
                        CreatableTopicConfig::default()
                            .with_name((*name).into())
                            .with_value(Some((*value).into()))
                    })
                    .collect(),
            );
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(5000);
        let response = self.connect().await.call(&request, 7).await;
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0]);
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    next: i32,
}

impl Client {
    /// Sends a request, does not wait; gives back its correlation id.
    pub(crate) async fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        let correlation = self.next;
        self.next += 1;
        let frame = frame(request, version, correlation);
        self.stream.write_all(&frame).await.unwrap();
        correlation
    }

    pub(crate) async fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let mut frame = self.frame().await.expect("an answer");
        let correlation = frame.get_i32();
        if R::Response::header_version(version) >= 1 {
            assert_eq!(frame.get_u8(), 0);
        }
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(
            frame.is_empty(),
            "{} bytes left over behind API {} v{version}",
            frame.len(),
            R::KEY
        );
        (correlation, response)
    }

    pub(crate) async fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let sent = self.send(request, version).await;
        let (correlation, response) = self.receive::<R>(version).await;
        assert_eq!(correlation, sent);
        response
    }

    /// The next frame without its length, or `None` when the broker closed.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        let read = async {
            let length = self.stream.read_i32().await.ok()?;
            let mut frame = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut frame).await.ok()?;
            Some(Bytes::from(frame))
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("an answer in time")
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        // The broker may close before all is written.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Asserts that the broker closes without another byte.
    pub(crate) async fn closed(&mut self) {
        let mut byte = [0; 1];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut byte)).await;
        assert!(
            matches!(read.expect("closed in time"), Ok(0) | Err(_)),
            "a byte instead of the end"
        );
    }
}

pub(crate) fn frame<R: Request>(request: &R, version: i16, correlation: i32) -> BytesMut {
    let mut body = BytesMut::new();
    body.put_i16(R::KEY);
    body.put_i16(version);
    body.put_i32(correlation);
    body.put_i16(4);
    body.put_slice(b"test");
    if R::header_version(version) >= 2 {
        body.put_u8(0);
    }
    request.encode(&mut body, version).unwrap();
    prefixed(&body)
}

pub(crate) fn prefixed(body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i32(i32::try_from(body.len()).unwrap());
    frame.put_slice(body);
    frame
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while zigzag >= 0x80 {
        out.push(u8::try_from(zigzag & 0x7f).unwrap() | 0x80);
        zigzag >>= 7;
    }
    out.push(u8::try_from(zigzag).unwrap());
}

/// What a batch says about its producer.
#[derive(Clone, Copy)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
}

pub(crate) const PLAIN: Producer = Producer {
    id: -1,
    epoch: -1,
    sequence: -1,
};

/// A record batch v2: each value a record with the key "k", times from `time` on.
pub(crate) fn batch(values: &[&[u8]], time: i64, producer: Producer, attributes: i16) -> Bytes {
    sealed(
        &records(values),
        i32::try_from(values.len()).unwrap(),
        time,
        producer,
        attributes,
    )
}

/// The records of such a batch.
pub(crate) fn records(values: &[&[u8]]) -> Vec<u8> {
    let mut records = Vec::new();
    for (place, value) in values.iter().enumerate() {
        let mut record = vec![0];
        varint(&mut record, i64::try_from(place).unwrap());
        varint(&mut record, i64::try_from(place).unwrap());
        varint(&mut record, 1);
        record.push(b'k');
        varint(&mut record, i64::try_from(value.len()).unwrap());
        record.extend_from_slice(value);
        varint(&mut record, 0);
        varint(&mut records, i64::try_from(record.len()).unwrap());
        records.extend_from_slice(&record);
    }
    records
}

/// A batch around any bytes, with sums that fit.
pub(crate) fn sealed(
    records: &[u8],
    count: i32,
    time: i64,
    producer: Producer,
    attributes: i16,
) -> Bytes {
    let mut summed = BytesMut::new();
    summed.put_i16(attributes);
    summed.put_i32(count - 1);
    summed.put_i64(time);
    summed.put_i64(time + i64::from(count) - 1);
    summed.put_i64(producer.id);
    summed.put_i16(producer.epoch);
    summed.put_i32(producer.sequence);
    summed.put_i32(count);
    summed.put_slice(records);
    let mut out = BytesMut::new();
    out.put_i64(0);
    out.put_i32(i32::try_from(summed.len() + 9).unwrap());
    out.put_i32(-1);
    out.put_u8(2);
    out.put_u32(crc32c::crc32c(&summed));
    out.put_slice(&summed);
    out.freeze()
}

/// Base offset and record count of every batch in a record set.
pub(crate) fn batches(mut records: Bytes) -> Vec<(i64, i32)> {
    let mut all = Vec::new();
    while records.len() >= 61 {
        let base = i64::from_be_bytes(records[..8].try_into().unwrap());
        let length = i32::from_be_bytes(records[8..12].try_into().unwrap());
        let count = i32::from_be_bytes(records[57..61].try_into().unwrap());
        all.push((base, count));
        records.advance(usize::try_from(length).unwrap() + 12);
    }
    assert!(records.is_empty());
    all
}
