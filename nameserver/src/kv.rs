//! The KV config: namespaces of texts, in memory and in one JSON file of RocketMQ's form
//! (`{"configTable":{namespace:{key:value}}}`). A change is on disk before it counts: written aside,
//! synced, renamed, directory synced. These calls block.

use crate::error::KvError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use twinmq_remoting::json;

type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Namespace of the order configuration of topics.
pub(crate) const ORDER_TOPICS: &str = "ORDER_TOPIC_CONFIG";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    config_table: Namespaces,
}

#[derive(Debug)]
pub(crate) struct Kv {
    path: PathBuf,
    bytes_max: usize,
    table: Mutex<Namespaces>,
}

impl Kv {
    /// Reads the file; none is an empty config.
    pub(crate) fn open(path: PathBuf, bytes_max: usize) -> Result<Self, KvError> {
        let file = |cause| KvError::File {
            path: path.clone(),
            cause,
        };
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(found) => {
                let limit = u64::try_from(bytes_max)
                    .unwrap_or(u64::MAX)
                    .saturating_add(1);
                found.take(limit).read_to_end(&mut bytes).map_err(file)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file(error)),
        }
        if bytes.len() > bytes_max {
            return Err(KvError::Full(bytes_max));
        }
        let content = if bytes.is_empty() {
            Content::default()
        } else {
            json::read(&bytes).map_err(|cause| KvError::Content {
                path: path.clone(),
                cause,
            })?
        };
        Ok(Self {
            path,
            bytes_max,
            table: Mutex::new(content.config_table),
        })
    }

    pub(crate) fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.table.lock().get(namespace)?.get(key).cloned()
    }

    pub(crate) fn namespace(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.table.lock().get(namespace).cloned()
    }

    /// Sets an entry.
    pub(crate) fn put(&self, namespace: &str, key: &str, value: &str) -> Result<(), KvError> {
        self.change(|table| {
            let entries = table.entry(namespace.to_owned()).or_default();
            entries.insert(key.to_owned(), value.to_owned());
        })
    }

    /// Removes an entry; an empty namespace stays, as in RocketMQ.
    pub(crate) fn delete(&self, namespace: &str, key: &str) -> Result<(), KvError> {
        self.change(|table| {
            if let Some(entries) = table.get_mut(namespace) {
                entries.remove(key);
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Namespaces)) -> Result<(), KvError> {
        let mut table = self.table.lock();
        let mut content = Content {
            config_table: table.clone(),
        };
        change(&mut content.config_table);
        if content.config_table == *table {
            return Ok(());
        }
        let bytes = json::write(&content);
        if bytes.len() > self.bytes_max {
            return Err(KvError::Full(self.bytes_max));
        }
        self.store(&bytes).map_err(|cause| KvError::File {
            path: self.path.clone(),
            cause,
        })?;
        *table = content.config_table;
        Ok(())
    }

    fn store(&self, bytes: &[u8]) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => std::path::Path::new("."),
        };
        fs::create_dir_all(directory)?;
        let aside = self.path.with_extension("new");
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, &self.path)?;
        File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_a_restart_and_deleted_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/kvConfig.json");
        let kv = Kv::open(path.clone(), 1000).unwrap();
        kv.put("ns", "k", "v\"\u{1}é").unwrap();
        kv.put("ns", "gone", "x").unwrap();
        kv.delete("ns", "gone").unwrap();
        kv.delete("nowhere", "k").unwrap();
        drop(kv);
        let kv = Kv::open(path.clone(), 1000).unwrap();
        assert_eq!(kv.get("ns", "k").as_deref(), Some("v\"\u{1}é"));
        assert_eq!(kv.get("ns", "gone"), None);
        assert_eq!(kv.namespace("nowhere"), None);
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn a_change_that_cannot_be_stored_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let kv = Kv::open(dir.path().join("kv.json"), 100).unwrap();
        assert!(matches!(
            kv.put("ns", "k", &"x".repeat(100)),
            Err(KvError::Full(100))
        ));
        assert_eq!(kv.get("ns", "k"), None);
        let blocked = dir.path().join("file");
        fs::write(&blocked, "x").unwrap();
        let kv = Kv {
            path: blocked.join("kv.json"),
            bytes_max: 100,
            table: Mutex::default(),
        };
        assert!(matches!(kv.put("ns", "k", "v"), Err(KvError::File { .. })));
        assert_eq!(kv.get("ns", "k"), None);
    }

    #[test]
    fn damage_is_an_error_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kv.json");
        fs::write(&path, "{\"configTable\":[").unwrap();
        let error = Kv::open(path.clone(), 100).unwrap_err().to_string();
        assert!(error.contains("kv.json"), "{error}");
    }
}
