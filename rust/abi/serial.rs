// SPDX-License-Identifier: GPL-2.0

//! Locks that cost nothing where a consumer serializes its own calls.
//!
//! With FI_THREAD_DOMAIN and FI_THREAD_COMPLETION no two data calls of a consumer meet at one object,
//! and libfabric lets a provider leave out its locks. Control calls may come at any time all the same,
//! and so may what happens to a connection. Those are *others*: each announces itself and waits
//! until every data call that has not seen it is over; from then on, and until it has left, data
//! calls lock as well.

use super::{
    lock::{
        FastLockIrq,
        FastLockIrqGuard, //
    },
    once::{
        load_acquire,
        store_release, //
    },
    Result,
};
use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    },
};
#[cfg(debug_assertions)]
use kernel::sync::atomic::{
    Full,
    Release, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Atomic,
        new_mutex,
        rcu,
        Arc,
        LockClassKey,
        Mutex, //
    },
};

/// Who sees to it that data calls do not meet at one object.
#[derive(Clone, Copy)]
pub struct Threading {
    is_serialized: bool,
}

impl Threading {
    /// The provider: any thread may call at any time.
    pub const SAFE: Self = Self {
        is_serialized: false,
    };

    /// The consumer, as FI_THREAD_COMPLETION says.
    ///
    /// # Safety
    ///
    /// Of the calls that post, read completions or ask for room, no two that concern the same
    /// endpoint, completion queue, or endpoints bound to one completion queue ever overlap: not on
    /// two CPUs, and not because one interrupts the other.
    pub const unsafe fn serialized() -> Self {
        Self {
            is_serialized: true,
        }
    }
}

/// Knows whether the consumer's data calls are alone with the objects of a domain.
#[pin_data]
pub struct Serial {
    /// Whether there are others.
    shared: Atomic<u32>,
    /// How many.
    #[pin]
    others: Mutex<u32>,
}

impl Serial {
    /// For a domain; none if its objects are always locked. May sleep.
    pub fn new(threading: Threading) -> Result<Option<Arc<Self>>> {
        if !threading.is_serialized {
            return Ok(None);
        }
        Ok(Some(Arc::pin_init(
            pin_init!(Self {
                shared: Atomic::new(0),
                others <- new_mutex!(0, "kofi::Serial"),
            }),
            GFP_KERNEL,
        )?))
    }

    /// Evidence that there are no others, as long as it is kept.
    #[inline(always)]
    fn alone(&self) -> Option<rcu::Guard> {
        let guard = rcu::read_lock();
        (load_acquire(&self.shared) == 0).then_some(guard)
    }
}

/// Stands for something else than a data call: everybody locks.
pub struct Others(Option<Arc<Serial>>);

impl Others {
    /// Announces one, and waits for the data calls under way. May sleep.
    pub fn enter(serial: Option<&Arc<Serial>>) -> Self {
        if let Some(serial) = serial {
            let mut others = serial.others.lock();
            if *others == 0 {
                store_release(&serial.shared, 1);
                // Whoever has not seen that is inside of a read side.
                rcu::synchronize_rcu();
            }
            *others += 1;
        }
        Self(serial.cloned())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        if let Some(serial) = &self.0 {
            let mut others = serial.others.lock();
            *others -= 1;
            if *others == 0 {
                // Whoever sees this sees what the others have done.
                store_release(&serial.shared, 0);
            }
        }
    }
}

/// A [`FastLockIrq`] that data calls do without when they are alone.
///
/// # Invariants
///
/// What `data` is used through is a guard, and there are no two of them: its user holds `lock`, or is a
/// data call of a consumer that serializes those, and there are no others.
#[pin_data]
#[repr(C)]
pub struct SerialLock<T> {
    serial: Option<Arc<Serial>>,
    #[pin]
    lock: FastLockIrq<()>,
    /// Whether there is a guard, where that is checked.
    #[cfg(debug_assertions)]
    busy: Atomic<u32>,
    data: UnsafeCell<T>,
}

// SAFETY: By the invariant the data has one user at a time, whichever thread that is.
unsafe impl<T: Send> Send for SerialLock<T> {}

// SAFETY: As above.
unsafe impl<T: Send> Sync for SerialLock<T> {}

impl<T> SerialLock<T> {
    /// A lock around `data`, with its lockdep class.
    pub fn new(
        serial: Option<Arc<Serial>>,
        data: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            serial,
            lock <- FastLockIrq::new((), name, class),
            #[cfg(debug_assertions)]
            busy: Atomic::new(0),
            data: UnsafeCell::new(data),
        })
    }

    /// For a data call, or on behalf of one; for others too, who have announced themselves.
    #[inline(always)]
    pub fn enter(&self) -> SerialGuard<'_, T> {
        // INVARIANT: Two data calls do not meet by the safety requirement of
        // `Threading::serialized()`; others have waited for those that found themselves alone.
        let hold = match self.serial.as_ref().and_then(|serial| serial.alone()) {
            Some(alone) => Hold::Alone(alone),
            None => Hold::Locked(self.lock.lock()),
        };
        self.guard(hold)
    }

    /// For everything else, which has announced itself.
    pub fn lock(&self, _others: &Others) -> SerialGuard<'_, T> {
        // INVARIANT: Everybody locks.
        self.guard(Hold::Locked(self.lock.lock()))
    }

    #[inline(always)]
    fn guard<'a>(&'a self, hold: Hold<'a>) -> SerialGuard<'a, T> {
        #[cfg(debug_assertions)]
        kernel::warn_on!(self.busy.xchg(1, Full) != 0);
        SerialGuard { lock: self, hold }
    }
}

/// Why nobody else has the data.
enum Hold<'a> {
    Alone(#[allow(dead_code)] rcu::Guard),
    Locked(#[allow(dead_code)] FastLockIrqGuard<'a, ()>),
}

/// The use of a [`SerialLock`]'s data.
pub struct SerialGuard<'a, T> {
    lock: &'a SerialLock<T>,
    #[allow(dead_code)]
    hold: Hold<'a>,
}

#[cfg(debug_assertions)]
impl<T> Drop for SerialGuard<'_, T> {
    fn drop(&mut self) {
        // `hold` is dropped after this.
        self.lock.busy.store(0, Release);
    }
}

impl<T> Deref for SerialGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: By the lock's invariant this guard is the only one.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for SerialGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As above.
        unsafe { &mut *self.lock.data.get() }
    }
}

#[kunit_tests(kofi_abi_serial)]
mod tests {
    use super::*;
    use kernel::sync::static_lock_class;

    fn lock(serial: Option<Arc<Serial>>) -> Result<Pin<KBox<SerialLock<u32>>>> {
        Ok(KBox::pin_init(
            SerialLock::new(serial, 0, c"kofi::test", static_lock_class!()),
            GFP_KERNEL,
        )?)
    }

    fn is_alone(lock: &SerialLock<u32>) -> bool {
        let mut guard = lock.enter();
        *guard += 1;
        matches!(guard.hold, Hold::Alone(_))
    }

    #[test]
    fn data_calls_lock_while_there_are_others() -> Result {
        // SAFETY: There is one thread.
        let serial = Serial::new(unsafe { Threading::serialized() })?;
        let lock = lock(serial.clone())?;
        assert!(is_alone(&lock));
        let first = Others::enter(serial.as_ref());
        assert!(!is_alone(&lock));
        let second = Others::enter(serial.as_ref());
        drop(first);
        assert!(!is_alone(&lock));
        assert_eq!(*lock.lock(&second), 3);
        drop(second);
        assert!(is_alone(&lock));
        Ok(())
    }

    #[test]
    fn data_calls_of_any_thread_always_lock() -> Result {
        let serial = Serial::new(Threading::SAFE)?;
        assert!(serial.is_none());
        let lock = lock(serial)?;
        assert!(!is_alone(&lock));
        drop(Others::enter(None));
        assert!(!is_alone(&lock));
        Ok(())
    }
}
