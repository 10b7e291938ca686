//! The HTTP endpoint: `/metrics` (Prometheus text), `/healthz` (the process answers), `/readyz` (it
//! serves clients). Answers GET only; holds no state but the registry and a readiness flag.

use crate::Registry;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Within this a request that is whole is answered; a stop waits no longer.
const ANSWERED: Duration = Duration::from_secs(1);

/// Called before each scrape, to set gauges that nobody keeps up to date otherwise.
pub type BeforeScrape = Arc<dyn Fn() + Send + Sync>;

/// Whether the process serves clients: false while it starts and while it drains.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets it.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }
    /// Reads it.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Clone)]
struct Shared {
    registry: Registry,
    ready: Readiness,
    before: BeforeScrape,
}

/// The running endpoint.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Serves on `listener` until [`Endpoint::close`].
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: TcpListener,
        registry: Registry,
        ready: Readiness,
        before: BeforeScrape,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let app = axum::Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .with_state(Shared {
                registry,
                ready,
                before,
            });
        let task = tokio::spawn(serve(listener, app, stopped));
        Ok(Self {
            address,
            stop: Some(stop),
            task,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and waits until the requests under way are answered, but not for a peer that does not
    /// finish its request or does not read its answer: its connection ends with the runtime.
    pub async fn close(mut self) {
        drop(self.stop.take());
        match tokio::time::timeout(ANSWERED, &mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the HTTP endpoint ended badly"),
            Err(_) => {
                self.task.abort();
                tracing::info!("HTTP connections with an unfinished request are given up");
            }
        }
    }
}

async fn serve(listener: TcpListener, app: axum::Router, stopped: impl Future + Send + 'static) {
    let ended = async move {
        stopped.await;
    };
    if let Err(error) = axum::serve(listener, app)
        .with_graceful_shutdown(ended)
        .await
    {
        tracing::error!(%error, "the HTTP endpoint failed");
    }
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    (shared.before)();
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        shared.registry.text(),
    )
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.ready.get() {
        (StatusCode::OK, "ready\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: starting or draining\n",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        answer
    }

    #[tokio::test]
    async fn answers_metrics_health_and_readiness() {
        let registry = Registry::new();
        let gauge = registry
            .add(prometheus::IntGauge::new("twinmq_test_things", "Things.").expect("a gauge"))
            .expect("registers");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let ready = Readiness::default();
        let before = {
            let gauge = gauge.clone();
            Arc::new(move || gauge.set(7))
        };
        let endpoint = Endpoint::start(listener, registry, ready.clone(), before).expect("starts");
        let address = endpoint.address();
        assert!(
            get(address, "/metrics")
                .await
                .contains("twinmq_test_things 7")
        );
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        ready.set(true);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/other").await.starts_with("HTTP/1.1 404"));
        endpoint.close().await;
    }

    #[tokio::test]
    async fn a_peer_that_never_finishes_its_request_does_not_keep_it_from_closing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let (registry, ready) = (Registry::new(), Readiness::default());
        let endpoint = Endpoint::start(listener, registry, ready, Arc::new(|| {})).expect("starts");
        let connecting = tokio::net::TcpStream::connect(endpoint.address());
        let mut peer = connecting.await.expect("connects");
        peer.write_all(b"GE").await.expect("writes");
        // It is served only after a later peer was.
        get(endpoint.address(), "/healthz").await;
        tokio::time::timeout(Duration::from_secs(10), endpoint.close())
            .await
            .expect("closes");
    }

    #[test]
    fn a_family_is_registered_once() {
        let registry = Registry::new();
        let gauge = prometheus::IntGauge::new("twinmq_test_things", "Things.").expect("a gauge");
        registry.add(gauge.clone()).expect("first");
        assert!(registry.add(gauge).is_err());
    }
}
