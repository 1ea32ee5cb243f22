//! A keyed bijection from ids to rows of words: what makes distinct ids distinct text, for certain.

use super::mix::{combine, mix, scale};

/// Additive Feistel network of four rounds on pairs (left, right) with `left < base^⌈n/2⌉` and `right < base^⌊n/2⌋`:
/// a bijection on `0..base^n`, for any base.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    base: u64,
    digits: u32,
    left: u64,
    right: u64,
    keys: [u64; 4],
}

impl Permutation {
    /// Over rows of `digits` numbers below `base`. The halves must fit 64 bits: `base^⌈digits/2⌉ < 2^64`.
    pub(super) fn new(base: usize, digits: u32, key: u64) -> Self {
        let base = base as u64;
        let right_digits = digits / 2;
        let keys = [0, 1, 2, 3].map(|round| combine(key, round));
        Self { base, digits, left: base.pow(digits - right_digits), right: base.pow(right_digits), keys }
    }

    /// Ids below this are mapped to distinct rows; larger ones wrap.
    pub(super) fn domain(&self) -> u128 {
        u128::from(self.left) * u128::from(self.right)
    }

    /// The row of `id`.
    pub(super) fn digits(&self, id: u64) -> impl Iterator<Item = usize> + use<> {
        let mut left = id % self.left;
        let mut right = (id / self.left) % self.right;
        for pair in [[self.keys[0], self.keys[1]], [self.keys[2], self.keys[3]]] {
            left = add(left, scale(mix(pair[0] ^ right), self.left), self.left);
            right = add(right, scale(mix(pair[1] ^ left), self.right), self.right);
        }
        let (base, in_left) = (self.base, self.digits - self.digits / 2);
        (0..self.digits).map(move |index| {
            let half = if index < in_left { &mut left } else { &mut right };
            let digit = *half % base;
            *half /= base;
            digit as usize
        })
    }
}

/// `(a + b) mod bound` for `a, b < bound`.
fn add(a: u64, b: u64, bound: u64) -> u64 {
    let room = bound - b;
    if a >= room { a - room } else { a + b }
}

/// Least number of words of a vocabulary of `base` that tell `2^bits` ids apart.
pub(super) fn digits_for(base: usize, bits: u32) -> u32 {
    let mut digits = 1;
    let mut reach = base as u128;
    while reach < 1_u128 << bits {
        reach *= base as u128;
        digits += 1;
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn it_is_a_bijection_on_its_whole_domain() {
        for (base, digits) in [(7, 1), (7, 2), (5, 3), (3, 6), (2, 9)] {
            let permutation = Permutation::new(base, digits, 42);
            let domain = (base as u64).pow(digits);
            assert_eq!(permutation.domain(), u128::from(domain));
            let rows: HashSet<Vec<usize>> = (0..domain).map(|id| permutation.digits(id).collect()).collect();
            assert_eq!(rows.len() as u64, domain, "base {base}, {digits} digits");
            assert!(rows.iter().flatten().all(|digit| *digit < base));
        }
    }

    #[test]
    fn words_needed_grow_with_the_ids_and_shrink_with_the_vocabulary() {
        assert_eq!(digits_for(3030, 40), 4);
        assert_eq!(digits_for(3030, 64), 6);
        assert_eq!(digits_for(64, 64), 11);
        assert_eq!(digits_for(403, 40), 5);
    }
}
