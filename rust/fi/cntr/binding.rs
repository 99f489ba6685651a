// SPDX-License-Identifier: GPL-2.0

//! The counter bindings of an endpoint.

use super::{
    super::provider::CqBinding,
    Counter,
    QueueLink, //
};
use crate::{
    abi::flags::*,
    fi::prelude::*, //
};

/// The kinds of transmits.
const TRANSMITS: u64 = FI_SEND | FI_WRITE | FI_READ;

/// Kinds of operations, by their completion flags; FI_SEND is FI_TRANSMIT too.
const KINDS: [u64; 4] = [FI_SEND, FI_RECV, FI_WRITE, FI_READ];

/// The counters of an endpoint, at most one for each of [`KINDS`].
#[derive(Default)]
pub struct BoundCounters([Option<ChildRef<Counter>>; KINDS.len()]);

impl BoundCounters {
    /// Binds `counter` to the operations of `kinds`: FI_SEND, FI_RECV, FI_WRITE, FI_READ.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if a kind has a counter already, or if `counter` is closed.
    pub(in super::super) fn bind(&mut self, counter: &Arc<Counter>, kinds: u64) -> Result {
        Errno::EINVAL.when(self.flags() & kinds != 0)?;
        // This reference keeps the counter open until all bindings are made.
        let _open = ChildRef::new(counter)?;
        for (kind, place) in KINDS.iter().zip(&mut self.0) {
            if kinds & kind != 0 {
                *place = Some(ChildRef::new(counter)?);
            }
        }
        Ok(())
    }

    /// Returns a second set of bindings with its own counted references; -FI_EINVAL once a counter is closed.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let mut copy = Self::default();
        for (place, counter) in copy.0.iter_mut().zip(&self.0) {
            *place = counter.as_ref().map(ChildRef::try_clone).transpose()?;
        }
        Ok(copy)
    }

    /// Links each counter to the completion queue of its operations, if that is bound. The links last until
    /// the returned object is dropped. May sleep.
    pub(in super::super) fn link_queues(
        &self,
        transmit: &Option<CqBinding>,
        receive: &Option<CqBinding>,
    ) -> Result<QueueLinks> {
        let mut feeds = QueueLinks::default();
        for ((kind, counter), feed) in KINDS.iter().zip(&self.0).zip(&mut feeds.0) {
            let queue = match TRANSMITS & kind {
                0 => receive,
                _ => transmit,
            };
            *feed = match (counter, queue) {
                (Some(counter), Some(cq)) => Some(QueueLink::new(counter.arc(), cq.queue.arc())?),
                _ => None,
            };
        }
        Ok(feeds)
    }

    fn flags(&self) -> u64 {
        let bound = KINDS.iter().zip(&self.0);
        bound.fold(0, |flags, (kind, counter)| match counter {
            Some(_) => flags | kind,
            None => flags,
        })
    }

    /// Returns true if transmits are counted.
    pub fn has_transmits(&self) -> bool {
        self.flags() & TRANSMITS != 0
    }

    /// Returns true if receives are counted.
    pub fn has_receives(&self) -> bool {
        self.flags() & FI_RECV != 0
    }

    /// Returns the counter for a completion with these flags. Any context.
    pub fn counter_for(&self, flags: u64) -> Option<&Counter> {
        let at = KINDS.iter().position(|kind| flags & kind != 0)?;
        self.0[at].as_deref()
    }
}

/// The links of an endpoint's counters to its completion queues.
#[derive(Default)]
pub(in super::super) struct QueueLinks([Option<QueueLink>; KINDS.len()]);
