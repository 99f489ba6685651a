// SPDX-License-Identifier: GPL-2.0

//! Counters: numbers of successful and of failed operations.
//!
//! A provider counts an operation when it polls the completion from the device, for a reader of the
//! completion queue or of a counter. A counter has a list of the queues in which its operations complete
//! (`queues`) and polls them when it is read or waited for. The values need no lock; the lock of `queues` is
//! held while the queues are polled.

use super::{
    cq::CompletionQueue,
    domain::Domain,
    introspect::EntryGuard,
    locked_list::LockedList,
    object::{
        impl_parent,
        ChildCount, //
    },
    ready_set::PollResult,
    wait::{
        Budget,
        Deadline,
        Signal,
        Woken, //
    },
};
use crate::{
    abi::KOFI_OBJECT_CNTR,
    fi::prelude::*,
    util::sequence_wait::WaitQueue, //
};

mod binding;
mod value;

pub use binding::BoundCounters;
pub(super) use binding::QueueLinks;
use value::CounterValue;

/// Attributes of a counter.
#[derive(Clone, Copy)]
pub struct Attr {
    /// True if `fi_cntr_wait()` is allowed.
    pub waitable: bool,
    /// True if consumers sleep on the kernel wait queue (FI_WAIT_QUEUE): each change wakes it, and each read
    /// arms the completion queues for the next change.
    pub wakes_wait_queue: bool,
}

impl Default for Attr {
    /// Returns the attributes of a counter for `fi_cntr_wait()` alone.
    fn default() -> Self {
        Self {
            waitable: true,
            wakes_wait_queue: false,
        }
    }
}

/// A completion queue of counted operations.
struct CountedQueue {
    queue: Arc<CompletionQueue>,
    /// Number of [`QueueLink`]s of the queue.
    links: usize,
}

/// A counter.
#[pin_data]
pub struct Counter {
    values: Arc<CounterValue>,
    attr: Attr,
    /// Number of changes, from 1 on; maintained only while the counter is in a set.
    changes: Atomic<u64>,
    /// True if a value has changed since the last call of [`Counter::is_ready`].
    has_changed: AtomicFlag,
    /// Raised when a waiter has to read the values again.
    signal: Arc<Signal>,
    #[pin]
    queues: LockedList<CountedQueue>,
    users: ChildCount,
    pub(super) entry_guard: DeferredDrop<EntryGuard<Domain>>,
}

impl_parent!(Counter);

impl Counter {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let signal = pin_arc(Signal::new(c"kofi::Counter::signal", static_lock_class!()))?;
        let values = new_arc(CounterValue::new())?;
        let entry_guard = EntryGuard::new(domain, KOFI_OBJECT_CNTR, c"", Some(values.clone()))?;
        let entry_guard = DeferredDrop::new(entry_guard)?;
        pin_arc(pin_init!(Self {
            values,
            attr: *attr,
            changes: Atomic::new(1),
            has_changed: AtomicFlag::new(false),
            signal,
            queues <- LockedList::new(c"kofi::Counter", static_lock_class!()),
            users: ChildCount::new(),
            entry_guard,
        }))
    }

    /// Polls the completion queues and returns the number of successes. Any context.
    pub fn read(&self) -> u64 {
        self.refresh();
        self.values.value()
    }

    /// Polls the completion queues and returns the number of errors. Any context.
    pub fn read_errors(&self) -> u64 {
        self.refresh();
        self.values.errors()
    }

    /// Adds to the successes. Any context.
    pub fn add(&self, count: u64) {
        self.on_change(self.values.add(count));
    }

    /// Adds to the errors. Any context.
    pub fn add_errors(&self, count: u64) {
        self.on_change(self.values.add_errors(count));
    }

    /// Sets the successes. Any context.
    pub fn set(&self, value: u64) {
        self.on_change(self.values.set(value));
    }

    /// Sets the errors. Any context.
    pub fn set_errors(&self, errors: u64) {
        self.on_change(self.values.set_errors(errors));
    }

    /// Sleeps until `threshold` operations have succeeded.
    ///
    /// The counter cannot be closed meanwhile.
    ///
    /// # Errors
    ///
    /// -FI_EAVAIL when an error is counted meanwhile, -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or
    /// the kthread should stop, -FI_ENOSYS if the counter was opened with FI_WAIT_NONE.
    pub fn wait(&self, here: ProcessContext, threshold: u64, deadline: &Deadline) -> Result {
        Errno::ENOSYS.when(!self.attr.waitable)?;
        here.might_sleep();
        let _busy = self.users.begin_call()?;
        let errors = self.values.errors();
        let answer = || {
            self.progress();
            if self.values.value() >= threshold {
                Some(Ok(()))
            } else if self.values.errors() != errors {
                Some(Err(Errno::EAVAIL))
            } else {
                None
            }
        };
        loop {
            if let Some(answer) = answer() {
                return answer;
            }
            let ticket = self.signal.ticket();
            self.values.set_threshold(threshold);
            let missed = self.arm();
            // A completion that arrived before the queues were armed raises no interrupt.
            if let Some(answer) = answer() {
                return answer;
            }
            let mut left = deadline.remaining();
            Errno::ETIMEDOUT.when(left.is_spent())?;
            // A missed completion raises no interrupt either: poll again, but after a millisecond.
            if missed {
                left = Budget::from_millis(1);
            }
            Errno::EINTR.when(self.signal.wait(&ticket, &mut left) == Woken::Interrupted)?;
        }
    }

    /// Closes the counter: -FI_EBUSY while an endpoint or a set uses it, or a thread waits.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.entry_guard.entry)
    }

    /// Polls the completion queues, which counts completed operations. Any context.
    fn progress(&self) {
        self.queues
            .for_each(|counted| counted.queue.core().progress());
    }

    /// Arms the completion queues, so that the next completion raises `signal`. Returns true if one may have
    /// been missed.
    fn arm(&self) -> bool {
        let mut missed = false;
        self.queues
            .for_each(|counted| missed |= counted.queue.core().arm());
        missed
    }

    /// Polls the completion queues; also arms them if a consumer sleeps on the wait queue. Any context.
    fn refresh(&self) {
        if self.attr.wakes_wait_queue {
            let _ = self.progress_and_arm();
        } else {
            self.progress();
        }
    }

    /// Notifies listeners of a change, and wakes the waiters if `due`, that is if their threshold is reached.
    /// Any context.
    fn on_change(&self, due: bool) {
        // The change of the value was a full barrier: a caller that clears the flag after this load sees the
        // new value. Written only if it is clear, not with each operation.
        if !self.has_changed.load(Relaxed) {
            self.has_changed.store(true, Relaxed);
        }
        if self.signal.has_listeners() {
            let _ = self.changes.fetch_add(1u64, Full);
        }
        if due || self.attr.wakes_wait_queue {
            self.signal.raise();
        } else {
            self.signal.notify_listeners();
        }
    }

    /// Returns the signal that is raised when a value may have changed.
    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Polls the counter for a set: reports a change since the last call, or a value other than 0 in the
    /// first call. `seen` is the number of changes that the caller has already seen.
    pub(super) fn poll(&self, seen: &mut u64) -> PollResult {
        let _ = self.progress_and_arm();
        let changes = self.changes.load(Acquire);
        let is_new = match mem::replace(seen, changes) {
            0 => self.values.value() | self.values.errors() != 0,
            before => before != changes,
        };
        match is_new {
            true => PollResult::ReadyOnce,
            false => PollResult::NotReady,
        }
    }

    /// Returns true if a value has, or may have, changed since the last call: once for each change, no matter
    /// which threads call or change it. After false the next change wakes the wait queue, with
    /// [`Attr::wakes_wait_queue`]. Any context.
    pub fn is_ready(&self) -> bool {
        let missed = self.progress_and_arm();
        self.has_changed.xchg(false, Full) || missed
    }

    /// Counts completed operations and arms the completion queues, so that the next completion is counted or
    /// raises an interrupt. Returns true if one may have come in between, without an interrupt. Any context.
    fn progress_and_arm(&self) -> bool {
        if self.queues.is_empty() {
            return false;
        }
        self.progress();
        let missed = self.arm();
        if missed {
            self.progress();
        }
        missed
    }

    /// Returns the kernel wait queue; see [`Attr::wakes_wait_queue`]. It is valid until the counter is
    /// closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.signal.wait_queue()
    }
}

/// The link of a counter to a completion queue that it polls. Dropping it ends the link.
pub(super) struct QueueLink {
    counter: Arc<Counter>,
    queue: Arc<CompletionQueue>,
}

impl QueueLink {
    /// Links `counter` to `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(counter: &Arc<Counter>, queue: &Arc<CompletionQueue>) -> Result<Self> {
        let known = counter
            .queues
            .find_map(|source| Arc::ptr_eq(&source.queue, queue).then(|| source.links += 1));
        if known.is_none() {
            let arrival = queue.core().notifier().signal();
            arrival.add_listener(&counter.signal)?;
            let source = CountedQueue {
                queue: queue.clone(),
                links: 1,
            };
            if let Err(error) = counter.queues.add(source) {
                arrival.remove_listener(&counter.signal);
                return Err(error);
            }
            // A waiter that sleeps already has not armed this queue: it has to wake up and do so.
            counter.signal.raise();
        }
        Ok(Self {
            counter: counter.clone(),
            queue: queue.clone(),
        })
    }
}

impl Drop for QueueLink {
    fn drop(&mut self) {
        // Concurrent links to one queue may each have added an entry.
        let sources = &self.counter.queues;
        let left = sources.find_map(|source| {
            let is_ours = source.links > 0 && Arc::ptr_eq(&source.queue, &self.queue);
            is_ours.then(|| {
                source.links -= 1;
                source.links
            })
        });
        if left != Some(0) {
            return;
        }
        let gone = sources
            .remove_first(|source| source.links == 0 && Arc::ptr_eq(&source.queue, &self.queue));
        if gone.is_some() {
            let interrupts = self.queue.core().notifier();
            interrupts.signal().remove_listener(&self.counter.signal);
        }
    }
}
