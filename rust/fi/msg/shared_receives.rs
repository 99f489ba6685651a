// SPDX-License-Identifier: GPL-2.0

//! Buffers for the messages of several endpoints, for Rust consumers.

use super::super::{
    domain::Domain,
    memory::{
        Buffer,
        Claim,
        Memory,
        RefusedPost, //
    },
    provider::{
        Message,
        Tag, //
    },
    srx::{
        Attr,
        SharedReceive, //
    },
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    flags,
    Errno,
    Result,
    FI_ADDR_UNSPEC, //
};
use core::slice;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Receives that closes itself; buffers that are still posted are freed.
struct Open {
    shared: Arc<SharedReceive>,
    domain: Arc<Domain>,
    claim: Claim,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Nobody is bound any more: each endpoint keeps what it shares. What is posted was given below.
        let claim = &self.claim;
        let _ = self
            .shared
            .close(&mut |context| drop(claim.reclaim(context)));
    }
}

/// Buffers for the messages of all endpoints that share them: each takes the oldest, and its endpoint's
/// [`Completions`](super::Completions) give it back.
///
/// Dropped by its owner and by the last of those endpoints it closes, silently; buffers that are still posted
/// are freed. Where that may not sleep, both happen soon after.
pub struct SharedReceives(DeferredDrop<Open>);

impl SharedReceives {
    /// Opens room for `size` buffers, or for as many as the provider likes for 0.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where the device has nothing to share, -FI_EINVAL for a size beyond what it has,
    /// -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_receive(&Attr {
            size,
            segments: 1,
            caps: 0,
        })?;
        let open = DeferredDrop::new(Open {
            shared,
            domain: domain.clone(),
            claim: Claim::new(),
        })?;
        Ok(Arc::new(Self(open), GFP_KERNEL)?)
    }

    /// Posts `buffer` for the next message. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when as many are posted as there is room for, -FI_EMSGSIZE when the device
    /// takes no such message.
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.post(None, buffer)
    }

    /// The same for the next one with such a tag, of [datagrams](super::super::rdm). Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::receive`]; -FI_ENOSYS where messages have no tags.
    pub fn receive_tagged(
        &self,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        match self.0.shared.core().has_tags() {
            true => self.post(Some(tag), buffer),
            false => Err(RefusedPost {
                errno: Errno::ENOSYS,
                buffer,
            }),
        }
    }

    fn post(
        &self,
        tag: Option<Tag>,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        let len = buffer.len();
        Buffer::give(
            buffer,
            len,
            &self.0.domain,
            |segment, descriptor, context| {
                self.0.shared.core().receive(&Message {
                    memory: Memory::Segments(slice::from_ref(segment)),
                    descriptors: &[descriptor],
                    context,
                    flags: flags::FI_COMPLETION,
                    errors_only: false,
                    data: 0,
                    peer: FI_ADDR_UNSPEC,
                    tag,
                })
            },
        )
    }

    /// How many more can be posted now. Any context.
    pub fn room(&self) -> usize {
        self.0.shared.core().receives_left()
    }

    /// What endpoints are bound to.
    pub(in super::super) fn shared(&self) -> &Arc<SharedReceive> {
        &self.0.shared
    }
}
