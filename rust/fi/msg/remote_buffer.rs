// SPDX-License-Identifier: GPL-2.0

//! Local memory that peers can access, for Rust consumers.

use super::{
    super::{
        domain::Domain,
        memory::{
            Buffer,
            PostResult,
            RefusedPost,
            SharedBuffer, //
        },
        mr::Access, //
    },
    RemoteMemory, //
};
use crate::{
    fi::prelude::*,
    util::deferred_drop::DropSlot, //
};

/// The access that peers have to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteAccess {
    /// Peers may read.
    Read,
    /// Peers may write.
    Write,
    /// Peers may read, write, and change the memory by atomic operations that the device supports.
    ReadWrite,
}

impl RemoteAccess {
    fn mr_access(self) -> Access {
        match self {
            Self::Read => Access::REMOTE_READ,
            Self::Write => Access::REMOTE_WRITE,
            Self::ReadWrite => Access::REMOTE,
        }
    }
}

/// A buffer that peers can access with its key, through any endpoint of the domain, until it is dropped.
///
/// Remote accesses write no completion here and can happen at any time, so the bytes are copied in and out,
/// never borrowed. Dropping first closes the memory region, then frees the buffer; in atomic context, a
/// workqueue does so later.
pub struct RemoteBuffer(DeferredDrop<SharedBuffer>);

impl RemoteBuffer {
    /// Registers all of `buffer` for access by peers. May sleep.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EINVAL for an empty buffer, or one of more pages than the device
    /// supports; -FI_EOPNOTSUPP if device and CPU accesses are not coherent; -FI_ENOMEM, -FI_ENODEV.
    pub fn new(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        buffer: KBox<Buffer>,
        access: RemoteAccess,
    ) -> PostResult<Self> {
        match DropSlot::new() {
            Ok(slot) => {
                let shared = SharedBuffer::new(buffer, domain, access.mr_access())?;
                Ok(Self(slot.store(shared)))
            }
            Err(errno) => Err(RefusedPost { errno, buffer }),
        }
    }

    /// Returns the location of the first byte as peers address it. Any context.
    pub fn remote(&self) -> RemoteMemory {
        self.0.remote()
    }

    /// Returns the length in bytes. Any context.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the length is 0, which is never the case. Any context.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from offset `at` on to `to`. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the range is not within the buffer; nothing is copied.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result {
        self.0.read(at, to)
    }

    /// Copies `from` to the bytes from offset `at` on. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn write(&self, at: usize, from: &[u8]) -> Result {
        self.0.write(at, from)
    }

    /// Closes the memory region and returns the buffer. No peer can access it any more. May sleep.
    pub fn take_back(self, _here: ProcessContext) -> KBox<Buffer> {
        self.0.into_inner().into_buffer()
    }
}
