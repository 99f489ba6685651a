// SPDX-License-Identifier: GPL-2.0

//! Memory regions. The CPU copies all data, so no memory is mapped: a region for local use only records its
//! address ranges, and a region for peers also has an entry in the domain's `MrTable`.

use super::{
    super::common::mr_table::MrRegistration,
    info::MR_IOV_LIMIT,
    prelude::*, //
};
use crate::{
    abi::FI_KEY_NOTAVAIL,
    fi::{
        memory::Start,
        mr::{
            Access,
            Addressing, //
        },
    },
    rdma::dma, //
};
use core::ops::Range;

/// A memory region.
pub(super) struct Region {
    registration: Option<MrRegistration>,
    mr_table: Arc<MrTable>,
    /// Address ranges of the segments.
    segments: KVVec<Range<usize>>,
}

impl Region {
    /// Registers memory. Memory that peers may access gets a key of four bytes, or one of eight bytes if `owner` is
    /// another provider, so that it differs from every key of that provider's device. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that may not be registered, for example a stack, and for more segments than a
    /// remote region may have; -FI_ENOMEM.
    pub(super) fn new(
        mr_table: &Arc<MrTable>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
        owner: PortOwner,
    ) -> Result<Arc<Self>> {
        let mut segments = KVVec::with_capacity(memory.len(), GFP_KERNEL)?;
        for segment in memory {
            dma::check_range(segment.addr(), segment.len())?;
            segments.push(segment.addr()..segment.addr() + segment.len(), GFP_KERNEL)?;
        }
        let is_long = owner == PortOwner::OtherProvider;
        let registration = match access.is_remote() {
            true if memory.len() > MR_IOV_LIMIT => return Err(Errno::EINVAL),
            true => Some(mr_table.register_random_key(memory, access, addressing, is_long)?),
            false => None,
        };
        let region = Self {
            registration,
            mr_table: mr_table.clone(),
            segments,
        };
        Ok(Arc::new(region, GFP_KERNEL)?)
    }

    fn contains(&self, addr: usize, len: usize) -> bool {
        let has = |part: &Range<usize>| addr >= part.start && len <= part.end.saturating_sub(addr);
        len == 0 || self.segments.iter().any(has)
    }
}

/// Returns the segment of `memory` if there is only one, which is not empty and lies in the region that its
/// descriptor names, and the region belongs to `mr_table`. This is the fast path for almost all registered memory;
/// for `None` the caller continues with [`check_descriptors`].
#[inline]
pub(super) fn registered_segment<'a>(
    memory: Memory<'a>,
    descriptors: &[Descriptor],
    mr_table: &Arc<MrTable>,
) -> Option<&'a Segment> {
    let (Memory::Segments([part]), [descriptor]) = (memory, descriptors) else {
        return None;
    };
    // A segment of 0 bytes may have any descriptor.
    if part.is_empty() {
        return None;
    }
    // SAFETY: By the invariant of `Descriptor` the pointer is null or points to a region that is still open.
    let region = unsafe { descriptor.as_ptr().cast::<Region>().as_ref() }?;
    let is_in = Arc::ptr_eq(&region.mr_table, mr_table) && region.contains(part.addr(), part.len());
    is_in.then_some(part)
}

/// Checks that the segments of `memory` lie in the regions that their descriptors name, which all belong to
/// `mr_table`.
///
/// # Errors
///
/// -FI_EINVAL.
#[inline]
pub(super) fn check_descriptors(
    memory: Memory<'_>,
    descriptors: &[Descriptor],
    mr_table: &Arc<MrTable>,
) -> Result {
    match descriptors {
        [] => Ok(()),
        [only] if only.as_ptr().is_null() => Ok(()),
        _ => check_each_descriptor(memory, descriptors, mr_table),
    }
}

#[inline(never)]
fn check_each_descriptor(
    memory: Memory<'_>,
    descriptors: &[Descriptor],
    mr_table: &Arc<MrTable>,
) -> Result {
    let mut descriptors = descriptors.iter();
    memory.for_each(|part| {
        let descriptor = descriptors.next().copied().unwrap_or(Descriptor::NONE);
        if part.is_empty() {
            return Ok(());
        }
        // SAFETY: By the invariant of `Descriptor` the pointer is null or points to a region that is still open.
        let Some(region) = (unsafe { descriptor.as_ptr().cast::<Region>().as_ref() }) else {
            return Ok(());
        };
        let is_in = match part.start() {
            Start::Address(addr) => region.contains(addr, part.len()),
            // A page has no virtual address to compare.
            Start::Page(..) => true,
        };
        let is_valid = is_in && Arc::ptr_eq(&region.mr_table, mr_table);
        is_valid.then_some(()).ok_or(Errno::EINVAL)
    })
}

impl provider::MemoryRegion for Region {
    fn descriptor(&self) -> Descriptor {
        // SAFETY: The pointer is to a region, which outlives every operation that is posted with the descriptor.
        unsafe { Descriptor::new(ptr::from_ref(self).cast_mut().cast()) }
    }

    fn key(&self) -> u64 {
        let registration = self.registration.as_ref();
        registration.map_or(FI_KEY_NOTAVAIL, |registration| registration.key)
    }
}
