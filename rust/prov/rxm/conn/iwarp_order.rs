// SPDX-License-Identifier: GPL-2.0

//! Mutual exclusion of RDMA reads and sends on iWARP. Pure: no locks, no I/O.
//!
//! On iWARP a send behind a read is fenced, because it could complete before the read. While soft-iWARP waits at a
//! fence, it transmits nothing, not even the responses to the peer's reads: two such connections would wait for each
//! other forever. So nothing is posted behind a read. A send waits for the reads in flight, and new reads wait for
//! that send.

/// Counts the reads in flight and records whether a send waits for them.
pub(in super::super) struct IwarpOrder {
    is_enforced: bool,
    /// Number of reads in flight.
    reads: usize,
    /// True if a send waits for the reads.
    has_send_waiter: bool,
}

impl IwarpOrder {
    /// Creates the state of a new connection. Without `is_enforced`, reads and sends are not ordered.
    pub(in super::super) const fn new(is_enforced: bool) -> Self {
        Self {
            is_enforced,
            reads: 0,
            has_send_waiter: false,
        }
    }

    /// Returns whether a read may be posted.
    pub(in super::super) fn may_read(&self) -> bool {
        !self.has_send_waiter
    }

    /// Returns whether a send may be posted; if not, records that one waits.
    #[inline(always)]
    pub(in super::super) fn request_send(&mut self) -> bool {
        let may_send = !self.is_enforced || self.reads == 0;
        self.has_send_waiter |= !may_send;
        may_send
    }

    /// Returns whether a send waits.
    #[inline(always)]
    pub(in super::super) fn has_send_waiter(&self) -> bool {
        self.has_send_waiter
    }

    /// Counts a posted read.
    pub(in super::super) fn read_posted(&mut self) {
        self.reads += 1;
    }

    /// Counts a completed read.
    pub(in super::super) fn read_completed(&mut self) {
        self.reads -= 1;
    }

    /// Permits reads again after the waiting sends have been posted. Returns true if reads were blocked.
    pub(in super::super) fn resume_reads(&mut self) -> bool {
        let resumes = self.has_send_waiter && self.reads == 0;
        self.has_send_waiter &= !resumes;
        resumes
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_iwarp_order)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_sends_alternate() {
        let mut iwarp_order = IwarpOrder::new(true);
        for _ in 0..3 {
            assert!(iwarp_order.may_read() && iwarp_order.request_send());
            iwarp_order.read_posted();
            // No send waits.
            assert!(iwarp_order.may_read() && !iwarp_order.resume_reads());
            iwarp_order.read_posted();
            assert!(!iwarp_order.request_send());
            assert!(!iwarp_order.may_read() && !iwarp_order.resume_reads());
            iwarp_order.read_completed();
            assert!(
                !iwarp_order.request_send()
                    && !iwarp_order.may_read()
                    && !iwarp_order.resume_reads()
            );
            iwarp_order.read_completed();
            // The send that waited goes first.
            assert!(iwarp_order.request_send() && !iwarp_order.may_read());
            assert!(iwarp_order.resume_reads());
            assert!(!iwarp_order.resume_reads());
        }
    }

    #[test]
    fn other_devices_do_not_wait() {
        let mut iwarp_order = IwarpOrder::new(false);
        for _ in 0..3 {
            iwarp_order.read_posted();
            assert!(
                iwarp_order.may_read() && iwarp_order.request_send() && !iwarp_order.resume_reads()
            );
        }
    }
}
