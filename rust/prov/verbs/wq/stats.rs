// SPDX-License-Identifier: GPL-2.0

//! Statistics of a queue. A counter is changed under a lock that its writer holds anyway, so that
//! counting takes a load and a store only.

use super::super::super::common::stats::{
    RxReport,
    TxReport, //
};
use crate::prov::verbs::prelude::*;

/// Kinds of operations that are counted separately.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::prov::verbs) enum StatKind {
    /// Receive, or piece of a multi-receive buffer; its bytes are counted when they arrive.
    Receive,
    Send,
    Write,
    Read,
    Atomic,
    /// Drain marker, or part of an operation that is counted with its last work request; it has a slot of the queue.
    NoOperation,
    /// Registration or invalidation of a region, likewise.
    Region,
}

impl StatKind {
    /// Returns the kind of an operation whose completion has `flags`.
    #[inline(always)]
    pub(in crate::prov::verbs) fn from_flags(flags: u64) -> Self {
        match flags {
            flags if flags & FI_ATOMIC != 0 => Self::Atomic,
            flags if flags & FI_WRITE != 0 => Self::Write,
            flags if flags & FI_READ != 0 => Self::Read,
            flags if flags & FI_RECV != 0 => Self::Receive,
            _ => Self::Send,
        }
    }
}

/// Counters of the posting path, under the lock of `producer`.
#[repr(C, align(64))]
pub(super) struct PostStats {
    posted: [StatCounter; 7],
    /// Bytes of posted operations, of a send queue.
    bytes: StatCounter,
    /// Number of posts that found the queue full.
    eagain: StatCounter,
    /// Number and bytes of operations that take several work requests; counted without the lock.
    cas_atomics: [Atomic<u64>; 2],
}

impl PostStats {
    pub(super) const fn new() -> Self {
        Self {
            posted: [const { StatCounter::new() }; 7],
            bytes: StatCounter::new(),
            eagain: StatCounter::new(),
            cas_atomics: [const { Atomic::new(0) }; 2],
        }
    }

    /// Counts a posted operation.
    #[inline(always)]
    pub(super) fn record_post(&self, kind: StatKind, len: usize) {
        if let Some(count) = self.posted.get(kind as usize) {
            count.add(1);
        }
        if kind != StatKind::Receive {
            self.bytes.add(len as u64);
        }
    }

    /// Undoes [`Self::record_post`].
    pub(super) fn undo_post(&self, kind: StatKind, len: usize) {
        if let Some(count) = self.posted.get(kind as usize) {
            count.sub(1);
        }
        if kind != StatKind::Receive {
            self.bytes.sub(len as u64);
        }
    }

    /// Counts a post that found the queue full.
    pub(super) fn record_eagain(&self) {
        self.eagain.add(1);
    }
}

/// Counters of the completion path, under the completion queue's lock.
pub(super) struct CompStats {
    /// Bytes received.
    bytes: StatCounter,
    errors: StatCounter,
}

impl CompStats {
    pub(super) const fn new() -> Self {
        Self {
            bytes: StatCounter::new(),
            errors: StatCounter::new(),
        }
    }
}

impl WorkQueue {
    /// Counts received bytes. The caller holds the completion queue's lock.
    #[inline(always)]
    pub(in crate::prov::verbs) fn record_received(&self, bytes: u64) {
        self.comp_stats.bytes.add(bytes);
    }

    /// Counts a failed operation. The caller holds the completion queue's lock.
    #[cold]
    pub(in crate::prov::verbs) fn record_error(&self) {
        self.comp_stats.errors.add(1);
    }

    /// Counts an operation that takes several work requests, when it begins.
    pub(in crate::prov::verbs) fn record_cas_atomic(&self, len: usize) {
        for (count, more) in self.post_stats.cas_atomics.iter().zip([1, len as u64]) {
            let _ = count.fetch_add(more, Relaxed);
        }
    }

    /// Adds the statistics to `info`. Any context, takes no lock: the values may miss operations
    /// that are posted or completed meanwhile.
    pub(in crate::prov::verbs) fn report(&self, info: &mut ObjectInfo<'_>) {
        // Before the counters: the operations before `tail` have been posted, if perhaps not
        // counted yet.
        let tail = self.tail.load(Acquire);
        // In the order of `StatKind`.
        let [receives, sends, writes, reads, atomics, markers, regions] =
            self.post_stats.posted.each_ref().map(StatCounter::get);
        let all = receives + sends + writes + reads + atomics;
        let behind = (all.wrapping_add(markers + regions) as u32).wrapping_sub(tail) as i32;
        let depth = u64::from(behind.max(0).unsigned_abs().min(self.depth));
        let [exchanged, exchanged_bytes] = &self.post_stats.cas_atomics;
        let exchanged = exchanged.load(Relaxed);
        let done = all.saturating_sub(depth);
        let (errors, eagain) = (self.comp_stats.errors.get(), self.post_stats.eagain.get());
        match self.direction {
            WqDirection::Transmit => TxReport {
                depth,
                started: [sends, writes, reads, atomics + exchanged],
                done,
                bytes: self.post_stats.bytes.get() + exchanged_bytes.load(Relaxed),
                errors,
                eagain,
            }
            .add_to(info),
            WqDirection::Receive => RxReport {
                depth,
                posted: receives,
                // A shared receive is not posted here; the attachment counts its completions.
                done: self
                    .srx_attachment()
                    .map_or(done, |share| share.completed.get()),
                bytes: self.comp_stats.bytes.get(),
                errors,
                eagain,
            }
            .add_to(info),
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_verbs_wq_stats)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_counted_by_kind() {
        let stats = PostStats::new();
        for (flags, times) in [
            (FI_SEND | FI_MSG, 1),
            (FI_RECV | FI_MSG, 2),
            (FI_WRITE | FI_RMA, 4),
            (FI_READ | FI_RMA, 5),
            (FI_WRITE | FI_ATOMIC, 6),
            (FI_READ | FI_ATOMIC, 7),
        ] {
            for _ in 0..times {
                stats.record_post(StatKind::from_flags(flags), 8);
            }
        }
        stats.record_post(StatKind::NoOperation, 0);
        let posted = stats.posted.each_ref().map(StatCounter::get);
        assert_eq!(posted, [2, 1, 4, 5, 13, 1, 0]);
        assert_eq!(stats.bytes.get(), 23 * 8);
        for kind in [StatKind::Send, StatKind::Write, StatKind::Receive] {
            stats.undo_post(kind, 8);
        }
        let posted = stats.posted.each_ref().map(StatCounter::get);
        assert_eq!(posted, [1, 0, 3, 5, 13, 1, 0]);
        assert_eq!(stats.bytes.get(), 21 * 8);
        assert_eq!(stats.eagain.get(), 0);
        stats.record_eagain();
        assert_eq!(stats.eagain.get(), 1);
    }
}
