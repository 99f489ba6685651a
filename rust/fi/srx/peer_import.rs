// SPDX-License-Identifier: GPL-2.0

//! Receives that messages here take of another provider's, one of another module: its owner.

use super::peer_export::MatchedReceive;
use crate::abi::{
    fi_addr_t,
    Result, //
};
use kernel::sync::Arc;

/// A message that has come.
#[derive(Clone, Copy)]
pub struct MessageInfo {
    /// Its tag, if it has one.
    pub tag: Option<u64>,
    /// How many bytes it has.
    pub len: usize,
    /// Whom it is from, if that is known and told.
    pub source: fi_addr_t,
}

/// What an owner has for a message.
pub enum GetResult {
    /// A receive.
    Receive(MatchedReceive),
    /// Nothing, and a ticket to queue the message with, or to give back.
    Nothing(usize),
}

/// Who owns receives. Its calls are legal in any context, and none comes back by [`MessageStarter`] before it has
/// returned, in the same thread or with a lock that it waits for.
pub trait ReceiveOwner: Send + Sync {
    /// Has `starter` told of messages that have been queued, until it is none.
    fn attach(&self, starter: Option<Arc<dyn MessageStarter>>);

    /// What has been posted for a message.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and whatever another says.
    fn get(&self, arrived: &MessageInfo) -> Result<GetResult>;

    /// Has a message wait with its ticket.
    ///
    /// # Errors
    ///
    /// Whatever another says: the ticket is still there.
    fn queue(&self, arrived: &MessageInfo, ticket: usize) -> Result;

    /// Gives a ticket back, of a receive that is over, or of a message that does not come any more.
    fn free(&self, ticket: usize);

    /// Stores `next` in the entry of a ticket.
    fn set_next(&self, ticket: usize, next: usize);

    /// Returns the value stored in the entry of a ticket, 0 if the owner has gone.
    fn next(&self, ticket: usize) -> usize;
}

/// List of tickets to return to one owner, linked through the owner's entries, so that a push allocates nothing.
///
/// No ticket is 0, which marks the end.
#[derive(Default)]
pub struct TicketList {
    first: usize,
    last: usize,
}

impl TicketList {
    /// Appends a ticket.
    pub fn push(&mut self, owner: &dyn ReceiveOwner, ticket: usize) {
        owner.set_next(ticket, 0);
        match self.first {
            0 => self.first = ticket,
            _ => owner.set_next(self.last, ticket),
        }
        self.last = ticket;
    }

    /// Returns all tickets to the owner, in the order in which they were pushed.
    pub fn free(&mut self, owner: &dyn ReceiveOwner) {
        let mut ticket = core::mem::take(&mut self.first);
        while ticket != 0 {
            let next = owner.next(ticket);
            owner.free(ticket);
            ticket = next;
        }
    }
}

/// Who has queued messages with an owner.
pub trait MessageStarter: Send + Sync {
    /// The message with that ticket, which has waited, has got that. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if it does not come any more: the ticket has been given back, or soon is.
    fn start(&self, taken: MatchedReceive) -> Result;

    /// It is dropped, and nobody told. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT for another ticket.
    fn discard(&self, ticket: usize) -> Result;
}
