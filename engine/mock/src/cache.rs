//! A prefix cache: the least recently used of so many blocks.

use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// Blocks by key, in order of their last use.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    capacity: usize,
    place: HashMap<u64, u32>,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
}

impl PrefixCache {
    /// A cache of `capacity` blocks; 0 caches nothing.
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(NONE as usize);
        Self { capacity, place: HashMap::new(), nodes: Vec::new(), newest: NONE, oldest: NONE }
    }

    /// How many of the leading `keys` are cached.
    pub(crate) fn hits(&self, keys: &[u64]) -> usize {
        keys.iter().take_while(|key| self.place.contains_key(key)).count()
    }

    /// Uses a prompt's blocks: all of them are cached afterwards, as far as there is room for them at all. The first
    /// block counts as used last, so that a prefix loses its end before its beginning.
    pub(crate) fn use_blocks(&mut self, keys: &[u64]) {
        for key in keys.iter().take(self.capacity).rev() {
            self.use_block(*key);
        }
    }

    fn use_block(&mut self, key: u64) {
        let index = match self.place.get(&key).copied() {
            Some(index) => {
                self.unlink(index);
                index
            }
            None if self.nodes.len() < self.capacity => {
                self.nodes.push(Node { key, newer: NONE, older: NONE });
                self.nodes.len() as u32 - 1
            }
            None => {
                let index = self.oldest;
                self.unlink(index);
                self.place.remove(&self.nodes[index as usize].key);
                self.nodes[index as usize].key = key;
                index
            }
        };
        self.place.insert(key, index);
        self.link_as_newest(index);
    }

    fn unlink(&mut self, index: u32) {
        let Node { newer, older, .. } = self.nodes[index as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_as_newest(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.newest, index);
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = index,
            None => self.oldest = index,
        }
        let node = &mut self.nodes[index as usize];
        (node.newer, node.older) = (NONE, older);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_goes_first_and_prefixes_go_from_their_end() {
        let mut cache = PrefixCache::new(4);
        cache.use_blocks(&[1, 2, 3]);
        assert_eq!(cache.hits(&[1, 2, 3, 4]), 3);
        cache.use_blocks(&[7, 8]);
        assert_eq!((cache.hits(&[1, 2, 3]), cache.hits(&[7, 8])), (2, 2));
        cache.use_blocks(&[1]);
        cache.use_blocks(&[9, 10]);
        assert_eq!((cache.hits(&[1, 2, 3]), cache.hits(&[7, 8]), cache.hits(&[9, 10])), (1, 1, 2));
        assert_eq!(cache.place.len(), 4);
    }

    #[test]
    fn a_prompt_beyond_the_capacity_keeps_its_beginning_and_no_capacity_keeps_nothing() {
        let mut cache = PrefixCache::new(3);
        cache.use_blocks(&[1, 2, 3, 4, 5]);
        assert_eq!(cache.hits(&[1, 2, 3, 4, 5]), 3);
        let mut none = PrefixCache::new(0);
        none.use_blocks(&[1, 2]);
        assert_eq!(none.hits(&[1, 2]), 0);
    }

    #[test]
    fn it_agrees_with_a_list() {
        let mut cache = PrefixCache::new(5);
        let mut list: Vec<u64> = Vec::new();
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (state >> 60) % 11;
            cache.use_blocks(&[key]);
            list.retain(|other| *other != key);
            list.push(key);
            if list.len() > 5 {
                list.remove(0);
            }
            for key in 0..11 {
                assert_eq!(cache.hits(&[key]) == 1, list.contains(&key));
            }
        }
    }
}
