// SPDX-License-Identifier: GPL-2.0

//! Locks without cost where a consumer serializes its own data calls.
//!
//! With FI_THREAD_DOMAIN and FI_THREAD_COMPLETION no two data calls of a consumer use one object at the same
//! time, and libfabric lets a provider leave out its locks. Control calls and connection events may still
//! come at any time. They are called *others* here: each takes an [`ExclusiveGuard`], which waits for every
//! data call that runs without the lock. As long as such a guard exists, data calls take the lock as well.
//!
//! A data call sets `inside` and then reads `shut`, by two plain instructions. Others increment `shut`, have
//! every CPU pass a full barrier, and then read `inside`. So at least one of the two sees the other, and only
//! the rare side pays for the barrier.

use super::{
    lock::{
        FastLockIrq,
        FastLockIrqGuard, //
    },
    once::{
        load_acquire,
        store_release, //
    },
    Result, //
};
use crate::compat::synchronize_rcu;
use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull,
    sync::atomic::{
        compiler_fence,
        Ordering, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Release, //
        },
        new_mutex,
        Arc,
        LockClassKey,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// The threading model: the provider or the consumer keeps data calls apart.
#[derive(Clone, Copy)]
pub struct Threading {
    is_serialized: bool,
}

impl Threading {
    /// The provider locks: any thread may call at any time.
    pub const SAFE: Self = Self {
        is_serialized: false,
    };

    /// Returns whether the consumer serializes its data calls.
    pub const fn is_serialized(self) -> bool {
        self.is_serialized
    }

    /// The consumer serializes its data calls, as with FI_THREAD_COMPLETION.
    ///
    /// # Safety
    ///
    /// No two calls overlap that concern the same endpoint, completion queue, or endpoints bound to one completion
    /// queue, and that post, read completions, query free slots, or query whether a completion queue is empty
    /// (`fi_trywait()`, a poll set, a wait set): not on two CPUs, and not because one interrupts the other.
    pub const unsafe fn serialized() -> Self {
        Self {
            is_serialized: true,
        }
    }
}

/// State of a lock that decides whether a data call takes it.
struct Bias {
    /// Number of reasons to lock.
    shut: Atomic<u32>,
    /// Nonzero while a data call is inside without the lock.
    inside: Atomic<u32>,
}

/// Interval of the checks for the end of a data call, which may have been preempted.
const PATIENCE: Delta = Delta::from_micros(50);

impl Bias {
    /// Enters without the lock, if there is no reason to lock.
    #[inline(always)]
    fn enter(&self) -> bool {
        // Stored before the load of `shut`. A CPU may reorder the two, which the grace period in
        // `ExclusiveGuard::enter` covers.
        // SAFETY: The pointer is aligned and valid; as in `store_release`.
        unsafe { self.inside.as_ptr().write_volatile(1) };
        compiler_fence(Ordering::SeqCst);
        if load_acquire(&self.shut) == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline(always)]
    fn leave(&self) {
        store_release(&self.inside, 0);
    }

    fn bar(&self) {
        let _ = self.shut.fetch_add(1, Full);
    }

    fn unbar(&self) {
        // Release: a data call that reads 0 sees the accesses made under the lock.
        let _ = self.shut.fetch_sub(1, Release);
    }

    /// Waits for a data call that entered before the bias was barred. May sleep.
    fn wait(&self) {
        while load_acquire(&self.inside) != 0 {
            fsleep(PATIENCE);
        }
    }
}

/// The biased locks of a domain, and the number of callers that need them locked.
#[pin_data]
pub(crate) struct BiasOwner {
    #[pin]
    gates: Mutex<BiasList>,
}

/// The biases of a domain's locks.
///
/// # Invariants
///
/// Each belongs to a live [`BiasedLock`], which removes it when it is dropped.
struct BiasList {
    /// Number of [`ExclusiveGuard`]s; while it is not 0 each bias is barred once for all of them.
    others: u32,
    list: KVec<NonNull<Bias>>,
}

// SAFETY: Gates may be used by any thread.
unsafe impl Send for BiasList {}

impl BiasList {
    fn iter(&self) -> impl Iterator<Item = &Bias> {
        // SAFETY: By the invariant each belongs to a live lock.
        self.list.iter().map(|gate| unsafe { gate.as_ref() })
    }
}

impl BiasOwner {
    /// Makes the owner for a domain; `None` if the domain's objects are always locked. May sleep.
    pub(crate) fn new(threading: Threading) -> Result<Option<Arc<Self>>> {
        if !threading.is_serialized {
            return Ok(None);
        }
        let gates = BiasList {
            others: 0,
            list: KVec::new(),
        };
        Ok(Some(Arc::pin_init(
            pin_init!(Self {
                gates <- new_mutex!(gates, "kofi::BiasOwner"),
            }),
            GFP_KERNEL,
        )?))
    }
}

/// Makes all data calls of a domain lock, for a caller that is no data call.
pub(crate) struct ExclusiveGuard(Option<Arc<BiasOwner>>);

impl ExclusiveGuard {
    /// Bars the biases and waits for running data calls. May sleep.
    pub(crate) fn enter(serial: Option<&Arc<BiasOwner>>) -> Self {
        if let Some(serial) = serial {
            let mut gates = serial.gates.lock();
            if gates.others == 0 {
                gates.iter().for_each(Bias::bar);
                // Every CPU passes a full barrier: a data call that has not seen `shut` set has `inside` set
                // from here on.
                synchronize_rcu();
                gates.iter().for_each(Bias::wait);
            }
            gates.others += 1;
        }
        Self(serial.cloned())
    }
}

impl Drop for ExclusiveGuard {
    fn drop(&mut self) {
        if let Some(serial) = &self.0 {
            let mut gates = serial.gates.lock();
            gates.others -= 1;
            if gates.others == 0 {
                gates.iter().for_each(Bias::unbar);
            }
        }
    }
}

/// A [`FastLockIrq`] that data calls skip when the consumer serializes them.
///
/// # Invariants
///
/// `data` is accessed only through a guard, and there is one guard at a time: its owner holds `lock`, or is a
/// data call of a consumer that serializes them, and there are no others.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct BiasedLock<T> {
    gate: Bias,
    #[pin]
    lock: FastLockIrq<()>,
    /// Set while a guard exists, with debug assertions.
    #[cfg(debug_assertions)]
    busy: Atomic<u32>,
    data: UnsafeCell<T>,
    serial: Option<Arc<BiasOwner>>,
}

// SAFETY: By the invariant the data has one user at a time, whichever thread that is.
unsafe impl<T: Send> Send for BiasedLock<T> {}

// SAFETY: As above.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// Makes a lock around `data`, with its lockdep class. Making and dropping it may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        serial: Option<Arc<BiasOwner>>,
        data: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            gate: Bias {
                // Without serialization `shut` is never 0.
                shut: Atomic::new(u32::from(serial.is_none())),
                inside: Atomic::new(0),
            },
            lock <- FastLockIrq::new((), name, class),
            #[cfg(debug_assertions)]
            busy: Atomic::new(0),
            data: UnsafeCell::new(data),
            serial,
        }? Error)
        .pin_chain(|this| {
            if let Some(serial) = &this.serial {
                let mut gates = serial.gates.lock();
                // INVARIANT: The lock is pinned, and removes its bias when it is dropped.
                gates.list.push(NonNull::from(&this.gate), GFP_KERNEL)?;
                if gates.others > 0 {
                    this.gate.bar();
                }
            }
            Ok(())
        })
    }

    /// Enters for a data call, and takes the lock if there is a reason to.
    ///
    /// # Safety
    ///
    /// The call is made for a data call of the consumer, or the caller has an [`ExclusiveGuard`] of the domain. The caller has
    /// no guard of this lock.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> BiasedGuard<'_, T> {
        // INVARIANT: Two data calls do not overlap by the safety requirement of `Threading::serialized()`, and one does
        // not lock twice by this function's; others wait for data calls that found `shut` 0.
        let hold = match self.gate.enter() {
            true => HoldKind::Alone(&self.gate),
            false => HoldKind::Locked(self.lock.lock()),
        };
        self.guard(hold)
    }

    /// Enters for a data call without the lock; `None` if there is a reason to lock.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::enter`] hold.
    #[inline(always)]
    pub(crate) unsafe fn enter_alone(&self) -> Option<BiasedGuard<'_, T>> {
        // INVARIANT: As in `enter`.
        self.gate
            .enter()
            .then(|| self.guard(HoldKind::Alone(&self.gate)))
    }

    /// Locks, in a domain that is not serialized; `None` if there is another reason to lock.
    #[inline(always)]
    pub(crate) fn lock_unbarred(&self) -> Option<BiasedGuard<'_, T>> {
        let is_barred = || self.serial.is_some() || load_acquire(&self.gate.shut) != 1;
        if is_barred() {
            return None;
        }
        // INVARIANT: It is locked.
        let guard = self.guard(HoldKind::Locked(self.lock.lock()));
        // Checked again under the lock: a caller of `bar` that took the lock before is seen here.
        (!is_barred()).then_some(guard)
    }

    /// Adds a reason to lock, until [`Self::unbar`], for calls that begin after this. Any context.
    pub(crate) fn bar(&self) {
        self.gate.bar();
    }

    /// Removes one reason to lock. Any context.
    ///
    /// # Safety
    ///
    /// A call of [`Self::bar`] has added the reason, and nothing else removes it.
    pub(crate) unsafe fn unbar(&self) {
        self.gate.unbar();
    }

    /// Locks for a caller that is no data call and holds an [`ExclusiveGuard`] of the same domain.
    pub(crate) fn lock(&self, others: &ExclusiveGuard) -> BiasedGuard<'_, T> {
        let address = |serial: &Option<Arc<BiasOwner>>| serial.as_ref().map(Arc::as_ptr);
        if kernel::warn_on!(address(&others.0) != address(&self.serial)) {
            self.bar_for_good();
        }
        // INVARIANT: `others` makes all data calls lock.
        self.guard(HoldKind::Locked(self.lock.lock()))
    }

    /// Makes every data call lock from now on, and waits for those that do not. May sleep.
    #[cold]
    fn bar_for_good(&self) {
        self.gate.bar();
        // As in `ExclusiveGuard::enter`.
        synchronize_rcu();
        self.gate.wait();
    }

    #[inline(always)]
    fn guard<'a>(&'a self, hold: HoldKind<'a>) -> BiasedGuard<'a, T> {
        #[cfg(debug_assertions)]
        kernel::warn_on!(self.busy.xchg(1, Full) != 0);
        BiasedGuard { lock: self, hold }
    }
}

#[pinned_drop]
impl<T> PinnedDrop for BiasedLock<T> {
    fn drop(self: Pin<&mut Self>) {
        if let Some(serial) = &self.serial {
            let gate = NonNull::from(&self.gate);
            serial.gates.lock().list.retain(|other| *other != gate);
        }
    }
}

/// The way in which a guard excludes others.
enum HoldKind<'a> {
    Alone(&'a Bias),
    Locked(#[allow(dead_code)] FastLockIrqGuard<'a, ()>),
}

impl Drop for HoldKind<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Self::Alone(gate) = self {
            gate.leave();
        }
    }
}

/// Access to the data of a [`BiasedLock`].
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    #[allow(dead_code)]
    hold: HoldKind<'a>,
}

#[cfg(debug_assertions)]
impl<T> Drop for BiasedGuard<'_, T> {
    fn drop(&mut self) {
        // `hold` is dropped after this.
        self.lock.busy.store(0, Release);
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: By the lock's invariant this guard is the only one.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
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

    fn lock(serial: Option<Arc<BiasOwner>>) -> Result<Pin<KBox<BiasedLock<u32>>>> {
        Ok(KBox::pin_init(
            BiasedLock::new(serial, 0, c"kofi::test::BiasedLock", static_lock_class!()),
            GFP_KERNEL,
        )?)
    }

    fn is_alone(lock: &BiasedLock<u32>) -> bool {
        // SAFETY: There is one thread, and no other guard.
        let mut guard = unsafe { lock.enter() };
        *guard += 1;
        matches!(guard.hold, HoldKind::Alone(_))
    }

    #[test]
    fn data_calls_lock_while_there_are_others() -> Result {
        // SAFETY: There is one thread.
        let serial = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = lock(serial.clone())?;
        assert!(is_alone(&lock));
        let first = ExclusiveGuard::enter(serial.as_ref());
        assert!(!is_alone(&lock));
        let second = ExclusiveGuard::enter(serial.as_ref());
        drop(first);
        assert!(!is_alone(&lock));
        assert_eq!(*lock.lock(&second), 3);
        drop(second);
        assert!(is_alone(&lock));
        Ok(())
    }

    #[test]
    fn a_lock_made_meanwhile_knows_of_the_others() -> Result {
        // SAFETY: There is one thread.
        let serial = BiasOwner::new(unsafe { Threading::serialized() })?;
        let others = ExclusiveGuard::enter(serial.as_ref());
        let lock = lock(serial)?;
        assert!(!is_alone(&lock));
        drop(others);
        assert!(is_alone(&lock));
        Ok(())
    }

    #[test]
    fn each_reason_to_lock_counts() -> Result {
        // SAFETY: There is one thread.
        let serial = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = lock(serial.clone())?;
        // SAFETY: There is one thread, and no other guard.
        let is_open = || unsafe { lock.enter_alone() }.is_some();
        lock.bar();
        let others = ExclusiveGuard::enter(serial.as_ref());
        // SAFETY: Barred above.
        unsafe { lock.unbar() };
        assert!(!is_alone(&lock));
        lock.bar();
        drop(others);
        assert!(!is_open());
        // SAFETY: Barred above.
        unsafe { lock.unbar() };
        assert!(is_open());
        Ok(())
    }

    #[test]
    fn data_calls_of_any_thread_always_lock() -> Result {
        let serial = BiasOwner::new(Threading::SAFE)?;
        assert!(serial.is_none());
        let lock = lock(serial)?;
        assert!(!is_alone(&lock));
        drop(ExclusiveGuard::enter(None));
        assert!(!is_alone(&lock));
        Ok(())
    }

    #[test]
    fn who_locks_finds_it_barred_by_others_alone() -> Result {
        let lock = lock(None)?;
        let is_unbarred = || lock.lock_unbarred().is_some();
        // SAFETY: There is one thread, and no other guard.
        assert!(is_unbarred() && unsafe { lock.enter_alone() }.is_none());
        lock.bar();
        assert!(!is_unbarred());
        // SAFETY: Barred above.
        unsafe { lock.unbar() };
        assert!(is_unbarred());
        // SAFETY: There is one thread.
        let serial = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = super::tests::lock(serial)?;
        // SAFETY: There is one thread, and no other guard.
        assert!(unsafe { lock.enter_alone() }.is_some() && lock.lock_unbarred().is_none());
        Ok(())
    }
}
