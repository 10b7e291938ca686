//! What name servers are told, and when.

use crate::broker::{LONG, call, send_to, start_with};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
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

fn topics(command: &Command) -> RegisterBrokerBody {
    assert_eq!(command.code, code::REGISTER_BROKER);
    RegisterBrokerBody::decode(&command.body, false, 0).expect("a registration")
}

#[tokio::test]
async fn a_name_server_is_told_at_the_start_of_each_change_and_of_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("bound").to_string();
    let (noted, mut book) = mpsc::channel(100);
    let name_server = tokio::spawn(serve(
        listener,
        Arc::new(Book(noted)),
        Limits::default(),
        ListenerMetrics::detached(),
        std::future::pending(),
    ));
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
