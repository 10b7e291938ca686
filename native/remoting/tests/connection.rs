//! Connections over real sockets: order, late answers, calls both ways, limits, hostile peers, the end.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use twinmq_remoting::{
    CallError, Caller, Channel, Command, Encoding, Limits, ListenerMetrics, Outcome, Serve, frame,
    header, serve,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Answers at once.
const ECHO: i32 = 1;
/// Answers when `release` is notified; a stop waits.
const LATER: i32 = 2;
/// Never answers by itself.
const PARKED: i32 = 3;
/// Answers with a large body.
const LARGE: i32 = 4;
/// Asks back over the channel first.
const ASK_BACK: i32 = 5;
/// Panics.
const PANIC: i32 = 6;
/// Closes the channel.
const CLOSE: i32 = 7;

#[derive(Default)]
struct Front {
    handled: AtomicUsize,
    closed: AtomicUsize,
    dropped: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
    release: Arc<Notify>,
    channels: Mutex<Vec<Channel>>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Serve for Front {
    type Peer = Channel;

    fn opened(&self, channel: &Channel) -> Arc<Channel> {
        self.channels.lock().unwrap().push(channel.clone());
        Arc::new(channel.clone())
    }

    async fn handle(&self, peer: &Arc<Channel>, request: Command) -> Outcome {
        self.handled.fetch_add(1, Ordering::SeqCst);
        let answer = Command::response_to(&request, 0).with_body(request.body.clone());
        match request.code {
            LATER => {
                let release = Arc::clone(&self.release);
                let finished = Arc::clone(&self.finished);
                Outcome::later(async move {
                    release.notified().await;
                    finished.fetch_add(1, Ordering::SeqCst);
                    Some(answer)
                })
            }
            PARKED => {
                let guard = CountDrop(Arc::clone(&self.dropped));
                Outcome::parked(async move {
                    let _guard = guard;
                    std::future::pending::<()>().await;
                    None
                })
            }
            LARGE => Outcome::Reply(answer.with_body(Bytes::from(vec![7; 100_000]))),
            ASK_BACK => {
                let channel = Channel::clone(peer);
                Outcome::later(async move {
                    let back = channel.request(Command::request(40), LIMIT).await;
                    let text = match back {
                        Ok(back) => format!("{} {:?}", back.code, back.encoding),
                        Err(error) => format!("{error:?}"),
                    };
                    Some(answer.with_body(text))
                })
            }
            PANIC => panic!("as the test wants it"),
            CLOSE => {
                peer.close("as the test wants it");
                Outcome::None
            }
            _ => Outcome::Reply(answer),
        }
    }

    fn closed(&self, _peer: &Arc<Channel>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

struct World {
    front: Arc<Front>,
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn world(limits: Limits) -> World {
    let front = Arc::new(Front::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async {
        let _ = stopped.await;
    };
    let served = serve(
        listener,
        Arc::clone(&front),
        limits,
        ListenerMetrics::detached(),
        shutdown,
    );
    World {
        front,
        addr,
        stop,
        task: tokio::spawn(served),
    }
}

impl World {
    async fn stream(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    async fn caller(&self) -> Caller {
        Caller::connect(self.addr, Limits::default(), LIMIT)
            .await
            .unwrap()
    }

    /// Another client is served: whatever happened before did no harm.
    async fn serves(&self) {
        let answer = self
            .caller()
            .await
            .call(request(ECHO, 0), LIMIT)
            .await
            .unwrap();
        assert_eq!(answer.code, 0);
    }
}

fn request(code: i32, opaque: i32) -> Command {
    Command {
        opaque,
        ..Command::request(code)
    }
    .with_body(opaque.to_string())
}

fn bytes(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    header::encode(command, &mut out);
    out.extend_from_slice(&command.body);
    out
}

async fn answer(stream: &mut TcpStream, buffer: &mut BytesMut) -> Command {
    tokio::time::timeout(LIMIT, async {
        loop {
            if let Ok(command) = frame::next(buffer, 1 << 24).unwrap() {
                return command;
            }
            assert_ne!(stream.read_buf(buffer).await.unwrap(), 0, "closed");
        }
    })
    .await
    .expect("an answer in time")
}

async fn closes(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest))
        .await
        .expect("closed in time");
    drop(read);
}

async fn until(what: &str, done: impl Fn() -> bool) {
    tokio::time::timeout(LIMIT, async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn many_requests_in_one_write_are_answered_in_order_in_their_encoding() {
    let world = world(Limits::default()).await;
    let mut stream = world.stream().await;
    let mut all = Vec::new();
    for opaque in 0..2000 {
        let encoding = if opaque % 2 == 0 {
            Encoding::Json
        } else {
            Encoding::Binary
        };
        all.extend(bytes(&Command {
            encoding,
            ..request(if opaque % 50 == 0 { LARGE } else { ECHO }, opaque)
        }));
    }
    let (mut read, mut write) = stream.split();
    let writing = async {
        // In pieces that do not respect frames.
        for piece in all.chunks(777) {
            write.write_all(piece).await.unwrap();
        }
    };
    let reading = async {
        let mut buffer = BytesMut::new();
        for opaque in 0..2000 {
            let command = loop {
                if let Ok(command) = frame::next(&mut buffer, 1 << 24).unwrap() {
                    break command;
                }
                assert_ne!(read.read_buf(&mut buffer).await.unwrap(), 0);
            };
            assert_eq!(command.opaque, opaque);
            assert_eq!(command.encoding == Encoding::Binary, opaque % 2 == 1);
            assert_eq!(
                command.body.len(),
                if opaque % 50 == 0 {
                    100_000
                } else {
                    opaque.to_string().len()
                }
            );
        }
    };
    tokio::time::timeout(LIMIT, async { tokio::join!(writing, reading) })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_large_frame_arrives_whole_and_one_above_the_limit_closes() {
    let world = world(Limits {
        frame_bytes_max: 5 << 20,
        ..Limits::default()
    })
    .await;
    let caller = Caller::connect(world.addr, Limits::default(), LIMIT)
        .await
        .unwrap();
    let body = Bytes::from(vec![9; 4 << 20]);
    let got = caller
        .call(Command::request(ECHO).with_body(body.clone()), LIMIT)
        .await
        .unwrap();
    assert_eq!(got.body, body);
    let above = Command::request(ECHO).with_body(Bytes::from(vec![9; 6 << 20]));
    assert_eq!(caller.call(above, LIMIT).await, Err(CallError::Closed));
    world.serves().await;
}

#[tokio::test]
async fn waiting_requests_hold_nobody_up_and_are_dropped_with_the_connection() {
    let world = world(Limits::default()).await;
    let mut stream = world.stream().await;
    let mut buffer = BytesMut::new();
    let all: Vec<u8> = [request(PARKED, 1), request(LATER, 2), request(ECHO, 3)]
        .iter()
        .flat_map(bytes)
        .collect();
    stream.write_all(&all).await.unwrap();
    assert_eq!(answer(&mut stream, &mut buffer).await.opaque, 3);
    world.front.release.notify_one();
    let late = answer(&mut stream, &mut buffer).await;
    assert_eq!((late.opaque, &late.body[..]), (2, &b"2"[..]));
    drop(stream);
    until("the parked future is dropped", || {
        world.front.dropped.load(Ordering::SeqCst) == 1
    })
    .await;
    until("closed once", || {
        world.front.closed.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn what_a_peer_asked_for_before_it_left_is_still_done() {
    let world = world(Limits::default()).await;
    let mut stream = world.stream().await;
    let all: Vec<u8> = [request(PARKED, 1), request(LATER, 2)]
        .iter()
        .flat_map(bytes)
        .collect();
    stream.write_all(&all).await.unwrap();
    until("both are under way", || {
        world.front.handled.load(Ordering::SeqCst) == 2
    })
    .await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.front.finished.load(Ordering::SeqCst), 0);
    world.front.release.notify_one();
    until("the request is done", || {
        world.front.finished.load(Ordering::SeqCst) == 1
    })
    .await;
    until("closed once", || {
        world.front.closed.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(world.front.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn one_way_requests_are_never_answered() {
    let world = world(Limits::default()).await;
    let mut stream = world.stream().await;
    let one_way = |code| Command {
        opaque: 1,
        ..Command::notice(code)
    };
    let all: Vec<u8> = [one_way(ECHO), one_way(LATER), request(ECHO, 2)]
        .iter()
        .flat_map(bytes)
        .collect();
    stream.write_all(&all).await.unwrap();
    let mut buffer = BytesMut::new();
    assert_eq!(answer(&mut stream, &mut buffer).await.opaque, 2);
    world.front.release.notify_one();
    stream.write_all(&bytes(&request(ECHO, 3))).await.unwrap();
    assert_eq!(answer(&mut stream, &mut buffer).await.opaque, 3);
    assert!(buffer.is_empty());
}

#[tokio::test]
async fn the_server_asks_back_in_the_encoding_it_has_seen() {
    let world = world(Limits::default()).await;
    for encoding in [Encoding::Json, Encoding::Binary] {
        let mut stream = world.stream().await;
        let mut buffer = BytesMut::new();
        stream
            .write_all(&bytes(&Command {
                encoding,
                ..request(ASK_BACK, 0)
            }))
            .await
            .unwrap();
        let asked = answer(&mut stream, &mut buffer).await;
        assert_eq!(
            (asked.code, asked.is_response(), asked.encoding),
            (40, false, encoding)
        );
        // An answer that nobody waits for does no harm.
        let stray = Command {
            opaque: 4711,
            ..Command::response_to(&asked, 9)
        };
        stream.write_all(&bytes(&stray)).await.unwrap();
        stream
            .write_all(&bytes(&Command::response_to(&asked, 9)))
            .await
            .unwrap();
        let end = answer(&mut stream, &mut buffer).await;
        assert_eq!(end.body, format!("9 {encoding:?}"));
    }
    let caller = world.caller().await;
    let end = caller
        .call(Command::request(ASK_BACK), LIMIT)
        .await
        .unwrap();
    assert_eq!(
        end.body, "3 Json",
        "a caller answers what it does not serve"
    );
}

#[tokio::test]
async fn calls_fail_when_the_connection_ends_or_time_runs_out() {
    let world = world(Limits::default()).await;
    let caller = world.caller().await;
    let short = Duration::from_millis(20);
    assert_eq!(
        caller.call(request(PARKED, 0), short).await,
        Err(CallError::TimedOut)
    );
    assert_eq!(
        caller.call(request(CLOSE, 0), LIMIT).await,
        Err(CallError::Closed)
    );
    assert_eq!(
        caller.call(request(ECHO, 0), LIMIT).await,
        Err(CallError::Closed)
    );
    assert!(caller.is_closed());
    let channel = world.front.channels.lock().unwrap()[0].clone();
    until("the server's end is closed", || channel.is_closed()).await;
    assert_eq!(channel.notify(Command::notice(40)), Err(CallError::Closed));
    assert_eq!(
        channel.request(Command::request(40), LIMIT).await,
        Err(CallError::Closed)
    );
}

#[tokio::test]
async fn a_peer_that_never_reads_is_no_longer_served_and_closed_in_the_end() {
    let world = world(Limits {
        stall_seconds_max: 1,
        ..Limits::default()
    })
    .await;
    let mut stream = world.stream().await;
    let all: Vec<u8> = (0..2000)
        .flat_map(|opaque| bytes(&request(LARGE, opaque)))
        .collect();
    let sending = tokio::spawn(async move {
        let _ = stream.write_all(&all).await;
        stream
    });
    let started = std::time::Instant::now();
    until("closed", || world.front.closed.load(Ordering::SeqCst) == 1).await;
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
    let handled = world.front.handled.load(Ordering::SeqCst);
    assert!(
        handled < 500,
        "200 MB of answers must not be made for a peer that does not read: {handled}"
    );
    drop(sending.await.unwrap());
    world.serves().await;
}

#[tokio::test]
async fn a_backlog_is_bounded() {
    let world = world(Limits {
        backlog_max: 4,
        stall_seconds_max: 1,
        ..Limits::default()
    })
    .await;
    let mut stream = world.stream().await;
    stream.write_all(&bytes(&request(ECHO, 1))).await.unwrap();
    answer(&mut stream, &mut BytesMut::new()).await;
    let channel = world.front.channels.lock().unwrap()[0].clone();
    let notice = || Command::notice(40).with_body(Bytes::from(vec![1; 1 << 20]));
    tokio::time::timeout(LIMIT, async {
        while channel.notify(notice()) != Err(CallError::Busy) {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("busy in the end");
    until("closed", || channel.is_closed()).await;
}

#[tokio::test]
async fn strangers_are_closed_and_everyone_else_is_served() {
    let world = world(Limits::default()).await;
    let mut long = i32::MAX.to_be_bytes().to_vec();
    long.extend_from_slice(&[0; 100]);
    let garbage: Vec<u8> = (0..5000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0] | 0x80)
        .collect();
    let kafka = [
        0, 0, 0, 20, 0, 18, 0, 3, 0, 0, 0, 1, 0, 4, b't', b'e', b's', b't', 0, 0, 0, 0, 0, 0,
    ];
    let no_json = [0, 0, 0, 8, 0, 0, 0, 4, b'a', b'b', b'c', b'd'];
    for bad in [
        &long[..],
        &garbage,
        &kafka,
        &no_json,
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0, 5],
        b"PROXY TCP4 ",
    ] {
        let mut stream = world.stream().await;
        let _ = stream.write_all(bad).await;
        closes(&mut stream).await;
        world.serves().await;
    }
}

#[tokio::test]
async fn a_cut_frame_waits_and_an_idle_connection_is_closed() {
    let world = world(Limits {
        idle_seconds_max: 1,
        ..Limits::default()
    })
    .await;
    let mut silent = world.stream().await;
    let mut half = world.stream().await;
    let whole = bytes(&request(ECHO, 1));
    half.write_all(&whole[..20]).await.unwrap();
    closes(&mut silent).await;
    closes(&mut half).await;
    assert_eq!(world.front.handled.load(Ordering::SeqCst), 0);
    assert_eq!(
        world.front.closed.load(Ordering::SeqCst),
        1,
        "the silent one never was a peer"
    );
    world.serves().await;
}

#[tokio::test]
async fn above_the_cap_connections_are_refused_until_one_ends() {
    let world = world(Limits {
        connections_max: 2,
        ..Limits::default()
    })
    .await;
    let first = world.caller().await;
    first.call(request(ECHO, 0), LIMIT).await.unwrap();
    let second = world.caller().await;
    second.call(request(ECHO, 0), LIMIT).await.unwrap();
    closes(&mut world.stream().await).await;
    drop(first);
    until("closed", || world.front.closed.load(Ordering::SeqCst) == 1).await;
    tokio::time::timeout(LIMIT, async {
        while world
            .caller()
            .await
            .call(request(ECHO, 0), LIMIT)
            .await
            .is_err()
        {}
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_panic_in_a_handler_ends_its_connection_only() {
    let world = world(Limits::default()).await;
    let caller = world.caller().await;
    assert_eq!(
        caller.call(request(PANIC, 0), LIMIT).await,
        Err(CallError::Closed)
    );
    until("closed", || world.front.closed.load(Ordering::SeqCst) == 1).await;
    world.serves().await;
}

#[tokio::test]
async fn a_stop_waits_for_answers_under_way_and_drops_long_polls() {
    let world = world(Limits::default()).await;
    let mut stream = world.stream().await;
    let all: Vec<u8> = [request(PARKED, 1), request(LATER, 2), request(ECHO, 3)]
        .iter()
        .flat_map(bytes)
        .collect();
    stream.write_all(&all).await.unwrap();
    let mut buffer = BytesMut::new();
    assert_eq!(answer(&mut stream, &mut buffer).await.opaque, 3);
    world.stop.send(()).unwrap();
    until("no longer listens", || {
        std::net::TcpStream::connect(world.addr).is_err()
    })
    .await;
    world.front.release.notify_one();
    assert_eq!(answer(&mut stream, &mut buffer).await.opaque, 2);
    closes(&mut stream).await;
    tokio::time::timeout(LIMIT, world.task)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(world.front.dropped.load(Ordering::SeqCst), 1);
    assert_eq!(world.front.closed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn ten_thousand_waiting_requests_fit_one_connection_and_more_wait_for_room() {
    let world = world(Limits {
        waiting_max: 10_000,
        ..Limits::default()
    })
    .await;
    let mut stream = world.stream().await;
    let all: Vec<u8> = (0..10_001)
        .flat_map(|opaque| bytes(&request(LATER, opaque)))
        .collect();
    stream.write_all(&all).await.unwrap();
    until("all but one are handled", || {
        world.front.handled.load(Ordering::SeqCst) == 10_000
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.front.handled.load(Ordering::SeqCst), 10_000);
    world.front.release.notify_waiters();
    let mut buffer = BytesMut::new();
    for _ in 0..10_000 {
        answer(&mut stream, &mut buffer).await;
    }
    until("the last is handled", || {
        world.front.handled.load(Ordering::SeqCst) == 10_001
    })
    .await;
}
