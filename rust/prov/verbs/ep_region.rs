// SPDX-License-Identifier: GPL-2.0

//! Regions that an endpoint registers: their DMA mappings, and the regions of the device (`struct ib_mr`), which have
//! the keys.
//!
//! A region has no lock: its owner has exclusive access, see [`EpRegion`].

use super::{
    mr::peer_access,
    mr_pool::{
        MrPool,
        PooledMr, //
    },
    prelude::*,
    sge::phys_range, //
};
use crate::{
    fi::{
        memory::{
            EntryVisitor,
            VectorEntry, //
        },
        mr::{
            ep_region::{
                EpRegion,
                RegionMemory, //
            },
            Access,
            Addressing, //
        },
    },
    rdma::{
        dma::PhysRanges,
        mr::{
            self,
            FastMr,
            PageList,
            PageListBuilder, //
        },
    },
};

/// The verbs part of an [`EpRegion`].
pub(super) struct Region {
    pd: Arc<Pd>,
    addressing: Addressing,
    list: PageList,
    rights: mr::Access,
    iova: u64,
    /// Region of the device, while this region is bound.
    bound: Option<BoundMr>,
}

/// Region of the device that belongs to a bound region.
pub(super) struct BoundMr {
    pub(super) pooled: PooledMr,
    /// Pool of `pooled`.
    pub(super) pool: Arc<MrPool>,
    /// Set once the registration has been posted.
    pub(super) is_enabled: bool,
    /// Set if the invalidation writes a completion entry.
    pub(super) reports: bool,
}

impl Region {
    /// Allocates a region of at most `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL, -FI_ENOMEM.
    pub(super) fn new(pd: Arc<Pd>, pages: usize, addressing: Addressing) -> Result<KBox<Self>> {
        let pages = u32::try_from(pages).map_err(|_| Errno::EINVAL)?;
        let region = Self {
            pd,
            addressing,
            list: PageList::new(pages)?,
            rights: mr::Access::default(),
            iova: 0,
            bound: None,
        };
        Ok(KBox::new(region, GFP_KERNEL)?)
    }

    /// Returns the verbs part of a region; `None` for one of another provider.
    pub(super) fn from_core(core: &mut dyn provider::RegionCore) -> Option<&mut Self> {
        core.as_any_mut().downcast_mut()
    }

    /// Takes a region of the device from `pool`, and returns the key that it will have.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the region is bound already, is of another protection domain or has too many pages; -FI_EAGAIN if
    /// no region of the device is free; the driver's errors.
    pub(super) fn bind(&mut self, pool: &Arc<MrPool>, pd: &Pd, reports: bool) -> Result<u64> {
        if self.bound.is_some() || !core::ptr::eq(&*self.pd, pd) {
            return Err(Errno::EINVAL);
        }
        let mut pooled = pool.take()?;
        let mr = &mut pooled.mr;
        // SAFETY: The region of the device comes from the pool, so its key is not valid. The list remains mapped until
        // the key has become invalid again. The consumer permits the accesses.
        let assigned = unsafe { mr.assign(&mut self.list, self.iova, self.rights, pool.max_pages) };
        if let Err(error) = assigned {
            pool.put(pooled);
            return Err(error.into());
        }
        pool.set_current_key(&pooled);
        let key = pooled.mr.rkey();
        self.bound = Some(BoundMr {
            pooled,
            pool: pool.clone(),
            is_enabled: false,
            reports,
        });
        Ok(key.into())
    }

    /// Returns the region of the device; -FI_EOPBADSTATE if this region is not bound.
    pub(super) fn bound(&mut self) -> Result<&mut BoundMr> {
        self.bound.as_mut().ok_or(Errno::EOPBADSTATE)
    }

    /// Takes the region of the device, which unbinds this region.
    pub(super) fn take_mr(&mut self) -> Option<FastMr> {
        self.bound.take().map(|bound| bound.pooled.mr)
    }

    /// Appends the ranges of `memory` to the page list, and maps them in `direction`.
    ///
    /// # Safety
    ///
    /// The list is empty; the memory is valid until [`Self::unmap`].
    unsafe fn map_kernel(&mut self, memory: Memory<'_>, direction: DataDirection) -> Result {
        let (list, dma) = (&mut self.list, self.pd.dma());
        let mut builder = ListBuilder(list.builder());
        memory.visit(&mut builder)?;
        builder.0.finish()?;
        // SAFETY: By this function's safety requirement, and the list was empty.
        Ok(unsafe { list.map(dma, direction) }?)
    }
}

/// Builder of the page list of a region.
struct ListBuilder<'a>(PageListBuilder<'a>);

impl EntryVisitor for ListBuilder<'_> {
    #[inline(never)]
    fn visit_address(&mut self, addr: usize, len: usize) -> Result {
        for range in PhysRanges::new(addr, len)? {
            self.0.append(range?)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn visit_page(&mut self, entry: VectorEntry) -> Result {
        Ok(self.0.append(phys_range(&entry)?)?)
    }
}

impl provider::RegionCore for Region {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn map(&mut self, memory: RegionMemory<'_>, access: Access) -> Result<u64> {
        let (reads, writes) = (access.is_remote_read(), access.is_remote_write());
        self.rights = peer_access(reads, writes, self.pd.device().attributes.has_atomics);
        let mut base = None;
        match memory {
            RegionMemory::Kernel(memory) => {
                let direction = match (reads, writes) {
                    (true, false) => DataDirection::ToDevice,
                    (false, true) => DataDirection::FromDevice,
                    _ => DataDirection::Bidirectional,
                };
                // SAFETY: The list of a region that comes from the pool is empty, and the consumer keeps the memory
                // until the region has been closed.
                unsafe { self.map_kernel(memory, direction) }?;
                if let Memory::Segments([first, ..]) = memory {
                    base = Some(first.addr() as u64);
                }
            }
            RegionMemory::Mapped(mut list) => {
                while let Some((addr, len)) = list.next_dma() {
                    self.list.push(addr, len)?;
                }
            }
        }
        self.iova = match self.addressing {
            Addressing::Offset => 0,
            // Pages may have no virtual address; the DMA address serves instead.
            Addressing::Virtual => base.unwrap_or(self.list.first_addr()),
        };
        Ok(self.iova)
    }

    fn unmap(&mut self) {
        // SAFETY: By the contract of the trait no peer can access the memory.
        unsafe { self.list.clear(self.pd.dma()) };
    }
}

/// Ends a region that has been closed: recycles it if the peer cannot access it any more, else keeps it until the
/// endpoint is closed. Any context.
pub(super) fn finish_close(mut region: ListBox<EpRegion>, is_invalidated: bool) {
    let Some(own) = Region::from_core(region.core_mut()) else {
        return;
    };
    match own.bound.take_if(|_| is_invalidated) {
        Some(mut bound) => {
            if !bound.is_enabled {
                bound.pooled.mr.revert_key();
            }
            bound.pool.put(bound.pooled);
            EpRegion::recycle(region);
        }
        None => match own.bound.as_ref().map(|bound| bound.pool.clone()) {
            Some(pool) => pool.put_closed(region),
            None => EpRegion::recycle(region),
        },
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: The region has no other user, and its key has been invalid since it was put back into its pool.
        unsafe { self.list.clear(self.pd.dma()) };
    }
}
