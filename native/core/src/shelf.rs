//! A map that readers search without a lock. It is cut into shards; a change copies one shard, so that
//! a hundred thousand names can come one by one. Changes come from one writer at a time.

use arc_swap::ArcSwap;
use hashbrown::HashTable;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

const SHARDS: usize = 256;

type Shard<K, V> = ArcSwap<HashTable<(K, V)>>;

pub(crate) struct Shelf<K, V> {
    shards: Box<[Shard<K, V>]>,
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
    /// The hash of a key, and its shard: by other bits than a table takes.
    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> (u64, &Shard<K, V>) {
        let hash = self.hasher.hash_one(key);
        let shard = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or(0);
        (hash, &self.shards[shard])
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (hash, shard) = self.place(key);
        let table = shard.load();
        let found = table.find(hash, |(name, _)| name.borrow() == key)?;
        Some(found.1.clone())
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn put(&self, key: K, value: V) {
        let (hash, shard) = self.place(&key);
        let mut table = HashTable::clone(&shard.load());
        if let Some(found) = table.find_mut(hash, |(name, _)| *name == key) {
            found.1 = value;
        } else {
            let hasher = &self.hasher;
            table.insert_unique(hash, (key, value), |(name, _)| hasher.hash_one(name));
        }
        shard.store(Arc::new(table));
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let (hash, shard) = self.place(key);
        let mut table = HashTable::clone(&shard.load());
        if let Ok(found) = table.find_entry(hash, |(name, _)| name.borrow() == key) {
            found.remove();
            shard.store(Arc::new(table));
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
