//! The scenarios that the clients of both protocols go through in the same way.

use crate::Node;
use crate::clients::Client;
use crate::topic::{Payload, Topic, until};
use anyhow::{Context as _, Result, ensure};
use std::time::{Duration, Instant};

/// After this a native commit, which is one-way, has gone from the broker's table to its log:
/// `broker.commit_linger_ms` and then some.
const LINGER: Duration = Duration::from_millis(600);

/// More records than any scenario has: a member that reads these runs until it is dropped.
pub const MANY: usize = 1_000_000;

/// How a broker is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// SIGTERM.
    Sigterm,
    /// kill -9.
    Kill9,
}

impl Stop {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::Sigterm, Self::Kill9];

    /// For scenario names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigterm => "sigterm",
            Self::Kill9 => "kill_9",
        }
    }

    /// Stops the node this way and starts it again.
    ///
    /// # Errors
    /// The node's.
    pub fn restart(self, node: &mut Node) -> Result<()> {
        match self {
            Self::Sigterm => node.terminate()?,
            Self::Kill9 => node.kill()?,
        }
        node.start_again()?;
        Ok(())
    }
}

/// A second run of a group goes on where the first one stopped.
///
/// # Errors
/// What is not so.
pub fn resume<R: Payload>(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::<R>::create(&node, "resumed", 2)?;
    let records = R::sample(300, "c");
    topic.send(client, &records, &[])?;
    let first = topic.consume(client, "readers", records.len(), &[])?;
    ensure!(first.len() == records.len(), "{} read", first.len());
    topic.until_committed(&node, "readers")?;
    let more = R::sample(50, "d");
    let sent = topic.send(client, &more, &[])?;
    let second = topic.consume(client, "readers", more.len(), &[])?;
    R::judge(&sent, &more, &second)?;
    topic.until_committed(&node, "readers")?;
    let committed = R::committed(&node, "resumed", "readers")?;
    ensure!(committed == 350, "{committed} of 350 are committed");
    Ok(())
}

/// Two members of a group have half of the queues each; when one leaves, the other has all.
///
/// # Errors
/// What is not so.
pub fn rebalance<R: Payload>(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::<R>::create(&node, "shared", 4)?;
    let (first, second) = (R::sample(400, "a"), R::sample(100, "b"));
    // The first leaves when it has read its half.
    let mut one = topic.member(client, "team", first.len() / 2, &[])?;
    until("one member has all queues", || Ok(one.assigned() == 4))?;
    let mut two = topic.member(client, "team", first.len() / 2 + second.len(), &[])?;
    until("both members have half of the queues", || {
        Ok(one.assigned() == 2 && two.assigned() == 2)
    })?;
    let mut sent = topic.send_around(client, &first, 4, &[])?;
    until("the first reads its half and leaves", || one.ended())?;
    until("the other has all queues", || Ok(two.assigned() == 4))?;
    two.until_read(first.len() / 2)?;
    let others = two.so_far()?.len();
    ensure!(
        others == first.len() / 2,
        "the other read {others}, more than its half"
    );
    sent.extend(topic.send_around(client, &second, 4, &[])?);
    let read = [one.end()?, two.end()?].concat();
    R::judge(&sent, &[first, second].concat(), &read)
}

/// The broker is stopped and started while a client sends and another reads: both go on, everything
/// acknowledged before and meanwhile is there, and a group is where it was.
///
/// # Errors
/// What is not so.
pub fn restart<R: Payload>(client: Client, stop: Stop) -> Result<()> {
    let mut node = Node::start()?;
    let topic = Topic::<R>::create(&node, "lasting", 3)?;
    let before = R::sample(300, "before");
    let mut sent = topic.send(client, &before, &[])?;
    let read = topic.consume(client, "readers", before.len(), &[])?;
    R::judge(&sent, &before, &read)?;
    topic.until_committed(&node, "readers")?;
    let committed = Instant::now();

    let meanwhile = R::sample(800, "meanwhile");
    let mut follower = topic.member(client, "followers", MANY, &[])?;
    follower.until_read(before.len())?;
    let sending = topic.start_sending(client, &meanwhile, |_| None, R::STEADILY)?;
    follower.until_read(before.len() + 100)?;
    std::thread::sleep(LINGER.saturating_sub(committed.elapsed()));
    stop.restart(&mut node)?;
    let sent_meanwhile = sending.end().context("the sender goes on")?;

    let mut reader = topic.member(client, "readers", MANY, &[])?;
    reader
        .until_all(&sent_meanwhile, &meanwhile)
        .context("the group goes on where it was")?;
    sent.extend(sent_meanwhile);
    let all = [before, meanwhile].concat();
    follower
        .until_all(&sent, &all)
        .context("a running reader goes on")?;
    let mut newcomer = topic.member(client, "newcomers", MANY, &[])?;
    newcomer
        .until_all(&sent, &all)
        .context("a new group sees everything")
}
