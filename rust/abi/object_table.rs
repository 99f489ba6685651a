// SPDX-License-Identifier: GPL-2.0

//! Everything that is open in the whole module, in the order in which it was opened.
//!
//! One spinlock guards it, which is taken in process context only, and a leaf: what an entry tells is
//! told without a lock that others wait with. Whoever reads has an entry as long as it holds the lock
//! and no longer, so that nothing outlives its close for having been looked at.

use super::{
    kofi_address,
    kofi_object, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        global_lock,
        Arc, //
    },
};

/// Something that is open.
pub(crate) trait TableEntry: Send + Sync {
    /// Whether `net`, the address of a network namespace, is that which it belongs to.
    fn is_in(&self, net: usize) -> bool;

    /// Writes what there is to know of it into an object that is empty but for its number. Called under
    /// the roster's lock: it does not sleep, nor wait.
    fn tell(&self, object: &mut kofi_object);

    /// Appends the addresses that it has from place `at` on, as long as `batch` has less than `most` and
    /// room for more, and moves `at` behind them; false where nothing has ever been there. None where it is
    /// no vector of addresses. Called as [`Self::tell`] is, and bounded like that.
    fn list(&self, at: &mut u64, most: usize, batch: &mut KVec<kofi_address>) -> Option<bool>;
}

/// The entries by their numbers, of which the last one given is the other field.
struct ObjectTable {
    entries: Option<RBTree<u64, Arc<dyn TableEntry>>>,
    last: u64,
}

global_lock! {
    // SAFETY: Initialised by `start`, before `IS_READY` says that it may be taken.
    unsafe(uninit) static ROSTER: SpinLock<ObjectTable> = ObjectTable { entries: None, last: 0 };
}

/// True once `ROSTER` is initialised and may be locked; never reset.
static IS_READY: AtomicFlag = AtomicFlag::new(false);

/// How many entries are looked at under the lock for each that there is room for.
const LOOKS: usize = 8;

/// Makes the roster usable.
///
/// # Safety
///
/// Called once.
pub(super) unsafe fn start() {
    // SAFETY: By this function's safety requirement.
    unsafe { ROSTER.init() };
    ROSTER.lock().entries = Some(RBTree::new());
    // Release: pairs with the acquire of `with`.
    IS_READY.store(true, Release);
}

/// Runs `f` on the locked roster, or on an empty one before initialisation. Process context.
fn with<R>(f: impl FnOnce(&mut ObjectTable) -> R) -> R {
    match IS_READY.load(Acquire) {
        true => f(&mut ROSTER.lock()),
        false => f(&mut ObjectTable {
            entries: None,
            last: 0,
        }),
    }
}

/// A place on the roster, as long as this lives.
pub(crate) struct TableSlot(u64);

impl TableSlot {
    /// Enters something, behind everything that is there. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn take(entry: Arc<dyn TableEntry>) -> Result<Self> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        Ok(Self(with(|roster| {
            roster.last += 1;
            let number = roster.last;
            if let Some(entries) = &mut roster.entries {
                entries.insert(node.into_node(number, entry));
            }
            number
        })))
    }

    /// Its number, which nothing else ever has. None is 0.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }

    /// Gives it up, once. May sleep.
    pub(crate) fn leave(&self) {
        let node = with(|roster| roster.entries.as_mut()?.remove_node(&self.0));
        // What it was about may go with it, which may sleep.
        drop(node);
    }
}

impl Drop for TableSlot {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Has entries behind number `after` tell of themselves, those in the namespace `net` or all, in order,
/// as many as `batch` has room for; what was in it is forgotten. The number after which to go on, unless
/// that was the last. Process context.
///
/// Those that are there from the first call to the last are told of; so is what an entry stands below.
pub(crate) fn read(after: u64, net: Option<usize>, batch: &mut KVec<kofi_object>) -> Option<u64> {
    batch.clear();
    let looks = batch.capacity().saturating_mul(LOOKS);
    let first = after.checked_add(1)?;
    with(|roster| {
        let mut cursor = roster.entries.as_mut()?.cursor_lower_bound_mut(&first);
        for _ in 0..looks {
            let (&number, entry) = cursor.as_ref()?.current();
            if net.is_none_or(|net| entry.is_in(net)) {
                let mut object = kofi_object {
                    id: number,
                    ..pin_init::zeroed()
                };
                entry.tell(&mut object);
                if batch.push_within_capacity(object).is_err() {
                    return Some(number - 1);
                }
            }
            cursor = cursor?.move_next();
            if cursor.is_some() && batch.len() == batch.capacity() {
                return Some(number);
            }
        }
        cursor.map(|cursor| *cursor.current().0 - 1)
    })
}

/// Objects that [`each`] reads at a time.
const BATCH: usize = 8;

/// Calls `visit` for each object whose number is greater than `after`, in the namespace `net` or in all of
/// them. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of `visit`.
pub(crate) fn each(
    mut after: u64,
    net: Option<usize>,
    mut visit: impl FnMut(&kofi_object) -> Result,
) -> Result {
    let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
    loop {
        let next = read(after, net, &mut batch);
        for object in &batch {
            visit(object)?;
        }
        match next {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// [`TableEntry::list`] of the entry with a number, in the namespace `net`; what was in `batch` is
/// forgotten. Process context.
///
/// # Errors
///
/// `ENOENT` where there is none, `EINVAL` where it is no vector of addresses.
pub(crate) fn list(
    number: u64,
    net: usize,
    at: &mut u64,
    most: usize,
    batch: &mut KVec<kofi_address>,
) -> Result<bool> {
    batch.clear();
    with(|roster| {
        let entry = roster
            .entries
            .as_ref()
            .and_then(|entries| entries.get(&number));
        let entry = entry.filter(|entry| entry.is_in(net)).ok_or(ENOENT)?;
        entry.list(at, most, batch).ok_or(EINVAL)
    })
}
