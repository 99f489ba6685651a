// SPDX-License-Identifier: GPL-2.0

//! Memory of ours that peers may reach, for Rust consumers.

use super::{
    super::{
        domain::Domain,
        memory::{
            Buffer,
            RefusedPost,
            SharedBuffer, //
        },
        mr::Access, //
    },
    RemoteMemory, //
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::{
        DeferredDrop,
        DropSlot, //
    },
    flags,
    Errno,
    Result, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What peers may do with memory that they are lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteAccess {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Both, and change it atomically where the device can.
    ReadWrite,
}

impl RemoteAccess {
    fn access(self) -> Result<Access> {
        Access::from_bits(match self {
            Self::Read => flags::FI_REMOTE_READ,
            Self::Write => flags::FI_REMOTE_WRITE,
            Self::ReadWrite => flags::FI_REMOTE_READ | flags::FI_REMOTE_WRITE,
        })
    }
}

/// A buffer that peers may reach, as long as this lives: whoever knows its key, through any endpoint of
/// the domain.
///
/// What they do there raises no completion here, and may happen at any time: the bytes are copied in
/// and out, never borrowed. Dropping it takes the right back first; where that may not sleep, both happen
/// soon after.
pub struct RemoteBuffer(DeferredDrop<SharedBuffer>);

impl RemoteBuffer {
    /// Lends all of `buffer` to the peers of `domain`.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EINVAL if it is empty, or of more pages than the device can list;
    /// -FI_EOPNOTSUPP where device and CPU do not see the same memory at all times; -FI_ENOMEM,
    /// -FI_ENODEV.
    pub fn new(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        buffer: KBox<Buffer>,
        right: RemoteAccess,
    ) -> core::result::Result<Self, RefusedPost> {
        let room = match DropSlot::new() {
            Ok(room) => room,
            Err(errno) => return Err(RefusedPost { errno, buffer }),
        };
        match right.access() {
            Ok(access) => Ok(Self(room.hold(SharedBuffer::new(buffer, domain, access)?))),
            Err(errno) => Err(RefusedPost { errno, buffer }),
        }
    }

    /// How peers name its first byte. Any context.
    pub fn remote(&self) -> RemoteMemory {
        let (addr, key) = self.0.name();
        RemoteMemory { addr, key }
    }

    /// How many bytes it has. Any context.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none, which is never so. Any context.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies what is there from `at` on to `to`. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if that is not all in it, and nothing is copied.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result {
        match self.0.read(at, to) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }

    /// Copies `from` to where it is at `at`. Any context.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result {
        match self.0.write(at, from) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }

    /// Takes the buffer back: when this returns no peer reaches it any more.
    pub fn take_back(self, _here: ProcessContext) -> KBox<Buffer> {
        self.0.into_inner().end()
    }
}
