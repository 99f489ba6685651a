// SPDX-License-Identifier: GPL-2.0

//! Memory that peers may reach.

use super::{
    super::{
        dma::{
            DataDirection,
            DmaMapping,
            PhysRanges, //
        },
        fast_reg_qp::FastRegQp,
        mr::{
            DmaSegment,
            FastMr, //
        },
        pd::Pd,
        wr::RemoteAddr, //
    },
    reach, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Zeroed memory that peers write, read and change as long as this lives.
pub(crate) struct Lent {
    // Dropped in this order: nobody reaches it any more, then it is unmapped, then freed.
    region: FastMr,
    _registrar: FastRegQp,
    _mapped: Mapped,
    _memory: KVVec<u8>,
    base: u64,
}

impl Lent {
    /// Lends `len` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none, or for more pages than the device can list; `ENOMEM`, those of registering.
    pub(crate) fn new(pd: &Arc<Pd>, len: usize) -> Result<Self> {
        let memory: KVVec<u8> = KVVec::from_elem(0, len, GFP_KERNEL)?;
        // SAFETY: Both are fields of one object, and are dropped in their order.
        let (mapped, runs) = unsafe { Mapped::new(pd, &memory) }?;
        let base = runs.first().ok_or(EINVAL)?.addr;
        // SAFETY: The runs are the memory's, which is for peers alone; fields are dropped in order.
        let region = unsafe { FastMr::new(pd.clone(), &runs, base, reach(pd)) }?;
        Ok(Self {
            _registrar: FastRegQp::new(pd)?.register(&region)?,
            region,
            _mapped: mapped,
            _memory: memory,
            base,
        })
    }

    /// How peers name its first byte.
    pub(crate) fn remote(&self) -> RemoteAddr {
        RemoteAddr {
            addr: self.base,
            rkey: self.region.rkey(),
        }
    }
}

/// The pieces of some memory, mapped until this is dropped.
struct Mapped {
    mappings: KVec<DmaMapping>,
    pd: Arc<Pd>,
}

impl Mapped {
    /// Maps memory for a device. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The memory stays valid until the result has been dropped.
    unsafe fn new(pd: &Arc<Pd>, memory: &[u8]) -> Result<(Self, KVec<DmaSegment>)> {
        let pieces = || PhysRanges::new(memory.as_ptr() as usize, memory.len());
        let count = pieces()?.count();
        let mut runs: KVec<DmaSegment> = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut mapped = Self {
            mappings: KVec::with_capacity(count, GFP_KERNEL)?,
            pd: pd.clone(),
        };
        for piece in pieces()? {
            // SAFETY: By this function's safety requirement.
            let mapping = unsafe { pd.dma().map(piece?, DataDirection::Bidirectional) }?;
            let run = DmaSegment {
                addr: mapping.addr(),
                len: mapping.len() as u64,
            };
            if !runs.last_mut().is_some_and(|last| last.try_merge(&run)) {
                let _ = runs.push_within_capacity(run);
            }
            let _ = mapped.mappings.push_within_capacity(mapping);
        }
        Ok((mapped, runs))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        for mapping in self.mappings.drain_all() {
            // SAFETY: It was made there, and the region over it is gone.
            unsafe { self.pd.dma().unmap(mapping) };
        }
    }
}
