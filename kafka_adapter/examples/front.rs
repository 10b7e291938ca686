//! The Kafka front alone on a store: `front DIR PORT`.
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::{Core, CoreConfig};
use twinmq_kafka::{Kafka, KafkaConfig, KafkaMetrics, Parts, bind};
use twinmq_metrics::{Registry, StageMetrics};
use twinmq_store::{Store, StoreConfig, StoreMetrics, WallClock};

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("DIR");
    let port: u16 = args.next().expect("PORT").parse().expect("a port");
    let clock = Arc::new(WallClock);
    let store_config = StoreConfig::default();
    let store = Store::open(
        dir.as_ref(),
        store_config,
        clock.clone(),
        StoreMetrics::default(),
    )
    .expect("store");
    let core_config = CoreConfig::default();
    let core = Core::open(store.clone(), core_config.clone())
        .await
        .expect("core");
    let registry = Registry::new();
    let stages = StageMetrics::register(&registry).expect("metrics");
    let metrics = KafkaMetrics::register(&registry, &stages).expect("metrics");
    let mut config = KafkaConfig::default();
    config.listeners[0].bind.set_port(port);
    let bound = bind(&config).expect("bind");
    let parts = Parts {
        core: core.clone(),
        core_config,
        flush_sync: false,
        clock,
    };
    let kafka = Kafka::start(parts, config, metrics, bound);
    println!("ready on {port}");
    let mut term =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("signal");
    tokio::select! { _ = tokio::signal::ctrl_c() => {}, _ = term.recv() => {} }
    kafka.drain(Duration::from_secs(5)).await;
    core.close().await;
    tokio::task::spawn_blocking(move || store.close())
        .await
        .expect("close");
    std::fs::write("/tmp/e1/metrics.txt", registry.text()).ok();
}
