// SPDX-License-Identifier: GPL-2.0

//! Private data of connection requests, replies and rejections: limits, and the option that removes the length byte.
//! Takes no lock.

use crate::fi::prelude::*;

/// Maximum number of bytes of framed private data: those that fit into an InfiniBand request beside rdma_cm's header
/// and the length byte.
pub(crate) const MAX_PRIVATE_DATA: usize = 55;

/// Maximum numbers of bytes of private data that `fi_connect()`, `fi_accept()` and `fi_reject()` take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CmDataLimits {
    pub(crate) connect: usize,
    pub(crate) accept: usize,
    pub(crate) reject: usize,
}

impl CmDataLimits {
    /// Returns the limits of raw data on InfiniBand, RoCE and loop if `is_raw` is set, otherwise those of framed data,
    /// which are the same on every device.
    pub(crate) const fn new(is_raw: bool) -> Self {
        match is_raw {
            true => Self::INFINIBAND,
            false => Self::FRAMED,
        }
    }

    const FRAMED: Self = Self {
        connect: MAX_PRIVATE_DATA,
        accept: MAX_PRIVATE_DATA,
        reject: MAX_PRIVATE_DATA,
    };

    /// Private data sizes of the messages of InfiniBand's connection manager. A request has space for 92 bytes, the
    /// first 36 of which are rdma_cm's `struct cma_hdr`.
    const INFINIBAND: Self = Self {
        connect: 56,
        accept: 196,
        reject: 148,
    };
}

/// Value of the option FI_OPT_KOFI_CM_DATA_RAW of an endpoint or a passive endpoint.
pub(crate) struct RawCmData(AtomicFlag);

impl RawCmData {
    /// Creates the option with the value `is_raw`.
    pub(crate) const fn new(is_raw: bool) -> Self {
        Self(AtomicFlag::new(is_raw))
    }

    /// Returns whether private data has no length byte. Any context.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Implements `fi_setopt()`: -FI_EINVAL for a value other than 0 and 1. Any context.
    pub(crate) fn set(&self, value: usize) -> Result {
        if value > 1 {
            return Err(Errno::EINVAL);
        }
        self.0.store(value == 1, Relaxed);
        Ok(())
    }
}
