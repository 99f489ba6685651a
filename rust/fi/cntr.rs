// SPDX-License-Identifier: GPL-2.0

//! Counters: how many operations succeeded, and how many failed.
//!
//! A provider counts an operation when it takes its completion from the device, whoever made it look:
//! a reader of the completion queue or of a counter. A counter knows the queues that its operations
//! complete in (`sources`), and whoever reads it or waits for it has them looked at. The values need
//! no lock; that of `sources` is held while the queues are looked at.

use super::{
    cq::CompletionQueue,
    domain::Domain,
    introspect::EntryGuard,
    locked_list::LockedList,
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
    ready_set::PollResult,
    wait::{
        Budget,
        Deadline,
        Signal,
        Woken, //
    },
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    sequence_wait::WaitQueue,
    Errno,
    Result,
    KOFI_OBJECT_CNTR, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        static_lock_class,
        Arc, //
    },
};

mod binding;
mod value;

pub use binding::BoundCounters;
pub(super) use binding::QueueLinks;
use value::CounterValue;

/// How a counter is opened.
#[derive(Clone, Copy)]
pub struct Attr {
    /// Whether `fi_cntr_wait()` is allowed.
    pub waitable: bool,
    /// Whether others than those in `fi_cntr_wait()` sleep on its wait queue: it is woken by every
    /// change, and who reads has it woken for what comes.
    pub native: bool,
}

impl Default for Attr {
    /// A counter that can be waited for by its own call.
    fn default() -> Self {
        Self {
            waitable: true,
            native: false,
        }
    }
}

/// A queue in which counted operations complete.
struct CountedQueue {
    queue: Arc<CompletionQueue>,
    /// How many [`QueueLink`]s there are of it.
    feeds: usize,
}

/// A counter.
#[pin_data]
pub struct Counter {
    count: Arc<CounterValue>,
    attr: Attr,
    /// How often it has changed, from 1 on, as far as sets that it is in have to know.
    changes: Atomic<u64>,
    /// True if a value has changed since the last call of [`Counter::is_ready`].
    has_changed: AtomicFlag,
    /// Given when a waiter has to look again.
    signal: Arc<Signal>,
    #[pin]
    sources: LockedList<CountedQueue>,
    users: ChildCount,
    ties: DeferredDrop<EntryGuard<Domain>>,
}

impl Parent for Counter {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl Counter {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let signal = Arc::pin_init(
            Signal::new(c"kofi::Counter::signal", static_lock_class!()),
            GFP_KERNEL,
        )?;
        let count = Arc::new(CounterValue::new(), GFP_KERNEL)?;
        let card = domain
            .card()
            .child(KOFI_OBJECT_CNTR, c"", Some(count.clone()))?;
        let ties = EntryGuard::new(card, domain)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                count,
                attr: *attr,
                changes: Atomic::new(1),
                has_changed: AtomicFlag::new(false),
                signal,
                sources <- LockedList::new(c"kofi::Counter", static_lock_class!()),
                users: ChildCount::new(),
                ties,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Whether both belong to the same domain.
    pub fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(self.ties.parent.arc(), domain)
    }

    /// How many operations succeeded: what has completed by now is counted. Any context.
    pub fn read(&self) -> u64 {
        self.refresh();
        self.count.value()
    }

    /// How many operations failed: what has completed by now is counted. Any context.
    pub fn read_errors(&self) -> u64 {
        self.refresh();
        self.count.errors()
    }

    /// Adds to the successes. Any context.
    pub fn add(&self, count: u64) {
        self.changed(self.count.add(count));
    }

    /// Adds to the errors. Any context.
    pub fn add_errors(&self, count: u64) {
        self.changed(self.count.add_errors(count));
    }

    /// Sets the successes. Any context.
    pub fn set(&self, value: u64) {
        self.changed(self.count.set(value));
    }

    /// Sets the errors. Any context.
    pub fn set_errors(&self, errors: u64) {
        self.changed(self.count.set_errors(errors));
    }

    /// Sleeps until `threshold` operations have succeeded.
    ///
    /// The counter is busy meanwhile.
    ///
    /// # Errors
    ///
    /// -FI_EAVAIL when an error is counted meanwhile, -FI_ETIMEDOUT, -FI_EINTR when a signal is
    /// pending or the kthread is told to stop, -FI_ENOSYS unless the counter was opened to be waited
    /// for.
    pub fn wait(&self, here: ProcessContext, threshold: u64, deadline: &Deadline) -> Result {
        if !self.attr.waitable {
            return Err(Errno::ENOSYS);
        }
        here.might_sleep();
        let _busy = self.users.busy()?;
        let errors = self.count.errors();
        let answer = || {
            self.progress();
            if self.count.value() >= threshold {
                Some(Ok(()))
            } else if self.count.errors() != errors {
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
            self.count.want(threshold);
            let missed = self.arm();
            // What landed before the queues were armed raises no interrupt.
            if let Some(answer) = answer() {
                return answer;
            }
            let mut left = deadline.left();
            if left.is_spent() {
                return Err(Errno::ETIMEDOUT);
            }
            // What was missed raises none either: look again, but not without a breath.
            if missed {
                left = Budget::from_millis(1);
            }
            if self.signal.wait(&ticket, &mut left) == Woken::Interrupted {
                return Err(Errno::EINTR);
            }
        }
    }

    /// Closes the counter: -FI_EBUSY while an endpoint is bound or somebody waits.
    pub(crate) fn close(&self) -> Result {
        self.users.retire()?;
        self.ties.card.withdraw();
        Ok(())
    }

    /// Has everything counted that has completed. Any context.
    fn progress(&self) {
        self.sources.each(|source| source.queue.core().progress());
    }

    /// Has `signal` given at the next completion; true if one was missed.
    fn arm(&self) -> bool {
        let mut missed = false;
        self.sources
            .each(|source| missed |= source.queue.core().arm());
        missed
    }

    /// Has everything counted that has completed, and whoever sleeps on the wait queue of a native counter
    /// woken for what comes. Any context.
    fn refresh(&self) {
        if self.attr.native {
            let _ = self.progress_and_arm();
        } else {
            self.progress();
        }
    }

    /// Tells of a change, which may be what a waiter is waiting for. Any context.
    fn changed(&self, due: bool) {
        // The change of the value was a full barrier: a caller that clears the flag after this load sees the
        // new value. Written only if it is clear, not with each operation.
        if !self.has_changed.load(Relaxed) {
            self.has_changed.store(true, Relaxed);
        }
        if self.signal.has_listeners() {
            let _ = self.changes.fetch_add(1u64, Full);
        }
        if due || self.attr.native {
            self.signal.give();
        } else {
            self.signal.tell();
        }
    }

    /// Given when it may have changed.
    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// For a member of a set: whether it has changed since it was looked at last, or is not 0 when that
    /// is the first time.
    pub(super) fn look(&self, told: &mut u64) -> PollResult {
        let _ = self.progress_and_arm();
        let changes = self.changes.load(Acquire);
        let is_new = match core::mem::replace(told, changes) {
            0 => self.count.value() | self.count.errors() != 0,
            told => told != changes,
        };
        match is_new {
            true => PollResult::Once,
            false => PollResult::Nothing,
        }
    }

    /// Returns whether a value has changed since the last call, or may have. Returns true once for each
    /// change, no matter how many threads call or who changed it. After false the next change wakes the wait
    /// queue of a [native](Attr::native) counter.
    ///
    /// Context: any.
    pub fn is_ready(&self) -> bool {
        let missed = self.progress_and_arm();
        self.has_changed.xchg(false, Full) || missed
    }

    /// Counts completed operations, and arms the completion queues, so that the next completion is counted or
    /// raises an interrupt. Returns whether an operation completed in between, which raised no interrupt.
    ///
    /// Context: any.
    fn progress_and_arm(&self) -> bool {
        if self.sources.is_empty() {
            return false;
        }
        self.progress();
        let missed = self.arm();
        if missed {
            self.progress();
        }
        missed
    }

    /// The kernel's own wait queue; see [`Attr::native`]. It is there until the counter is closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.signal.wait_queue()
    }
}

/// That a counter looks at a completion queue, as long as this lives.
pub(super) struct QueueLink {
    counter: Arc<Counter>,
    queue: Arc<CompletionQueue>,
}

impl QueueLink {
    /// Has `counter` look at `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(counter: &Arc<Counter>, queue: &Arc<CompletionQueue>) -> Result<Self> {
        let known = counter
            .sources
            .find(|source| Arc::ptr_eq(&source.queue, queue).then(|| source.feeds += 1));
        if known.is_none() {
            let arrival = queue.core().interrupts().arrival();
            arrival.listen(&counter.signal)?;
            let source = CountedQueue {
                queue: queue.clone(),
                feeds: 1,
            };
            if let Err(error) = counter.sources.add(source) {
                arrival.forget(&counter.signal);
                return Err(error);
            }
            // Who waits already has not armed this queue.
            counter.signal.give();
        }
        Ok(Self {
            counter: counter.clone(),
            queue: queue.clone(),
        })
    }
}

impl Drop for QueueLink {
    fn drop(&mut self) {
        // Two that began at once made a source each.
        let sources = &self.counter.sources;
        let left = sources.find(|source| {
            let is_ours = source.feeds > 0 && Arc::ptr_eq(&source.queue, &self.queue);
            is_ours.then(|| {
                source.feeds -= 1;
                source.feeds
            })
        });
        if left != Some(0) {
            return;
        }
        let gone =
            sources.take(|source| source.feeds == 0 && Arc::ptr_eq(&source.queue, &self.queue));
        if gone.is_some() {
            let interrupts = self.queue.core().interrupts();
            interrupts.arrival().forget(&self.counter.signal);
        }
    }
}
