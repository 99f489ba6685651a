// SPDX-License-Identifier: GPL-2.0

//! The table of all open objects of the module, in the order in which they were opened.
//!
//! A spinlock guards it, and is taken in process context only. An entry reports its state under it: from
//! atomic words, or under a spinlock of the object, which is inside this lock in the lock order. A reader
//! uses entries only while it holds the lock, so reading never delays a close for long.

use crate::{
    abi::{
        kofi_address,
        kofi_object, //
    },
    prelude::*, //
};
use kernel::{
    error::Result,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::global_lock, //
};

/// An open object.
pub(crate) trait TableEntry: Send + Sync {
    /// Returns whether the object belongs to the network namespace with the address `net`.
    fn is_in(&self, net: usize) -> bool;

    /// Fills in `object`, of which only the number is set. Called under the table's spinlock: it neither
    /// sleeps nor waits.
    fn fill_object(&self, object: &mut kofi_object);

    /// Appends the addresses of the object from index `at` on, as long as `batch` has fewer than `max` and
    /// free capacity, and moves `at` behind them. Returns false if no address was ever inserted at `at` or
    /// behind it, `None` if the object is no address vector. Called like [`Self::fill_object`], with bounded work.
    fn list_addresses(
        &self,
        at: &mut u64,
        max: usize,
        batch: &mut KVec<kofi_address>,
    ) -> Option<bool>;
}

/// Returns the text of a NUL-terminated field of an object, or `None` if it is empty.
pub(super) fn field_text(field: &[u8]) -> Option<&str> {
    let text = CStr::from_bytes_until_nul(field).ok()?.to_str().ok()?;
    Some(text).filter(|text| !text.is_empty())
}

/// The entries by number, and the last number assigned.
struct ObjectTable {
    entries: Option<RBTree<u64, Arc<dyn TableEntry>>>,
    last_id: u64,
}

global_lock! {
    // SAFETY: Initialised by `init_table`, before `IS_READY` says that it may be taken.
    unsafe(uninit) static TABLE: SpinLock<ObjectTable> = ObjectTable { entries: None, last_id: 0 };
}

/// True once `TABLE` is initialised and may be locked; never reset.
static IS_READY: AtomicFlag = AtomicFlag::new(false);

/// Entries visited under the lock for each free slot of the batch.
const VISITS_PER_SLOT: usize = 8;

/// Initialises the table.
///
/// # Safety
///
/// Called once.
pub(crate) unsafe fn init_table() {
    // SAFETY: By this function's safety requirement.
    unsafe { TABLE.init() };
    TABLE.lock().entries = Some(RBTree::new());
    // Release: pairs with the acquire of `with_table`.
    IS_READY.store(true, Release);
}

/// Runs `f` on the locked table, or on an empty one before initialisation. Process context.
fn with_table<R>(f: impl FnOnce(&mut ObjectTable) -> R) -> R {
    match IS_READY.load(Acquire) {
        true => f(&mut TABLE.lock()),
        false => f(&mut ObjectTable {
            entries: None,
            last_id: 0,
        }),
    }
}

/// An entry of the table, which exists until [`Self::remove`] or the drop.
pub(crate) struct TableSlot(u64);

impl TableSlot {
    /// Adds an object with the next number. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(entry: Arc<dyn TableEntry>) -> Result<Self> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        Ok(Self(with_table(|table| {
            table.last_id += 1;
            let number = table.last_id;
            if let Some(entries) = &mut table.entries {
                entries.insert(node.into_node(number, entry));
            }
            number
        })))
    }

    /// Returns the number of the entry, which is never reused and never 0.
    pub(crate) fn id(&self) -> u64 {
        self.0
    }

    /// Removes the entry, once. May sleep.
    pub(crate) fn remove(&self) {
        let node = with_table(|table| table.entries.as_mut()?.remove_node(&self.0));
        // This may drop the last reference on the object, which may sleep.
        drop(node);
    }
}

impl Drop for TableSlot {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Fills `batch` with the objects numbered above `after`, in order, of the namespace `net` or of all; its old
/// content is dropped. Returns the number to continue after, unless that was the last. Process context.
///
/// Objects that exist from the first call to the last are all reported, each after its parent.
pub(crate) fn read_objects(
    after: u64,
    net: Option<usize>,
    batch: &mut KVec<kofi_object>,
) -> Option<u64> {
    batch.clear();
    let looks = batch.capacity().saturating_mul(VISITS_PER_SLOT);
    let first = after.checked_add(1)?;
    with_table(|table| {
        let mut cursor = table.entries.as_mut()?.cursor_lower_bound_mut(&first);
        for _ in 0..looks {
            let (&number, entry) = cursor.as_ref()?.current();
            if net.is_none_or(|net| entry.is_in(net)) {
                let mut object = kofi_object {
                    id: number,
                    ..pin_init::zeroed()
                };
                entry.fill_object(&mut object);
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

/// Objects that [`for_each`] reads at a time.
const BATCH: usize = 8;

/// Calls `visit` for each object whose number is greater than `after`, in the namespace `net` or in all of
/// them. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of `visit`.
pub(crate) fn for_each(
    mut after: u64,
    net: Option<usize>,
    mut visit: impl FnMut(&kofi_object) -> Result,
) -> Result {
    let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
    loop {
        let next = read_objects(after, net, &mut batch);
        for object in &batch {
            visit(object)?;
        }
        match next {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

/// Calls [`TableEntry::list_addresses`] of the entry with a number, in the namespace `net`; the old content of `batch`
/// is dropped. Process context.
///
/// # Errors
///
/// `ENOENT` without such an entry, `EINVAL` if it is no address vector.
pub(crate) fn list_addresses(
    number: u64,
    net: usize,
    at: &mut u64,
    max: usize,
    batch: &mut KVec<kofi_address>,
) -> Result<bool> {
    batch.clear();
    with_table(|table| {
        let entry = table
            .entries
            .as_ref()
            .and_then(|entries| entries.get(&number));
        let entry = entry.filter(|entry| entry.is_in(net)).ok_or(ENOENT)?;
        entry.list_addresses(at, max, batch).ok_or(EINVAL)
    })
}
