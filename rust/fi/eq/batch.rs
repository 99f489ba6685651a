// SPDX-License-Identifier: GPL-2.0

//! The result of a batch of asynchronous operations, as one event: a reader sees an error for each operation
//! that failed, and then the final event. The space for the errors is allocated in advance.

use crate::fi::prelude::*;
use kernel::alloc::{
    flags::__GFP_NOWARN,
    KVVec, //
};

/// A failed operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Index of the operation in the batch.
    pub index: u32,
    /// Reason of the failure.
    pub errno: Errno,
}

/// The results of a batch.
pub struct Batch {
    /// Number of the final event.
    pub(super) final_event: u32,
    context: usize,
    failures: KVVec<Failure>,
    succeeded: u64,
    /// Number of failures that have been read; guarded by the queue's lock.
    reported: Atomic<usize>,
}

impl Batch {
    /// Allocates a batch that ends with event `number` and has up to `most` failures. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(final_event: u32, context: usize, max_failures: usize) -> Result<KBox<Self>> {
        let batch = Self {
            final_event,
            context,
            failures: KVVec::with_capacity(max_failures, GFP_KERNEL | __GFP_NOWARN)?,
            succeeded: 0,
            reported: Atomic::new(0),
        };
        Ok(KBox::new(batch, GFP_KERNEL)?)
    }

    /// Adds a failure; one past the capacity is left out.
    pub fn add_failure(&mut self, index: u32, errno: Errno) {
        let _ = self.failures.push_within_capacity(Failure { index, errno });
    }

    /// Adds a success.
    pub fn add_success(&mut self) {
        self.succeeded += 1;
    }

    /// Returns the context of the batch, which its initiator gave.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the number of successes.
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Returns the failures.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Returns the next unread failure.
    pub(super) fn next_failure(&self) -> Option<Failure> {
        self.failures.get(self.reported.load(Relaxed)).copied()
    }

    /// Marks the next failure as read.
    pub(super) fn mark_reported(&self) {
        let _ = self.reported.fetch_add(1usize, Relaxed);
    }
}
