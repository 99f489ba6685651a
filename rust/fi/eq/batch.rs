// SPDX-License-Identifier: GPL-2.0

//! One event for many things that were begun at once: a reader sees an error for each that failed, and
//! then the end. Room for the errors is made beforehand.

use crate::abi::{
    Errno,
    Result, //
};
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        KVVec, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// One of the things, which failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its number among them.
    pub index: u32,
    /// Why.
    pub errno: Errno,
}

/// What came of them.
pub struct Batch {
    number: u32,
    context: usize,
    failures: KVVec<Failure>,
    succeeded: u64,
    /// How many of the failures have been read; the queue's lock guards it.
    told: Atomic<usize>,
}

impl Batch {
    /// Of things that end as the event `number`, up to `most` of which may fail. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(number: u32, context: usize, most: usize) -> Result<KBox<Self>> {
        let batch = Self {
            number,
            context,
            failures: KVVec::with_capacity(most, GFP_KERNEL | __GFP_NOWARN)?,
            succeeded: 0,
            told: Atomic::new(0),
        };
        Ok(KBox::new(batch, GFP_KERNEL)?)
    }

    /// One has failed; what there is no room for is left out.
    pub fn fail(&mut self, index: u32, errno: Errno) {
        let _ = self.failures.push_within_capacity(Failure { index, errno });
    }

    /// One has succeeded.
    pub fn succeed(&mut self) {
        self.succeeded += 1;
    }

    /// What whoever began them gave, to know them by.
    pub fn context(&self) -> usize {
        self.context
    }

    /// How many succeeded.
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Those that failed.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The number of the event that ends them.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The failure that is told next.
    pub(super) fn next_failure(&self) -> Option<Failure> {
        self.failures.get(self.told.load(Relaxed)).copied()
    }

    /// It has been told.
    pub(super) fn tell(&self) {
        let _ = self.told.fetch_add(1usize, Relaxed);
    }
}
