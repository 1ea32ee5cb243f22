//! The one source of chance for text: a pinned 64-bit mixer, integers only, the same on every platform for ever.

/// `SplitMix64`'s increment: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64`'s finalizer: a bijection on 64 bits.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A key made of a key and a number; neither order nor zeros are lost.
pub(crate) fn combine(key: u64, value: u64) -> u64 {
    mix(key.wrapping_add(STEP) ^ mix(value.wrapping_add(STEP)).rotate_left(23))
}

/// A key made of a key and a text.
pub(super) fn combine_text(key: u64, text: &str) -> u64 {
    let mut state = combine(key, text.len() as u64);
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = combine(state, u64::from_le_bytes(word));
    }
    state
}

/// Scales 64 random bits to `0..bound` without a division.
pub(super) fn scale(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// `SplitMix64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(key: u64) -> Self {
        Self(key)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        scale(self.next(), bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_is_splitmix64() {
        // First outputs of the published generator for seed 1234567.
        let mut draws = Draws::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| draws.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn keys_tell_texts_and_orders_apart() {
        assert_ne!(combine(1, 2), combine(2, 1));
        assert_ne!(combine_text(0, "a"), combine_text(0, "a\0"));
        assert_ne!(combine_text(combine_text(0, "ab"), "c"), combine_text(combine_text(0, "a"), "bc"));
    }
}
