//! A map that readers search without a lock. It is cut into shards; a change copies one shard, so that
//! a hundred thousand names can come one by one. Changes come from one writer at a time.

use arc_swap::ArcSwap;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

const SHARDS: usize = 256;

pub(crate) struct Shelf<K, V> {
    shards: Box<[ArcSwap<HashMap<K, V>>]>,
    hasher: RandomState,
}

impl<K, V> std::fmt::Debug for Shelf<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Default for Shelf<K, V> {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| ArcSwap::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Shelf<K, V> {
    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> &ArcSwap<HashMap<K, V>> {
        let hash = self.hasher.hash_one(key);
        let place = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        &self.shards[place]
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.shard(key).load().get(key).cloned()
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn put(&self, key: K, value: V) {
        let shard = self.shard(&key);
        let mut map = HashMap::clone(&shard.load());
        map.insert(key, value);
        shard.store(Arc::new(map));
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let shard = self.shard(key);
        let mut map = HashMap::clone(&shard.load());
        if map.remove(key).is_some() {
            shard.store(Arc::new(map));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_until_it_is_removed() {
        let shelf: Shelf<Arc<str>, u32> = Shelf::default();
        for number in 0..1000_u32 {
            shelf.put(number.to_string().into(), number);
        }
        assert_eq!(shelf.get("999"), Some(999));
        shelf.put("999".into(), 1);
        assert_eq!(shelf.get("999"), Some(1));
        shelf.remove("999");
        assert_eq!(shelf.get("999"), None);
        assert_eq!(shelf.get("998"), Some(998));
    }
}
