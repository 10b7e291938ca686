//! Accepts connections up to a cap, runs each in its own task, drains them all at the end.

use crate::connection::{Connection, stopped};
use crate::shared::Shared;
use crate::{Channel, Limits, ListenerMetrics, Serve};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Pause after a failed accept (usually: no file handles left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a listener until `shutdown` resolves; then accepts no more, drains the connections within
/// `drain_seconds_max`, and returns. Call it once per listener; they may share a handler.
pub async fn serve<S: Serve>(
    listener: TcpListener,
    handler: Arc<S>,
    limits: Limits,
    metrics: ListenerMetrics,
    shutdown: impl Future<Output = ()> + Send,
) {
    let shared = Arc::new(Shared::new(limits, metrics));
    let Shared {
        limits, metrics, ..
    } = &*shared;
    let (stop, stopped) = watch::channel(false);
    let mut connections: JoinSet<()> = JoinSet::new();
    let mut refused: u64 = 0;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                report(ended);
                metrics.connections.set(i64::try_from(connections.len()).unwrap_or(i64::MAX));
                continue;
            }
            () = &mut shutdown => break,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while let Some(ended) = connections.try_join_next() {
            report(ended);
        }
        if connections.len() >= limits.connections_max {
            metrics.refused.inc();
            if refused.is_power_of_two() || refused == 0 {
                tracing::warn!(%remote, refused = refused + 1, connections_max = limits.connections_max,
                    "connection refused: connections_max is reached");
            }
            refused += 1;
            continue;
        }
        connections.spawn(attend(
            stream,
            remote,
            Arc::clone(&handler),
            Arc::clone(&shared),
            stopped.clone(),
        ));
        metrics
            .connections
            .set(i64::try_from(connections.len()).unwrap_or(i64::MAX));
    }
    drop(listener);
    stop.send_replace(true);
    let grace = limits.drain() + Duration::from_secs(1);
    let drained = tokio::time::timeout(grace, async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    });
    if drained.await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections did not drain in time"
        );
        connections.shutdown().await;
    }
    metrics.connections.set(0);
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked");
    }
}

/// Waits for the first bytes with next to no memory, then runs the connection.
async fn attend<S: Serve>(
    stream: TcpStream,
    remote: SocketAddr,
    handler: Arc<S>,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let mut first = [0];
    let opened = tokio::select! {
        opened = stream.peek(&mut first) => opened,
        () = tokio::time::sleep(shared.limits.idle()) => {
            if let Some(more_like_it) = shared.may_say() {
                tracing::info!(%remote, more_like_it, "connection closed: it never sent anything");
            }
            shared.metrics.ended(crate::metrics::Ended::Idle);
            return;
        }
        () = stopped(&mut stop) => return,
    };
    let (Ok(1..), Ok(local)) = (opened, stream.local_addr()) else {
        shared.metrics.ended(crate::metrics::Ended::Peer);
        return;
    };
    prepare(&stream);
    let (channel, backlog) = Channel::new(remote, local, shared.limits.backlog_max);
    Box::pin(Connection::new(stream, channel, backlog, handler, shared, stop).run()).await;
}

/// No delay for small writes; keep-alive so that vanished peers are noticed.
pub(crate) fn prepare(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    if let Err(error) = stream
        .set_nodelay(true)
        .and_then(|()| socket.set_keepalive(true))
    {
        tracing::debug!(%error, "socket options");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Outcome};

    struct Echo;

    impl Serve for Echo {
        type Peer = ();

        fn opened(&self, _channel: &Channel) -> Arc<()> {
            Arc::new(())
        }

        async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
            Outcome::Reply(Command::response_to(&request, 0))
        }

        fn closed(&self, _peer: &Arc<()>) {}
    }

    #[tokio::test]
    async fn a_connection_that_never_sent_anything_costs_little() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stream, _) = tokio::join!(TcpStream::connect(addr), listener.accept());
        let (_stop, stopped) = watch::channel(false);
        let shared = Shared::new(Limits::default(), ListenerMetrics::detached());
        let future = attend(
            stream.unwrap(),
            addr,
            Arc::new(Echo),
            Arc::new(shared),
            stopped,
        );
        let bytes = size_of_val(&future);
        assert!(bytes <= 2048, "{bytes} bytes before the first byte");
    }
}
