// SPDX-License-Identifier: GPL-2.0

//! Whose turn it is, on a connection where what is behind a read waits for it at the device.
//!
//! On iWARP it is fenced, as it would complete before the read otherwise. While soft-iWARP waits at a
//! fence it sends nothing, not even what the peer is reading: two that wait so wait for each other, for
//! ever. So nothing is posted behind a read; what has something else to post has it wait for the reads
//! that are under way, and others wait for it.

/// See the module.
pub(super) struct Turns {
    are_taken: bool,
    /// Reads that are under way.
    reads: usize,
    /// Something else waits for them.
    is_awaited: bool,
}

impl Turns {
    /// Those of a new connection; without `are_taken` whatever comes is next.
    pub(super) const fn new(are_taken: bool) -> Self {
        Self {
            are_taken,
            reads: 0,
            is_awaited: false,
        }
    }

    /// Whether a read may be posted.
    pub(super) fn may_read(&self) -> bool {
        !self.is_awaited
    }

    /// Whether something else may be, which is there to be posted.
    #[inline(always)]
    pub(super) fn may_send(&mut self) -> bool {
        let may_send = !self.are_taken || self.reads == 0;
        self.is_awaited |= !may_send;
        may_send
    }

    /// Whether something else than a read waits.
    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// A read has been posted.
    pub(super) fn begun(&mut self) {
        self.reads += 1;
    }

    /// One is over.
    pub(super) fn over(&mut self) {
        self.reads -= 1;
    }

    /// All that could be posted beside reads has been: whether it is their turn again.
    pub(super) fn pass(&mut self) -> bool {
        let passes = self.is_awaited && self.reads == 0;
        self.is_awaited &= !passes;
        passes
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_turns)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_others_take_turns() {
        let mut turns = Turns::new(true);
        for _ in 0..3 {
            assert!(turns.may_read() && turns.may_send());
            turns.begun();
            // Nobody waits.
            assert!(turns.may_read() && !turns.pass());
            turns.begun();
            assert!(!turns.may_send());
            assert!(!turns.may_read() && !turns.pass());
            turns.over();
            assert!(!turns.may_send() && !turns.may_read() && !turns.pass());
            turns.over();
            // What has waited is first.
            assert!(turns.may_send() && !turns.may_read());
            assert!(turns.pass());
            assert!(!turns.pass());
        }
    }

    #[test]
    fn elsewhere_nobody_waits() {
        let mut turns = Turns::new(false);
        for _ in 0..3 {
            turns.begun();
            assert!(turns.may_read() && turns.may_send() && !turns.pass());
        }
    }
}
