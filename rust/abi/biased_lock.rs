// SPDX-License-Identifier: GPL-2.0

//! Locks that cost nothing where a consumer serializes its own calls.
//!
//! With FI_THREAD_DOMAIN and FI_THREAD_COMPLETION no two data calls of a consumer meet at one object,
//! and libfabric lets a provider leave out its locks. Control calls may come at any time all the same,
//! and so may what happens to a connection. Those are *others*: each announces itself and waits
//! until every data call that has not seen it is over; from then on, and until it has left, data
//! calls lock as well.
//!
//! A data call says that it is inside and then looks whether it may be, by two plain instructions.
//! Others say that nobody may, have every CPU pass a barrier, and then look who is inside. So each
//! pair of them meets, and only the rare side pays for that.

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

    /// Whether it is the consumer.
    pub const fn is_serialized(self) -> bool {
        self.is_serialized
    }

    /// The consumer, as FI_THREAD_COMPLETION says.
    ///
    /// # Safety
    ///
    /// No two calls overlap that concern the same endpoint, completion queue, or endpoints bound to one completion
    /// queue, and that post, read completions, ask for room, or ask whether a completion queue has something
    /// (`fi_trywait()`, a poll set, a wait set): not on two CPUs, and not because one interrupts the other.
    pub const unsafe fn serialized() -> Self {
        Self {
            is_serialized: true,
        }
    }
}

/// What a data call goes through instead of a lock, as long as nobody has shut it.
struct Bias {
    /// How many reasons there are to lock.
    shut: Atomic<u32>,
    /// Whether a data call is inside without the lock.
    inside: Atomic<u32>,
}

/// Between two looks at whether a data call, which may have lost its CPU, is over.
const PATIENCE: Delta = Delta::from_micros(50);

impl Bias {
    /// Goes inside, if there is no reason to lock.
    #[inline(always)]
    fn enter(&self) -> bool {
        // Before the look. That CPUs may exchange the two is what `ExclusiveGuard::enter` sees to.
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
        // Whoever finds it open sees what was done meanwhile.
        let _ = self.shut.fetch_sub(1, Release);
    }

    /// Waits for who went inside before it was barred. May sleep.
    fn wait(&self) {
        while load_acquire(&self.inside) != 0 {
            fsleep(PATIENCE);
        }
    }
}

/// Knows whether the consumer's data calls are alone with the objects of a domain.
#[pin_data]
pub(crate) struct BiasOwner {
    #[pin]
    gates: Mutex<BiasList>,
}

/// The gates of a domain.
///
/// # Invariants
///
/// Each is that of a [`BiasedLock`], which takes it out before it goes.
struct BiasList {
    /// How many others there are: each gate has been barred for them.
    others: u32,
    list: KVec<NonNull<Bias>>,
}

// SAFETY: Gates may be used by any thread.
unsafe impl Send for BiasList {}

impl BiasList {
    fn iter(&self) -> impl Iterator<Item = &Bias> {
        // SAFETY: By the invariant they are there.
        self.list.iter().map(|gate| unsafe { gate.as_ref() })
    }
}

impl BiasOwner {
    /// For a domain; none if its objects are always locked. May sleep.
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
                gates <- new_mutex!(gates, "kofi::Serial"),
            }),
            GFP_KERNEL,
        )?))
    }
}

/// Stands for something else than a data call: everybody locks.
pub(crate) struct ExclusiveGuard(Option<Arc<BiasOwner>>);

impl ExclusiveGuard {
    /// Announces one, and waits for the data calls under way. May sleep.
    pub(crate) fn enter(serial: Option<&Arc<BiasOwner>>) -> Self {
        if let Some(serial) = serial {
            let mut gates = serial.gates.lock();
            if gates.others == 0 {
                gates.iter().for_each(Bias::bar);
                // Every CPU passes a full barrier: a data call that has not seen its gate barred is
                // seen inside from here on.
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

/// A [`FastLockIrq`] that data calls do without when they are alone.
///
/// # Invariants
///
/// What `data` is used through is a guard, and there are no two of them: its user holds `lock`, or is a
/// data call of a consumer that serializes those, and there are no others.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct BiasedLock<T> {
    gate: Bias,
    #[pin]
    lock: FastLockIrq<()>,
    /// Whether there is a guard, where that is checked.
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
    /// A lock around `data`, with its lockdep class. May sleep, and so may dropping it.
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
                // Where nobody serializes, there is a reason for good.
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
                // INVARIANT: The lock stays where it is, and takes its gate out when it is dropped.
                gates.list.push(NonNull::from(&this.gate), GFP_KERNEL)?;
                if gates.others > 0 {
                    this.gate.bar();
                }
            }
            Ok(())
        })
    }

    /// Locks for a data call.
    ///
    /// # Safety
    ///
    /// The call is made for a data call of the consumer, or the caller has an [`ExclusiveGuard`] of the domain. The caller has
    /// no guard of this lock.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> BiasedGuard<'_, T> {
        // INVARIANT: Two data calls do not meet by the safety requirement of `Threading::serialized()`, and one does
        // not lock twice by this function's; others wait for those that found their gate open.
        let hold = match self.gate.enter() {
            true => HoldKind::Alone(&self.gate),
            false => HoldKind::Locked(self.lock.lock()),
        };
        self.guard(hold)
    }

    /// Takes the data for a data call if there is no reason to lock.
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

    /// Locks where nobody serializes, if there is no other reason to lock.
    #[inline(always)]
    pub(crate) fn lock_unbarred(&self) -> Option<BiasedGuard<'_, T>> {
        let is_barred = || self.serial.is_some() || load_acquire(&self.gate.shut) != 1;
        if is_barred() {
            return None;
        }
        // INVARIANT: It is locked.
        let guard = self.guard(HoldKind::Locked(self.lock.lock()));
        // Whoever has barred it with the lock finds that it is from then on.
        (!is_barred()).then_some(guard)
    }

    /// One more reason to lock, of the caller's own, until [`Self::unbar`]: for calls that begin after
    /// this. Any context.
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

    /// Locks for everything else, which has announced itself by an [`ExclusiveGuard`] of the same domain.
    pub(crate) fn lock(&self, others: &ExclusiveGuard) -> BiasedGuard<'_, T> {
        let address = |serial: &Option<Arc<BiasOwner>>| serial.as_ref().map(Arc::as_ptr);
        if kernel::warn_on!(address(&others.0) != address(&self.serial)) {
            self.bar_for_good();
        }
        // INVARIANT: Everybody locks.
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

/// Why nobody else has the data.
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

/// The use of a [`BiasedLock`]'s data.
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
            BiasedLock::new(serial, 0, c"kofi::test", static_lock_class!()),
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
