// SPDX-License-Identifier: GPL-2.0

//! Workarounds for siw, which may ignore the first data of a connection, or fail to connect when
//! that data comes too early.
//!
//! **Ignored data.** `siw_accept()` sends the MPA reply before `siw_qp_socket_assoc()` installs
//! `siw_qp_llp_data_ready()` as the socket's `sk_data_ready`; until then
//! `siw_cm_llp_data_ready()` ignores data in the state `SIW_EPSTATE_RDMA_MODE`. On either side,
//! `siw_qp_llp_data_ready()` does not read the socket while `qp->state_lock` is held for writing,
//! as it is in `siw_proc_mpareply()`. In both cases siw reads the data only when more data arrives,
//! which may be never. So each side sends kicks, which are RDMA writes of zero length, until it has
//! received something.
//!
//! **Early data.** `siw_recv_mpa_rr()` on the active side fails with `-EPROTO` if it finds data
//! behind the MPA reply. So the passive side delays FI_CONNECTED, and with it the consumer's first
//! send, for [`ACCEPT_DELAY`] or until it has received something. That is too short for a reply
//! that TCP retransmits together with later data; a sufficient delay would slow down every
//! connection.
//!
//! **Short reads.** `siw_try_1seg()` answers a read of up to [`SHORT_READ`] bytes that crosses the end
//! of a page with wrong bytes. A read that begins so close to the end of a page ends there, and
//! another one reads the rest.
//!
//! A kick is not an RDMA read of zero length: if the peer is transmitting, `siw_activate_tx()`
//! leaves the scatter/gather entry of the previous work request in place, and
//! `siw_qp_sq_proc_tx()` sends that entry's data as the read response.
//!
//! A work item makes the delay and the kicks, because iw_cm has one ordered workqueue for the
//! events of all connections, the peer's included, and a handler that sleeps would delay them. The
//! work item holds a reference on the endpoint. It polls, reports and posts in sections of the
//! endpoint's rundown; a close waits for such a section but not for the work item, which ends some
//! milliseconds later.

use super::{
    super::conn_state::ConnState,
    drain::{
        poll_cq,
        POLL_INTERVAL, //
    },
};
use crate::prov::verbs::prelude::*;
use kernel::{
    page::PAGE_SIZE,
    time::{
        Instant,
        Monotonic, //
    },
};

/// Time that the active side gets to read the MPA reply.
const ACCEPT_DELAY: Delta = Delta::from_millis(50);

/// Interval between two checks that the endpoint is still connected.
const POLL_SLICE: Delta = Delta::from_millis(5);

/// Maximum number of bytes of a read that siw answers from its header buffer (`MAX_HDR_INLINE`).
const SHORT_READ: usize = 32;

/// Returns the maximum number of bytes of one read from the peer's memory at `addr`.
pub(super) fn max_read(device: &Device, addr: u64) -> usize {
    let in_page = PAGE_SIZE - addr as usize % PAGE_SIZE;
    match device.is_siw && in_page < SHORT_READ {
        true => in_page,
        false => usize::MAX,
    }
}

/// Limit of the kicks that one endpoint posts.
const MAX_KICKS: u32 = 6;

/// Work request id of kicks. Kicks are unsignalled, so that only a flushed one has a completion.
pub(in super::super) const KICK_WR_ID: u64 = 1 << 63;

/// Returns the limit of the kicks that an endpoint on `device` posts, for which its queues have
/// space in addition to other work requests.
pub(in super::super) fn max_kicks(device: &Device) -> u32 {
    match device.is_siw {
        true => MAX_KICKS,
        false => 0,
    }
}

/// Returns the delay before the kick number `index`, counted from 0.
///
/// Delays grow fourfold, to over a second in all, so that a peer reads ignored data after at most
/// four times the time that it needed to get ready.
fn kick_delay(index: u32) -> Delta {
    Delta::from_millis(1 << (2 * index))
}

impl_has_work! {
    impl HasWork<Self> for Endpoint { self.siw_work }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Endpoint>;

    fn run(this: Arc<Endpoint>) {
        if this.delay_connected() {
            this.kick_peer();
        }
    }
}

impl Endpoint {
    /// Handles [`CmEvent::Established`](crate::rdma::cm::CmEvent::Established) on a siw device. The
    /// active side reports FI_CONNECTED at once, the passive side in the work item.
    pub(super) fn start_siw_quirk(self: &Arc<Self>, conn: &ConnParam<'_>) {
        let mut link = self.conn.lock();
        let is_passive = link.is_accepting;
        link.is_connected_deferred = is_passive;
        drop(link);
        if !is_passive {
            self.report_connected(conn.private_data);
        }
        // The work item is not queued yet, because an endpoint connects only once.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// On the passive side, waits for [`ACCEPT_DELAY`] or the first completion of a receive, and
    /// reports FI_CONNECTED. Returns false if the endpoint is no longer connected. May sleep.
    fn delay_connected(&self) -> bool {
        let others = self.domain.enter_exclusive();
        let start = Instant::<Monotonic>::now();
        loop {
            {
                let Some(_pass) = self.rundown.begin_call() else {
                    return false;
                };
                if self.state.get() != ConnState::Connecting {
                    return self.state.get().is_connected();
                }
                if start.elapsed() >= ACCEPT_DELAY || self.has_received(&others) {
                    self.report_connected(&[]);
                    return true;
                }
            }
            fsleep(POLL_INTERVAL);
        }
    }

    /// Returns whether a receive has completed. Completions that this polls go to the backlog of the
    /// completion queue, for its readers.
    fn has_received(&self, others: &ExclusiveGuard) -> bool {
        poll_cq(&self.rq, others);
        self.rq.has_completed()
    }

    /// Sends kicks until a receive has completed or the endpoint is no longer connected. May sleep.
    fn kick_peer(&self) {
        for index in 0..MAX_KICKS {
            if !self.sleep_before_kick(kick_delay(index)) {
                return;
            }
            let Some(_pass) = self.rundown.begin_call() else {
                return;
            };
            let Ok(qp) = self.qp() else {
                return;
            };
            // If the driver refuses this kick, the next one has the same effect.
            let _ = qp.post_empty_write(KICK_WR_ID, SendFlags::default());
        }
    }

    /// Sleeps for `time`; returns false, perhaps early, if no further kick is needed.
    fn sleep_before_kick(&self, time: Delta) -> bool {
        let start = Instant::<Monotonic>::now();
        loop {
            if self.rundown.has_started()
                || !self.state.get().is_connected()
                || self.rq.has_completed()
            {
                return false;
            }
            let left = time - start.elapsed();
            if left <= Delta::ZERO {
                return true;
            }
            fsleep(left.min(POLL_SLICE));
        }
    }
}

#[kunit_tests(kofi_verbs_siw_quirk)]
mod tests {
    use super::*;

    #[test]
    fn kicks_continue_for_over_a_second() {
        let total: i64 = (0..MAX_KICKS)
            .map(|index| kick_delay(index).as_millis())
            .sum();
        assert!(total > 1000);
    }
}
