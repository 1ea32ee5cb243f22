//! From the run's seed to a lane's starting instant (`replay.md` §2.3), bit for bit as the reference draws it.

use sha2::{Digest, Sha256};

/// Seed of a lane: the first 8 bytes, big-endian, of SHA-256 over `{random_seed}:{trace_id}:{lane_index}`.
pub fn lane_seed(random_seed: u64, trace: &str, lane: u32) -> u64 {
    let digest = Sha256::digest(format!("{random_seed}:{trace}:{lane}"));
    u64::from_be_bytes(digest[..8].try_into().unwrap_or_default())
}

/// The first double in [0, 1) of `NumPy`'s default generator (PCG64 behind a `SeedSequence`) seeded with `seed`.
pub fn first_uniform(seed: u64) -> f64 {
    let mut generator = Pcg64::seeded(seed);
    (generator.next() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// An unbiased integer in `[0, bound)` from the same generator; used where a template has no timestamps (§2.5).
pub(crate) fn first_below(seed: u64, bound: u64) -> u64 {
    let mut generator = Pcg64::seeded(seed);
    let limit = u64::MAX - u64::MAX % bound.max(1);
    loop {
        let value = generator.next();
        if value < limit {
            return value % bound.max(1);
        }
    }
}

/// The starting instant within `bounds` (ms) for a draw `u`, with the window `ratios` of the recorded span.
pub fn t_star_ms(bounds: (f64, f64), ratios: (f64, f64), u: f64) -> f64 {
    let (lo, hi) = bounds;
    let low = lo + ratios.0 * (hi - lo);
    let high = lo + ratios.1 * (hi - lo);
    if high <= low { low } else { low + (high - low) * u }
}

/// PCG64 XSL-RR 128/64.
struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

    fn seeded(seed: u64) -> Self {
        let [q0, q1, q2, q3] = seed_sequence(seed);
        let initial = (u128::from(q0) << 64) | u128::from(q1);
        let sequence = (u128::from(q2) << 64) | u128::from(q3);
        let mut generator = Self { state: 0, increment: (sequence << 1) | 1 };
        generator.step();
        generator.state = generator.state.wrapping_add(initial);
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }
}

/// `NumPy`'s `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut hash_constant: u32 = 0x43b0_d7e5;
    let mut hash = |mut value: u32| {
        value ^= hash_constant;
        hash_constant = hash_constant.wrapping_mul(0x931e_8875);
        value = value.wrapping_mul(hash_constant);
        value ^ (value >> 16)
    };
    let mix = |x: u32, y: u32| {
        let mixed = 0xca01_f9dd_u32.wrapping_mul(x).wrapping_sub(0x4973_f715_u32.wrapping_mul(y));
        mixed ^ (mixed >> 16)
    };
    let words = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut pool = words.map(&mut hash);
    for source in 0..4 {
        for destination in 0..4 {
            if source != destination {
                pool[destination] = mix(pool[destination], hash(pool[source]));
            }
        }
    }

    let mut output_constant: u32 = 0x8b51_f9dd;
    let mut output = [0_u32; 8];
    for (i, word) in output.iter_mut().enumerate() {
        let mut value = pool[i % 4] ^ output_constant;
        output_constant = output_constant.wrapping_mul(0x58f3_8ded);
        value = value.wrapping_mul(output_constant);
        *word = value ^ (value >> 16);
    }
    [0, 1, 2, 3].map(|i| u64::from(output[2 * i]) | (u64::from(output[2 * i + 1]) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_specification() {
        for (seed, trace, lane, expected_seed, expected_u) in [
            (20_260_707, "trace_0001", 0, 1_332_665_993_099_286_523, 0.480_681_513_797_678_1),
            (20_260_707, "trace_0256", 7, 18_417_677_853_034_918_504, 0.581_710_573_132_055_8),
            (42, "abc", 0, 11_214_711_680_309_523_200, 0.412_970_766_316_013_8),
            (0, "x", 0, 91_263_850_118_091_274, 0.142_047_959_747_140_13),
        ] {
            assert_eq!(lane_seed(seed, trace, lane), expected_seed, "{trace}:{lane}");
            let u = first_uniform(expected_seed);
            assert_eq!(u, expected_u, "{trace}:{lane}");
        }
    }

    #[test]
    fn an_empty_window_is_its_lower_end() {
        assert_eq!(t_star_ms((1000.0, 3000.0), (0.5, 0.5), 0.9), 2000.0);
        assert_eq!(t_star_ms((1000.0, 1000.0), (0.0, 1.0), 0.9), 1000.0);
        assert_eq!(t_star_ms((0.0, 4000.0), (0.25, 0.75), 0.5), 2000.0);
    }
}
