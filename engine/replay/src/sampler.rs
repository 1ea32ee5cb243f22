//! Which trace plays next (`replay.md` §2.1). One sampler serves the initial lanes and every recycle.

use agentx_types::TemplateIndex;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

/// How roots are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamplingStrategy {
    /// In corpus order, wrapping forever.
    #[default]
    Sequential,
    /// A permutation, played to its end, then shuffled anew, forever.
    Shuffle,
    /// Uniform with replacement.
    Random,
}

/// An endless sequence of draws over `roots` templates.
#[derive(Debug)]
pub struct Sampler {
    strategy: SamplingStrategy,
    roots: usize,
    draws: u64,
    order: Vec<usize>,
    random: Xoshiro256PlusPlus,
}

impl Sampler {
    /// A sampler over `roots` templates. Its randomness is derived from the run's seed by a label of its own, so that
    /// nothing else can disturb it (`replay.md` §14).
    pub fn new(strategy: SamplingStrategy, roots: usize, seed: u64) -> Self {
        let label = match strategy {
            SamplingStrategy::Sequential => "sequential",
            SamplingStrategy::Shuffle => "shuffle",
            SamplingStrategy::Random => "random",
        };
        let digest = Sha256::digest(format!("{seed}:dataset.sampler.{label}"));
        let derived = u64::from_be_bytes(digest[..8].try_into().unwrap_or_default());
        Self { strategy, roots, draws: 0, order: Vec::new(), random: Xoshiro256PlusPlus::seed_from_u64(derived) }
    }

    /// Number of draws so far, which is also the number of the next draw.
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// The next root; none when there are no roots at all.
    pub fn draw(&mut self) -> Option<TemplateIndex> {
        if self.roots == 0 {
            return None;
        }
        let position = (self.draws % self.roots as u64) as usize;
        self.draws += 1;
        let index = match self.strategy {
            SamplingStrategy::Sequential => position,
            SamplingStrategy::Shuffle => {
                if position == 0 {
                    self.reshuffle();
                }
                self.order[position]
            }
            SamplingStrategy::Random => self.below(self.roots as u64) as usize,
        };
        Some(TemplateIndex::from(index))
    }

    fn reshuffle(&mut self) {
        self.order = (0..self.roots).collect();
        for last in (1..self.roots).rev() {
            let other = self.below(last as u64 + 1) as usize;
            self.order.swap(last, other);
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let value = self.random.next_u64();
            if value < limit {
                return value % bound;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(sampler: &mut Sampler, count: usize) -> Vec<usize> {
        (0..count).filter_map(|_| sampler.draw()).map(TemplateIndex::index).collect()
    }

    #[test]
    fn sequential_wraps_in_corpus_order() {
        let mut sampler = Sampler::new(SamplingStrategy::Sequential, 3, 7);
        assert_eq!(draws(&mut sampler, 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(sampler.draws(), 7);
    }

    #[test]
    fn shuffle_plays_every_trace_once_in_each_pass() {
        let mut sampler = Sampler::new(SamplingStrategy::Shuffle, 40, 7);
        let (mut first, mut second) = (draws(&mut sampler, 40), draws(&mut sampler, 40));
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, (0..40).collect::<Vec<_>>());
        assert_eq!(second, first);
    }

    #[test]
    fn a_seed_gives_the_same_draws_and_another_seed_others() {
        for strategy in [SamplingStrategy::Shuffle, SamplingStrategy::Random] {
            let of = |seed| draws(&mut Sampler::new(strategy, 50, seed), 60);
            assert_eq!(of(1), of(1));
            assert_ne!(of(1), of(2));
        }
    }

    #[test]
    fn the_generator_is_pinned() {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(20_260_707);
        assert_eq!([generator.next_u64(), generator.next_u64()], [0x3412_368b_ab40_08d1, 0x8986_3296_1e0c_a1c5]);
    }

    #[test]
    fn no_roots_no_draw() {
        assert_eq!(Sampler::new(SamplingStrategy::Random, 0, 1).draw(), None);
    }
}
