// SPDX-License-Identifier: GPL-2.0

//! The end of a channel, or of its receives: posted operations are reported as cancelled, or returned to the side
//! that closes.

use super::{
    super::{
        prelude::*,
        srx::RxQueue, //
    },
    count_op,
    Inner, //
};
use crate::abi::flags::FI_MULTI_RECV;

/// The side whose operations are returned to the caller that closes it instead of being reported as
/// cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ClosingSide {
    /// No side: both get completions.
    Neither,
    /// The sending side.
    Sender,
    /// The receiving side.
    Receiver,
}

impl Channel {
    /// Ends the receives only. When this returns, posted receives have been reported as cancelled, except shared
    /// ones. Transmits that need a receive wait from then on until the connection ends. May sleep.
    pub(in super::super) fn close_receives(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.no_receives = true;
        while inner.is_reporting_receives {
            self.idle_wait.wait(&mut inner);
        }
        let removed = self.remove_receives(&mut inner);
        // Concurrent callers that end the receives or the connection wait for this one.
        inner.is_reporting_receives = true;
        drop(inner);
        self.cancel_receives(removed, false, &mut |_| {});
        self.inner.lock().is_reporting_receives = false;
        self.idle_wait.notify_all();
    }

    /// Removes the receives, and counts each of the endpoint's own as cancelled.
    fn remove_receives(&self, inner: &mut Inner) -> RxQueue {
        let mut receives = mem::replace(&mut inner.receives, RxQueue::EMPTY);
        for receive in receives.own_fifo().iter().flat_map(|own| own.iter()) {
            self.rx_stats.record_completion(Err(Errno::ECANCELED));
            count_op(&inner.rx_counters, receive.info.flags, false);
        }
        receives
    }

    /// Reports removed receives as cancelled, or passes them to `reclaim`; shared ones are posted again. Called
    /// without the lock. May sleep.
    fn cancel_receives(
        self: &Arc<Self>,
        receives: RxQueue,
        is_closing_side: bool,
        reclaim: &mut dyn FnMut(Context),
    ) {
        let own = match receives {
            RxQueue::Own(own) => own,
            RxQueue::Shared(attachment) => return attachment.detach(self),
        };
        let Ok(receiver) = self.rx_side() else {
            return;
        };
        for receive in own.iter() {
            let info = (&receive.info, receive.piece_addr);
            cancel_op(&receiver.comp_sink, info, is_closing_side, reclaim);
        }
    }

    /// Ends the channel: when this returns, no transmit is processed any more. Posted operations have been
    /// reported as cancelled, except those of the side `closing_side`, whose contexts have been passed to
    /// `reclaim`, and shared receives. May sleep.
    pub(in super::super) fn close(
        self: &Arc<Self>,
        closing_side: ClosingSide,
        reclaim: &mut dyn FnMut(Context),
    ) {
        let mut inner = self.inner.lock();
        inner.is_stopped = true;
        inner.is_closed = true;
        while inner.is_processing || inner.is_reporting_receives {
            self.idle_wait.wait(&mut inner);
        }
        let tx_queue = mem::replace(&mut inner.tx_queue, Fifo::EMPTY);
        let direct_receiver = inner.direct_receiver.take();
        // Operations that are returned to the closing side are not counted as errors.
        let removed = match closing_side {
            ClosingSide::Neither => None,
            ClosingSide::Sender => inner.tx_counters.take(),
            ClosingSide::Receiver => inner.rx_counters.take(),
        };
        // The last part stands for the operation.
        let operations = || tx_queue.iter().filter(|op| op.info.later_parts == 0);
        for op in operations() {
            self.tx_stats.record_completion(Err(Errno::ECANCELED));
            count_op(&inner.tx_counters, op.info.flags, false);
        }
        let receives = self.remove_receives(&mut inner);
        drop(inner);
        drop((removed, direct_receiver));
        for op in operations() {
            if let Ok(sender) = self.tx_comp_sink() {
                let is_closing_side = closing_side == ClosingSide::Sender;
                cancel_op(sender, (&op.info, 0), is_closing_side, reclaim);
            }
        }
        self.cancel_receives(receives, closing_side == ClosingSide::Receiver, reclaim);
    }
}

/// Reports an operation as cancelled, or returns it to the side that closes.
fn cancel_op(
    comp_sink: &CompSink,
    (info, piece_addr): (&CompInfo, usize),
    is_closing_side: bool,
    reclaim: &mut dyn FnMut(Context),
) {
    match is_closing_side {
        true => {
            comp_sink.cq.release();
            // A multi-receive buffer is returned with its last piece.
            if piece_addr == 0 || info.flags & FI_MULTI_RECV != 0 {
                reclaim(info.context);
            }
        }
        false => comp_sink.report_failure(info, piece_addr, Errno::ECANCELED, 0),
    }
}
