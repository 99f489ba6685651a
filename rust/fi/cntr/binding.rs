// SPDX-License-Identifier: GPL-2.0

//! Which of an endpoint's operations are counted where.

use super::{
    super::{
        cq::CompletionQueue,
        object::ChildRef, //
    },
    Counter,
    QueueLink, //
};
use crate::abi::{
    flags::*,
    Errno,
    Result, //
};
use kernel::sync::Arc;

/// What transmits are counted as.
const TRANSMITS: u64 = FI_SEND | FI_WRITE | FI_READ;

/// Kinds of operations, by the flag that their completions have; FI_SEND is FI_TRANSMIT too.
const KINDS: [u64; 4] = [FI_SEND, FI_RECV, FI_WRITE, FI_READ];

/// The counters of an endpoint: for each kind of operation one or none.
#[derive(Default)]
pub struct BoundCounters([Option<ChildRef<Counter>>; KINDS.len()]);

impl BoundCounters {
    /// Has the operations of `kinds`, a set of FI_SEND, FI_RECV, FI_WRITE and FI_READ, counted.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if one of them has a counter, or if this one has been closed.
    pub(in super::super) fn bind(&mut self, counter: &Arc<Counter>, kinds: u64) -> Result {
        if self.flags() & kinds != 0 {
            return Err(Errno::EINVAL);
        }
        // The first keeps the counter from being closed before the others are there.
        let _open = ChildRef::new(counter)?;
        for (kind, place) in KINDS.iter().zip(&mut self.0) {
            if kinds & kind != 0 {
                *place = Some(ChildRef::new(counter)?);
            }
        }
        Ok(())
    }

    /// The same once more, with references of its own.
    pub(crate) fn again(&self) -> Result<Self> {
        let mut copy = Self::default();
        for (place, counter) in copy.0.iter_mut().zip(&self.0) {
            *place = counter
                .as_ref()
                .map(|counter| ChildRef::new(counter.arc()))
                .transpose()?;
        }
        Ok(copy)
    }

    /// Has the counters look at the queues that their operations complete in, as far as there are such, as
    /// long as what is returned lives. May sleep.
    pub(in super::super) fn feed(
        &self,
        transmit: Option<&Arc<CompletionQueue>>,
        receive: Option<&Arc<CompletionQueue>>,
    ) -> Result<QueueLinks> {
        let mut feeds = QueueLinks::default();
        for ((kind, counter), feed) in KINDS.iter().zip(&self.0).zip(&mut feeds.0) {
            let queue = match TRANSMITS & kind {
                0 => receive,
                _ => transmit,
            };
            *feed = match (counter, queue) {
                (Some(counter), Some(queue)) => Some(QueueLink::new(counter.arc(), queue)?),
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

    /// Whether transmits are counted.
    pub fn has_transmits(&self) -> bool {
        self.flags() & TRANSMITS != 0
    }

    /// Whether receives are counted.
    pub fn has_receives(&self) -> bool {
        self.flags() & FI_RECV != 0
    }

    /// What counts an operation whose completion has these flags. Any context.
    pub fn of(&self, flags: u64) -> Option<&Counter> {
        let at = KINDS.iter().position(|kind| flags & kind != 0)?;
        self.0[at].as_deref()
    }
}

/// That the counters of an endpoint look at its queues, as long as this lives.
#[derive(Default)]
pub(in super::super) struct QueueLinks([Option<QueueLink>; KINDS.len()]);
