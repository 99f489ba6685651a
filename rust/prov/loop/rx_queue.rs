// SPDX-License-Identifier: GPL-2.0

//! The receives that what goes through a pipe takes: of the endpoint's own, or of those that it shares with
//! others. All of it is under the pipe's lock.

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

/// What a pipe waits for a receive with.
pub(super) struct RxHandle {
    /// The pipe, as long as it does.
    pub(super) pipe: Option<Arc<Channel>>,
    /// Whoever has posted something is inside while it is with the pipe.
    pub(super) gate: Arc<Rundown>,
}

/// The receives of one side.
pub(super) enum RxQueue {
    /// Its own.
    Own(Fifo<Receive>),
    /// Those that it shares.
    Shared(SrxAttachment),
}

/// A pipe's part in receives that are shared.
pub(super) struct SrxAttachment {
    srx: Arc<Srx>,
    gate: Arc<Rundown>,
    /// While the pipe does not wait.
    ticket: Option<ListBox<RxHandle>>,
    /// What the first of what waits in the pipe has got. There is room to tell of it.
    got: Option<Receive>,
}

impl SrxAttachment {
    /// None of them yet. May sleep.
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

    /// Whether there is one for the first in `pipe`, which has got it then.
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

    /// The pipe has ended: whoever has called it leaves it, and what it had got is posted again. The pipe's lock
    /// is not held. May sleep.
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
    /// None, and none can be posted.
    pub(super) const NONE: Self = Self::Own(Fifo::NONE);

    /// Whether there is one for the first in `pipe`.
    #[inline(always)]
    pub(super) fn find(&mut self, pipe: &Arc<Channel>) -> bool {
        match self {
            Self::Own(ring) => !ring.is_empty(),
            Self::Shared(share) => share.find(pipe),
        }
    }

    /// The one that has been [found](Self::find).
    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Receive> {
        match self {
            Self::Own(ring) => ring.first(),
            Self::Shared(share) => share.got.as_ref(),
        }
    }

    /// Takes it out of its place, which it has until it [is over](Self::is_over).
    pub(super) fn next(&mut self) -> Option<Receive> {
        match self {
            Self::Own(ring) => Some(mem::replace(ring.first_mut()?, Receive::idle())),
            Self::Shared(share) => share.got.take(),
        }
    }

    /// It has been used.
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

    /// The pipe is called, as something has been posted.
    pub(super) fn take_back(&mut self, ticket: ListBox<RxHandle>) {
        if let Self::Shared(share) = self {
            share.ticket = Some(ticket);
        }
    }

    /// The endpoint's own.
    pub(super) fn own(&mut self) -> Option<&mut Fifo<Receive>> {
        match self {
            Self::Own(ring) => Some(ring),
            Self::Shared(_) => None,
        }
    }

    /// How many of the endpoint's own wait for a message.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Own(ring) => ring.len(),
            Self::Shared(_) => 0,
        }
    }

    /// How many more can be posted to it.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own(ring) => ring.left(),
            Self::Shared(_) => 0,
        }
    }
}
