//! Topics that come into being because somebody uses them: by a send after a template, by a
//! heartbeat or a send-back for a group.

use crate::error::Refusal;
use crate::names;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, CatalogError, NewTopic, Origin, Perm, Topic};

/// The catalogue, and the rules of creating on demand.
#[derive(Debug)]
pub(crate) struct Topics {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) auto_create: bool,
}

/// What a native creation asks for.
pub(crate) fn native_topic(name: &str, queues: u32, perm: Perm) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        origin: Origin::Native,
        queues,
        perm,
        order: false,
        sys_flag: 0,
        multi_tag: false,
        attributes: BTreeMap::new(),
        settings: BTreeMap::new(),
    }
}

impl Topics {
    /// The topic, made with `queues` queues and perm 6 if it is not there. For retry and dead-letter
    /// topics: does not ask whether creation on demand is allowed.
    pub(crate) async fn ensure(&self, name: &str, queues: u32) -> Result<Arc<Topic>, Refusal> {
        if let Some(topic) = self.catalog.by_native(name) {
            return Ok(topic);
        }
        self.create(native_topic(name, queues, Perm(6))).await
    }

    /// Creates; if somebody else was faster, theirs.
    pub(crate) async fn create(&self, new: NewTopic) -> Result<Arc<Topic>, Refusal> {
        let name = new.name.clone();
        let made = self.catalog.create(new).await;
        self.made(&name, made)
    }

    fn made(
        &self,
        name: &str,
        made: Result<Arc<Topic>, CatalogError>,
    ) -> Result<Arc<Topic>, Refusal> {
        match made {
            Ok(topic) => Ok(topic),
            Err(CatalogError::Exists(_)) => self
                .catalog
                .by_native(name)
                .ok_or_else(|| Refusal::no_topic(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// A topic that a send names and nobody has made: after the template the sender names, with at
    /// most its queues. Retry topics need no template.
    pub(crate) async fn create_for_send(
        &self,
        name: &str,
        template: &str,
        queues: i32,
    ) -> Result<Arc<Topic>, Refusal> {
        let refused = || Refusal::no_topic(name);
        if name.starts_with(names::RETRY_PREFIX) {
            return self.ensure(name, 1).await;
        }
        if template == names::TEMPLATE && !self.auto_create {
            return Err(refused());
        }
        let template = self.catalog.by_native(template).ok_or_else(refused)?;
        if !template.perm.inherit() {
            return Err(refused());
        }
        let asked = u32::try_from(queues).unwrap_or(0).max(1);
        let queues = asked.min(template.write_queues.max(1));
        let mut new = native_topic(name, queues, Perm(template.perm.0 & !1));
        new.multi_tag = template.multi_tag;
        let made = self.catalog.create_unsynced(new).await;
        self.made(name, made)
    }
}
