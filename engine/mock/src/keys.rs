//! Keys of prompt blocks: each stands for the whole prompt up to its block's end.

/// Cuts a sequence of pieces into blocks of equal size and chains their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    state: u64,
    size: u32,
    filled: u32,
}

impl Chain {
    /// For blocks of `size` tokens.
    pub(crate) fn new(size: u32) -> Self {
        Self { state: 0x5EED, size: size.max(1), filled: 0 }
    }

    /// Appends one token.
    pub(crate) fn token(&mut self, id: u32, keys: &mut Vec<u64>) {
        self.state = mix(self.state, u64::from(id));
        self.filled += 1;
        self.close(keys);
    }

    /// Appends `length` tokens of a text that is known by `identity`.
    pub(crate) fn piece(&mut self, identity: u64, length: u32, keys: &mut Vec<u64>) {
        let mut done = 0;
        while done < length {
            let take = (length - done).min(self.size - self.filled);
            self.state = mix(mix(self.state, identity), u64::from(done) << 32 | u64::from(take));
            self.filled += take;
            done += take;
            self.close(keys);
        }
    }

    fn close(&mut self, keys: &mut Vec<u64>) {
        if self.filled == self.size {
            keys.push(self.state);
            self.filled = 0;
        }
    }
}

/// A 64-bit hash of two numbers (the finaliser of `SplitMix64`).
pub(crate) fn mix(state: u64, value: u64) -> u64 {
    let mut mixed = state.rotate_left(23) ^ value.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_add(state << 6);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A hash of a text.
pub(crate) fn mix_text(state: u64, text: &str) -> u64 {
    text.bytes().fold(mix(state, text.len() as u64), |state, byte| mix(state, u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(size: u32, pieces: &[(u64, u32)]) -> Vec<u64> {
        let mut chain = Chain::new(size);
        let mut keys = Vec::new();
        pieces.iter().for_each(|(identity, length)| chain.piece(*identity, *length, &mut keys));
        keys
    }

    #[test]
    fn equal_prefixes_have_equal_keys_and_others_do_not() {
        let [a, b] = [keys(4, &[(1, 8), (2, 9)]), keys(4, &[(1, 8), (3, 9)])];
        assert_eq!((a.len(), &a[..2], a[2] == b[2], a[3] == b[3]), (4, &b[..2], false, false));
        // A shift moves every block.
        assert!(keys(4, &[(9, 1), (1, 8)]).iter().all(|key| !a.contains(key)));
        assert!(keys(100, &[(1, 99)]).is_empty());
    }
}
