// SPDX-License-Identifier: GPL-2.0

//! Receives of another module's provider, which messages of endpoints here take.
//!
//! Whatever has come is asked for there, and waits there if there is nothing: the owner has its ticket, and the
//! letter is here. What the owner has no memory for waits behind the others and is tried again: nobody says when
//! something is posted that could take it. The lock is held while the owner is asked, so that it sees one message
//! after the other.

use super::{
    super::common::iov::{
        DstBuf,
        MAX_IOV, //
    },
    matching::Wish,
    receive::{
        Letter,
        Posted, //
    },
};
use crate::{
    fi::{
        prelude::*,
        srx::{
            GetResult,
            MatchedReceive,
            MessageInfo,
            ReceiveOwner,
            MAX_SEGMENTS, //
        },
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

const _: () = assert!(MAX_SEGMENTS == MAX_IOV);

/// The ticket of a letter that the owner has not heard of.
const UNTOLD: usize = 0;

struct Waiting {
    /// Those that the owner knows are in any order, the others in that in which they came.
    letters: BoxList<Letter>,
    /// How many the owner has not heard of.
    untold: usize,
}

/// See the module.
#[pin_data]
pub(super) struct Abroad {
    owner: KBox<dyn ReceiveOwner>,
    #[pin]
    waiting: FastLockIrq<Waiting>,
}

impl From<MatchedReceive> for Posted {
    fn from(taken: MatchedReceive) -> Self {
        Self {
            wish: Wish {
                tag: taken.tag,
                from: None,
            },
            // Of memory that is none, nothing fits: whoever posted it hears of that.
            // SAFETY: It is dropped with the receive, before the owner's completion is written.
            into: unsafe { DstBuf::new(Memory::Segments(&taken.segments)) }
                .unwrap_or(DstBuf::EMPTY),
            descriptors: taken.descriptors,
            context: taken.context,
            is_wanted: taken.reports_success,
            ticket: taken.entry,
        }
    }
}

impl From<Posted> for MatchedReceive {
    fn from(posted: Posted) -> Self {
        Self {
            entry: posted.ticket,
            // SAFETY: `posted` ends here, and is reported with the memory that it received into.
            segments: unsafe { posted.into.segments() },
            descriptors: posted.descriptors,
            context: posted.context,
            tag: posted.wish.tag,
            reports_success: posted.is_wanted,
        }
    }
}

impl Abroad {
    /// Receives of `owner`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(owner: KBox<dyn ReceiveOwner>) -> Result<Pin<KBox<Self>>> {
        let waiting = Waiting {
            letters: BoxList::new(),
            untold: 0,
        };
        Ok(KBox::pin_init(
            pin_init!(Self {
                owner,
                waiting <- FastLockIrq::new(waiting, c"kofi::rdm::Abroad", static_lock_class!()),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Whose they are.
    pub(super) fn owner(&self) -> &dyn ReceiveOwner {
        &*self.owner
    }

    /// What has been posted for a message that has come. Any context.
    pub(super) fn get(&self, arrived: &MessageInfo) -> Option<Posted> {
        let waiting = self.waiting.lock();
        if waiting.untold > 0 {
            return None;
        }
        match self.owner.get(arrived).ok()? {
            GetResult::Matched(taken) => Some(taken.into()),
            GetResult::Unmatched(ticket) => {
                self.owner.free(ticket);
                None
            }
        }
    }

    /// As [`Srx::queue`](super::srx::Srx::queue), of a message from `source`.
    pub(super) fn queue(
        &self,
        seat: usize,
        mut letter: ListBox<Letter>,
        source: fi_addr_t,
    ) -> Option<(Posted, ListBox<Letter>)> {
        letter.seat = seat;
        letter.source = source;
        let mut waiting = self.waiting.lock();
        if waiting.untold == 0 {
            if let Ok(Some(posted)) = self.tell(&mut letter) {
                return Some((posted, letter));
            }
        }
        waiting.untold += usize::from(letter.ticket == UNTOLD);
        waiting.letters.push(letter);
        None
    }

    /// Tells the owner of a message, which waits there if nothing has been posted for it.
    fn tell(&self, letter: &mut Letter) -> Result<Option<Posted>> {
        let arrived = MessageInfo {
            tag: letter.title.tag,
            len: letter.message.len as usize,
            source: letter.source,
        };
        match self.owner.get(&arrived)? {
            GetResult::Matched(taken) => Ok(Some(taken.into())),
            GetResult::Unmatched(ticket) => {
                let queued = self.owner.queue(&arrived, ticket);
                queued.inspect_err(|_| self.owner.free(ticket))?;
                letter.ticket = ticket;
                Ok(None)
            }
        }
    }

    /// Tells the owner of those that it has not heard of, until one gets something: that comes back. Any context.
    pub(super) fn tell_next(&self) -> Option<(Posted, ListBox<Letter>)> {
        loop {
            let mut waiting = self.waiting.lock();
            let mut letter = waiting
                .letters
                .remove_first_where(|letter| letter.ticket == UNTOLD)?;
            match self.tell(&mut letter) {
                Ok(posted) => {
                    waiting.untold -= 1;
                    match posted {
                        Some(posted) => return Some((posted, letter)),
                        None => waiting.letters.push(letter),
                    }
                }
                Err(_) => {
                    waiting.letters.push_front(letter);
                    return None;
                }
            }
        }
    }

    /// Whether there are some that the owner has not heard of. Any context.
    pub(super) fn is_starving(&self) -> bool {
        self.waiting.lock().untold > 0
    }

    /// Takes the letter with that ticket.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT.
    pub(super) fn take(&self, ticket: usize) -> Result<ListBox<Letter>> {
        let mut waiting = self.waiting.lock();
        let is = |letter: &Letter| letter.ticket == ticket && ticket != UNTOLD;
        waiting.letters.remove_first_where(is).ok_or(Errno::ENOENT)
    }

    /// Takes those that `go`, with the owner too.
    pub(super) fn forget(&self, goes: impl FnMut(&Letter) -> bool) -> BoxList<Letter> {
        let mut waiting = self.waiting.lock();
        let letters = waiting.letters.drain_where(goes);
        for letter in letters.iter() {
            match letter.ticket {
                UNTOLD => waiting.untold -= 1,
                ticket => self.owner.free(ticket),
            }
        }
        letters
    }
}
