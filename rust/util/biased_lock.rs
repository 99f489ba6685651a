// SPDX-License-Identifier: GPL-2.0

//! Biased locks: data calls of a consumer that serializes them skip the lock.
//!
//! With FI_THREAD_DOMAIN and FI_THREAD_COMPLETION no two data calls of a consumer use one object at the same
//! time, and libfabric lets a provider leave out its locks: the lock is *biased* towards data calls. Control calls
//! and connection events may still come at any time. Each of them takes an [`ExclusiveGuard`], which revokes the
//! bias of every lock of the domain and waits for the data calls that run without the lock. As long as such a guard
//! exists, data calls take the lock as well.
//!
//! A data call stores `is_in_data_call` and then loads `revocations`, without a barrier between the two. An
//! [`ExclusiveGuard`] increments `revocations`, makes every CPU execute a full barrier (`synchronize_rcu()`), and
//! then loads `is_in_data_call`. At least one side therefore sees the store of the other, and only the rare side pays
//! for the barrier.

use super::{
    lock::FastLockIrqGuard,
    once::{
        load_acquire,
        store_release, //
    },
};
use crate::{
    compat::synchronize_rcu,
    prelude::*, //
};
use core::{
    cell::UnsafeCell,
    sync::atomic::{
        compiler_fence,
        Ordering, //
    },
};
use kernel::{
    sync::LockClassKey,
    time::delay::fsleep, //
};

/// The threading model of a domain: whether the consumer serializes its data calls.
#[derive(Clone, Copy)]
pub struct Threading(bool);

impl Threading {
    /// The provider serializes data calls: any thread may make them at any time, as with FI_THREAD_SAFE.
    pub const THREAD_SAFE: Self = Self(false);

    /// Returns whether the consumer serializes its data calls.
    pub const fn is_serialized(self) -> bool {
        self.0
    }

    /// The consumer serializes its data calls, as with FI_THREAD_COMPLETION.
    ///
    /// # Safety
    ///
    /// No two calls overlap that concern the same endpoint, completion queue, or endpoints bound to one completion
    /// queue, and that post, read completions, query free slots, or query whether a completion queue is empty
    /// (`fi_trywait()`, a poll set, a wait set): not on two CPUs, and not because one interrupts the other.
    pub const unsafe fn serialized() -> Self {
        Self(true)
    }
}

/// The state of a lock that decides whether a data call takes or skips it.
struct Bias {
    /// Number of reasons to lock; data calls skip the lock while it is 0.
    revocations: Atomic<u32>,
    /// Nonzero while a data call runs without the lock.
    is_in_data_call: Atomic<u32>,
}

/// Interval at which [`Bias::wait_for_data_call`] checks for the end of a data call, which may have been preempted.
const POLL_INTERVAL: Delta = Delta::from_micros(50);

impl Bias {
    /// Enters without the lock, if there is no reason to lock.
    #[inline(always)]
    fn try_enter(&self) -> bool {
        // The compiler keeps this store before the load of `revocations`. A CPU may reorder them; the grace period in
        // `ExclusiveGuard::enter` makes that harmless.
        // SAFETY: The pointer is aligned and valid, and all other accesses are atomic, as in `store_release`.
        unsafe { self.is_in_data_call.as_ptr().write_volatile(1) };
        compiler_fence(Ordering::SeqCst);
        if load_acquire(&self.revocations) == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline(always)]
    fn leave(&self) {
        store_release(&self.is_in_data_call, 0);
    }

    fn revoke(&self) {
        let _ = self.revocations.fetch_add(1, Full);
    }

    fn restore(&self) {
        // Release: a data call that reads 0 sees the accesses made under the lock.
        let _ = self.revocations.fetch_sub(1, Release);
    }

    /// Waits for a data call that entered before the bias was revoked. May sleep.
    fn wait_for_data_call(&self) {
        while load_acquire(&self.is_in_data_call) != 0 {
            fsleep(POLL_INTERVAL);
        }
    }
}

/// The biased locks of a domain, and the number of [`ExclusiveGuard`]s that revoke their bias.
#[pin_data]
pub(crate) struct BiasedLockList {
    #[pin]
    biases: Mutex<BiasList>,
}

/// The biases of a domain's locks.
///
/// # Invariants
///
/// Each pointer in `biases` is that of a live [`BiasedLock`], whose drop removes it from the list.
struct BiasList {
    /// Number of [`ExclusiveGuard`]s. While it is not 0, each bias is revoked once for all of them together.
    exclusive_guards: u32,
    biases: KVec<NonNull<Bias>>,
}

// SAFETY: The fields of a `Bias` are atomic, so any thread may use it.
unsafe impl Send for BiasList {}

impl BiasList {
    fn iter(&self) -> impl Iterator<Item = &Bias> {
        // SAFETY: By the type invariant each pointer is that of a live lock.
        self.biases.iter().map(|bias| unsafe { bias.as_ref() })
    }
}

impl BiasedLockList {
    /// Makes the list of locks for a domain; `None` if the provider serializes, so that every call locks. May sleep.
    pub(crate) fn new(threading: Threading) -> Result<Option<Arc<Self>>> {
        if !threading.is_serialized() {
            return Ok(None);
        }
        let biases = BiasList {
            exclusive_guards: 0,
            biases: KVec::new(),
        };
        Ok(Some(Arc::pin_init(
            pin_init!(Self {
                biases <- new_mutex!(biases, "kofi::BiasedLockList"),
            }),
            GFP_KERNEL,
        )?))
    }
}

/// Makes all data calls of a domain take their locks as long as it exists. For control calls and connection events.
pub(crate) struct ExclusiveGuard(Option<Arc<BiasedLockList>>);

impl ExclusiveGuard {
    /// Revokes the bias of all locks of `list`, and waits for data calls that run without the lock. May sleep.
    pub(crate) fn enter(list: Option<&Arc<BiasedLockList>>) -> Self {
        if let Some(list) = list {
            let mut biases = list.biases.lock();
            if biases.exclusive_guards == 0 {
                biases.iter().for_each(Bias::revoke);
                // Every CPU executes a full barrier. If a data call has loaded `revocations` as 0, its store to
                // `is_in_data_call` is visible from here on.
                synchronize_rcu();
                biases.iter().for_each(Bias::wait_for_data_call);
            }
            biases.exclusive_guards += 1;
        }
        Self(list.cloned())
    }
}

impl Drop for ExclusiveGuard {
    fn drop(&mut self) {
        if let Some(list) = &self.0 {
            let mut biases = list.biases.lock();
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
/// `data` is accessed only through a guard, and there is at most one guard at a time. The holder of the guard either
/// holds `lock`, or is a data call that skips `lock` while no [`ExclusiveGuard`] exists.
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
    list: Option<Arc<BiasedLockList>>,
}

// SAFETY: By the type invariant one thread at a time accesses the data.
unsafe impl<T: Send> Send for BiasedLock<T> {}

// SAFETY: As above.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// Makes a lock around `data` in the domain's `list`, with the given lockdep name and class. Without a list, each
    /// data call takes the lock. Making and dropping the lock may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        list: Option<Arc<BiasedLockList>>,
        data: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            bias: Bias {
                // If the provider serializes, `revocations` is never 0: every call locks.
                revocations: Atomic::new(u32::from(list.is_none())),
                is_in_data_call: Atomic::new(0),
            },
            lock <- FastLockIrq::new((), name, class),
            #[cfg(debug_assertions)]
            is_held: Atomic::new(0),
            data: UnsafeCell::new(data),
            list,
        }? Error)
        .pin_chain(|this| {
            if let Some(list) = &this.list {
                let mut biases = list.biases.lock();
                // INVARIANT: The lock is pinned, and its drop removes the pointer.
                biases.biases.push(NonNull::from(&this.bias), GFP_KERNEL)?;
                if biases.exclusive_guards > 0 {
                    this.bias.revoke();
                }
            }
            Ok(())
        })
    }

    /// Returns a guard for a data call. Takes the lock only if the bias is revoked.
    ///
    /// # Safety
    ///
    /// The call is made for a data call of the consumer, or the caller has an [`ExclusiveGuard`] of the domain. The
    /// caller has no guard of this lock.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> BiasedGuard<'_, T> {
        // INVARIANT: By the safety requirement of `Threading::serialized()` two data calls do not overlap, and by that
        // of this function one call has no two guards. An `ExclusiveGuard` waits for the data calls that skip the lock.
        let hold = match self.bias.try_enter() {
            true => HoldKind::Biased(&self.bias),
            false => HoldKind::Locked(self.lock.lock()),
        };
        self.new_guard(hold)
    }

    /// Returns a guard for a data call that skips the lock; `None` if the bias is revoked.
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

    /// Takes the lock for a data call in a domain whose provider serializes; `None` if the consumer serializes, or
    /// [`Self::revoke`] has added a reason to lock.
    #[inline(always)]
    pub(crate) fn lock_fast(&self) -> Option<BiasedGuard<'_, T>> {
        let is_revoked = || self.list.is_some() || load_acquire(&self.bias.revocations) != 1;
        if is_revoked() {
            return None;
        }
        // INVARIANT: The guard holds the lock.
        let guard = self.new_guard(HoldKind::Locked(self.lock.lock()));
        // Checked again under the lock, to see a `revoke` whose caller held the lock before this call took it.
        (!is_revoked()).then_some(guard)
    }

    /// Makes data calls that begin later take the lock, until [`Self::restore`]. Does not wait for data calls that run
    /// without the lock. Any context.
    pub(crate) fn revoke(&self) {
        self.bias.revoke();
    }

    /// Removes one reason to lock. Any context.
    ///
    /// # Safety
    ///
    /// A call of [`Self::revoke`] precedes this call, and no other call of this function undoes it.
    pub(crate) unsafe fn restore(&self) {
        self.bias.restore();
    }

    /// Takes the lock for a control call or connection event, which holds an [`ExclusiveGuard`] of the same domain.
    pub(crate) fn lock(&self, exclusive: &ExclusiveGuard) -> BiasedGuard<'_, T> {
        let address = |list: &Option<Arc<BiasedLockList>>| list.as_ref().map(Arc::as_ptr);
        if kernel::warn_on!(address(&exclusive.0) != address(&self.list)) {
            self.revoke_permanently();
        }
        // INVARIANT: `exclusive` makes all data calls lock.
        self.new_guard(HoldKind::Locked(self.lock.lock()))
    }

    /// Makes every data call take the lock from now on, and waits for a data call that runs without it. May sleep.
    #[cold]
    fn revoke_permanently(&self) {
        self.bias.revoke();
        // As in `ExclusiveGuard::enter`.
        synchronize_rcu();
        self.bias.wait_for_data_call();
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
        if let Some(list) = &self.list {
            let bias = NonNull::from(&self.bias);
            list.biases.lock().biases.retain(|other| *other != bias);
        }
    }
}

/// How a guard excludes other guards: by the bias, or by the lock.
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

/// Exclusive access to the data of a [`BiasedLock`].
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    #[allow(dead_code)]
    hold: HoldKind<'a>,
}

#[cfg(debug_assertions)]
impl<T> Drop for BiasedGuard<'_, T> {
    fn drop(&mut self) {
        // The lock is still held: `hold` is dropped after this.
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

    fn new_lock(list: Option<Arc<BiasedLockList>>) -> Result<Pin<KBox<BiasedLock<u32>>>> {
        Ok(KBox::pin_init(
            BiasedLock::new(list, 0, c"kofi::test::BiasedLock", static_lock_class!()),
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
    fn exclusive_guard_disables_the_bias() -> Result {
        // SAFETY: There is one thread.
        let list = BiasedLockList::new(unsafe { Threading::serialized() })?;
        let lock = new_lock(list.clone())?;
        assert!(is_biased(&lock));
        let first = ExclusiveGuard::enter(list.as_ref());
        assert!(!is_biased(&lock));
        let second = ExclusiveGuard::enter(list.as_ref());
        drop(first);
        assert!(!is_biased(&lock));
        assert_eq!(*lock.lock(&second), 3);
        drop(second);
        assert!(is_biased(&lock));
        Ok(())
    }

    #[test]
    fn new_lock_is_unbiased_while_an_exclusive_guard_is_held() -> Result {
        // SAFETY: There is one thread.
        let list = BiasedLockList::new(unsafe { Threading::serialized() })?;
        let exclusive = ExclusiveGuard::enter(list.as_ref());
        let lock = new_lock(list)?;
        assert!(!is_biased(&lock));
        drop(exclusive);
        assert!(is_biased(&lock));
        Ok(())
    }

    #[test]
    fn bias_returns_after_the_last_revocation() -> Result {
        // SAFETY: There is one thread.
        let list = BiasedLockList::new(unsafe { Threading::serialized() })?;
        let lock = new_lock(list.clone())?;
        // SAFETY: There is one thread, and no other guard.
        let can_enter_biased = || unsafe { lock.enter_biased() }.is_some();
        lock.revoke();
        let exclusive = ExclusiveGuard::enter(list.as_ref());
        // SAFETY: Revoked above.
        unsafe { lock.restore() };
        assert!(!is_biased(&lock));
        lock.revoke();
        drop(exclusive);
        assert!(!can_enter_biased());
        // SAFETY: Revoked above.
        unsafe { lock.restore() };
        assert!(can_enter_biased());
        Ok(())
    }

    #[test]
    fn lock_without_a_list_is_never_biased() -> Result {
        let list = BiasedLockList::new(Threading::THREAD_SAFE)?;
        assert!(list.is_none());
        let lock = new_lock(list)?;
        assert!(!is_biased(&lock));
        drop(ExclusiveGuard::enter(None));
        assert!(!is_biased(&lock));
        Ok(())
    }

    #[test]
    fn lock_fast_fails_while_revoked_or_biased() -> Result {
        let lock = new_lock(None)?;
        let can_lock_fast = || lock.lock_fast().is_some();
        // SAFETY: There is one thread, and no other guard.
        assert!(can_lock_fast() && unsafe { lock.enter_biased() }.is_none());
        lock.revoke();
        assert!(!can_lock_fast());
        // SAFETY: Revoked above.
        unsafe { lock.restore() };
        assert!(can_lock_fast());
        // SAFETY: There is one thread.
        let list = BiasedLockList::new(unsafe { Threading::serialized() })?;
        let lock = new_lock(list)?;
        // SAFETY: There is one thread, and no other guard.
        assert!(unsafe { lock.enter_biased() }.is_some() && lock.lock_fast().is_none());
        Ok(())
    }
}
