// SPDX-License-Identifier: GPL-2.0

//! Wait sets: a thread waits for several queues and counters at once.

use super::{
    cntr::Counter,
    cq::CompletionQueue,
    eq::EventQueue,
    fabric::Fabric,
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
    wait::{
        Deadline,
        Signal, //
    },
};
use crate::{
    abi::KOFI_OBJECT_WAIT_SET,
    fi::prelude::*,
    util::{
        deferred_drop::DropSlot,
        sequence_wait::WaitQueue, //
    },
};

/// A member of a wait set. The references do not count as children: a member can be closed.
enum WaitTarget {
    Completions(Arc<CompletionQueue>),
    Events(Arc<EventQueue>),
    Counter(Arc<Counter>),
}

impl Pollable for WaitTarget {
    fn signal(&self) -> &Signal {
        match self {
            Self::Completions(queue) => queue.arrival_signal(),
            Self::Events(queue) => queue.signal(),
            Self::Counter(counter) => counter.signal(),
        }
    }

    fn poll(&self, seen: &mut u64) -> PollResult {
        match self {
            Self::Completions(queue) => queue.poll_for_waiter(seen),
            Self::Events(queue) => queue.poll(),
            Self::Counter(counter) => counter.poll(seen),
        }
    }
}

/// A wait set.
#[pin_data]
pub struct WaitSet {
    #[pin]
    ready_set: ReadySet<WaitTarget>,
    users: ChildCount,
    entry_guard: DeferredDrop<EntryGuard<Fabric>>,
}

impl Parent for WaitSet {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

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
        let (group, size) = ReadySet::new()?;
        let card = fabric
            .entry()
            .new_child(KOFI_OBJECT_WAIT_SET, c"", Some(size))?;
        let ties = EntryGuard::new(card, fabric)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                ready_set <- group,
                users: ChildCount::new(),
                entry_guard: ties,
            }),
            GFP_KERNEL,
        )?)
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
        self.add(WaitTarget::Completions(queue.clone()), token)
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
        self.add(WaitTarget::Events(queue.clone()), token)
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
        self.add(WaitTarget::Counter(counter.clone()), token)
    }

    fn add(self: &Arc<Self>, target: WaitTarget, token: usize) -> Result<Member> {
        let set = ChildRef::new(self)?;
        let room = DropSlot::new()?;
        let number = set.ready_set.add(target, token, |_| false)?;
        Ok(Member(room.store(MemberSlot { set, number })))
    }

    /// Waits until a member can be read or has changed, or `fi_cq_signal()` is called on it. Calls `visit`
    /// with the tokens of up to `most` such members, with interrupts off, and returns their number. The set
    /// cannot be closed meanwhile.
    ///
    /// A queue that is not read is reported again by the next call, a counter is not.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or the kthread is told to stop, -FI_EINVAL if
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
        self.users.try_close()?;
        self.entry_guard.entry.remove();
        Ok(())
    }
}
