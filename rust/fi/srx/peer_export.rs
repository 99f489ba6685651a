// SPDX-License-Identifier: GPL-2.0

//! Receives that messages of another provider take, one of another module: the guests of a context here.
//!
//! A guest [gets](Host::get) what has been posted for a message, or has it [queued](Host::queue) under a number of its
//! own; whoever posts what that takes [starts](Guest::start) it. All of it is legal in any context.

use super::super::memory::{
    Context,
    Descriptor,
    Segment, //
};
use crate::abi::Result;

/// Most pieces of memory of a receive that goes from one provider to another.
pub const PARTS: usize = 4;

/// What has been posted, and a message of another provider's has got.
pub struct MatchedReceive {
    /// By what its owner knows it.
    pub ticket: usize,
    /// Where the message goes; those that are empty are none.
    pub parts: [Segment; PARTS],
    /// Descriptors of the non-empty parts, in order; the rest of the array is none.
    pub descriptors: [Descriptor; PARTS],
    /// What whoever posted it gets back.
    pub context: Context,
    /// The tag that it takes, and the bits of it that do not matter.
    pub tag: Option<(u64, u64)>,
    /// Whether a success is told where not each is.
    pub is_wanted: bool,
}

/// Who has messages for receives that are posted here.
pub trait PeerEndpoint: Send + Sync {
    /// The message of that number, which has waited here, has got that. No lock is held.
    fn start(&self, number: usize, taken: MatchedReceive);
}

/// What receives are to a guest.
pub trait ExportedReceives: Send + Sync {
    /// What has been posted for a message with that tag, or without one.
    fn get(&self, tag: Option<u64>) -> Option<MatchedReceive>;

    /// Has such a message wait, unless something has been posted for it by now. A number waits once.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn queue(&self, tag: Option<u64>, number: usize) -> Result<Option<MatchedReceive>>;

    /// Takes a message back, if it waits still.
    fn withdraw(&self, number: usize) -> bool;

    /// A message is over that has got something: as many more can be posted.
    fn over(&self);

    /// Posts again what a message has got that does not come.
    fn post_again(&self, taken: MatchedReceive);

    /// Leaves: tells `each` of the messages that wait, which are dropped. Nothing is started any more when it
    /// returns. May sleep.
    fn leave(&self, each: &mut dyn FnMut(usize));
}
