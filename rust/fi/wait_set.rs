// SPDX-License-Identifier: GPL-2.0

//! Wait sets: a thread waits for several queues and counters at once.

use super::{
    cntr::Counter,
    cq::CompletionQueue,
    eq::EventQueue,
    fabric::Fabric,
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
    },
    ready_set::{
        ReadySet,
        Target, //
    },
    wait::Deadline, //
};
use crate::{
    abi::KOFI_OBJECT_WAIT_SET,
    fi::prelude::*,
    util::{
        deferred_drop::DropSlot,
        sequence_wait::WaitQueue, //
    },
};

/// A wait set.
#[pin_data]
pub struct WaitSet {
    #[pin]
    ready_set: ReadySet,
    users: ChildCount,
    entry_guard: DeferredDrop<EntryGuard<Fabric>>,
}

impl_parent!(WaitSet);

/// The membership of a queue or counter in a wait set. Dropping it ends the membership; in atomic context
/// that happens later, in a work item.
pub struct Member(DeferredDrop<MemberSlot>);

struct MemberSlot {
    set: ChildRef<WaitSet>,
    number: u32,
}

impl Member {
    /// Returns the set.
    pub fn set(&self) -> &Arc<WaitSet> {
        self.0.set.arc()
    }
}

impl Drop for MemberSlot {
    fn drop(&mut self) {
        self.set.ready_set.remove(self.number);
    }
}

impl WaitSet {
    pub(super) fn new(fabric: ChildRef<Fabric>) -> Result<Arc<Self>> {
        let (ready_set, size) = ReadySet::new()?;
        let entry_guard = EntryGuard::new(fabric, KOFI_OBJECT_WAIT_SET, c"", Some(size))?;
        let entry_guard = DeferredDrop::new(entry_guard)?;
        pin_arc(pin_init!(Self {
            ready_set <- ready_set,
            users: ChildCount::new(),
            entry_guard,
        }))
    }

    /// Adds a completion queue, which [`Self::wait`] reports as `token`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the set has been closed; -FI_ENOMEM.
    pub fn add_completions(
        self: &Arc<Self>,
        _here: ProcessContext,
        queue: &Arc<CompletionQueue>,
        token: usize,
    ) -> Result<Member> {
        self.add(Target::Queue(queue.clone()), token)
    }

    /// Adds an event queue, which [`Self::wait`] reports as `token`.
    ///
    /// # Errors
    ///
    /// As [`Self::add_completions`].
    pub fn add_events(
        self: &Arc<Self>,
        _here: ProcessContext,
        queue: &Arc<EventQueue>,
        token: usize,
    ) -> Result<Member> {
        self.add(Target::Events(queue.clone()), token)
    }

    /// Adds a counter, which [`Self::wait`] reports as `token` when it changes.
    ///
    /// # Errors
    ///
    /// As [`Self::add_completions`].
    pub fn add_counter(
        self: &Arc<Self>,
        _here: ProcessContext,
        counter: &Arc<Counter>,
        token: usize,
    ) -> Result<Member> {
        self.add(Target::Counter(counter.clone()), token)
    }

    fn add(self: &Arc<Self>, target: Target, token: usize) -> Result<Member> {
        let set = ChildRef::new(self)?;
        let space = DropSlot::new()?;
        let number = set.ready_set.add(target, token)?;
        Ok(Member(space.store(MemberSlot { set, number })))
    }

    /// Waits until a member can be read or has changed, or `fi_cq_signal()` is called on it. Calls `visit`
    /// with the tokens of up to `most` such members, with interrupts off, and returns their number. The set
    /// cannot be closed meanwhile.
    ///
    /// A queue that is not read is reported again by the next call, a counter is not.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or the kthread should stop, -FI_EINVAL if
    /// the set has been closed.
    pub fn wait(
        &self,
        here: ProcessContext,
        deadline: &Deadline,
        most: usize,
        visit: impl FnMut(usize),
    ) -> Result<usize> {
        let _busy = self.users.begin_call()?;
        self.ready_set.wait(here, deadline, most, visit)
    }

    /// Returns true if [`Self::wait`] would return at once; else the set's signal is raised when that
    /// changes. Any context.
    pub fn is_ready(&self) -> bool {
        self.ready_set.is_ready()
    }

    /// Returns the kernel wait queue, which is woken when a member may be ready. It is valid until the set is
    /// closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.ready_set.signal().wait_queue()
    }

    /// Closes the set: -FI_EBUSY while it has members, or a thread waits.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.entry_guard.entry)
    }
}
