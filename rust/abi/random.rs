// SPDX-License-Identifier: GPL-2.0

//! Numbers that nobody can guess, and for tests such as come again each time.

/// A random number. Any context.
pub(crate) fn random() -> u64 {
    // SAFETY: It may be called at any time.
    unsafe { kernel::bindings::get_random_u64() }
}

/// Numbers that look random, and are the same each time.
#[cfg(CONFIG_KUNIT = "y")]
pub(crate) struct SeededRandom(u64);

#[cfg(CONFIG_KUNIT = "y")]
impl SeededRandom {
    /// A sequence of its own for each seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one, below 2^31 and `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
