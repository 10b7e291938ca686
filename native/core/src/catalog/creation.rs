//! What a new topic is checked for, and what it becomes: its names, its queue numbers, its id.

use super::definition::{Definition, StoredClass, StoredOrigin};
use super::state::{State, alike};
use super::{Catalog, CatalogError, Class, NewTopic, Origin, system};
use twinmq_records::names;
use uuid::Uuid;

impl Catalog {
    /// The definition of a new topic, with queue numbers from `next` on.
    pub(super) fn definition(
        &self,
        next: &mut u32,
        new: &NewTopic,
        class: Class,
    ) -> Result<Definition, CatalogError> {
        let (kafka, native) = self.both_names(new, class);
        let first = *next;
        *next = first.checked_add(new.queues).ok_or_else(|| {
            CatalogError::InvalidQueues("all queue numbers have been given out".to_owned())
        })?;
        Ok(Definition {
            id: new_topic_id().to_string(),
            kafka,
            native,
            origin: match new.origin {
                Origin::Kafka => StoredOrigin::Kafka,
                Origin::Native => StoredOrigin::Native,
            },
            class: match class {
                Class::User => StoredClass::User,
                Class::System => StoredClass::System,
                Class::Internal => StoredClass::Internal,
            },
            perm: new.perm.0,
            read_queues: new.queues,
            write_queues: new.queues,
            queues: vec![(first, new.queues)],
            order: new.order,
            sys_flag: new.sys_flag,
            multi_tag: new.multi_tag,
            attributes: new.attributes.clone(),
            settings: new.settings.clone(),
            created: self.clock.now().0,
        })
    }

    /// The name on the creating side, and the computed one where it is free.
    fn both_names(&self, new: &NewTopic, class: Class) -> (Option<String>, Option<String>) {
        let own = Some(new.name.clone());
        match (new.origin, class) {
            (Origin::Native, Class::System) => (None, own),
            // The same name on both sides, so that native clients see whose it is; perm has no write.
            (Origin::Kafka, Class::Internal) => (own.clone(), own),
            (Origin::Native, _) => {
                let other = names::kafka_topic(&new.name)
                    .filter(|name| self.free(new, name, self.view.by_kafka(name).is_none()));
                (other, own)
            }
            (Origin::Kafka, _) => {
                let other = names::native_topic(&new.name)
                    .filter(|name| self.free(new, name, self.view.by_native(name).is_none()));
                (own, other)
            }
        }
    }

    fn free(&self, new: &NewTopic, other: &str, free: bool) -> bool {
        let free = free && !system::reserved(other, new.origin.other(), &self.config);
        if !free {
            tracing::warn!(
                topic = %new.name,
                taken = %other,
                "the topic has no name on the other protocol's side: the computed one is taken"
            );
        }
        free
    }

    pub(super) fn check_in(&self, state: &State, new: &NewTopic) -> Result<(), CatalogError> {
        let name = &new.name;
        check_name(name, new.origin).map_err(|reason| CatalogError::InvalidName {
            name: name.clone(),
            reason,
        })?;
        let there = match new.origin {
            Origin::Kafka => self.view.by_kafka(name),
            Origin::Native => self.view.by_native(name),
        };
        if there.is_some() {
            return Err(CatalogError::Exists(name.clone()));
        }
        if system::reserved(name, new.origin, &self.config) {
            return Err(CatalogError::Reserved(name.clone()));
        }
        if state.topics.contains_key(name.as_str()) {
            return Err(CatalogError::Exists(name.clone()));
        }
        if new.origin == Origin::Kafka && state.alike.contains_key(&alike(name)) {
            return Err(CatalogError::InvalidName {
                name: name.clone(),
                reason: "it differs from another topic's only in '.' and '_'".to_owned(),
            });
        }
        self.check_count(new.queues)?;
        if state.topics.len() >= self.config.topics_max {
            return Err(CatalogError::TooMany(self.config.topics_max));
        }
        if new.perm.0 > 15 {
            return Err(CatalogError::InvalidSetting {
                key: "perm".to_owned(),
                reason: format!("{} is more than 15", new.perm.0),
            });
        }
        crate::settings::check_settings(&new.settings)?;
        crate::settings::check_attributes(&new.attributes)
    }

    pub(super) fn check_count(&self, queues: u32) -> Result<(), CatalogError> {
        let max = self.config.queues_per_topic_max;
        if (1..=max).contains(&queues) {
            return Ok(());
        }
        Err(CatalogError::InvalidQueues(format!(
            "{queues} queues: must be from 1 to queues_per_topic_max = {max}"
        )))
    }
}

impl Origin {
    fn other(self) -> Self {
        match self {
            Self::Kafka => Self::Native,
            Self::Native => Self::Kafka,
        }
    }
}

/// RocketMQ's limit is 127 characters, but for retry and dead-letter topics.
fn check_name(name: &str, origin: Origin) -> Result<(), String> {
    let legal = match origin {
        Origin::Kafka => names::check_kafka_topic(name),
        Origin::Native => names::check_native_topic(name),
    };
    legal.map_err(|error| error.to_string())?;
    let returned = [names::NATIVE_RETRY, names::NATIVE_DLQ]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if origin == Origin::Native && !returned && name.len() > names::NATIVE_TOPIC_MAX {
        return Err(format!(
            "it has more than {} bytes",
            names::NATIVE_TOPIC_MAX
        ));
    }
    Ok(())
}

/// A random id whose Base64 form does not begin with `-`, as Kafka's own are.
fn new_topic_id() -> Uuid {
    loop {
        let id = Uuid::new_v4();
        if id.as_bytes()[0] >> 2 != 62 {
            return id;
        }
    }
}
