// SPDX-License-Identifier: GPL-2.0

//! Interfaces between the owner of a shared receive context and a peer provider whose messages take its
//! receives.
//!
//! A peer of a context of ours asks for a matching receive with [`get`](ExportedReceives::get), or queues its
//! message as unexpected with [`queue`](ExportedReceives::queue) under a number of its own. A later post that
//! the message matches calls [`start`](PeerEndpoint::start). All calls are legal in any context, except
//! [`detach`](ExportedReceives::detach). [`ReceiveOwner`] is the owner of a context that another module
//! exports.

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

/// An arrived message.
#[derive(Clone, Copy)]
pub struct MessageInfo {
    /// Tag of a tagged message.
    pub tag: Option<u64>,
    /// Length in bytes.
    pub len: usize,
    /// Source address, if it is known and reported.
    pub source: fi_addr_t,
}

/// The owner's answer for a message.
pub enum GetResult {
    /// A matched receive.
    Matched(MatchedReceive),
    /// No match: the entry to queue the message with, or to free.
    Unmatched(usize),
}

/// The owner of imported receives. Its calls are legal in any context. None of them calls [`MessageStarter`]
/// before it returns, neither in the same thread nor from another thread while it waits for a lock of that
/// thread.
pub trait ReceiveOwner: Send + Sync {
    /// Sets the starter of queued messages; `None` detaches it.
    fn set_starter(&self, starter: Option<Arc<dyn MessageStarter>>);

    /// Asks for a posted receive that matches a message.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and other errors of the owner.
    fn get(&self, message: &MessageInfo) -> Result<GetResult>;

    /// Queues a message as unexpected, with its entry.
    ///
    /// # Errors
    ///
    /// Errors of the owner; the entry stays valid.
    fn queue(&self, message: &MessageInfo, entry: usize) -> Result;

    /// Frees an entry, whose receive has completed or whose message will not arrive.
    fn free(&self, entry: usize);

    /// Stores `next` in an entry.
    fn set_next(&self, entry: usize, next: usize);

    /// Returns the value stored in an entry; 0 if the owner's module is unloaded.
    fn next(&self, entry: usize) -> usize;
}

/// List of entries to return to one owner, linked through the owner's entries, so that a push allocates
/// nothing.
///
/// No entry is 0, which marks the end.
#[derive(Default)]
pub struct RxEntryList {
    first: usize,
    last: usize,
}

impl RxEntryList {
    /// Appends an entry.
    pub fn push(&mut self, owner: &dyn ReceiveOwner, entry: usize) {
        owner.set_next(entry, 0);
        match self.first {
            0 => self.first = entry,
            _ => owner.set_next(self.last, entry),
        }
        self.last = entry;
    }

    /// Frees all entries, in the order in which they were pushed.
    pub fn free(&mut self, owner: &dyn ReceiveOwner) {
        let mut ticket = core::mem::take(&mut self.first);
        while ticket != 0 {
            let next = owner.next(ticket);
            owner.free(ticket);
            ticket = next;
        }
    }
}

/// Receiver of an owner's decisions on queued messages.
pub trait MessageStarter: Send + Sync {
    /// Passes a receive to the queued message of its entry. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if the message will not arrive: its entry has been freed, or is about to be.
    fn start(&self, receive: MatchedReceive) -> Result;

    /// Discards the queued message of an entry, without a completion. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT for an entry without a queued message.
    fn discard(&self, entry: usize) -> Result;
}
