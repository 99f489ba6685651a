// SPDX-License-Identifier: GPL-2.0

//! Interface to a peer provider that takes receives from a shared receive context of ours.
//!
//! The peer asks for a matching receive with [`get`](ExportedReceives::get), or queues its message as
//! unexpected with [`queue`](ExportedReceives::queue) under a number of its own. A later post that the
//! message matches calls [`start`](PeerEndpoint::start). All calls are legal in any context, except
//! [`detach`](ExportedReceives::detach).

use crate::fi::prelude::*;

/// Maximum number of memory segments of a receive that is passed between providers.
pub const MAX_SEGMENTS: usize = 4;

/// A posted receive that has been matched to a message of a peer provider.
pub struct MatchedReceive {
    /// Identifier of the receive at its owner.
    pub entry: usize,
    /// Memory for the message; empty segments are unused.
    pub segments: [Segment; MAX_SEGMENTS],
    /// Descriptors of the non-empty segments, in order; the other elements are none.
    pub descriptors: [Descriptor; MAX_SEGMENTS],
    /// Operation context of the receive.
    pub context: Context,
    /// Tag that the receive matches, and the tag bits that it ignores.
    pub tag: Option<(u64, u64)>,
    /// True if a success is reported even where only errors are by default.
    pub reports_success: bool,
}

/// A peer provider with messages for exported receives.
pub trait PeerEndpoint: Send + Sync {
    /// Passes a receive to the queued message `message`. Called without a lock held.
    fn start(&self, message: usize, receive: MatchedReceive);
}

/// The receives that are exported to a peer provider.
pub trait ExportedReceives: Send + Sync {
    /// Takes the posted receive that matches a message with this tag, or untagged; `None` if there is none.
    fn get(&self, tag: Option<u64>) -> Option<MatchedReceive>;

    /// Queues a message as unexpected, or returns a receive that was posted for it in the meantime. A number
    /// is queued at most once.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn queue(&self, tag: Option<u64>, message: usize) -> Result<Option<MatchedReceive>>;

    /// Removes a queued message. Returns false if it was not queued any more.
    fn cancel(&self, message: usize) -> bool;

    /// Reports that a message with a matched receive has completed, which allows one more post.
    fn complete(&self);

    /// Posts a matched receive again, whose message will not arrive.
    fn repost(&self, receive: MatchedReceive);

    /// Detaches the peer, and calls `each` for its queued messages, which are dropped. No message is started
    /// after it returns. May sleep.
    fn detach(&self, each: &mut dyn FnMut(usize));
}
