// SPDX-License-Identifier: GPL-2.0

//! Messages of another module's provider, which take receives that are posted here: it has a seat among the
//! endpoints that share them.

use super::{
    matching::Title,
    receive::{
        Body,
        Letter,
        Posted, //
    },
    srx::{
        Member,
        Srx, //
    },
    wire::Message, //
};
use crate::{
    fi::{
        prelude::*,
        srx::{
            ExportedReceives,
            MatchedReceive,
            PeerEndpoint, //
        },
    },
    util::owned_list::ListBox, //
};

/// A guest among endpoints.
struct Lodger(Arc<dyn PeerEndpoint>);

impl Member for Lodger {
    fn start(&self, posted: Posted, letter: ListBox<Letter>) {
        // It has no others.
        if let Body::Guest(number) = letter.body {
            self.0.start(number, posted.into());
        }
    }

    fn go_on(&self) {}

    fn discard(&self, _letter: ListBox<Letter>) {}
}

/// The seat of a guest.
pub(super) struct Hosting {
    srx: Arc<Srx>,
    seat: usize,
}

impl Hosting {
    /// Admits a guest. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>, guest: Arc<dyn PeerEndpoint>) -> Result<Self> {
        let seat = srx.admit(Arc::new(Lodger(guest), GFP_KERNEL)?)?;
        Ok(Self { srx, seat })
    }
}

fn title(tag: Option<u64>) -> Title {
    Title { tag, ..Title::NONE }
}

impl ExportedReceives for Hosting {
    fn get(&self, tag: Option<u64>) -> Option<MatchedReceive> {
        self.srx
            .get(self.seat, &title(tag))
            .map(MatchedReceive::from)
    }

    fn queue(&self, tag: Option<u64>, number: usize) -> Result<Option<MatchedReceive>> {
        let message = Message {
            context: 0,
            tag,
            len: 0,
            data: None,
        };
        let letter = Letter::new(title(tag), message, 0, Body::Guest(number));
        let queued = self
            .srx
            .queue(self.seat, ListBox::new_atomic(letter)?, false);
        Ok(queued.map(|(posted, _)| posted.into()))
    }

    fn cancel(&self, number: usize) -> bool {
        let is = |letter: &Letter| matches!(letter.body, Body::Guest(it) if it == number);
        let taken = self.srx.forget(self.seat, is);
        taken.iter().any(|letters| !letters.is_empty())
    }

    fn complete(&self) {
        self.srx.over(0);
    }

    fn repost(&self, taken: MatchedReceive) {
        self.srx.post_again(taken.into());
    }

    fn detach(&self, each: &mut dyn FnMut(usize)) {
        let left = self.srx.forget(self.seat, |_| true);
        self.srx.dismiss(self.seat);
        for letter in left.iter().flat_map(|letters| letters.iter()) {
            if let Body::Guest(number) = letter.body {
                each(number);
            }
        }
    }
}
