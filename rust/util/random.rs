// SPDX-License-Identifier: GPL-2.0

//! Random numbers, and reproducible ones for tests.

/// Returns an unpredictable random number. Any context.
pub(crate) fn random() -> u64 {
    // SAFETY: It may be called at any time.
    unsafe { kernel::bindings::get_random_u64() }
}

/// A reproducible sequence of pseudorandom numbers.
#[cfg(CONFIG_KUNIT = "y")]
pub(crate) struct SeededRandom(u64);

#[cfg(CONFIG_KUNIT = "y")]
impl SeededRandom {
    /// Makes the sequence of this seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, below 2^31 and `bound`, which is not 0.
    pub(crate) fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).checked_rem(bound).unwrap_or(0)
    }
}
