// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

pub(crate) mod ep_region;
pub(in crate::fi) mod region_pool;

use super::{
    domain::Domain,
    introspect::{
        EntryGuard,
        NamedValue, //
    },
    provider, //
};
use crate::{
    abi::{
        flags,
        FI_MR_BASIC,
        FI_MR_PROV_KEY,
        FI_MR_VIRT_ADDR,
        KOFI_OBJECT_MR,
        KOFI_VALUE_LENGTH, //
    },
    fi::prelude::*, //
};

/// The access rights of a region; none means local use only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(u64);

impl Access {
    /// Local use only.
    pub const LOCAL: Self = Self(0);

    /// Peers may read.
    pub(crate) const REMOTE_READ: Self = Self(flags::FI_REMOTE_READ);

    /// Peers may write.
    pub(crate) const REMOTE_WRITE: Self = Self(flags::FI_REMOTE_WRITE);

    /// Peers may read and write.
    pub(super) const REMOTE: Self = Self(flags::FI_REMOTE_READ | flags::FI_REMOTE_WRITE);

    /// Converts access flags: -FI_EBADFLAGS for an unknown bit.
    pub fn from_bits(bits: u64) -> Result<Self> {
        const KNOWN: u64 = flags::FI_SEND
            | flags::FI_RECV
            | flags::FI_READ
            | flags::FI_WRITE
            | flags::FI_REMOTE_READ
            | flags::FI_REMOTE_WRITE;
        Errno::EBADFLAGS.when(bits & !KNOWN != 0)?;
        Ok(Self(bits))
    }

    /// Returns true if peers may access the region.
    pub fn is_remote(self) -> bool {
        self.is_remote_read() || self.is_remote_write()
    }

    /// Returns true if peers may read the region.
    pub fn is_remote_read(self) -> bool {
        self.0 & flags::FI_REMOTE_READ != 0
    }

    /// Returns true if peers may write the region.
    pub fn is_remote_write(self) -> bool {
        self.0 & flags::FI_REMOTE_WRITE != 0
    }
}

/// FI_MR_BASIC as a value of `mr_mode`: the name of API 1.4 for all modes that kOFI requires.
const BASIC: c_int = FI_MR_BASIC as c_int;

/// How peers address the bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// By virtual address.
    Virtual,
    /// By the offset in the region.
    Offset,
}

impl Addressing {
    /// Returns the addressing of a domain with this `mr_mode`: offsets only if the mode is set and does not
    /// include FI_MR_VIRT_ADDR.
    pub fn from_mr_mode(mr_mode: c_int) -> Self {
        match mr_mode {
            0 | BASIC => Self::Virtual,
            mode if mode & FI_MR_VIRT_ADDR != 0 => Self::Virtual,
            _ => Self::Offset,
        }
    }

    /// Returns the address that peers use for the first byte of `memory`.
    pub(crate) fn base(self, memory: &[Segment]) -> u64 {
        match self {
            Self::Virtual => memory.first().map_or(0, |first| first.addr() as u64),
            Self::Offset => 0,
        }
    }
}

/// Returns the modes of `offered` that a consumer has to support, given those it accepts; all if it names
/// none.
pub(super) fn narrow_mode(offered: c_int, accepted: c_int) -> c_int {
    match accepted {
        0 => offered,
        BASIC if offered != 0 => BASIC,
        accepted => accepted & offered,
    }
}

/// Returns the `mr_mode` of an offer: the modes that the consumer has to support, of those it accepts. `None`
/// if peers could not access its memory: a provider that chooses the keys cannot accept the consumer's.
/// Addresses may be offsets instead. The modes do not matter to a consumer without remote access.
pub(super) fn choose_mode(offered: c_int, accepted: c_int, caps: u64) -> Option<c_int> {
    let mode = narrow_mode(offered, accepted);
    let wants_keys =
        offered & FI_MR_PROV_KEY != 0 && caps & (flags::FI_RMA | flags::FI_ATOMIC) != 0;
    let takes_keys = mode & (BASIC | FI_MR_PROV_KEY) != 0;
    (takes_keys || !wants_keys).then_some(mode)
}

/// A registered memory region.
pub struct MemoryRegion {
    core: Arc<dyn provider::MemoryRegion>,
    base: u64,
    entry_guard: EntryGuard<Domain>,
}

impl MemoryRegion {
    pub(super) fn new(
        domain: ChildRef<Domain>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<Self>> {
        let length = checked_len(memory)?;
        let base = domain.scope().addressing().base(memory);
        let core = domain.core().clone().register(memory, access)?;
        let length = NamedValue::new(KOFI_VALUE_LENGTH, length as u64)?;
        new_arc(Self {
            core,
            base,
            entry_guard: EntryGuard::new(domain, KOFI_OBJECT_MR, c"", Some(length))?,
        })
    }

    /// Returns the domain of the region.
    #[inline]
    pub(super) fn domain(&self) -> &Arc<Domain> {
        self.entry_guard.parent.arc()
    }

    /// Returns the descriptor, for `fi_mr_desc()`.
    #[inline]
    pub fn descriptor(&self) -> Descriptor {
        self.core.descriptor()
    }

    /// Returns the remote key, for `fi_mr_key()`.
    pub fn key(&self) -> u64 {
        self.core.key()
    }

    /// Returns the address that peers use for the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }
}

/// Returns the length of a region in bytes; -FI_EINVAL for an empty segment or one that wraps around the
/// address space.
fn checked_len(memory: &[Segment]) -> Result<usize> {
    Errno::EINVAL.when(memory.is_empty())?;
    let mut total = 0usize;
    for segment in memory {
        if segment.is_empty() || segment.addr().checked_add(segment.len()).is_none() {
            return Err(Errno::EINVAL);
        }
        total = total.checked_add(segment.len()).ok_or(Errno::EINVAL)?;
    }
    Ok(total)
}

#[kunit_tests(kofi_fi_mr)]
mod tests {
    use super::*;
    use crate::abi::{
        flags::*,
        FI_MR_LOCAL,
        FI_MR_SCALABLE, //
    };

    const PROVIDER_MODE: c_int = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    const SCALABLE: c_int = FI_MR_SCALABLE as c_int;

    #[test]
    fn mr_02_prov_key_must_be_accepted_for_rma_and_atomics() {
        let choose = |accepted, caps| choose_mode(PROVIDER_MODE, accepted, caps);
        for caps in [FI_RMA, FI_ATOMIC, FI_MSG | FI_RMA] {
            assert_eq!(choose(0, caps), Some(PROVIDER_MODE));
            assert_eq!(
                choose(PROVIDER_MODE | FI_MR_LOCAL, caps),
                Some(PROVIDER_MODE)
            );
            assert_eq!(choose(FI_MR_PROV_KEY, caps), Some(FI_MR_PROV_KEY));
            assert_eq!(choose(BASIC, caps), Some(BASIC));
            assert_eq!(choose(FI_MR_VIRT_ADDR, caps), None);
            assert_eq!(choose(SCALABLE, caps), None);
        }
        assert_eq!(choose(SCALABLE, FI_MSG), Some(0));
        assert_eq!(choose(FI_MR_VIRT_ADDR, FI_MSG), Some(FI_MR_VIRT_ADDR));
    }

    #[test]
    fn mr_02_provider_without_mode_bits_accepts_any_mode() {
        for accepted in [0, BASIC, SCALABLE, PROVIDER_MODE] {
            assert_eq!(choose_mode(0, accepted, FI_RMA), Some(0));
        }
    }

    #[test]
    fn mr_02_offset_addressing_is_used_without_virt_addr_only() {
        for mode in [0, BASIC, FI_MR_VIRT_ADDR, PROVIDER_MODE] {
            assert!(Addressing::from_mr_mode(mode) == Addressing::Virtual);
        }
        for mode in [FI_MR_PROV_KEY, SCALABLE] {
            assert!(Addressing::from_mr_mode(mode) == Addressing::Offset);
        }
    }
}
