// SPDX-License-Identifier: GPL-2.0

//! How a thread sleeps until a queue has something to read.
//!
//! A [`Signal`] counts what happened. A reader takes a [`Ticket`], looks at its queue, and sleeps
//! only while the count is still the one on the ticket, so that what happens between the look and
//! the sleep is never lost. The lock is a leaf: a driver's completion interrupt may take it, if
//! somebody sleeps. Who is about to says so before the last look at the count, and who gives the
//! signal counts before the look at who sleeps: one of them sees the other.

use crate::abi::{
    context,
    lock::FastLockIrq, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        new_condvar,
        static_lock_class,
        CondVar,
        CondVarTimeoutResult, //
    },
    time::{
        msecs_to_jiffies,
        Instant,
        Jiffies,
        Monotonic, //
    },
};

/// Something that threads wait for.
#[pin_data]
pub struct Signal {
    count: Atomic<u64>,
    /// How many sleep, or are about to.
    sleeping: Atomic<u32>,
    #[pin]
    lock: FastLockIrq<()>,
    #[pin]
    sleepers: CondVar,
}

/// The state of a [`Signal`] at the moment it was taken.
pub struct Ticket(u64);

/// Why a wait ended.
#[derive(PartialEq, Eq)]
pub enum Woken {
    /// The signal was given.
    Signal,
    /// The time was over.
    Timeout,
    /// A signal is pending for the thread, or the kthread was told to stop.
    Interrupted,
}

/// How long a blocking call may take altogether, whatever wakes it in between.
pub struct Budget(Option<Jiffies>);

impl Budget {
    /// From a timeout in milliseconds; a negative one never ends.
    pub fn from_millis(timeout: c_int) -> Self {
        Self(u32::try_from(timeout).ok().map(msecs_to_jiffies))
    }
}

/// When a blocking call has to be over, however much there is to do until then.
pub struct Deadline {
    start: Instant<Monotonic>,
    /// None for one that never comes.
    millis: Option<u32>,
}

impl Deadline {
    /// From a timeout in milliseconds that begins now; a negative one never ends.
    pub fn from_millis(timeout: c_int) -> Self {
        Self {
            start: Instant::now(),
            millis: u32::try_from(timeout).ok(),
        }
    }

    /// How many milliseconds are left; none where they never end.
    fn left_millis(&self) -> Option<u32> {
        let gone = u32::try_from(self.start.elapsed().as_millis()).unwrap_or(u32::MAX);
        Some(self.millis?.saturating_sub(gone))
    }

    /// Whether it has come.
    pub(super) fn is_over(&self) -> bool {
        self.left_millis() == Some(0)
    }

    /// What may still be slept.
    pub(super) fn left(&self) -> Budget {
        Budget(self.left_millis().map(msecs_to_jiffies))
    }
}

impl Signal {
    /// A signal that has not been given.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Atomic::new(0),
            sleeping: Atomic::new(0),
            lock <- FastLockIrq::new((), c"kofi::Signal", static_lock_class!()),
            sleepers <- new_condvar!("kofi::Signal"),
        })
    }

    /// Wakes everyone who holds an older ticket. Any context.
    pub fn give(&self) {
        let _ = self.count.fetch_add(1, Full);
        if self.sleeping.load(Relaxed) > 0 {
            // Behind who has looked at the count and does not sleep yet.
            let _lock = self.lock.lock();
            self.sleepers.notify_all();
        }
    }

    /// Takes a ticket. Any context.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.count.load(Acquire))
    }

    /// Sleeps until the signal is given after `ticket` was taken. Process context.
    pub fn wait(&self, ticket: &Ticket, budget: &mut Budget) -> Woken {
        let _ = self.sleeping.fetch_add(1, Full);
        let woken = self.sleep(ticket, budget);
        let _ = self.sleeping.fetch_sub(1, Full);
        woken
    }

    fn sleep(&self, ticket: &Ticket, budget: &mut Budget) -> Woken {
        let mut lock = self.lock.lock();
        while self.count.load(Acquire) == ticket.0 {
            if context::kthread_should_stop() {
                return Woken::Interrupted;
            }
            let left = match budget.0 {
                Some(0) => return Woken::Timeout,
                Some(left) => left,
                None => Jiffies::MAX,
            };
            let left = match self.sleepers.wait_interruptible_timeout(&mut lock, left) {
                CondVarTimeoutResult::Signal { .. } => return Woken::Interrupted,
                CondVarTimeoutResult::Woken { jiffies } => jiffies,
                CondVarTimeoutResult::Timeout => 0,
            };
            budget.0 = budget.0.map(|_| left);
        }
        Woken::Signal
    }
}

struct Passage {
    shut: bool,
    inside: u32,
}

/// Lets callbacks of an object run until the object closes, and lets the close wait for them.
#[pin_data]
pub struct Gate {
    #[pin]
    passage: FastLockIrq<Passage>,
    #[pin]
    left: CondVar,
}

/// Being inside a [`Gate`].
pub struct Pass<'a>(&'a Gate);

impl Gate {
    /// An open gate.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            passage <- FastLockIrq::new(
                Passage { shut: false, inside: 0 },
                c"kofi::Gate",
                static_lock_class!(),
            ),
            left <- new_condvar!("kofi::Gate"),
        })
    }

    /// Goes in, unless the gate has been shut. Any context.
    pub fn enter(&self) -> Option<Pass<'_>> {
        let mut passage = self.passage.lock();
        if passage.shut {
            return None;
        }
        passage.inside += 1;
        Some(Pass(self))
    }

    /// Whether it has been shut: who is inside should leave. Any context.
    pub fn is_shut(&self) -> bool {
        self.passage.lock().shut
    }

    /// Lets nobody in any more. Any context.
    pub fn forbid(&self) {
        self.passage.lock().shut = true;
    }

    /// Lets nobody in any more and waits until everybody has left. Process context.
    pub fn shut(&self) {
        let mut passage = self.passage.lock();
        passage.shut = true;
        while passage.inside > 0 {
            self.left.wait(&mut passage);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut passage = self.0.passage.lock();
        passage.inside -= 1;
        if passage.shut && passage.inside == 0 {
            self.0.left.notify_all();
        }
    }
}
