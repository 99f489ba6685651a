// SPDX-License-Identifier: GPL-2.0

//! Memory that peers have operations done to: where each key leads.
//!
//! The CPU does them, a word at a time, as it does the kernel's own atomic operations: they are atomic
//! with those too, and with each other whichever endpoint they come to. What a device is asked to do to
//! the same memory is another matter.
//!
//! The spinlock guards the tree. It is held while elements are changed; who copies more keeps the region
//! open, so that nobody is inside one that has been closed. It is a leaf.

use crate::{
    abi::{
        flags::{
            FI_ATOMIC,
            FI_REMOTE_READ,
            FI_REMOTE_WRITE,
            FI_RMA, //
        },
        lock::FastLockIrq,
        random::random,
        Errno,
        Result, //
    },
    fi::{
        atomic::Datatype,
        memory::Segment,
        mr::{
            Access,
            Addressing, //
        },
    },
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        new_condvar,
        static_lock_class,
        Arc,
        CondVar, //
    },
};

/// What an operation does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::prov) enum AccessKind {
    /// It reads it.
    Read,
    /// It writes it, and tells nothing of it.
    Write,
    /// Both.
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
pub(in crate::prov) struct EpRights {
    caps: u64,
}

impl EpRights {
    /// Returns the rights that go with the capabilities `caps`.
    pub(in crate::prov) fn from_caps(caps: u64) -> Self {
        Self { caps }
    }

    /// Returns whether peers may read by remote memory access.
    pub(in crate::prov) fn has_rma_read(self) -> bool {
        self.check(FI_RMA, AccessKind::Read).is_ok()
    }

    /// Returns whether peers may write by remote memory access.
    pub(in crate::prov) fn has_rma_write(self) -> bool {
        self.check(FI_RMA, AccessKind::Write).is_ok()
    }

    /// Checks whether a peer may read or write.
    ///
    /// # Errors
    ///
    /// -FI_EACCES if the endpoint does not offer it.
    pub(in crate::prov) fn check_rma(self, access: AccessKind) -> Result {
        self.check(FI_RMA, access)
    }

    /// Checks whether a peer may run an atomic operation. Errors as for [`Self::check_rma`].
    pub(in crate::prov) fn check_atomic(self, access: AccessKind) -> Result {
        self.check(FI_ATOMIC, access)
    }

    fn check(self, kind: u64, access: AccessKind) -> Result {
        let needed = kind
            | match access {
                AccessKind::Read => FI_REMOTE_READ,
                AccessKind::Write => FI_REMOTE_WRITE,
                AccessKind::ReadWrite => FI_REMOTE_READ | FI_REMOTE_WRITE,
            };
        match self.caps & needed == needed {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }
}

/// Elements of an atomic operation's, as peers name them.
#[derive(Clone, Copy)]
pub(in crate::prov) struct RmaIoc {
    /// Where the first is.
    pub(in crate::prov) addr: u64,
    /// How many there are.
    pub(in crate::prov) count: u64,
    /// What opens them.
    pub(in crate::prov) key: u64,
}

/// A run of addresses.
#[derive(Clone, Copy)]
struct AddrRange {
    addr: usize,
    len: usize,
}

/// A region that is open.
///
/// # Invariants
///
/// The memory of its runs is there as long as it stands in the tree.
struct MrEntry {
    /// How peers name the first byte.
    base: u64,
    ranges: KVVec<AddrRange>,
    access: Access,
    /// How many have bytes of it in hand without the lock.
    users: usize,
    /// Whether it is closed as soon as there are none.
    is_closing: bool,
}

impl MrEntry {
    /// Where the byte is that peers name so, and how many there are in a row from it on.
    fn find_range(&self, addr: u64) -> Option<AddrRange> {
        let mut at = usize::try_from(addr.checked_sub(self.base)?).ok()?;
        for run in &self.ranges {
            if at < run.len {
                return Some(AddrRange {
                    addr: run.addr + at,
                    len: run.len - at,
                });
            }
            at -= run.len;
        }
        None
    }

    /// Whether there are so many bytes from the one on that peers name so.
    fn contains(&self, addr: u64, len: usize) -> bool {
        let total = self.ranges.iter().map(|run| run.len).sum::<usize>();
        let at = addr.checked_sub(self.base).map(usize::try_from);
        let end = at.and_then(|at| at.ok()?.checked_add(len));
        end.is_some_and(|end| end <= total)
    }

    /// The element that peers name so.
    ///
    /// # Errors
    ///
    /// -FI_EACCES if it is not all in there, -FI_EINVAL if it does not lie where such elements lie.
    fn element_at(&self, addr: u64, datatype: Datatype) -> Result<MrElement<'_>> {
        let run = self.find_range(addr).ok_or(Errno::EACCES)?;
        let size = datatype.size();
        if run.addr & (size - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        if run.len < size {
            return Err(Errno::EACCES);
        }
        // INVARIANT: Looked at just now; the memory is there by the invariant.
        Ok(MrElement {
            addr: run.addr,
            datatype,
            _region: PhantomData,
        })
    }
}

/// An element of a region.
///
/// # Invariants
///
/// Its memory is there for `'a`, and it lies where such elements lie.
pub(in crate::prov) struct MrElement<'a> {
    addr: usize,
    datatype: Datatype,
    _region: PhantomData<&'a MrEntry>,
}

macro_rules! change {
    ($new:ident, $addr:expr, $atomic:ty, $number:ty) => {{
        // SAFETY: By the invariants the memory is there and aligned. Whoever else uses it meanwhile does so
        // by atomic operations, or accepts whatever it finds.
        let word = unsafe { Atomic::<$atomic>::from_ptr($addr as *mut $atomic) };
        let mut old = word.load(Relaxed);
        loop {
            let new = $new(u64::from(old as $number)) as $number as $atomic;
            // What stays as it is may be memory that nobody can write.
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
    /// Puts what `new` makes of it in its place, at once for all who look, and says what there was.
    pub(in crate::prov) fn update(&self, mut new: impl FnMut(u64) -> u64) -> u64 {
        match self.datatype.size() {
            1 => change!(new, self.addr, i8, u8),
            2 => change!(new, self.addr, i16, u16),
            4 => change!(new, self.addr, u32, u32),
            _ => change!(new, self.addr, u64, u64),
        }
    }
}

/// The regions of a domain that peers may reach.
#[pin_data]
pub(in crate::prov) struct MrTable {
    #[pin]
    entries: FastLockIrq<RBTree<u64, MrEntry>>,
    /// Told when the last visitor has left a region that is to be closed.
    #[pin]
    released: CondVar,
}

impl MrTable {
    /// None yet. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov) fn new() -> Result<Arc<Self>> {
        let tree = RBTree::new();
        Ok(Arc::pin_init(
            pin_init!(Self {
                entries <- FastLockIrq::new(tree, c"kofi::prov::Regions", static_lock_class!()),
                released <- new_condvar!("kofi::prov::Regions"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Hands each element of `targets` to `act`, with its number, once all have been found. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EACCES for a key that opens nothing, for what is outside, and for a right that is missing;
    /// -FI_EINVAL for what does not lie where such elements lie. Then nothing has been done.
    pub(in crate::prov) fn for_each_element(
        &self,
        targets: impl IntoIterator<Item = RmaIoc> + Clone,
        datatype: Datatype,
        access: AccessKind,
        mut act: impl FnMut(usize, &MrElement<'_>),
    ) -> Result {
        let tree = self.entries.lock();
        let visit = |act: &mut dyn FnMut(usize, &MrElement<'_>)| {
            let mut number = 0;
            for RmaIoc { addr, count, key } in targets.clone() {
                let region = tree.get(&key).ok_or(Errno::EACCES)?;
                if region.is_closing || !access.is_allowed(region.access) {
                    return Err(Errno::EACCES);
                }
                for at in 0..count {
                    let at = at.checked_mul(datatype.size() as u64);
                    let addr = at.and_then(|at| addr.checked_add(at));
                    let addr = addr.ok_or(Errno::EACCES)?;
                    act(number, &region.element_at(addr, datatype)?);
                    number += 1;
                }
            }
            Ok(())
        };
        visit(&mut |_, _| {})?;
        visit(&mut act)
    }

    /// Opens `memory`, which peers know by `key`, until what is returned is dropped. May sleep.
    pub(in crate::prov) fn register(
        self: &Arc<Self>,
        key: u64,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
    ) -> Result<MrRegistration> {
        let mut runs = KVVec::with_capacity(memory.len(), GFP_KERNEL)?;
        for segment in memory {
            let run = AddrRange {
                addr: segment.addr(),
                len: segment.len(),
            };
            runs.push(run, GFP_KERNEL)?;
        }
        // INVARIANT: The memory is there until it is not registered any more.
        let region = MrEntry {
            base: addressing.base(memory),
            ranges: runs,
            access,
            users: 0,
            is_closing: false,
        };
        let node = RBTreeNode::new(key, region, GFP_KERNEL)?;
        let replaced = self.entries.lock().insert(node);
        // No two have the same key at a time.
        drop(replaced);
        Ok(MrRegistration {
            table: self.clone(),
            key,
        })
    }

    /// The same by a key that nobody guesses: of four bytes, as those of devices have, or of more than that
    /// if it `is_long`, where those of a device are as well. May sleep.
    pub(in crate::prov) fn register_random_key(
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
            let is_free = self.entries.lock().get(&key).is_none();
            if is_free {
                return self.register(key, memory, access, addressing);
            }
        }
    }

    /// Keeps a region from being closed for a while: that which `key` opens, in which `len` bytes from `addr`
    /// on are touched, one at least. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EACCES for a key that opens nothing, for what is outside, and for a right that is missing.
    pub(in crate::prov) fn acquire(
        &self,
        key: u64,
        (addr, len): (u64, usize),
        access: AccessKind,
    ) -> Result<MrGuard<'_>> {
        let mut tree = self.entries.lock();
        let region = tree.get_mut(&key).ok_or(Errno::EACCES)?;
        if region.is_closing || !access.is_allowed(region.access) || !region.contains(addr, len) {
            return Err(Errno::EACCES);
        }
        region.users += 1;
        Ok(MrGuard {
            table: self,
            key,
            addr,
            len,
        })
    }
}

/// That bytes of a region are there.
pub(in crate::prov) struct MrGuard<'a> {
    table: &'a MrTable,
    key: u64,
    addr: u64,
    len: usize,
}

impl MrGuard<'_> {
    /// Hands them to `f`, run by run, each with how many came before it.
    pub(in crate::prov) fn for_each_segment(&self, mut f: impl FnMut(&Segment, usize)) {
        let mut done = 0;
        while done < self.len {
            let tree = self.table.entries.lock();
            let region = tree.get(&self.key);
            let run =
                region.and_then(|region| region.find_range(self.addr.wrapping_add(done as u64)));
            drop(tree);
            // By the look at them there are so many.
            let Some(run) = run else {
                return;
            };
            let len = run.len.min(self.len - done);
            // SAFETY: The region is not closed before this is dropped.
            f(&unsafe { Segment::new(run.addr as *mut _, len) }, done);
            done += len;
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

/// That a region is open.
pub(in crate::prov) struct MrRegistration {
    table: Arc<MrTable>,
    key: u64,
}

impl MrRegistration {
    /// What opens it.
    pub(in crate::prov) fn key(&self) -> u64 {
        self.key
    }
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

#[kunit_tests(kofi_prov_mr)]
mod tests {
    use super::*;
    use crate::abi::{
        fi_datatype,
        flags::*,
        FI_INT16,
        FI_UINT64,
        FI_UINT8, //
    };

    const KEY: u64 = 77;

    /// Two runs of eight and of four words, peers' names of which begin with `base`.
    struct Fixture {
        regions: Arc<MrTable>,
        words: KBox<[u64; 16]>,
        opening: Option<MrRegistration>,
        base: u64,
    }

    impl Fixture {
        fn new(access: u64, addressing: Addressing) -> Result<Self> {
            let mut words = KBox::new([0u64; 16], GFP_KERNEL)?;
            let regions = MrTable::new()?;
            let start = words.as_mut_ptr();
            // SAFETY: The words are there for as long as the region.
            let memory = unsafe {
                [
                    Segment::new(start.cast(), 64),
                    Segment::new(start.add(10).cast(), 32),
                ]
            };
            let access = Access::from_bits(access)?;
            let opening = regions.register(KEY, &memory, access, addressing)?;
            Ok(Self {
                regions,
                base: addressing.base(&memory),
                words,
                opening: Some(opening),
            })
        }

        fn add(&self, at: u64, count: u64, key: u64, raw: fi_datatype) -> Result<usize> {
            let addr = self.base.wrapping_add(at);
            let targets = [RmaIoc { addr, count, key }];
            let mut done = 0;
            let datatype = Datatype::from_raw(raw)?;
            self.regions.for_each_element(
                targets,
                datatype,
                AccessKind::ReadWrite,
                |_, element| {
                    element.update(|old| old + 1);
                    done += 1;
                },
            )?;
            Ok(done)
        }
    }

    const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

    #[test]
    fn elements_are_found_in_all_runs_and_nowhere_else() -> Result {
        for addressing in [Addressing::Virtual, Addressing::Offset] {
            let fixture = Fixture::new(BOTH, addressing)?;
            assert_eq!(fixture.add(0, 12, KEY, FI_UINT64), Ok(12));
            assert_eq!(fixture.add(56, 2, KEY, FI_UINT64), Ok(2));
            for (at, count) in [
                (0, 13),
                (96, 1),
                (0u64.wrapping_sub(8), 1),
                (0, u64::MAX),
                (8, u64::MAX / 8),
            ] {
                assert_eq!(fixture.add(at, count, KEY, FI_UINT64), Err(Errno::EACCES));
            }
            assert_eq!(fixture.add(0, 1, KEY + 1, FI_UINT64), Err(Errno::EACCES));
            let expected = [1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 2, 1, 1, 1, 0, 0];
            assert_eq!(*fixture.words, expected);
        }
        Ok(())
    }

    #[test]
    fn what_is_not_aligned_is_refused_and_nothing_is_done() -> Result {
        let fixture = Fixture::new(BOTH, Addressing::Virtual)?;
        assert_eq!(fixture.add(1, 1, KEY, FI_INT16), Err(Errno::EINVAL));
        assert_eq!(fixture.add(4, 1, KEY, FI_UINT64), Err(Errno::EINVAL));
        assert_eq!(*fixture.words, [0; 16]);
        assert_eq!(fixture.add(1, 1, KEY, FI_UINT8), Ok(1));
        assert_eq!(fixture.add(6, 1, KEY, FI_INT16), Ok(1));
        assert_eq!(fixture.words[0], 1 << 8 | 1 << 48);
        Ok(())
    }

    #[test]
    fn neighbours_stay_as_they_are() -> Result {
        let mut fixture = Fixture::new(BOTH, Addressing::Offset)?;
        fixture.words[3] = u64::MAX;
        assert_eq!(fixture.add(24 + 2, 1, KEY, FI_INT16), Ok(1));
        assert_eq!(fixture.words[3], !(0xffff << 16));
        Ok(())
    }

    #[test]
    fn rights_are_kept() -> Result {
        let datatype = Datatype::from_raw(FI_UINT64)?;
        for (access, allowed) in [
            (FI_REMOTE_READ, [true, false, false]),
            (FI_REMOTE_WRITE, [false, true, false]),
            (BOTH, [true, true, true]),
        ] {
            let fixture = Fixture::new(access, Addressing::Offset)?;
            let targets = [RmaIoc {
                addr: 0,
                count: 1,
                key: KEY,
            }];
            for (touch, is_allowed) in [AccessKind::Read, AccessKind::Write, AccessKind::ReadWrite]
                .into_iter()
                .zip(allowed)
            {
                let done = fixture
                    .regions
                    .for_each_element(targets, datatype, touch, |_, _| {});
                assert_eq!(done.is_ok(), is_allowed);
            }
        }
        Ok(())
    }

    #[test]
    fn rdm_10_capabilities_give_rights() {
        let both = FI_REMOTE_READ | FI_REMOTE_WRITE;
        for bits in 0..32u64 {
            let kinds = [FI_MSG, FI_RMA, FI_ATOMIC, FI_REMOTE_READ, FI_REMOTE_WRITE];
            let chosen = kinds.iter().enumerate();
            let caps = chosen.fold(0, |caps, (at, kind)| caps | (kind * (bits >> at & 1)));
            let rights = EpRights::from_caps(caps);
            for (touch, needed) in [
                (AccessKind::Read, FI_REMOTE_READ),
                (AccessKind::Write, FI_REMOTE_WRITE),
                (AccessKind::ReadWrite, both),
            ] {
                let is_there = caps & needed == needed;
                let (rma, atomic) = (caps & FI_RMA != 0, caps & FI_ATOMIC != 0);
                assert_eq!(rights.check_rma(touch).is_ok(), rma && is_there);
                assert_eq!(rights.check_atomic(touch).is_ok(), atomic && is_there);
            }
        }
    }

    #[test]
    fn a_region_that_is_closed_is_nowhere() -> Result {
        let mut fixture = Fixture::new(BOTH, Addressing::Offset)?;
        drop(fixture.opening.take());
        assert_eq!(fixture.add(0, 1, KEY, FI_UINT64), Err(Errno::EACCES));
        Ok(())
    }

    #[test]
    fn one_range_that_is_wrong_stops_all() -> Result {
        let fixture = Fixture::new(BOTH, Addressing::Offset)?;
        let target = |addr, key| RmaIoc {
            addr,
            count: 1,
            key,
        };
        let targets = [target(0, KEY), target(8, KEY), target(96, KEY)];
        let datatype = Datatype::from_raw(FI_UINT64)?;
        let done = fixture.regions.for_each_element(
            targets,
            datatype,
            AccessKind::ReadWrite,
            |_, element| {
                element.update(|old| old + 1);
            },
        );
        assert_eq!(done, Err(Errno::EACCES));
        assert_eq!(*fixture.words, [0; 16]);
        Ok(())
    }

    #[test]
    fn what_is_only_read_is_not_written() -> Result {
        static CONSTANT: [u64; 1] = [5];
        let regions = MrTable::new()?;
        let start = CONSTANT.as_ptr().cast_mut();
        // SAFETY: It is there for ever, and read only.
        let memory = [unsafe { Segment::new(start.cast(), 8) }];
        let access = Access::from_bits(FI_REMOTE_READ)?;
        let _opening = regions.register(KEY, &memory, access, Addressing::Offset)?;
        let targets = [RmaIoc {
            addr: 0,
            count: 1,
            key: KEY,
        }];
        let mut found = 0;
        let datatype = Datatype::from_raw(FI_UINT64)?;
        regions.for_each_element(targets, datatype, AccessKind::Read, |_, element| {
            found = element.update(|old| old);
        })?;
        assert_eq!(found, 5);
        Ok(())
    }
}
