// SPDX-License-Identifier: GPL-2.0

//! Sleeping until a queue has something to read.
//!
//! A [`Signal`] counts events. A reader takes a [`Ticket`], checks its queue, and sleeps only while the count
//! is still the ticket's, so that an event between the check and the sleep is not lost. A driver's completion
//! interrupt may raise a signal; the only locks are those of the wait queue and of the list of listeners.

use super::locked_list::LockedList;
use crate::{
    fi::prelude::*,
    util::sequence_wait::{
        now_jiffies,
        SequenceWait,
        WaitQueue, //
    },
};
use kernel::{
    sync::LockClassKey,
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
};

/// An event that threads wait for and listeners forward.
#[pin_data]
pub struct Signal {
    #[pin]
    waiters: SequenceWait,
    #[pin]
    listeners: LockedList<Arc<dyn Listener>>,
}

/// A listener of a signal.
pub(super) trait Listener: Send + Sync {
    /// Called when the signal is raised. Any context; the caller may hold a driver's locks.
    fn notify(&self);
}

impl Listener for Signal {
    fn notify(&self) {
        self.raise();
    }
}

/// The count of a [`Signal`] at one moment.
pub struct Ticket(i64);

/// The reason why a wait ended.
#[derive(PartialEq, Eq)]
pub enum Woken {
    /// The signal was raised.
    Signal,
    /// The time is over.
    Timeout,
    /// A signal is pending for the thread, or the kthread should stop.
    Interrupted,
}

/// The total sleeping time of a blocking call, across all its wakeups.
pub struct Budget(Option<Jiffies>);

impl Budget {
    /// Converts a timeout in milliseconds; a negative one is infinite.
    pub fn from_millis(timeout: c_int) -> Self {
        Self(u32::try_from(timeout).ok().map(msecs_to_jiffies))
    }

    /// Returns true if no time is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0 == Some(0)
    }
}

/// The end of a blocking call, no matter how much work it has to do: a tick, or none for an infinite timeout.
pub struct Deadline(Option<Jiffies>);

impl Deadline {
    /// Converts a timeout in milliseconds that starts now; a negative one is infinite.
    pub fn from_millis(timeout: c_int) -> Self {
        Self::from_budget(&Budget::from_millis(timeout))
    }

    /// Returns the deadline of a call that starts now and may take that long.
    pub(super) fn from_budget(&Budget(ticks): &Budget) -> Self {
        Self(ticks.map(|ticks| now_jiffies().wrapping_add(ticks)))
    }

    /// Returns the remaining sleeping time.
    pub(super) fn remaining(&self) -> Budget {
        Budget(self.0.map(|end| {
            let left = end.wrapping_sub(now_jiffies());
            // A difference over half the range means that the deadline has passed.
            if left > Jiffies::MAX / 2 {
                0
            } else {
                left
            }
        }))
    }
}

impl Signal {
    /// Returns a signal. `class` is the lockdep class of the list of listeners, as a listener may be a signal
    /// itself.
    pub fn new(name: &'static CStr, class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            waiters <- SequenceWait::new(c"kofi::Signal", static_lock_class!()),
            listeners <- LockedList::new(name, class),
        })
    }

    /// Wakes the holders of older tickets, and calls the listeners. Any context.
    pub fn raise(&self) {
        self.waiters.wake_all();
        self.notify_listeners();
    }

    /// Calls the listeners alone. Any context.
    pub(super) fn notify_listeners(&self) {
        self.listeners.for_each(|listener| listener.notify());
    }

    /// Returns true if there are listeners. Any context.
    pub(super) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Adds a listener, which is called until [`Self::remove_listener`]. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn add_listener<L: Listener + 'static>(&self, listener: &Arc<L>) -> Result {
        self.listeners.add(listener.clone())
    }

    /// Removes a listener: when this returns it is not being called. May sleep.
    pub(super) fn remove_listener<L: Listener>(&self, listener: &Arc<L>) {
        let is_it = |known: &Arc<dyn Listener>| {
            ptr::addr_eq(ptr::from_ref(&**known), ptr::from_ref(&**listener))
        };
        drop(self.listeners.remove_first(is_it));
    }

    /// Returns the kernel wait queue, for threads that sleep by other means.
    pub(super) fn wait_queue(&self) -> *mut WaitQueue {
        self.waiters.wait_queue()
    }

    /// Takes a ticket. Any context.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.waiters.count())
    }

    /// Sleeps until the signal is raised after `ticket` was taken. Process context.
    #[inline]
    pub fn wait(&self, ticket: &Ticket, budget: &mut Budget) -> Woken {
        let slept = self
            .waiters
            .wait_change(ticket.0, budget.0.unwrap_or(Jiffies::MAX));
        if let (Some(left), Ok(now)) = (&mut budget.0, &slept) {
            *left = *now;
        }
        match slept {
            _ if self.waiters.count() != ticket.0 => Woken::Signal,
            Ok(0) => Woken::Timeout,
            Ok(_) | Err(_) => Woken::Interrupted,
        }
    }
}
