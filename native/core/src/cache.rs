//! Translated records, kept for readers of the other protocol: least recently used goes first.

use crate::metrics::CoreMetrics;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// A bounded cache.
pub(crate) struct Cache<K, V> {
    bytes_max: usize,
    inner: Mutex<Inner<K, V>>,
    metrics: CoreMetrics,
}

struct Inner<K, V> {
    entries: HashMap<K, Slot<V>>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
    bytes: usize,
}

struct Slot<V> {
    value: Arc<V>,
    bytes: usize,
    used: u64,
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    pub(crate) fn new(bytes_max: usize, metrics: CoreMetrics) -> Self {
        Self {
            bytes_max,
            inner: Mutex::new(Inner {
                entries: HashMap::new(),
                by_use: BTreeMap::new(),
                uses: 0,
                bytes: 0,
            }),
            metrics,
        }
    }

    /// The value under `key`, if it is kept and good enough.
    pub(crate) fn get(&self, key: K, good: impl FnOnce(&V) -> bool) -> Option<Arc<V>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let found = inner.entries.get_mut(&key).filter(|slot| good(&slot.value));
        let Some(slot) = found else {
            self.metrics.cache_misses.inc();
            return None;
        };
        self.metrics.cache_hits.inc();
        inner.by_use.remove(&slot.used);
        inner.uses += 1;
        slot.used = inner.uses;
        inner.by_use.insert(slot.used, key);
        Some(Arc::clone(&slot.value))
    }

    /// Keeps a value of `bytes`; one larger than half of the cache is not worth it.
    pub(crate) fn put(&self, key: K, value: Arc<V>, bytes: usize) {
        // What the two maps and the value's own fields take.
        let bytes = bytes.saturating_add(200);
        if bytes > self.bytes_max / 2 {
            return;
        }
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.uses += 1;
        let used = inner.uses;
        let slot = Slot { value, bytes, used };
        if let Some(old) = inner.entries.insert(key, slot) {
            inner.by_use.remove(&old.used);
            inner.bytes -= old.bytes;
        }
        inner.by_use.insert(used, key);
        inner.bytes += bytes;
        while inner.bytes > self.bytes_max
            && let Some((_, oldest)) = inner.by_use.pop_first()
        {
            if let Some(gone) = inner.entries.remove(&oldest) {
                inner.bytes -= gone.bytes;
            }
        }
        let bytes = i64::try_from(inner.bytes).unwrap_or(i64::MAX);
        self.metrics.cache_bytes.set(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = Cache::new(3 * 300, CoreMetrics::default());
        for key in 0..3_u32 {
            cache.put(key, Arc::new(key), 100);
        }
        assert!(cache.get(0, |_| true).is_some());
        cache.put(3, Arc::new(3), 100);
        assert!(
            cache.get(1, |_| true).is_none(),
            "1 was used least recently"
        );
        assert!(cache.get(0, |_| true).is_some());
        assert!(cache.get(0, |_| false).is_none(), "not good enough");
        cache.put(4, Arc::new(4), 1000);
        assert!(cache.get(4, |_| true).is_none(), "too large to keep");
    }
}
