// SPDX-License-Identifier: GPL-2.0

//! Registered memory: the device below reaches it, and so does the CPU, for atomic operations.

use super::{
    super::common::mr_table::{
        MrRegistration,
        MrTable,
        RmaIoc, //
    },
    wire::Range, //
};
use crate::fi::{
    mr::{
        Access,
        Addressing, //
    },
    prelude::*,
    provider, //
};

impl From<&Range> for RmaIoc {
    fn from(range: &Range) -> Self {
        Self {
            addr: range.addr,
            count: range.len,
            key: range.key,
        }
    }
}

/// A registered region.
pub(super) struct Region {
    // Dropped in this order.
    _opening: Option<MrRegistration>,
    lower: Arc<dyn provider::MemoryRegion>,
}

impl Region {
    /// What `lower` is the registration of, for peers that have operations done to it too. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(
        regions: &Arc<MrTable>,
        lower: Arc<dyn provider::MemoryRegion>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
    ) -> Result<Arc<Self>> {
        let opening = match access.is_remote() {
            true => Some(regions.register(lower.key(), memory, access, addressing)?),
            false => None,
        };
        Ok(Arc::new(
            Self {
                _opening: opening,
                lower,
            },
            GFP_KERNEL,
        )?)
    }
}

impl provider::MemoryRegion for Region {
    fn descriptor(&self) -> Descriptor {
        self.lower.descriptor()
    }

    fn key(&self) -> u64 {
        self.lower.key()
    }
}
