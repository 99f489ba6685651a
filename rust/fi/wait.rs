// SPDX-License-Identifier: GPL-2.0

//! How a thread sleeps until a queue has something to read.
//!
//! A [`Signal`] counts what happened. A reader takes a [`Ticket`], looks at its queue, and sleeps
//! only while the count is still the one on the ticket, so that what happens between the look and
//! the sleep is never lost. A driver's completion interrupt may give it: nobody takes a lock but that
//! of the queue of who sleeps, and that of the list of who listens.

use super::locked_list::LockedList;
use crate::abi::{
    sequence_wait::{
        now,
        SequenceWait,
        WaitQueue, //
    },
    Result, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        static_lock_class,
        Arc,
        LockClassKey, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
};

/// Something that threads wait for, and that others pass on.
#[pin_data]
pub struct Signal {
    #[pin]
    sleepers: SequenceWait,
    #[pin]
    listeners: LockedList<Arc<dyn Listener>>,
}

/// Who passes on that a signal was given.
pub(super) trait Listener: Send + Sync {
    /// It has been given, by somebody who may hold locks of a driver. Any context.
    fn hear(&self);
}

impl Listener for Signal {
    fn hear(&self) {
        self.give();
    }
}

/// The state of a [`Signal`] at the moment it was taken.
pub struct Ticket(i64);

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

/// When a blocking call has to be over, however much there is to do until then: the tick, or none for
/// one that never comes.
pub struct Deadline(Option<Jiffies>);

impl Deadline {
    /// From a timeout in milliseconds that begins now; a negative one never ends.
    pub fn from_millis(timeout: c_int) -> Self {
        Self::of(&Budget::from_millis(timeout))
    }

    /// Returns the deadline of a call that begins now and may take that long.
    pub(super) fn of(&Budget(ticks): &Budget) -> Self {
        Self(ticks.map(|ticks| now().wrapping_add(ticks)))
    }

    /// What may still be slept.
    pub(super) fn left(&self) -> Budget {
        Budget(self.0.map(|end| {
            let left = end.wrapping_sub(now());
            // Past half of all ticks the end has been.
            if left > Jiffies::MAX / 2 {
                0
            } else {
                left
            }
        }))
    }
}

impl Budget {
    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0 == Some(0)
    }
}

impl Signal {
    /// A signal that has not been given, with the lockdep class of its list of listeners: one of those
    /// may be a signal itself.
    pub fn new(name: &'static CStr, class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            sleepers <- SequenceWait::new(c"kofi::Signal", static_lock_class!()),
            listeners <- LockedList::new(name, class),
        })
    }

    /// Wakes everyone who holds an older ticket, and tells who listens. Any context.
    pub fn give(&self) {
        self.sleepers.wake();
        self.tell();
    }

    /// Tells who listens, and wakes nobody. Any context.
    pub(super) fn tell(&self) {
        self.listeners.each(|listener| listener.hear());
    }

    /// Whether anybody listens. Any context.
    pub(super) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Has `listener` told whenever it is given, until [`Self::forget`]. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn listen<L: Listener + 'static>(&self, listener: &Arc<L>) -> Result {
        self.listeners.add(listener.clone())
    }

    /// Ends one [`Self::listen`]: when this returns, that listener is not being told. May sleep.
    pub(super) fn forget<L: Listener>(&self, listener: &Arc<L>) {
        let is_it = |known: &Arc<dyn Listener>| {
            ptr::addr_eq(ptr::from_ref(&**known), ptr::from_ref(&**listener))
        };
        drop(self.listeners.take(is_it));
    }

    /// The kernel's own wait queue, for those who sleep there by other means.
    pub(super) fn wait_queue(&self) -> *mut WaitQueue {
        self.sleepers.wait_queue()
    }

    /// Takes a ticket. Any context.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.sleepers.count())
    }

    /// Sleeps until the signal is given after `ticket` was taken. Process context.
    #[inline]
    pub fn wait(&self, ticket: &Ticket, budget: &mut Budget) -> Woken {
        let slept = self
            .sleepers
            .sleep(ticket.0, budget.0.unwrap_or(Jiffies::MAX));
        if let (Some(left), Ok(now)) = (&mut budget.0, &slept) {
            *left = *now;
        }
        match slept {
            _ if self.sleepers.count() != ticket.0 => Woken::Signal,
            Ok(0) => Woken::Timeout,
            Ok(_) | Err(_) => Woken::Interrupted,
        }
    }
}
