// SPDX-License-Identifier: GPL-2.0

//! Interface to the owner of imported receives: messages of this module take receives of another module's
//! provider.

use super::peer_export::MatchedReceive;
use crate::fi::prelude::*;

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
