//! What name servers are told, and when.

use crate::broker::{LONG, call, request, send_to, start_with};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use twinmq_remoting::bodies::registration::RegisterBrokerBody;
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::{Channel, Command, Limits, ListenerMetrics, Outcome, Serve, serve};

/// A name server that takes everything and notes it.
struct Book(mpsc::Sender<Command>);

impl Serve for Book {
    type Peer = ();
    fn opened(&self, _channel: &Channel) -> Arc<()> {
        Arc::new(())
    }
    async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
        self.0.send(request.detached()).await.expect("room");
        Outcome::Reply(Command::response_to(&request, response::SUCCESS))
    }
    fn closed(&self, _peer: &Arc<()>) {}
}

async fn next(book: &mut mpsc::Receiver<Command>) -> Command {
    timeout(LONG, book.recv())
        .await
        .expect("in time")
        .expect("a request")
}

/// A name server that takes everything: its address, what it is told (so many at most untaken), its task.
async fn name_server(
    untaken_max: usize,
) -> (String, mpsc::Receiver<Command>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("bound").to_string();
    let (noted, book) = mpsc::channel(untaken_max);
    let task = tokio::spawn(serve(
        listener,
        Arc::new(Book(noted)),
        Limits::default(),
        ListenerMetrics::detached(),
        std::future::pending(),
    ));
    (server, book, task)
}

fn topics(command: &Command) -> RegisterBrokerBody {
    assert_eq!(command.code, code::REGISTER_BROKER);
    RegisterBrokerBody::decode(&command.body, false, 0).expect("a registration")
}

#[tokio::test]
async fn a_name_server_is_told_at_the_start_of_each_change_and_of_the_end() {
    let (server, mut book, name_server) = name_server(100).await;
    // One that does not answer delays nobody.
    let dead = "127.0.0.1:1".to_owned();
    let broker = start_with(|config, _| config.name_servers = vec![server, dead]).await;

    let first = next(&mut book).await;
    assert_eq!(first.fields.get("brokerName"), Some("twinmq-1"));
    assert_eq!(first.fields.get("brokerId"), Some("0"));
    assert_eq!(
        first.fields.get("brokerAddr"),
        Some(&*broker.main.to_string())
    );
    let sum = crc32fast::hash(&first.body) & 0x7FFF_FFFF;
    assert_eq!(first.fields.get("bodyCrc32"), Some(&*sum.to_string()));
    let body = topics(&first).topic_config_serialize_wrapper;
    assert_eq!(body.topic_config_table["TBW102"].perm, 7);

    let caller = broker.connect().await;
    let sent = call(&caller, send_to("Fresh", 0, "", "x")).await;
    assert_eq!(sent.code, response::SUCCESS);
    // The send is answered after the name server knows.
    let second = book.try_recv().expect("already told");
    let told = topics(&second).topic_config_serialize_wrapper;
    assert_eq!(told.topic_config_table["Fresh"].write_queue_nums, 4);
    assert!(told.data_version.counter > body.data_version.counter);

    broker.stop().await;
    let mut last = next(&mut book).await;
    while last.code == code::REGISTER_BROKER {
        last = next(&mut book).await;
    }
    assert_eq!(last.code, code::UNREGISTER_BROKER);
    assert_eq!(last.fields.get("brokerName"), Some("twinmq-1"));
    name_server.abort();
}

/// What a name server knows after these registrations: as Apache's and ours, it looks at the topics
/// only when the data version is another one than before.
#[derive(Default)]
struct Known {
    version: Option<i64>,
    topics: BTreeSet<String>,
    rounds: u32,
    entries: usize,
}

impl Known {
    fn take(&mut self, command: &Command) {
        if command.code != code::REGISTER_BROKER {
            return;
        }
        let body = topics(command).topic_config_serialize_wrapper;
        self.rounds += 1;
        self.entries += body.topic_config_table.len();
        if command.fields.get("twinmqWhole") == Some("true") {
            self.topics.clear();
        }
        if self.version.replace(body.data_version.counter) != Some(body.data_version.counter) {
            self.topics.extend(body.topic_config_table.into_keys());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_topics_at_once_are_told_in_few_rounds_and_none_is_forgotten() {
    const SENDERS: usize = 32;
    const EACH: usize = 20;
    let (server, mut book, name_server) = name_server(10_000).await;
    let broker = start_with(|config, _| config.name_servers = vec![server]).await;
    let mut known = Known::default();
    known.take(&next(&mut book).await);
    let own = known.topics.len();

    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let caller = broker.connect().await;
        senders.spawn(async move {
            for topic in 0..EACH {
                let sent = call(&caller, send_to(&format!("m{sender}-{topic}"), 0, "", "x")).await;
                assert_eq!(sent.code, response::SUCCESS);
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.expect("sent");
    }
    // Each send was answered after the name server knew its topic.
    while let Ok(command) = book.try_recv() {
        known.take(&command);
    }
    assert_eq!(known.topics.len(), own + SENDERS * EACH);
    // What comes while a round is under way, or in the pause behind it, goes into one.
    let most = u32::try_from(SENDERS * EACH / 2).expect("few");
    assert!(known.rounds <= most, "{} rounds", known.rounds);
    // Only what changed is told: each topic once, not the whole table again and again.
    assert!(
        known.entries <= 2 * (own + SENDERS * EACH),
        "{} topics told",
        known.entries
    );

    // What has gone is told too, and what comes after it.
    let caller = broker.connect().await;
    for gone in ["m0-0", "m31-19"] {
        let delete = request(code::DELETE_TOPIC_IN_BROKER, &[("topic", gone)]);
        assert_eq!(call(&caller, delete).await.code, response::SUCCESS);
    }
    for made in ["a", "z"] {
        let sent = call(&caller, send_to(made, 0, "", "x")).await;
        assert_eq!(sent.code, response::SUCCESS);
    }
    while let Ok(command) = book.try_recv() {
        known.take(&command);
    }
    assert_eq!(known.topics.len(), own + SENDERS * EACH);
    assert!(known.topics.contains("a") && known.topics.contains("z"));
    assert!(!known.topics.contains("m0-0") && !known.topics.contains("m31-19"));
    broker.stop().await;
    name_server.abort();
}

#[tokio::test]
async fn changes_that_name_servers_do_not_care_for_do_not_silence_the_broker() {
    let (server, mut book, name_server) = name_server(1000).await;
    let broker = start_with(|config, _| {
        config.name_servers = vec![server];
        config.register_interval_ms = 10_000;
    })
    .await;
    next(&mut book).await;
    let caller = broker.connect().await;
    for group in 0..28 {
        let body = format!(r#"{{"groupName":"g{group}"}}"#);
        let put = request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[]).with_body(body);
        assert_eq!(call(&caller, put).await.code, response::SUCCESS);
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
    book.try_recv().expect("the broker is heard within 10 s");
    broker.stop().await;
    name_server.abort();
}
