//! What one connection has told us: who it is and under which groups it is registered, so that its
//! end can be undone without a search.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use twinmq_remoting::Channel;

/// Which port a connection came in by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Port {
    /// The main one.
    Main,
    /// The VIP one, two below, which serves no pulls.
    Vip,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) channel: Channel,
    registered: Mutex<Registered>,
}

/// The groups of a connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registered {
    pub(crate) consumers: BTreeSet<String>,
    pub(crate) producers: BTreeSet<String>,
}

impl Peer {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            channel,
            registered: Mutex::new(Registered::default()),
        }
    }
    /// Remembers that this connection is registered as a consumer of `group`.
    pub(crate) fn consumes(&self, group: &str) {
        let mut registered = self.registered.lock();
        if !registered.consumers.contains(group) {
            registered.consumers.insert(group.to_owned());
        }
    }
    /// Remembers that this connection is registered as a producer of `group`.
    pub(crate) fn produces(&self, group: &str) {
        let mut registered = self.registered.lock();
        if !registered.producers.contains(group) {
            registered.producers.insert(group.to_owned());
        }
    }
    /// Everything it is registered under.
    pub(crate) fn registered(&self) -> Registered {
        self.registered.lock().clone()
    }
}
