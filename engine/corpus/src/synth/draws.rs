//! The generator's source of chance: integers and linear interpolation only, the same on every platform.

use crate::text::mix::{Draws, combine};

/// Draws of one session.
pub(super) struct Dice(Draws);

/// A distribution: rising (share of the draws that are at most this, value) pairs, straight lines in between.
pub(super) type Table = [(f64, f64)];

impl Dice {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self(Draws::new(combine(combine(0x73_796e_7468, seed), number)))
    }

    /// A number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in so many cases of 1.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// A number from `least` to `most`, both included.
    pub(super) fn from_to(&mut self, least: u32, most: u32) -> u32 {
        least + self.0.below((most - least) as usize + 1) as u32
    }

    /// A number of a distribution.
    pub(super) fn of(&mut self, table: &Table) -> f64 {
        let at = self.unit();
        for pair in table.windows(2) {
            let [(from, low), (to, high)] = [pair[0], pair[1]];
            if at <= to {
                return low + (high - low) * ((at - from) / (to - from));
            }
        }
        table.last().map_or(0.0, |(_, value)| *value)
    }

    /// A whole number of a distribution.
    pub(super) fn count(&mut self, table: &Table) -> u64 {
        self.of(table).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_its_quantiles() {
        let table = [(0.0, 0.0), (0.5, 10.0), (1.0, 110.0)];
        let mut dice = Dice::new(1, 2);
        let mut all: Vec<f64> = (0..20_001).map(|_| dice.of(&table)).collect();
        all.sort_by(f64::total_cmp);
        assert!(
            (all[10_000] - 10.0).abs() < 1.0 && (all[15_000] - 60.0).abs() < 2.0,
            "{} {}",
            all[10_000],
            all[15_000]
        );
        let mut numbers = (0..1000).map(|_| dice.from_to(3, 5));
        assert!(numbers.all(|number| (3..=5).contains(&number)));
    }
}
