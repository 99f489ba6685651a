// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    domain::Domain,
    memory::{
        Descriptor,
        Segment, //
    },
    object::Held,
    provider, //
};
use crate::abi::{
    flags,
    Errno,
    Result, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What may be done with a region; nothing at all means local use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(u64);

impl Access {
    /// Local use only.
    pub const LOCAL: Self = Self(0);

    /// From access flags: -FI_EBADFLAGS for an unknown bit.
    pub fn from_bits(bits: u64) -> Result<Self> {
        const KNOWN: u64 = flags::FI_SEND
            | flags::FI_RECV
            | flags::FI_READ
            | flags::FI_WRITE
            | flags::FI_REMOTE_READ
            | flags::FI_REMOTE_WRITE;
        if bits & !KNOWN != 0 {
            return Err(Errno::EBADFLAGS);
        }
        Ok(Self(bits))
    }

    /// Whether a peer may reach the region.
    pub fn is_remote(self) -> bool {
        self.0 & (flags::FI_REMOTE_READ | flags::FI_REMOTE_WRITE) != 0
    }
}

/// Memory that has been registered.
pub struct MemoryRegion {
    core: Arc<dyn provider::MemoryRegion>,
    _domain: Held<Domain>,
}

impl MemoryRegion {
    pub(super) fn new(
        domain: Held<Domain>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<Self>> {
        check(memory)?;
        let core = domain.core().clone().register(memory, access)?;
        Ok(Arc::new(
            Self {
                core,
                _domain: domain,
            },
            GFP_KERNEL,
        )?)
    }

    /// What `fi_mr_desc()` tells.
    pub fn descriptor(&self) -> Descriptor {
        self.core.descriptor()
    }

    /// What `fi_mr_key()` tells.
    pub fn key(&self) -> u64 {
        self.core.key()
    }
}

/// Refuses regions that are empty, or that wrap around the end of memory: -FI_EINVAL.
fn check(memory: &[Segment]) -> Result {
    if memory.is_empty() {
        return Err(Errno::EINVAL);
    }
    let mut total = 0usize;
    for segment in memory {
        if segment.is_empty() || segment.addr().checked_add(segment.len()).is_none() {
            return Err(Errno::EINVAL);
        }
        total = total.checked_add(segment.len()).ok_or(Errno::EINVAL)?;
    }
    Ok(())
}
