// SPDX-License-Identifier: GPL-2.0

//! Protection domains, which relate queue pairs to the memory regions that they may use.

use super::{
    device::{
        Device,
        DeviceRef, //
    },
    dma::DmaMapper,
    prelude::*, //
};

/// A protection domain, and the DMA mappings made for it.
///
/// # Invariants
///
/// `raw` is a protection domain of the device that `device` refers to, and has the key
/// `local_dma_lkey`. Each object created in it
/// holds an `Arc` of this object.
pub(crate) struct Pd {
    raw: NonNull<bindings::ib_pd>,
    local_dma_lkey: u32,
    dma: DmaMapper,
    device: DeviceRef,
}

// SAFETY: A protection domain may be used and freed by any thread.
unsafe impl Send for Pd {}

// SAFETY: Drivers serialise concurrent creation of objects in a protection domain.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain without an `unsafe_global_rkey`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the driver's errors.
    pub(crate) fn new(device: DeviceRef) -> Result<Arc<Self>> {
        // SAFETY: A `DeviceRef` keeps the device registered.
        let raw = unsafe { bindings::__ib_alloc_pd(device.raw(), 0, super::OWNER.as_char_ptr()) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: `raw` was allocated on the device above. If this allocation fails, dropping
        // the object frees it.
        let pd = Self {
            raw,
            // SAFETY: `raw` is valid; the key does not change.
            local_dma_lkey: unsafe { raw.as_ref() }.local_dma_lkey,
            dma: DmaMapper::new(device.clone()),
            device,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// Returns the device of this domain.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Returns the key for local access to any memory that is mapped for the device.
    #[inline]
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        self.local_dma_lkey
    }

    /// Returns the mapper of memory for the device.
    #[inline]
    pub(crate) fn dma(&self) -> &DmaMapper {
        &self.dma
    }

    /// Returns whether this domain belongs to `device`.
    pub(crate) fn is_on(&self, device: &Device) -> bool {
        device.wraps(self.device.raw())
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid, and no object is left in it.
        let err = unsafe { bindings::ib_dealloc_pd_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}
