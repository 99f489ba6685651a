// SPDX-License-Identifier: GPL-2.0

//! Locks without cost where a consumer serializes its own data calls.
//!
//! With FI_THREAD_DOMAIN and FI_THREAD_COMPLETION no two data calls of a consumer use one object at the same
//! time, and libfabric lets a provider leave out its locks. Control calls and connection events may still
//! come at any time. They are called *others* here: each takes an [`ExclusiveGuard`], which waits for every
//! data call that runs without the lock. As long as such a guard exists, data calls take the lock as well.
//!
//! A data call sets `owner_active` and then reads `revocations`, by two plain instructions. Others increment
//! `revocations`, have every CPU pass a full barrier, and then read `owner_active`. So at least one of the two sees
//! the other, and only the rare side pays for the barrier.

use super::{
    lock::{
        FastLockIrq,
        FastLockIrqGuard, //
    },
    once::{
        load_acquire,
        store_release, //
    },
};
use crate::{
    abi::Result,
    compat::synchronize_rcu, //
};
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
    revocations: Atomic<u32>,
    /// Nonzero while a data call is inside without the lock.
    owner_active: Atomic<u32>,
}

/// Interval of the checks for the end of a data call, which may have been preempted.
const POLL_INTERVAL: Delta = Delta::from_micros(50);

impl Bias {
    /// Enters without the lock, if there is no reason to lock.
    #[inline(always)]
    fn try_enter(&self) -> bool {
        // Stored before the load of `revocations`. A CPU may reorder the two, which the grace period in
        // `ExclusiveGuard::enter` covers.
        // SAFETY: The pointer is aligned and valid; as in `store_release`.
        unsafe { self.owner_active.as_ptr().write_volatile(1) };
        compiler_fence(Ordering::SeqCst);
        if load_acquire(&self.revocations) == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline(always)]
    fn leave(&self) {
        store_release(&self.owner_active, 0);
    }

    fn revoke(&self) {
        let _ = self.revocations.fetch_add(1, Full);
    }

    fn restore(&self) {
        // Release: a data call that reads 0 sees the accesses made under the lock.
        let _ = self.revocations.fetch_sub(1, Release);
    }

    /// Waits for a data call that entered before the bias was barred. May sleep.
    fn wait_for_owner(&self) {
        while load_acquire(&self.owner_active) != 0 {
            fsleep(POLL_INTERVAL);
        }
    }
}

/// The biased locks of a domain, and the number of callers that need them locked.
#[pin_data]
pub(crate) struct BiasOwner {
    #[pin]
    biases: Mutex<BiasList>,
}

/// The biases of a domain's locks.
///
/// # Invariants
///
/// Each belongs to a live [`BiasedLock`], which removes it when it is dropped.
struct BiasList {
    /// Number of [`ExclusiveGuard`]s; while it is not 0 each bias is barred once for all of them.
    exclusive_guards: u32,
    biases: KVec<NonNull<Bias>>,
}

// SAFETY: Gates may be used by any thread.
unsafe impl Send for BiasList {}

impl BiasList {
    fn iter(&self) -> impl Iterator<Item = &Bias> {
        // SAFETY: By the invariant each belongs to a live lock.
        self.biases.iter().map(|bias| unsafe { bias.as_ref() })
    }
}

impl BiasOwner {
    /// Makes the owner for a domain; `None` if the domain's objects are always locked. May sleep.
    pub(crate) fn new(threading: Threading) -> Result<Option<Arc<Self>>> {
        if !threading.is_serialized {
            return Ok(None);
        }
        let biases = BiasList {
            exclusive_guards: 0,
            biases: KVec::new(),
        };
        Ok(Some(Arc::pin_init(
            pin_init!(Self {
                biases <- new_mutex!(biases, "kofi::BiasOwner"),
            }),
            GFP_KERNEL,
        )?))
    }
}

/// Makes all data calls of a domain lock, for a caller that is no data call.
pub(crate) struct ExclusiveGuard(Option<Arc<BiasOwner>>);

impl ExclusiveGuard {
    /// Bars the biases and waits for running data calls. May sleep.
    pub(crate) fn enter(owner: Option<&Arc<BiasOwner>>) -> Self {
        if let Some(owner) = owner {
            let mut biases = owner.biases.lock();
            if biases.exclusive_guards == 0 {
                biases.iter().for_each(Bias::revoke);
                // Every CPU passes a full barrier: a data call that has not seen `revocations` set has `owner_active`
                // set from here on.
                synchronize_rcu();
                biases.iter().for_each(Bias::wait_for_owner);
            }
            biases.exclusive_guards += 1;
        }
        Self(owner.cloned())
    }
}

impl Drop for ExclusiveGuard {
    fn drop(&mut self) {
        if let Some(owner) = &self.0 {
            let mut biases = owner.biases.lock();
            biases.exclusive_guards -= 1;
            if biases.exclusive_guards == 0 {
                biases.iter().for_each(Bias::restore);
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
    bias: Bias,
    #[pin]
    lock: FastLockIrq<()>,
    /// Set while a guard exists, with debug assertions.
    #[cfg(debug_assertions)]
    is_held: Atomic<u32>,
    data: UnsafeCell<T>,
    owner: Option<Arc<BiasOwner>>,
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
        owner: Option<Arc<BiasOwner>>,
        data: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            bias: Bias {
                // Without serialization `revocations` is never 0.
                revocations: Atomic::new(u32::from(owner.is_none())),
                owner_active: Atomic::new(0),
            },
            lock <- FastLockIrq::new((), name, class),
            #[cfg(debug_assertions)]
            is_held: Atomic::new(0),
            data: UnsafeCell::new(data),
            owner,
        }? Error)
        .pin_chain(|this| {
            if let Some(owner) = &this.owner {
                let mut biases = owner.biases.lock();
                // INVARIANT: The lock is pinned, and removes its bias when it is dropped.
                biases.biases.push(NonNull::from(&this.bias), GFP_KERNEL)?;
                if biases.exclusive_guards > 0 {
                    this.bias.revoke();
                }
            }
            Ok(())
        })
    }

    /// Enters for a data call, and takes the lock if there is a reason to.
    ///
    /// # Safety
    ///
    /// The call is made for a data call of the consumer, or the caller has an [`ExclusiveGuard`] of the domain. The
    /// caller has no guard of this lock.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> BiasedGuard<'_, T> {
        // INVARIANT: Two data calls do not overlap by the safety requirement of `Threading::serialized()`, and one does
        // not lock twice by this function's; others wait for data calls that found `revocations` 0.
        let hold = match self.bias.try_enter() {
            true => HoldKind::Biased(&self.bias),
            false => HoldKind::Locked(self.lock.lock()),
        };
        self.new_guard(hold)
    }

    /// Enters for a data call without the lock; `None` if there is a reason to lock.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::enter`] hold.
    #[inline(always)]
    pub(crate) unsafe fn enter_biased(&self) -> Option<BiasedGuard<'_, T>> {
        // INVARIANT: As in `enter`.
        self.bias
            .try_enter()
            .then(|| self.new_guard(HoldKind::Biased(&self.bias)))
    }

    /// Locks, in a domain that is not serialized; `None` if there is another reason to lock.
    #[inline(always)]
    pub(crate) fn lock_fast(&self) -> Option<BiasedGuard<'_, T>> {
        let is_barred = || self.owner.is_some() || load_acquire(&self.bias.revocations) != 1;
        if is_barred() {
            return None;
        }
        // INVARIANT: It is locked.
        let guard = self.new_guard(HoldKind::Locked(self.lock.lock()));
        // Checked again under the lock: a caller of `revoke` that took the lock before is seen here.
        (!is_barred()).then_some(guard)
    }

    /// Adds a reason to lock, until [`Self::restore`], for calls that begin after this. Any context.
    pub(crate) fn revoke(&self) {
        self.bias.revoke();
    }

    /// Removes one reason to lock. Any context.
    ///
    /// # Safety
    ///
    /// A call of [`Self::revoke`] has added the reason, and nothing else removes it.
    pub(crate) unsafe fn restore(&self) {
        self.bias.restore();
    }

    /// Locks for a caller that is no data call and holds an [`ExclusiveGuard`] of the same domain.
    pub(crate) fn lock(&self, exclusive: &ExclusiveGuard) -> BiasedGuard<'_, T> {
        let address = |owner: &Option<Arc<BiasOwner>>| owner.as_ref().map(Arc::as_ptr);
        if kernel::warn_on!(address(&exclusive.0) != address(&self.owner)) {
            self.revoke_permanently();
        }
        // INVARIANT: `exclusive` makes all data calls lock.
        self.new_guard(HoldKind::Locked(self.lock.lock()))
    }

    /// Makes every data call lock from now on, and waits for those that do not. May sleep.
    #[cold]
    fn revoke_permanently(&self) {
        self.bias.revoke();
        // As in `ExclusiveGuard::enter`.
        synchronize_rcu();
        self.bias.wait_for_owner();
    }

    #[inline(always)]
    fn new_guard<'a>(&'a self, hold: HoldKind<'a>) -> BiasedGuard<'a, T> {
        #[cfg(debug_assertions)]
        kernel::warn_on!(self.is_held.xchg(1, Full) != 0);
        BiasedGuard { lock: self, hold }
    }
}

#[pinned_drop]
impl<T> PinnedDrop for BiasedLock<T> {
    fn drop(self: Pin<&mut Self>) {
        if let Some(owner) = &self.owner {
            let bias = NonNull::from(&self.bias);
            owner.biases.lock().biases.retain(|other| *other != bias);
        }
    }
}

/// The way in which a guard excludes others.
enum HoldKind<'a> {
    Biased(&'a Bias),
    Locked(#[allow(dead_code)] FastLockIrqGuard<'a, ()>),
}

impl Drop for HoldKind<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Self::Biased(bias) = self {
            bias.leave();
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
        self.lock.is_held.store(0, Release);
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

#[kunit_tests(kofi_biased_lock)]
mod tests {
    use super::*;
    use kernel::sync::static_lock_class;

    fn lock(owner: Option<Arc<BiasOwner>>) -> Result<Pin<KBox<BiasedLock<u32>>>> {
        Ok(KBox::pin_init(
            BiasedLock::new(owner, 0, c"kofi::test::BiasedLock", static_lock_class!()),
            GFP_KERNEL,
        )?)
    }

    fn is_biased(lock: &BiasedLock<u32>) -> bool {
        // SAFETY: There is one thread, and no other guard.
        let mut guard = unsafe { lock.enter() };
        *guard += 1;
        matches!(guard.hold, HoldKind::Biased(_))
    }

    #[test]
    fn data_calls_lock_while_there_are_others() -> Result {
        // SAFETY: There is one thread.
        let owner = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = lock(owner.clone())?;
        assert!(is_biased(&lock));
        let first = ExclusiveGuard::enter(owner.as_ref());
        assert!(!is_biased(&lock));
        let second = ExclusiveGuard::enter(owner.as_ref());
        drop(first);
        assert!(!is_biased(&lock));
        assert_eq!(*lock.lock(&second), 3);
        drop(second);
        assert!(is_biased(&lock));
        Ok(())
    }

    #[test]
    fn a_lock_made_meanwhile_knows_of_the_others() -> Result {
        // SAFETY: There is one thread.
        let owner = BiasOwner::new(unsafe { Threading::serialized() })?;
        let exclusive = ExclusiveGuard::enter(owner.as_ref());
        let lock = lock(owner)?;
        assert!(!is_biased(&lock));
        drop(exclusive);
        assert!(is_biased(&lock));
        Ok(())
    }

    #[test]
    fn each_reason_to_lock_counts() -> Result {
        // SAFETY: There is one thread.
        let owner = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = lock(owner.clone())?;
        // SAFETY: There is one thread, and no other guard.
        let is_open = || unsafe { lock.enter_biased() }.is_some();
        lock.revoke();
        let exclusive = ExclusiveGuard::enter(owner.as_ref());
        // SAFETY: Barred above.
        unsafe { lock.restore() };
        assert!(!is_biased(&lock));
        lock.revoke();
        drop(exclusive);
        assert!(!is_open());
        // SAFETY: Barred above.
        unsafe { lock.restore() };
        assert!(is_open());
        Ok(())
    }

    #[test]
    fn data_calls_of_any_thread_always_lock() -> Result {
        let owner = BiasOwner::new(Threading::SAFE)?;
        assert!(owner.is_none());
        let lock = lock(owner)?;
        assert!(!is_biased(&lock));
        drop(ExclusiveGuard::enter(None));
        assert!(!is_biased(&lock));
        Ok(())
    }

    #[test]
    fn who_locks_finds_it_barred_by_others_alone() -> Result {
        let lock = lock(None)?;
        let is_unbarred = || lock.lock_fast().is_some();
        // SAFETY: There is one thread, and no other guard.
        assert!(is_unbarred() && unsafe { lock.enter_biased() }.is_none());
        lock.revoke();
        assert!(!is_unbarred());
        // SAFETY: Barred above.
        unsafe { lock.restore() };
        assert!(is_unbarred());
        // SAFETY: There is one thread.
        let owner = BiasOwner::new(unsafe { Threading::serialized() })?;
        let lock = super::tests::lock(owner)?;
        // SAFETY: There is one thread, and no other guard.
        assert!(unsafe { lock.enter_biased() }.is_some() && lock.lock_fast().is_none());
        Ok(())
    }
}
