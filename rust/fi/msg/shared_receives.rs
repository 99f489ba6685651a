// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts for Rust consumers.

use super::super::{
    domain::Domain,
    memory::{
        Buffer,
        PostResult,
        ReclaimRight,
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
use crate::fi::prelude::*;

/// The parts of an open context. Dropping closes the context and frees the buffers that are still posted. May
/// sleep.
pub(in super::super) struct Open {
    /// The object that endpoints bind to.
    pub(in super::super) shared: Arc<SharedReceive>,
    reclaim_right: ReclaimRight,
}

impl Drop for Open {
    fn drop(&mut self) {
        // No endpoint is bound any more: each keeps a reference to its context. The context of each posted
        // receive came from [`Buffer::post`].
        let claim = &self.reclaim_right;
        let _ = self
            .shared
            .close(&mut |context| drop(claim.reclaim(context)));
    }
}

/// A shared receive context: each message of a bound endpoint consumes the oldest buffer, which returns from
/// the endpoint's [`Completions`](super::Completions).
///
/// The context closes, without an event, when its owner and all bound endpoints have dropped it, and frees
/// the buffers that are still posted; in atomic context, a workqueue does so later.
pub struct SharedReceives(pub(in super::super) DeferredDrop<Open>);

impl SharedReceives {
    /// Opens a context for `size` receives; 0 selects the provider's default. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the device has no shared receive contexts, -FI_EINVAL for a size over its limit,
    /// -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_receive(&Attr {
            size,
            segments: 1,
            caps: 0,
        })?;
        let open = DeferredDrop::new(Open {
            shared,
            reclaim_right: ReclaimRight::new(),
        })?;
        new_arc(Self(open))
    }

    /// Posts `buffer` for the next message. The completion returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when the context is full, -FI_EMSGSIZE for more than the device's
    /// maximum message size.
    pub fn receive(&self, buffer: KBox<Buffer>) -> PostResult {
        self.post(None, buffer)
    }

    /// Posts `buffer` for the next message whose tag matches `tag`, of [datagram
    /// endpoints](super::super::rdm). Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`]; -FI_ENOSYS if the context has no tagged receives.
    pub fn receive_tagged(&self, tag: Tag, buffer: KBox<Buffer>) -> PostResult {
        match self.0.shared.core().has_tags() {
            true => self.post(Some(tag), buffer),
            false => {
                let errno = Errno::ENOSYS;
                Err(RefusedPost { errno, buffer })
            }
        }
    }

    fn post(&self, tag: Option<Tag>, buffer: KBox<Buffer>) -> PostResult {
        let len = buffer.len();
        let shared = &self.0.shared;
        let domain = shared.entry_guard.parent.arc();
        Buffer::post(buffer, len, domain, |segment, descriptor, context| {
            shared.core().receive(&Message {
                tag,
                ..Message::with_segment(segment, &[descriptor], context)
            })
        })
    }

    /// Returns a lower bound on the receives that can be posted. Any context.
    pub fn receives_left(&self) -> usize {
        self.0.shared.core().receives_left()
    }
}
