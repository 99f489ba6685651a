// SPDX-License-Identifier: GPL-2.0

//! Memory regions. Nothing is mapped: a region for local use is little more than the consumer's promise to
//! keep the memory.

use super::{
    super::common::mr_table::{
        MrRegistration,
        MrTable, //
    },
    info::REGION_PARTS,
    port::PortOwner, //
};
use crate::{
    abi::{
        Errno,
        Result,
        FI_KEY_NOTAVAIL, //
    },
    fi::{
        memory::{
            Descriptor,
            Memory,
            Segment,
            Start, //
        },
        mr::{
            Access,
            Addressing, //
        },
        provider, //
    },
    rdma::dma, //
};
use core::{
    ops::Range,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A memory region.
pub(super) struct Region {
    opening: Option<MrRegistration>,
    regions: Arc<MrTable>,
    /// Address ranges of the segments.
    parts: KVVec<Range<usize>>,
}

impl Region {
    /// Registers memory, for peers with ports in `space`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that may not be registered, for example a stack, and for more segments than a
    /// remote region may have; -FI_ENOMEM.
    pub(super) fn new(
        regions: &Arc<MrTable>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
        space: PortOwner,
    ) -> Result<Arc<Self>> {
        let mut parts = KVVec::with_capacity(memory.len(), GFP_KERNEL)?;
        for segment in memory {
            dma::check_range(segment.addr(), segment.len())?;
            parts.push(segment.addr()..segment.addr() + segment.len(), GFP_KERNEL)?;
        }
        let opening = match access.is_remote() {
            true if memory.len() > REGION_PARTS => return Err(Errno::EINVAL),
            true => {
                let is_long = space == PortOwner::Beside;
                Some(regions.register_random_key(memory, access, addressing, is_long)?)
            }
            false => None,
        };
        Ok(Arc::new(
            Self {
                opening,
                regions: regions.clone(),
                parts,
            },
            GFP_KERNEL,
        )?)
    }

    fn has(&self, addr: usize, len: usize) -> bool {
        let has = |part: &Range<usize>| addr >= part.start && len <= part.end.saturating_sub(addr);
        len == 0 || self.parts.iter().any(has)
    }
}

/// Returns the segment of `memory`, if that is a single one and lies in the region that its descriptor names,
/// which belongs to `regions`. This is the fast path for almost all registered memory.
#[inline]
pub(super) fn registered<'a>(
    memory: Memory<'a>,
    descriptors: &[Descriptor],
    regions: &Arc<MrTable>,
) -> Option<&'a Segment> {
    let (Memory::Segments([part]), [descriptor]) = (memory, descriptors) else {
        return None;
    };
    // A segment of 0 bytes may have any descriptor.
    if part.is_empty() {
        return None;
    }
    // SAFETY: By the invariant of the type this is the descriptor of a region that exists.
    let region = unsafe { descriptor.as_ptr().cast::<Region>().as_ref() }?;
    let is_in = Arc::ptr_eq(&region.regions, regions) && region.has(part.addr(), part.len());
    is_in.then_some(part)
}

/// Checks that the segments of `memory` lie in the regions that their descriptors name, which all belong to
/// `regions`.
///
/// # Errors
///
/// -FI_EINVAL.
#[inline]
pub(super) fn check(
    memory: Memory<'_>,
    descriptors: &[Descriptor],
    regions: &Arc<MrTable>,
) -> Result {
    match descriptors {
        [] => Ok(()),
        [only] if only.as_ptr().is_null() => Ok(()),
        _ => check_each(memory, descriptors, regions),
    }
}

#[inline(never)]
fn check_each(memory: Memory<'_>, descriptors: &[Descriptor], regions: &Arc<MrTable>) -> Result {
    let mut descriptors = descriptors.iter();
    memory.for_each(|part| {
        let descriptor = descriptors.next().copied().unwrap_or(Descriptor::NONE);
        if part.is_empty() {
            return Ok(());
        }
        // SAFETY: By the invariant of the type this is the descriptor of a region that exists.
        let Some(region) = (unsafe { descriptor.as_ptr().cast::<Region>().as_ref() }) else {
            return Ok(());
        };
        let is_in = match part.start() {
            Start::Address(addr) => region.has(addr, part.len()),
            // A page has no virtual address to compare.
            Start::Page(..) => true,
        };
        match is_in && Arc::ptr_eq(&region.regions, regions) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    })
}

impl provider::MemoryRegion for Region {
    fn descriptor(&self) -> Descriptor {
        // SAFETY: This is a region, which outlives what it is posted with.
        unsafe { Descriptor::new(ptr::from_ref(self).cast_mut().cast()) }
    }

    fn key(&self) -> u64 {
        self.opening
            .as_ref()
            .map_or(FI_KEY_NOTAVAIL, MrRegistration::key)
    }
}
