// SPDX-License-Identifier: GPL-2.0

//! Memory for messages, mapped for the device as long as it lives.

use super::super::{
    dma::{
        DataDirection,
        DmaMapping,
        PhysRanges, //
    },
    pd::Pd, //
};
use crate::compat::EOPNOTSUPP;
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A buffer that is posted and comes back.
pub(crate) struct Buffer {
    data: KVec<u8>,
    len: usize,
    /// Always there but while it is being dropped.
    mapping: Option<DmaMapping>,
    pd: Arc<Pd>,
}

impl Buffer {
    /// A zeroed buffer of `len` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` where device and CPU do not see the same memory at all times.
    pub(crate) fn new(pd: &Arc<Pd>, len: usize) -> Result<KBox<Self>> {
        // What has no bytes cannot be mapped.
        let data = KVec::from_elem(0u8, len.max(1), GFP_KERNEL)?;
        let mut pieces = PhysRanges::new(data.as_ptr() as usize, data.len())?;
        let piece = pieces.next().ok_or(EINVAL)??;
        let mut buffer = KBox::new(
            Self {
                data,
                len,
                mapping: None,
                pd: pd.clone(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The memory is the buffer's, from the linear map and so of one piece, and unmapped
        // before it is freed.
        let mapping = buffer
            .mapping
            .insert(unsafe { pd.dma().map(piece, DataDirection::Bidirectional) }?);
        match pd.dma().needs_sync(mapping) {
            true => Err(EOPNOTSUPP),
            false => Ok(buffer),
        }
    }

    /// Where the device finds the first `len` bytes, or all of them.
    ///
    /// # Errors
    ///
    /// `EINVAL` where it has less.
    #[inline]
    pub(super) fn lend(&mut self, len: Option<usize>) -> Result<(u64, u32)> {
        let len = len.unwrap_or(self.len);
        let addr = self.mapping.as_ref().map(DmaMapping::addr);
        match addr {
            Some(addr) if len <= self.len => Ok((addr, len as u32)),
            _ => Err(EINVAL),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            // SAFETY: It was made there, and who has the buffer has it back from the device.
            unsafe { self.pd.dma().unmap(mapping) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.data.get(..self.len).unwrap_or(&[])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.data.get_mut(..self.len).unwrap_or(&mut [])
    }
}
