//! Carries out what a group decided: answers, stored records in their order, the shared roster.

use super::coordinator::{Coordinator, Shared, Slot};
use super::event::{Action, Event, GroupRecord};
use super::record;
use super::subscription::{assigned_partitions, subscribed_topics};
use super::view::SHOWN_MAX;
use crate::error::Refusal;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use twinmq_core::roster::{Member as Listed, Tongue};

impl Coordinator {
    /// Does what a group decided. The group's lock is held.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        name: &Arc<str>,
        shared: &Shared,
        slot: &mut Slot,
        actions: Vec<Action>,
    ) {
        for action in actions {
            match action {
                Action::Reply { to, answer } => slot.reply(to, answer),
                Action::Store { id, record } => {
                    slot.writes.push_back((id, record));
                    if !slot.writing {
                        slot.writing = true;
                        self.writers.fetch_add(1, Ordering::AcqRel);
                        tokio::spawn(Arc::clone(self).write(Arc::clone(name), Arc::clone(shared)));
                    }
                }
                Action::Changed(id) => self.show(name, slot, &id),
                Action::Gone(id) => {
                    tracing::debug!(group = %name, member = %id, "left the group");
                    self.core.roster.remove(name, &id);
                }
            }
        }
        self.count(name, slot);
        self.arm(name, slot);
    }

    fn count(&self, name: &Arc<str>, slot: &mut Slot) {
        let now = (slot.group.generation(), slot.group.member_count());
        let before = std::mem::replace(&mut slot.counted, now);
        if now.1 != before.1 {
            let came = i64::try_from(now.1).unwrap_or(0) - i64::try_from(before.1).unwrap_or(0);
            self.metrics.members.add(came);
        }
        if now.0 != before.0 {
            self.metrics.rebalances.inc();
            tracing::info!(group = %name, generation = now.0, members = now.1, "group rebalanced");
        }
    }

    /// Shows a member in the roster.
    pub(super) fn show(&self, name: &Arc<str>, slot: &Slot, id: &str) {
        let group = &slot.group;
        let Some(member) = group.member(id) else {
            return;
        };
        let consumer = group
            .protocol_type()
            .is_some_and(|kind| &**kind == "consumer");
        let (topics, held) = if consumer {
            let metadata = group.metadata_of(member);
            (
                subscribed_topics(&metadata, SHOWN_MAX).unwrap_or_default(),
                assigned_partitions(&member.assignment, SHOWN_MAX).unwrap_or_default(),
            )
        } else {
            (Vec::new(), Vec::new())
        };
        let listed = Listed {
            id: member.id.clone(),
            tongue: Tongue::Kafka,
            client_id: member.client_id.clone(),
            host: host_of(&member.client_host),
            topics,
            held,
        };
        self.core.roster.put(name, listed);
    }

    /// Stores a group's records, one after the other, until there are none.
    pub(super) async fn write(self: Arc<Self>, name: Arc<str>, shared: Shared) {
        loop {
            let (id, record) = {
                let mut slot = shared.lock();
                let Some(next) = slot.writes.pop_front() else {
                    slot.writing = false;
                    break;
                };
                next
            };
            let result = self.store(&name, &record).await;
            let mut slot = shared.lock();
            let actions = slot.group.on(Event::Stored { id, result }, self.now());
            self.carry_out(&name, &shared, &mut slot, actions);
            tracing::debug!(
                group = %name,
                generation = slot.group.generation(),
                state = slot.group.state().name(),
                "group stored"
            );
        }
        self.writers.fetch_sub(1, Ordering::AcqRel);
        self.written.notify_waiters();
    }

    pub(super) async fn store(
        &self,
        name: &str,
        record: &GroupRecord,
    ) -> Result<(), ResponseError> {
        let bytes: Bytes = record::encode(record).map_err(|error| {
            tracing::warn!(group = name, %error, "group cannot be stored");
            ResponseError::UnknownServerError
        })?;
        let stored = self.core.offsets.put_group_record(name, Some(bytes)).await;
        stored.map_err(|error| {
            tracing::warn!(group = name, %error, "group was not stored");
            self.metrics.store_failures.inc();
            match Refusal::from(&error).code {
                ResponseError::OffsetMetadataTooLarge => ResponseError::UnknownServerError,
                code => code,
            }
        })
    }

    /// Waits until no record of the group is on its way to the log.
    pub(super) async fn written_out(&self, group: &str) {
        let Some(slot) = self.slot(group) else {
            return;
        };
        loop {
            let written = self.written.notified();
            if !slot.lock().writing {
                return;
            }
            written.await;
        }
    }
}

/// The address in Kafka's spelling of it, `/1.2.3.4`; the port is not known.
fn host_of(client_host: &str) -> SocketAddr {
    let ip = client_host.trim_start_matches('/').parse();
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0)
}
