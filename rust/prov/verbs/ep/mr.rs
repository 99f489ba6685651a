// SPDX-License-Identifier: GPL-2.0

//! Work requests that register and invalidate regions, in the endpoint's own queue. Any context; nothing here sleeps
//! or allocates.
//!
//! A registration is silent: work requests that are posted after it find the region registered. An invalidation is
//! signalled, because its completion gives the memory back.

use super::super::{
    ep_region::{
        finish_close,
        Region, //
    },
    mr_pool::MrPool,
    wq::ReportPolicy, //
};
use crate::{
    fi::{
        mr::ep_region::{
            EpRegion,
            RefusedClose, //
        },
        provider::{
            EpOption,
            RegionCore, //
        },
    },
    prov::verbs::prelude::*, //
};

/// Default number of pages of a region: 128 KiB.
const DEFAULT_PAGES: usize = 32;

/// Maximum number of pages of a region.
pub(super) const MAX_PAGES: u32 = 512;

/// Maximum number of regions of an endpoint.
const MAX_REGIONS: usize = 1 << 16;

/// Log message for a device that does not complete what it has been posted.
const STALLED_MESSAGE: &str =
    "closed regions stay valid until the endpoint is closed: posted operations did not complete within 10 seconds";

/// Regions of an endpoint: their number and pages, and once the endpoint is enabled its pool.
pub(super) struct EpRegions {
    count: Atomic<usize>,
    pages: Atomic<usize>,
    /// Set when the endpoint is enabled: both numbers are final.
    is_fixed: AtomicFlag,
    pool: SetOnce<Arc<MrPool>>,
}

impl EpRegions {
    /// Returns the defaults: no regions.
    pub(super) const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            pages: Atomic::new(DEFAULT_PAGES),
            is_fixed: AtomicFlag::new(false),
            pool: SetOnce::new(),
        }
    }

    /// Returns the number of regions, and the pages of each.
    pub(super) fn limits(&self) -> (usize, usize) {
        (self.count.load(Relaxed), self.pages.load(Relaxed))
    }

    /// Returns the value of an option; `None` if it is another's.
    pub(super) fn getopt(&self, option: EpOption) -> Option<usize> {
        match option {
            EpOption::RegionCount => Some(self.limits().0),
            EpOption::RegionPages => Some(self.limits().1),
            _ => None,
        }
    }

    /// Sets an option; `None` if it is another's. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE once the endpoint is enabled; -FI_EINVAL for more than `most` pages or none, and for too many
    /// regions.
    pub(super) fn setopt(&self, option: EpOption, value: usize, most: u32) -> Option<Result> {
        let (setting, range) = match option {
            EpOption::RegionCount => (&self.count, 0..=MAX_REGIONS),
            EpOption::RegionPages => (&self.pages, 1..=most as usize),
            _ => return None,
        };
        Some(if self.is_fixed.load(Acquire) {
            Err(Errno::EOPBADSTATE)
        } else if !range.contains(&value) {
            Err(Errno::EINVAL)
        } else {
            setting.store(value, Relaxed);
            Ok(())
        })
    }

    /// Allocates the pool, once, for an endpoint whose receive queue is `rq`. May sleep.
    ///
    /// # Errors
    ///
    /// The errors of [`MrPool::new`].
    pub(super) fn enable(&self, pd: &Arc<Pd>, rq: &WorkQueue) -> Result {
        self.is_fixed.store(true, Release);
        let (count, pages) = self.limits();
        if count > 0 && self.pool.as_ref().is_none() {
            let pool = MrPool::new(pd, (count, pages as u32))?;
            rq.set_mr_pool(&pool);
            self.pool.populate(pool);
        }
        Ok(())
    }

    /// Frees the pool, after the queue pair has been destroyed. May sleep.
    pub(super) fn close(&self) {
        if let Some(pool) = self.pool.as_ref() {
            pool.clear();
        }
    }
}

impl Endpoint {
    /// Implements [`provider::Endpoint::bind_region`].
    pub(super) fn bind_pooled(&self, core: &mut dyn RegionCore, reports: bool) -> Result<u64> {
        let pool = self.regions.pool.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let region = Region::from_core(core).ok_or(Errno::EINVAL)?;
        match region.bind(pool, &self.pd, reports) {
            Err(Errno::EAGAIN) => {}
            bound => return bound,
        }
        // Invalidations may have completed that no reader has polled yet.
        if let Some(cq) = self.sq.cq_for_data_call() {
            cq.retire_silent();
        }
        region.bind(pool, &self.pd, reports)
    }

    /// Implements [`provider::Endpoint::enable_region`].
    pub(super) fn post_registration(&self, core: &mut dyn RegionCore, context: Context) -> Result {
        let region = Region::from_core(core).ok_or(Errno::EINVAL)?;
        self.state.check_transmit()?;
        let bound = region.bound()?;
        let op = OpDesc {
            context,
            flags: FI_REGION,
            len: 0,
            report_policy: ReportPolicy::Never,
        };
        let mr = &bound.pooled.mr;
        // SAFETY: The region of the device exists, and its memory is mapped, until its key has been invalidated.
        unsafe { self.post_region_wr(&op, |wr_id, flags| SendWr::reg_mr(wr_id, mr, flags)) }?;
        bound.is_enabled = true;
        Ok(())
    }

    /// Implements [`provider::Endpoint::close_region`].
    pub(super) fn post_invalidation(
        &self,
        mut region: ListBox<EpRegion>,
    ) -> core::result::Result<(), RefusedClose> {
        let own = Region::from_core(region.core_mut());
        let bound = own.and_then(|own| own.bound().ok());
        let Some(bound) = bound.filter(|bound| bound.is_enabled) else {
            finish_close(region, true);
            return Ok(());
        };
        let rkey = bound.pooled.mr.rkey();
        if bound.pool.take_invalidated(&bound.pooled) {
            if !self.pd.device().is_siw {
                finish_close(region, true);
                return Ok(());
            }
            // siw does not compare the lower byte of a key: the message may have come before this registration. A
            // repeated close finds no record of the message.
            bound.reports = false;
        }
        let reports = bound.reports;
        // Posted in any state: an endpoint that transmits nothing more can still be connected, and in the error state
        // the request is flushed. The slot owns the region once this is posted.
        let raw = region.into_raw();
        let op = OpDesc {
            context: Context::new(raw.as_ptr().cast()),
            flags: FI_REGION,
            len: 0,
            report_policy: ReportPolicy::Invalidation { reports },
        };
        // SAFETY: The request has no memory.
        let posted = unsafe {
            self.post_region_wr(&op, |wr_id, flags| SendWr::local_inv(wr_id, rkey, flags))
        };
        let Err(errno) = posted else {
            return Ok(());
        };
        // SAFETY: It came from `into_raw` above, and nothing has been posted.
        let region = unsafe { ListBox::from_raw(raw) };
        match errno {
            Errno::EAGAIN => Err(RefusedClose { errno, region }),
            _ => {
                finish_close(region, false);
                Ok(())
            }
        }
    }

    /// Ends the access of peers to the regions that were closed when the connection had ended. It has ended, and its
    /// queues have been drained. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT if the device does not complete what has been posted: the regions stay valid until the endpoint is
    /// closed.
    pub(super) fn end_closed_regions(&self) -> Result {
        let Some(pool) = self.regions.pool.as_ref() else {
            return Ok(());
        };
        // The pool gets a region when its flushed invalidation has completed.
        self.drain_transmits()
            .inspect_err(|_| self.sq.warn(STALLED_MESSAGE))?;
        pool.free_closed();
        Ok(())
    }

    /// Posts a work request for a region.
    ///
    /// # Safety
    ///
    /// The requirements of [`Qp::post_send`] hold for the result of `wr`.
    unsafe fn post_region_wr<'a>(
        &self,
        op: &OpDesc,
        wr: impl FnOnce(u64, SendFlags) -> SendWr<'a>,
    ) -> Result {
        // SAFETY: This is a data call, which does not lock the queue again before `finish`.
        let slot = unsafe { self.sq.reserve(op) }?;
        let mut flags = SendFlags::default();
        if slot.is_signalled {
            flags |= SendFlag::Signaled;
        }
        if self.attrs.is_iwarp && slot.follows_read() {
            // As for other operations; see `send_flags()`.
            flags |= SendFlag::Fence;
        }
        let wr = wr(slot.wr_id, flags);
        // SAFETY: By this function's safety requirement.
        let posted = unsafe { slot.qp().post_send(&wr) }.map_err(wc_status::post_errno);
        slot.finish(op, posted)
            .map_err(|errno| self.state.transmit_error(errno))
    }
}
