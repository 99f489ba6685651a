// SPDX-License-Identifier: GPL-2.0

//! Memory regions of a domain by remote key, for RMA and atomics that the CPU executes.
//!
//! Atomic operations use the kernel's atomics, one element at a time: they are atomic with those of other
//! endpoints and with the kernel's own, but not with operations of a device on the same memory.
//!
//! The spinlock guards the tree. Accesses hold a [`MrGuard`] and not the lock; the close of the region waits for them.
//! No lock but that of the wait queue `released` is taken under it.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::{
    abi::flags::{
        FI_ATOMIC,
        FI_REMOTE_READ,
        FI_REMOTE_WRITE,
        FI_RMA,
        FI_TAGGED_RMA, //
    },
    fi::{
        atomic::Datatype,
        mr::{
            Access,
            Addressing, //
        },
        prelude::*, //
    },
    util::random::random, //
};
use kernel::{
    rbtree::{
        Entry,
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        new_condvar,
        CondVar, //
    },
};

/// Access of an operation to remote memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Read.
    Read,
    /// Write, without returning old values.
    Write,
    /// Read and write.
    ReadWrite,
}

impl AccessKind {
    fn is_allowed(self, access: Access) -> bool {
        let (reads, writes) = (access.is_remote_read(), access.is_remote_write());
        match self {
            Self::Read => reads,
            Self::Write => writes,
            Self::ReadWrite => reads && writes,
        }
    }
}

/// Access rights that an endpoint's capabilities grant its peers. The rights of each region apply as well.
#[derive(Clone, Copy)]
pub(crate) struct EpRights(u64);

impl EpRights {
    /// Returns the rights that the capabilities `caps` grant.
    pub(crate) fn from_caps(caps: u64) -> Self {
        Self(caps)
    }

    /// Returns whether peers may read by RMA.
    pub(crate) fn has_rma_read(self) -> bool {
        self.check(FI_RMA, AccessKind::Read).is_ok()
    }

    /// Returns whether peers may write by RMA.
    pub(crate) fn has_rma_write(self) -> bool {
        self.check(FI_RMA, AccessKind::Write).is_ok()
    }

    /// Checks that peers may make the RMA access `access`.
    ///
    /// # Errors
    ///
    /// -FI_EACCES if the endpoint lacks a capability for the access.
    pub(crate) fn check_rma(self, access: AccessKind) -> Result {
        self.check(FI_RMA, access)
    }

    /// Returns whether the endpoint has FI_TAGGED_RMA.
    pub(crate) fn has_tagged_rma(self) -> bool {
        self.0 & FI_TAGGED_RMA != 0
    }

    /// Checks that peers may make the access `access` to the memory of tagged receives. Errors as for
    /// [`Self::check_rma`].
    pub(crate) fn check_tagged(self, access: AccessKind) -> Result {
        self.check(FI_TAGGED_RMA, access)
    }

    /// Checks that peers may run atomic operations that make the access `access`. Errors as for [`Self::check_rma`].
    pub(crate) fn check_atomic(self, access: AccessKind) -> Result {
        self.check(FI_ATOMIC, access)
    }

    fn check(self, kind: u64, access: AccessKind) -> Result {
        let needed = kind
            | match access {
                AccessKind::Read => FI_REMOTE_READ,
                AccessKind::Write => FI_REMOTE_WRITE,
                AccessKind::ReadWrite => FI_REMOTE_READ | FI_REMOTE_WRITE,
            };
        let has_all = self.0 & needed == needed;
        has_all.then_some(()).ok_or(Errno::EACCES)
    }
}

/// Remote elements of an atomic operation: `struct fi_rma_ioc`.
#[derive(Clone, Copy)]
pub(crate) struct RmaIoc {
    /// Address of the first element.
    pub(crate) addr: u64,
    /// Number of elements.
    pub(crate) count: u64,
    /// Key of the region.
    pub(crate) key: u64,
}

/// Range of kernel addresses of a region.
#[derive(Clone, Copy)]
struct AddrRange {
    addr: usize,
    len: usize,
    /// Offset of the first byte in the region.
    at: usize,
}

/// Maximum number of remote ranges of an atomic operation.
const MAX_TARGETS: usize = 4;

/// Entry of the table: a region that peers can access.
///
/// # Invariants
///
/// The memory of its ranges is valid while the entry is in the tree.
struct MrEntry {
    /// Address that peers use for the first byte.
    base: u64,
    ranges: KVVec<AddrRange>,
    access: Access,
    /// Number of [`MrGuard`]s of the region.
    users: usize,
    /// True while the close waits for the last guard; new accesses fail.
    is_closing: bool,
}

impl MrEntry {
    /// Checks that an access is allowed; returns -FI_EACCES also while the region is being closed.
    fn check(&self, access: AccessKind) -> Result {
        let is_allowed = !self.is_closing && access.is_allowed(self.access);
        is_allowed.then_some(()).ok_or(Errno::EACCES)
    }

    /// Returns the offset of the remote address `addr`, if the region has `len` bytes there.
    fn offset(&self, addr: u64, len: usize) -> Option<usize> {
        let at = usize::try_from(addr.wrapping_sub(self.base)).ok()?;
        let total = self.ranges.last().map_or(0, |last| last.at + last.len);
        (len == 0 || at.checked_add(len)? <= total).then_some(at)
    }
}

/// Element of a region.
///
/// # Invariants
///
/// The element's memory is valid for `'a`, and aligned for its datatype.
pub(crate) struct MrElement<'a> {
    addr: usize,
    datatype: Datatype,
    _region: PhantomData<&'a MrGuard<'a>>,
}

macro_rules! change {
    ($new:ident, $addr:expr, $atomic:ty, $number:ty) => {{
        // SAFETY: By the invariants the memory is valid and aligned. Concurrent accesses are atomic operations,
        // or the consumer accepts any value.
        let word = unsafe { Atomic::<$atomic>::from_ptr($addr as *mut $atomic) };
        let mut old = word.load(Relaxed);
        loop {
            let new = $new(u64::from(old as $number)) as $number as $atomic;
            // A value that stays the same is not written: the memory may be read-only.
            if new == old {
                break;
            }
            match word.cmpxchg(old, new, Full) {
                Ok(_) => break,
                Err(found) => old = found,
            }
        }
        u64::from(old as $number)
    }};
}

impl MrElement<'_> {
    /// Replaces the value atomically by the one that `new` returns for it. Returns the old value.
    pub(crate) fn update(&self, mut new: impl FnMut(u64) -> u64) -> u64 {
        match self.datatype.size() {
            1 => change!(new, self.addr, i8, u8),
            2 => change!(new, self.addr, i16, u16),
            4 => change!(new, self.addr, u32, u32),
            _ => change!(new, self.addr, u64, u64),
        }
    }
}

/// Regions of a domain that peers can access, by key.
#[pin_data]
pub(crate) struct MrTable {
    #[pin]
    entries: FastLockIrq<RBTree<u64, MrEntry>>,
    /// Notified when the last guard of a closing region is dropped.
    #[pin]
    released: CondVar,
}

impl MrTable {
    /// Creates an empty table. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let tree = RBTree::new();
        Ok(Arc::pin_init(
            pin_init!(Self {
                entries <- FastLockIrq::new(tree, c"kofi::prov::MrTable", static_lock_class!()),
                released <- new_condvar!("kofi::prov::MrTable::released"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Calls `act` for each element of `targets`, with its index, after all have been checked. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EACCES for an unknown key, a range outside of the region and a missing right; -FI_EINVAL for a
    /// misaligned element and for more than [`MAX_TARGETS`]. `act` has not been called then.
    pub(crate) fn for_each_element(
        &self,
        targets: impl IntoIterator<Item = RmaIoc>,
        datatype: Datatype,
        access: AccessKind,
        mut act: impl FnMut(usize, &MrElement<'_>),
    ) -> Result {
        let mut guards = [const { None }; MAX_TARGETS];
        let mut places = guards.iter_mut();
        for RmaIoc { addr, count, key } in targets {
            let len = count.checked_mul(datatype.size() as u64);
            let len = len.and_then(|len| usize::try_from(len).ok());
            let guard = self.acquire(key, (addr, len.ok_or(Errno::EACCES)?), access)?;
            guard.for_each_element(datatype, |_| {})?;
            *places.next().ok_or(Errno::EINVAL)? = Some(guard);
        }
        let mut number = 0;
        guards.iter().flatten().try_for_each(|guard| {
            guard.for_each_element(datatype, |element| {
                act(number, element);
                number += 1;
            })
        })
    }

    /// Opens `memory` to peers under `key`, until the result is dropped. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOKEY if another region has the key, -FI_ENOMEM.
    pub(crate) fn register(
        self: &Arc<Self>,
        key: u64,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
    ) -> Result<MrRegistration> {
        let mut runs = KVVec::with_capacity(memory.len(), GFP_KERNEL)?;
        for segment in memory {
            let (addr, len) = (segment.addr(), segment.len());
            let last = runs.last();
            let at = last.map_or(0, |last: &AddrRange| last.at + last.len);
            runs.push(AddrRange { addr, len, at }, GFP_KERNEL)?;
        }
        // INVARIANT: The memory is valid until the registration ends.
        let region = MrEntry {
            base: addressing.base(memory),
            ranges: runs,
            access,
            users: 0,
            is_closing: false,
        };
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        match self.entries.lock().entry(key) {
            Entry::Vacant(entry) => entry.insert(region, reservation),
            Entry::Occupied(_) => return Err(Errno::ENOKEY),
        };
        Ok(MrRegistration {
            table: self.clone(),
            key,
        })
    }

    /// Opens `memory` to peers under a random key of four bytes, the size of a device's keys, or of eight bytes if
    /// `is_long`, which cannot be a device's key. May sleep.
    pub(crate) fn register_random_key(
        self: &Arc<Self>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
        is_long: bool,
    ) -> Result<MrRegistration> {
        loop {
            let key = match is_long {
                false => random() >> 32,
                true => random() | 1 << 63,
            };
            match self.register(key, memory, access, addressing) {
                Err(Errno::ENOKEY) => {}
                registered => return registered,
            }
        }
    }

    /// Returns a guard for `len` bytes at `addr` of the region of `key`: the close of the region waits for it. Any
    /// context.
    ///
    /// # Errors
    ///
    /// -FI_EACCES for an unknown key, a range outside of the region and a missing right.
    pub(crate) fn acquire(
        &self,
        key: u64,
        (addr, len): (u64, usize),
        access: AccessKind,
    ) -> Result<MrGuard<'_>> {
        let mut tree = self.entries.lock();
        let region = tree.get_mut(&key).ok_or(Errno::EACCES)?;
        region.check(access)?;
        let at = region.offset(addr, len).ok_or(Errno::EACCES)?;
        region.users += 1;
        // SAFETY: The node of the entry does not move, and neither it nor its ranges change before the guard has been
        // dropped.
        let ranges = unsafe { &*ptr::from_ref(region.ranges.as_slice()) };
        Ok(MrGuard {
            table: self,
            key,
            ranges,
            at,
            len,
        })
    }
}

/// Keeps a region open while its bytes are accessed without the lock.
pub(crate) struct MrGuard<'a> {
    table: &'a MrTable,
    key: u64,
    ranges: &'a [AddrRange],
    /// Offset of the bytes in the region.
    at: usize,
    len: usize,
}

impl MrGuard<'_> {
    /// Returns the parts of the ranges that the guarded bytes occupy, in order.
    fn parts(&self) -> impl Iterator<Item = AddrRange> + '_ {
        let end = self.at.saturating_add(self.len);
        let first = self
            .ranges
            .partition_point(|range| range.at + range.len <= self.at);
        let ranges = self.ranges.get(first..).unwrap_or(&[]).iter();
        ranges
            .take_while(move |range| range.at < end)
            .map(move |range| {
                let at = self.at.max(range.at);
                AddrRange {
                    addr: range.addr + (at - range.at),
                    len: end.min(range.at + range.len) - at,
                    at,
                }
            })
            .filter(|part| part.len > 0)
    }

    /// Calls `act` for each element of the guarded bytes.
    ///
    /// # Errors
    ///
    /// -FI_EACCES if an element is not inside of one range, -FI_EINVAL if it is misaligned.
    fn for_each_element(&self, datatype: Datatype, mut act: impl FnMut(&MrElement<'_>)) -> Result {
        let size = datatype.size();
        for AddrRange { addr, len, .. } in self.parts() {
            if addr & (size - 1) != 0 {
                return Err(Errno::EINVAL);
            }
            for at in (0..len).step_by(size) {
                if len - at < size {
                    return Err(Errno::EACCES);
                }
                // INVARIANT: Size and alignment have been checked; the region is not closed before the guard is
                // dropped.
                act(&MrElement {
                    addr: addr + at,
                    datatype,
                    _region: PhantomData,
                });
            }
        }
        Ok(())
    }

    /// Calls `f` for each contiguous segment of the guarded bytes, with the number of bytes before it.
    pub(crate) fn for_each_segment(&self, mut f: impl FnMut(&Segment, usize)) {
        for AddrRange { addr, len, at } in self.parts() {
            // SAFETY: The region is not closed before the guard is dropped.
            f(&unsafe { Segment::new(addr as *mut _, len) }, at - self.at);
        }
    }
}

impl Drop for MrGuard<'_> {
    fn drop(&mut self) {
        let mut tree = self.table.entries.lock();
        if let Some(region) = tree.get_mut(&self.key) {
            region.users -= 1;
            if region.is_closing && region.users == 0 {
                self.table.released.notify_all();
            }
        }
    }
}

/// Registration of a region. Dropping it closes the region, and waits for its guards. May sleep.
pub(crate) struct MrRegistration {
    table: Arc<MrTable>,
    /// Key of the region.
    pub(crate) key: u64,
}

impl Drop for MrRegistration {
    fn drop(&mut self) {
        let mut tree = self.table.entries.lock();
        while let Some(region) = tree.get_mut(&self.key).filter(|region| region.users > 0) {
            region.is_closing = true;
            self.table.released.wait(&mut tree);
        }
        let closed = tree.remove_node(&self.key);
        drop(tree);
        drop(closed);
    }
}
