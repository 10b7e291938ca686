//! A map that readers search without a lock. It is cut into shards so small that most hold one entry, in one
//! piece of memory: a look at a name that was not asked for lately costs few cache misses, and a change copies
//! little, so that a hundred thousand names can come one by one. Changes come from one writer at a time.

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

const SHARDS: usize = 4096;

/// Hash, key and value of each entry.
type Shard<K, V> = SmallVec<[(u64, K, V); 1]>;

pub(crate) struct Shelf<K, V> {
    shards: Box<[ArcSwap<Shard<K, V>>]>,
    hasher: RandomState,
}

impl<K, V> std::fmt::Debug for Shelf<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Default for Shelf<K, V> {
    fn default() -> Self {
        let empty = Arc::<Shard<K, V>>::default();
        Self {
            shards: (0..SHARDS)
                .map(|_| ArcSwap::new(Arc::clone(&empty)))
                .collect(),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Shelf<K, V> {
    /// The hash of a key, and its shard.
    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> (u64, &ArcSwap<Shard<K, V>>) {
        let hash = self.hasher.hash_one(key);
        let shard = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        (hash, &self.shards[shard])
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (hash, shard) = self.place(key);
        let shard = shard.load();
        let mut entries = shard.iter();
        let found = entries.find(|(known, name, _)| *known == hash && name.borrow() == key)?;
        Some(found.2.clone())
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn put(&self, key: K, value: V) {
        let (hash, shard) = self.place(&key);
        let mut entries = Shard::clone(&shard.load());
        entries.retain(|(_, name, _)| *name != key);
        entries.push((hash, key, value));
        shard.store(Arc::new(entries));
    }

    /// One writer at a time: the caller holds the state's lock.
    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let (_, shard) = self.place(key);
        let mut entries = Shard::clone(&shard.load());
        entries.retain(|(_, name, _)| (*name).borrow() != key);
        shard.store(Arc::new(entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_until_it_is_removed() {
        let shelf: Shelf<Arc<str>, u32> = Shelf::default();
        for number in 0..10_000_u32 {
            shelf.put(number.to_string().into(), number);
        }
        assert_eq!(shelf.get("9999"), Some(9999));
        shelf.put("9999".into(), 1);
        assert_eq!(shelf.get("9999"), Some(1));
        shelf.remove("9999");
        assert_eq!(shelf.get("9999"), None);
        assert_eq!(shelf.get("9998"), Some(9998));
    }
}
