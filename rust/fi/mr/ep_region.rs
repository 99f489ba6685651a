// SPDX-License-Identifier: GPL-2.0

//! Regions that an endpoint registers for its peer (FI_MR_ENDPOINT), in any context.
//!
//! A region is allocated when an endpoint that may need it is enabled. Its owner is the pool of its domain, the
//! consumer, or the provider until the device has ended the peer's access. A region has no lock: the consumer
//! serializes the calls of a region.

use super::{
    region_pool::PAGE_LEN,
    Access, //
};
use crate::{
    abi::{
        fid_mr,
        FI_KEY_NOTAVAIL, //
    },
    fi::{
        domain::Domain,
        ep::Endpoint,
        memory::{
            EntryVisitor,
            ScatterList,
            Start,
            VectorEntry, //
        },
        prelude::*,
        provider, //
    },
};

/// Memory to register.
#[derive(Clone, Copy)]
pub enum RegionMemory<'a> {
    /// Kernel memory, which is mapped for the device.
    Kernel(Memory<'a>),
    /// A list with DMA addresses for the device, which remains mapped.
    Mapped(ScatterList<'a>),
}

impl RegionMemory<'_> {
    /// Returns the number of entries, each of which touches a page.
    fn entries(&self) -> usize {
        match *self {
            Self::Kernel(memory) => memory.count(),
            Self::Mapped(list) => Memory::ScatterList(list).count(),
        }
    }

    /// Returns the number of pages that the entries touch, each counted alone.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for no entries, an empty entry, or an overflow.
    fn pages(&self) -> Result<usize> {
        let mut counter = PageCounter(0);
        match *self {
            Self::Kernel(memory) => memory.visit(&mut counter)?,
            Self::Mapped(mut list) => {
                while let Some((addr, len)) = list.next_dma() {
                    counter.visit_address(addr as usize, len)?;
                }
            }
        }
        Errno::EINVAL.when(counter.0 == 0)?;
        Ok(counter.0)
    }
}

/// Number of pages that entries touch.
struct PageCounter(usize);

impl EntryVisitor for PageCounter {
    // Only the offset in the page counts of an address.
    #[inline(always)]
    fn visit_address(&mut self, addr: usize, len: usize) -> Result {
        Errno::EINVAL.when(len == 0)?;
        let end = (addr % PAGE_LEN).checked_add(len).ok_or(Errno::EINVAL)?;
        let more = end.div_ceil(PAGE_LEN);
        self.0 = self.0.checked_add(more).ok_or(Errno::EINVAL)?;
        Ok(())
    }

    #[inline(always)]
    fn visit_page(&mut self, entry: VectorEntry) -> Result {
        match entry.start() {
            Start::Address(addr) => self.visit_address(addr, entry.len()),
            Start::Page(_, offset) => self.visit_address(offset, entry.len()),
        }
    }
}

/// Steps of a region in the hands of its consumer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Memory mapped, not bound.
    Mapped,
    /// Bound to an endpoint; the peer cannot use the key yet.
    Bound,
    /// Registration posted.
    Enabled,
}

/// A region that an endpoint registers.
#[repr(C)]
pub struct EpRegion {
    /// The region, as C callers hold it.
    pub(crate) fid: fid_mr,
    core: KBox<dyn provider::RegionCore>,
    step: Step,
    /// Class in the pool.
    pub(super) class: usize,
    /// Domain of the region while it is not in the pool.
    domain: Option<ChildRef<Domain>>,
    /// Endpoint that the region is bound to, which cannot be closed before the region.
    endpoint: Option<ChildRef<Endpoint>>,
}

impl EpRegion {
    /// Allocates a region of at most `pages` pages. May sleep.
    pub(super) fn new(
        core: &dyn provider::Domain,
        class: usize,
        pages: usize,
    ) -> Result<ListBox<Self>> {
        ListBox::new(Self {
            fid: pin_init::zeroed(),
            core: core.region_core(pages)?,
            step: Step::Mapped,
            class,
            domain: None,
            endpoint: None,
        })
    }

    /// Takes a region from the pool of `domain`, and maps `memory` for it. Any context; allocates nothing.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN while all regions of the pool are in use; -FI_EINVAL for no memory, memory that devices may not
    /// access, more pages than the regions of the domain's endpoints have, and entries that meet within a page;
    /// -FI_ENOMEM if the IOMMU cannot map it.
    pub(crate) fn map(
        domain: &Arc<Domain>,
        memory: RegionMemory<'_>,
        access: Access,
    ) -> Result<ListBox<Self>> {
        // Most entries are single pages. A region that is too small refuses others.
        let least = memory.entries();
        Errno::EINVAL.when(least == 0)?;
        match Self::map_to(domain, memory, access, least) {
            Err(Errno::EINVAL) => Self::map_to(domain, memory, access, memory.pages()?),
            mapped => mapped,
        }
    }

    /// Maps `memory` for a region of at least `pages` pages.
    fn map_to(
        domain: &Arc<Domain>,
        memory: RegionMemory<'_>,
        access: Access,
        pages: usize,
    ) -> Result<ListBox<Self>> {
        let held = ChildRef::new(domain)?;
        let mut region = domain.regions().take(pages)?;
        region.step = Step::Mapped;
        region.domain = Some(held);
        match region.core.map(memory, access) {
            Ok(base) => {
                region.fid.key = FI_KEY_NOTAVAIL;
                region.fid.iova = base;
                Ok(region)
            }
            Err(errno) => {
                Self::recycle(region);
                Err(errno)
            }
        }
    }

    /// Binds the region to an endpoint, from whose pool it gets its key. If `reports` is true, the end of the
    /// peer's access writes a completion entry. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is bound, or has more pages than the regions of the endpoint; -FI_EDOMAIN for an endpoint
    /// of another domain; -FI_EOPBADSTATE for one that is not enabled or has no pool; -FI_EAGAIN while all regions
    /// of the endpoint are in use.
    pub(crate) fn bind(&mut self, endpoint: &Arc<Endpoint>, reports: bool) -> Result {
        Errno::EINVAL.when(self.step != Step::Mapped)?;
        let is_its = |domain: &ChildRef<Domain>| Arc::ptr_eq(domain.arc(), endpoint.domain());
        Errno::EDOMAIN.when(!self.domain.as_ref().is_some_and(is_its))?;
        let held = ChildRef::new(endpoint)?;
        self.fid.key = endpoint.core().bind_region(&mut *self.core, reports)?;
        self.endpoint = Some(held);
        self.step = Step::Bound;
        Ok(())
    }

    /// Posts the registration of the region to the queue of its endpoint. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE if the region is not bound or is enabled already, -FI_ENOTCONN if the endpoint is not
    /// connected, -FI_EAGAIN if its queue is full.
    pub(crate) fn enable(&mut self) -> Result {
        Errno::EOPBADSTATE.when(self.step != Step::Bound)?;
        let context = self.context();
        let endpoint = self.endpoint.as_ref().ok_or(Errno::EOPBADSTATE)?;
        endpoint.core().enable_region(&mut *self.core, context)?;
        self.step = Step::Enabled;
        Ok(())
    }

    /// Closes the region: posts the invalidation of its key if it is enabled. Any context.
    ///
    /// # Errors
    ///
    /// Returns the region with -FI_EAGAIN if the queue of its endpoint is full.
    pub(crate) fn close(mut this: ListBox<Self>) -> core::result::Result<(), RefusedClose> {
        let Some(endpoint) = this.endpoint.take() else {
            Self::recycle(this);
            return Ok(());
        };
        // An object of no class: further calls of the consumer fail.
        let class = mem::take(&mut this.fid.fid.fclass);
        let closed = endpoint.core().close_region(this);
        closed.map_err(|mut refused| {
            refused.region.fid.fid.fclass = class;
            refused.region.endpoint = Some(endpoint);
            refused
        })
    }

    /// Unmaps the region, which no peer can access, and puts it back into its pool. Any context.
    pub(crate) fn recycle(mut this: ListBox<Self>) {
        this.core.unmap();
        this.fid.fid.fclass = 0;
        if let Some(domain) = this.domain.take() {
            domain.regions().put(this);
        }
    }

    /// Returns the provider's part.
    pub(crate) fn core_mut(&mut self) -> &mut dyn provider::RegionCore {
        &mut *self.core
    }

    /// Returns the consumer's context, which completion entries about the region have.
    pub(crate) fn context(&self) -> Context {
        Context::new(self.fid.fid.context)
    }
}

/// A region that could not be closed, and the reason.
pub struct RefusedClose {
    pub(crate) errno: Errno,
    pub(crate) region: ListBox<EpRegion>,
}
