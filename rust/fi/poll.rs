// SPDX-License-Identifier: GPL-2.0

//! Poll sets: report which of several completion queues and counters are ready.

use super::{
    cntr::Counter,
    cq::CompletionQueue,
    domain::Domain,
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
    },
    ready_set::{
        ReadySet,
        Target, //
    },
};
use crate::{
    abi::KOFI_OBJECT_POLL_SET,
    fi::prelude::*, //
};

/// A poll set. Its members cannot be closed while they are in it, nor can the set while it has members.
#[pin_data]
pub struct PollSet {
    #[pin]
    ready_set: ReadySet,
    users: ChildCount,
    entry_guard: DeferredDrop<EntryGuard<Domain>>,
}

impl_parent!(PollSet);

impl PollSet {
    pub(super) fn new(domain: ChildRef<Domain>) -> Result<Arc<Self>> {
        let (ready_set, size) = ReadySet::new()?;
        let entry_guard = EntryGuard::new(domain, KOFI_OBJECT_POLL_SET, c"", Some(size))?;
        let entry_guard = DeferredDrop::new(entry_guard)?;
        pin_arc(pin_init!(Self {
            ready_set <- ready_set,
            users: ChildCount::new(),
            entry_guard,
        }))
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
        let target = Target::PolledQueue(ChildRef::new(queue)?);
        self.ready_set.add(target, token).map(drop)
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
        let target = Target::PolledCounter(ChildRef::new(counter)?);
        self.ready_set.add(target, token).map(drop)
    }

    /// Removes a completion queue, if it is in the set.
    pub fn remove_queue(&self, _here: ProcessContext, queue: &Arc<CompletionQueue>) {
        self.ready_set.remove_first(queue.arrival_signal());
    }

    /// Removes a counter, if it is in the set.
    pub fn remove_counter(&self, _here: ProcessContext, counter: &Arc<Counter>) {
        self.ready_set.remove_first(counter.signal());
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
        Errno::EBUSY.when(!self.ready_set.is_empty())?;
        self.users.close(&self.entry_guard.entry)
    }
}
