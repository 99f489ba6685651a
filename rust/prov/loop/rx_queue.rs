// SPDX-License-Identifier: GPL-2.0

//! The receives that a channel's transmits consume: the endpoint's own, or those of a shared receive context.
//! The channel's lock guards everything here.

use super::{
    channel::Channel,
    fifo::Fifo,
    op::Receive,
    srx::Srx, //
};
use crate::{
    fi::{
        prelude::*,
        rundown::Rundown, //
    },
    util::owned_list::ListBox, //
};

/// Entry of a channel in the wait queue of a shared receive context.
pub(super) struct RxHandle {
    /// The channel, while it waits.
    pub(super) channel: Option<Arc<Channel>>,
    /// Entered by a poster during its call into the channel.
    pub(super) rundown: Arc<Rundown>,
}

/// The receives of one side.
pub(super) enum RxQueue {
    /// The endpoint's own receives.
    Own(Fifo<Receive>),
    /// Receives from a shared receive context.
    Shared(SrxAttachment),
}

/// A channel's attachment to a shared receive context.
pub(super) struct SrxAttachment {
    srx: Arc<Srx>,
    rundown: Arc<Rundown>,
    /// The wait queue entry, while the channel does not wait.
    rx_handle: Option<ListBox<RxHandle>>,
    /// The receive for the first queued transmit. Its completion has been reserved.
    held_receive: Option<Receive>,
}

impl SrxAttachment {
    /// Makes an attachment without a receive. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>) -> Result<Self> {
        let rundown = Arc::pin_init(Rundown::new(), GFP_KERNEL)?;
        let handle = ListBox::new(RxHandle {
            channel: None,
            rundown: rundown.clone(),
        })?;
        Ok(Self {
            srx,
            rundown,
            rx_handle: Some(handle),
            held_receive: None,
        })
    }

    /// Returns whether there is a receive for the first transmit in `channel`, and fetches it.
    fn fetch(&mut self, channel: &Arc<Channel>) -> bool {
        if self.held_receive.is_some() {
            return true;
        }
        let Ok(receiver) = channel.rx_side() else {
            return false;
        };
        if receiver.comp_sink.reserve().is_err() {
            channel.await_cq_slot();
            if receiver.comp_sink.reserve().is_err() {
                return false;
            }
        }
        match self.srx.take_receive(channel, &mut self.rx_handle) {
            None => {
                receiver.comp_sink.release();
                false
            }
            Some(mut receive) => {
                receive.info.reports_success |= receiver.comp_sink.reports_all_successes();
                self.held_receive = Some(receive);
                true
            }
        }
    }

    /// Detaches an ended channel: waits until posters have left it, then posts an unused receive again. The
    /// channel's lock is not held. May sleep.
    pub(super) fn detach(mut self, channel: &Arc<Channel>) {
        self.srx.remove_waiter(channel);
        self.rundown.run_down();
        if let Some(receive) = self.held_receive.take() {
            if let Ok(receiver) = channel.rx_side() {
                receiver.comp_sink.release();
            }
            self.srx.repost(receive);
        }
    }
}

impl RxQueue {
    /// A queue without slots.
    pub(super) const EMPTY: Self = Self::Own(Fifo::EMPTY);

    /// Returns whether there is a receive for the first transmit in `channel`.
    #[inline(always)]
    pub(super) fn fetch(&mut self, channel: &Arc<Channel>) -> bool {
        match self {
            Self::Own(ring) => !ring.is_empty(),
            Self::Shared(attachment) => attachment.fetch(channel),
        }
    }

    /// Returns the receive that was [fetched](Self::fetch).
    #[inline(always)]
    pub(super) fn fetched(&self) -> Option<&Receive> {
        match self {
            Self::Own(ring) => ring.front(),
            Self::Shared(attachment) => attachment.held_receive.as_ref(),
        }
    }

    /// Takes the first receive out of its slot, which stays in use until [`free_first`](Self::free_first).
    pub(super) fn take_first(&mut self) -> Option<Receive> {
        match self {
            Self::Own(ring) => Some(mem::replace(ring.front_mut()?, Receive::unused())),
            Self::Shared(attachment) => attachment.held_receive.take(),
        }
    }

    /// Frees the slot of the first receive.
    #[inline(always)]
    pub(super) fn free_first(&mut self) {
        match self {
            Self::Own(ring) => ring.free_first(),
            Self::Shared(attachment) => {
                attachment.held_receive = None;
                attachment.srx.free_slot();
            }
        }
    }

    /// Stores the wait queue entry again, when a posted receive ends the wait.
    pub(super) fn return_handle(&mut self, handle: ListBox<RxHandle>) {
        if let Self::Shared(attachment) = self {
            attachment.rx_handle = Some(handle);
        }
    }

    /// Returns the endpoint's own receives, if it does not share.
    pub(super) fn own_fifo(&mut self) -> Option<&mut Fifo<Receive>> {
        match self {
            Self::Own(ring) => Some(ring),
            Self::Shared(_) => None,
        }
    }

    /// Returns how many of the endpoint's own receives are posted.
    pub(super) fn posted_count(&self) -> usize {
        match self {
            Self::Own(ring) => ring.len(),
            Self::Shared(_) => 0,
        }
    }

    /// Returns how many more receives can be posted here.
    pub(super) fn free_slots(&self) -> usize {
        match self {
            Self::Own(ring) => ring.free_slots(),
            Self::Shared(_) => 0,
        }
    }
}
