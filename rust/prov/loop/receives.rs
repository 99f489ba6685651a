// SPDX-License-Identifier: GPL-2.0

//! The receives that what goes through a pipe takes: of the endpoint's own, or of those that it shares with
//! others. All of it is under the pipe's lock.

use super::{
    order::Receive,
    pipe::Pipe,
    ring::Ring,
    srx::Srx, //
};
use crate::{
    abi::{
        nodes::Own,
        Result, //
    },
    fi::gate::Gate,
};
use core::mem;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a pipe waits for a receive with.
pub(super) struct Ticket {
    /// The pipe, as long as it does.
    pub(super) pipe: Option<Arc<Pipe>>,
    /// Whoever has posted something is inside while it is with the pipe.
    pub(super) gate: Arc<Gate>,
}

/// The receives of one side.
pub(super) enum Receives {
    /// Its own.
    Own(Ring<Receive>),
    /// Those that it shares.
    Shared(Share),
}

/// A pipe's part in receives that are shared.
pub(super) struct Share {
    srx: Arc<Srx>,
    gate: Arc<Gate>,
    /// While the pipe does not wait.
    ticket: Option<Own<Ticket>>,
    /// What the first of what waits in the pipe has got. There is room to tell of it.
    got: Option<Receive>,
}

impl Share {
    /// None of them yet. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>) -> Result<Self> {
        let gate = Arc::pin_init(Gate::new(), GFP_KERNEL)?;
        let ticket = Own::new(Ticket {
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
    fn find(&mut self, pipe: &Arc<Pipe>) -> bool {
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
    pub(super) fn leave(mut self, pipe: &Arc<Pipe>) {
        self.srx.withdraw(pipe);
        self.gate.shut();
        if let Some(receive) = self.got.take() {
            if let Ok(receiver) = pipe.receiver() {
                receiver.exit.release();
            }
            self.srx.put_back(receive);
        }
    }
}

impl Receives {
    /// None, and none can be posted.
    pub(super) const NONE: Self = Self::Own(Ring::NONE);

    /// Whether there is one for the first in `pipe`.
    #[inline(always)]
    pub(super) fn find(&mut self, pipe: &Arc<Pipe>) -> bool {
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
    pub(super) fn take_back(&mut self, ticket: Own<Ticket>) {
        if let Self::Shared(share) = self {
            share.ticket = Some(ticket);
        }
    }

    /// The endpoint's own.
    pub(super) fn own(&mut self) -> Option<&mut Ring<Receive>> {
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
