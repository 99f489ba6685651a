// SPDX-License-Identifier: GPL-2.0

//! Poll sets: report which of several completion queues and counters are ready.

use super::{
    cntr::Counter,
    cq::CompletionQueue,
    domain::Domain,
    introspect::EntryGuard,
    object::{
        ChildCount,
        Parent, //
    },
    ready_set::{
        PollResult,
        Pollable,
        ReadySet, //
    },
    wait::Signal, //
};
use crate::{
    abi::KOFI_OBJECT_POLL_SET,
    fi::prelude::*, //
};

enum PollTarget {
    Queue(ChildRef<CompletionQueue>),
    Counter(ChildRef<Counter>),
}

impl PollTarget {
    fn is_queue(&self, queue: &Arc<CompletionQueue>) -> bool {
        matches!(self, Self::Queue(known) if Arc::ptr_eq(known.arc(), queue))
    }

    fn is_counter(&self, counter: &Arc<Counter>) -> bool {
        matches!(self, Self::Counter(known) if Arc::ptr_eq(known.arc(), counter))
    }
}

impl Pollable for PollTarget {
    fn signal(&self) -> &Signal {
        match self {
            Self::Queue(queue) => queue.arrival_signal(),
            Self::Counter(counter) => counter.signal(),
        }
    }

    fn poll(&self, seen: &mut u64) -> PollResult {
        match self {
            Self::Queue(queue) => queue.poll(),
            Self::Counter(counter) => counter.poll(seen),
        }
    }
}

/// A poll set. Its members cannot be closed while they are in it, nor can the set while it has members.
#[pin_data]
pub struct PollSet {
    #[pin]
    ready_set: ReadySet<PollTarget>,
    users: ChildCount,
    entry_guard: DeferredDrop<EntryGuard<Domain>>,
}

impl Parent for PollSet {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl PollSet {
    pub(super) fn new(domain: ChildRef<Domain>) -> Result<Arc<Self>> {
        let (group, size) = ReadySet::new()?;
        let card = domain
            .entry()
            .new_child(KOFI_OBJECT_POLL_SET, c"", Some(size))?;
        let ties = EntryGuard::new(card, domain)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                ready_set <- group,
                users: ChildCount::new(),
                entry_guard: ties,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Adds a completion queue, which [`Self::poll`] reports as `token`; no effect if it is in the set.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the queue is closed; -FI_ENOMEM.
    pub fn add_queue(
        &self,
        _here: ProcessContext,
        queue: &Arc<CompletionQueue>,
        token: usize,
    ) -> Result {
        let member = PollTarget::Queue(ChildRef::new(queue)?);
        self.ready_set
            .add(member, token, |known| known.is_queue(queue))
            .map(drop)
    }

    /// Adds a counter, which [`Self::poll`] reports as `token`; no effect if it is in the set.
    ///
    /// # Errors
    ///
    /// As [`Self::add_queue`].
    pub fn add_counter(
        &self,
        _here: ProcessContext,
        counter: &Arc<Counter>,
        token: usize,
    ) -> Result {
        let member = PollTarget::Counter(ChildRef::new(counter)?);
        self.ready_set
            .add(member, token, |known| known.is_counter(counter))
            .map(drop)
    }

    /// Removes a completion queue, if it is in the set.
    pub fn remove_queue(&self, _here: ProcessContext, queue: &Arc<CompletionQueue>) {
        self.ready_set.remove_first(|known| known.is_queue(queue));
    }

    /// Removes a counter, if it is in the set.
    pub fn remove_counter(&self, _here: ProcessContext, counter: &Arc<Counter>) {
        self.ready_set
            .remove_first(|known| known.is_counter(counter));
    }

    /// Calls `visit` with the tokens of up to `most` ready members, each once, and returns their number. Any
    /// context; `visit` is called with interrupts off.
    ///
    /// A queue is ready until it is empty, a counter once after each change. A queue may be reported falsely
    /// after unsignalled operations have completed.
    pub fn poll(&self, most: usize, visit: impl FnMut(usize)) -> usize {
        self.ready_set.poll_ready(most, visit)
    }

    /// Closes the set: -FI_EBUSY while it has members.
    pub(crate) fn close(&self) -> Result {
        if !self.ready_set.is_empty() {
            return Err(Errno::EBUSY);
        }
        self.users.try_close()?;
        self.entry_guard.entry.remove();
        Ok(())
    }
}
