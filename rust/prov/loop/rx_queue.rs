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
    abi::{
        owned_list::ListBox,
        Result, //
    },
    fi::rundown::Rundown, //
};
use core::mem;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Entry of a channel in the wait queue of a shared receive context.
pub(super) struct RxHandle {
    /// The channel, while it waits.
    pub(super) pipe: Option<Arc<Channel>>,
    /// Entered by a poster during its call into the channel.
    pub(super) gate: Arc<Rundown>,
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
    gate: Arc<Rundown>,
    /// The wait queue entry, while the channel does not wait.
    ticket: Option<ListBox<RxHandle>>,
    /// The receive for the first queued transmit. Its completion has been reserved.
    got: Option<Receive>,
}

impl SrxAttachment {
    /// Makes an attachment without a receive. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>) -> Result<Self> {
        let gate = Arc::pin_init(Rundown::new(), GFP_KERNEL)?;
        let ticket = ListBox::new(RxHandle {
            pipe: None,
            gate: gate.clone(),
        })?;
        Ok(Self {
            srx,
            gate,
            ticket: Some(ticket),
            got: None,
        })
    }

    /// Returns whether there is a receive for the first transmit in `pipe`, and fetches it.
    fn find(&mut self, pipe: &Arc<Channel>) -> bool {
        if self.got.is_some() {
            return true;
        }
        let Ok(receiver) = pipe.receiver() else {
            return false;
        };
        if receiver.exit.reserve().is_err() {
            pipe.await_room();
            if receiver.exit.reserve().is_err() {
                return false;
            }
        }
        match self.srx.get(pipe, &mut self.ticket) {
            None => {
                receiver.exit.release();
                false
            }
            Some(mut receive) => {
                receive.report.is_wanted |= receiver.exit.tells_all();
                self.got = Some(receive);
                true
            }
        }
    }

    /// Detaches an ended channel: waits until posters have left it, then posts an unused receive again. The
    /// channel's lock is not held. May sleep.
    pub(super) fn leave(mut self, pipe: &Arc<Channel>) {
        self.srx.withdraw(pipe);
        self.gate.run_down();
        if let Some(receive) = self.got.take() {
            if let Ok(receiver) = pipe.receiver() {
                receiver.exit.release();
            }
            self.srx.put_back(receive);
        }
    }
}

impl RxQueue {
    /// A queue without slots.
    pub(super) const NONE: Self = Self::Own(Fifo::NONE);

    /// Returns whether there is a receive for the first transmit in `pipe`.
    #[inline(always)]
    pub(super) fn find(&mut self, pipe: &Arc<Channel>) -> bool {
        match self {
            Self::Own(ring) => !ring.is_empty(),
            Self::Shared(share) => share.find(pipe),
        }
    }

    /// Returns the receive that was [found](Self::find).
    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Receive> {
        match self {
            Self::Own(ring) => ring.first(),
            Self::Shared(share) => share.got.as_ref(),
        }
    }

    /// Takes the first receive out of its slot, which stays in use until [`is_over`](Self::is_over).
    pub(super) fn next(&mut self) -> Option<Receive> {
        match self {
            Self::Own(ring) => Some(mem::replace(ring.first_mut()?, Receive::idle())),
            Self::Shared(share) => share.got.take(),
        }
    }

    /// Frees the slot of the first receive.
    #[inline(always)]
    pub(super) fn is_over(&mut self) {
        match self {
            Self::Own(ring) => ring.give_back(),
            Self::Shared(share) => {
                share.got = None;
                share.srx.is_over();
            }
        }
    }

    /// Stores the wait queue entry again, when a posted receive ends the wait.
    pub(super) fn take_back(&mut self, ticket: ListBox<RxHandle>) {
        if let Self::Shared(share) = self {
            share.ticket = Some(ticket);
        }
    }

    /// Returns the endpoint's own receives, if it does not share.
    pub(super) fn own(&mut self) -> Option<&mut Fifo<Receive>> {
        match self {
            Self::Own(ring) => Some(ring),
            Self::Shared(_) => None,
        }
    }

    /// Returns how many of the endpoint's own receives are posted.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Own(ring) => ring.len(),
            Self::Shared(_) => 0,
        }
    }

    /// Returns how many more receives can be posted here.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own(ring) => ring.left(),
            Self::Shared(_) => 0,
        }
    }
}
