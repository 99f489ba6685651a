// SPDX-License-Identifier: GPL-2.0

//! Whose turn it is, on a connection where what is behind a read waits for it at the device.
//!
//! On iWARP it is fenced, as it would complete before the read otherwise. While soft-iWARP waits at a
//! fence it sends nothing, not even what the peer is reading: two that wait so wait for each other, for
//! ever. So nothing is posted behind a read; what has something else to post has it wait for the reads
//! that are under way, and others wait for it.

/// See the module.
pub(in super::super) struct IwarpOrder {
    is_enforced: bool,
    /// Reads that are under way.
    reads: usize,
    /// Something else waits for them.
    has_send_waiter: bool,
}

impl IwarpOrder {
    /// Those of a new connection; without `is_enforced` whatever comes is next.
    pub(in super::super) const fn new(is_enforced: bool) -> Self {
        Self {
            is_enforced,
            reads: 0,
            has_send_waiter: false,
        }
    }

    /// Whether a read may be posted.
    pub(in super::super) fn may_read(&self) -> bool {
        !self.has_send_waiter
    }

    /// Whether something else may be, which is there to be posted.
    #[inline(always)]
    pub(in super::super) fn may_send(&mut self) -> bool {
        let may_send = !self.is_enforced || self.reads == 0;
        self.has_send_waiter |= !may_send;
        may_send
    }

    /// Whether something else than a read waits.
    #[inline(always)]
    pub(in super::super) fn has_send_waiter(&self) -> bool {
        self.has_send_waiter
    }

    /// A read has been posted.
    pub(in super::super) fn read_posted(&mut self) {
        self.reads += 1;
    }

    /// One is over.
    pub(in super::super) fn read_completed(&mut self) {
        self.reads -= 1;
    }

    /// All that could be posted beside reads has been: whether it is their turn again.
    pub(in super::super) fn resume_reads(&mut self) -> bool {
        let resumes = self.has_send_waiter && self.reads == 0;
        self.has_send_waiter &= !resumes;
        resumes
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_turns)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_others_take_turns() {
        let mut iwarp_order = IwarpOrder::new(true);
        for _ in 0..3 {
            assert!(iwarp_order.may_read() && iwarp_order.may_send());
            iwarp_order.read_posted();
            // Nobody waits.
            assert!(iwarp_order.may_read() && !iwarp_order.resume_reads());
            iwarp_order.read_posted();
            assert!(!iwarp_order.may_send());
            assert!(!iwarp_order.may_read() && !iwarp_order.resume_reads());
            iwarp_order.read_completed();
            assert!(
                !iwarp_order.may_send() && !iwarp_order.may_read() && !iwarp_order.resume_reads()
            );
            iwarp_order.read_completed();
            // What has waited is first.
            assert!(iwarp_order.may_send() && !iwarp_order.may_read());
            assert!(iwarp_order.resume_reads());
            assert!(!iwarp_order.resume_reads());
        }
    }

    #[test]
    fn elsewhere_nobody_waits() {
        let mut iwarp_order = IwarpOrder::new(false);
        for _ in 0..3 {
            iwarp_order.read_posted();
            assert!(
                iwarp_order.may_read() && iwarp_order.may_send() && !iwarp_order.resume_reads()
            );
        }
    }
}
