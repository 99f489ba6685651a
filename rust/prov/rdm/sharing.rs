// SPDX-License-Identifier: GPL-2.0

//! Endpoints whose messages take [receives that are shared](super::srx).
//!
//! Room to tell of a message, and a receive of the endpoint's to have it come in, are taken when it is known
//! what it gets. As long as there is none it waits with that, and nobody overtakes it.

use super::{
    abroad::Abroad,
    matching::Title,
    office::Office,
    outlets::Outlets,
    receive::{
        Goal,
        Letter,
        Posted,
        Receive, //
    },
    srx::{
        Member,
        Srx, //
    },
    station::Station,
    traffic::Traffic,
    wire::Message, //
};
use crate::{
    fi::{
        prelude::*,
        srx::{
            MessageInfo,
            RxEntryList, //
        },
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// What an endpoint has of receives that it shares.
pub(super) struct Share {
    srx: Arc<Srx>,
    /// Its seat there, until it closes.
    seat: Option<usize>,
    /// Entries of another module's receives that have completed, until their completions have been forwarded.
    spent: RxEntryList,
    /// Number of outcomes in the endpoint's queue when the last of these entries completed.
    position: u64,
}

impl Share {
    fn free_spent(&mut self) {
        if let Some(abroad) = self.srx.abroad() {
            self.spent.free(abroad.owner());
        }
    }
}

impl Office {
    /// Where its messages wait, and its seat there, if that is not with itself.
    fn elsewhere(&self) -> Option<(&Srx, usize)> {
        let share = self.share.as_ref()?;
        Some((&share.srx, share.seat?))
    }

    /// A receive with what has been posted for a message that has come, and room to tell of it.
    #[inline(never)]
    pub(super) fn get_shared(
        &mut self,
        outlets: &Outlets,
        title: &Title,
        message: &Message,
    ) -> Option<ListBox<Receive>> {
        if self.share.is_none() || !self.placed.is_empty() {
            return None;
        }
        let helper = self.helper(outlets)?;
        let posted = self.elsewhere().and_then(|(srx, seat)| match srx.abroad() {
            None => srx.get(seat, title),
            Some(abroad) => abroad.get(&MessageInfo {
                tag: title.tag,
                len: message.len as usize,
                source: outlets.source(title.context, title),
            }),
        });
        self.help(outlets, helper, posted.map(Goal::Shared))
    }

    /// Has a message wait for a receive, unless something that is shared has been posted for it: then both
    /// come back. Others may wait in their packets, which `is_holding` says.
    pub(super) fn queue(
        &mut self,
        outlets: &Outlets,
        letter: ListBox<Letter>,
        is_holding: bool,
    ) -> Option<(Posted, ListBox<Letter>)> {
        match self.elsewhere() {
            Some((srx, seat)) => match srx.abroad() {
                None => srx.queue(seat, letter, is_holding),
                Some(abroad) => {
                    let source = outlets.source(letter.title.context, &letter.title);
                    abroad.queue(seat, letter, source)
                }
            },
            None => {
                self.desk.wait(letter);
                None
            }
        }
    }

    /// Takes every message that waits for a receive and `goes`.
    pub(super) fn forget(&mut self, goes: impl FnMut(&Letter) -> bool) -> [BoxList<Letter>; 2] {
        match self.elsewhere() {
            Some((srx, seat)) => srx.forget(seat, goes),
            None => self.desk.forget(goes),
        }
    }

    /// Whether it shares receives no more, as its endpoint closes.
    pub(super) fn has_left(&self) -> bool {
        self.share
            .as_ref()
            .is_some_and(|share| share.seat.is_none())
    }

    /// Releases the room of a shared receive of kOFI that is about to complete, before its completion is visible:
    /// the reader may post the next receive at once.
    pub(super) fn complete_shared(&self) {
        let share = self.share.as_ref();
        if let Some(share) = share.filter(|share| share.srx.abroad().is_none()) {
            share.srx.over(0);
        }
    }

    /// Handles the completion of the receive with that ticket, at that [position](super::cq::Cq::position). An entry
    /// of another module's receive is freed now, or when the completion has been forwarded.
    pub(super) fn free_shared(&mut self, ticket: usize, position: Option<u64>) {
        let Some(share) = &mut self.share else {
            return;
        };
        let Some(abroad) = share.srx.abroad() else {
            return;
        };
        match position.filter(|_| share.seat.is_some()) {
            None => abroad.owner().free(ticket),
            Some(position) => {
                share.spent.push(abroad.owner(), ticket);
                share.position = position;
            }
        }
    }

    /// Frees the entries whose completions are among the first `count` outcomes of the endpoint's queue, all
    /// forwarded.
    fn passed_on(&mut self, count: u64) {
        let share = self.share.as_mut();
        if let Some(share) = share.filter(|share| share.position <= count) {
            share.free_spent();
        }
    }

    /// Whether what it shares is another module's.
    pub(super) fn is_abroad(&self) -> bool {
        self.share
            .as_ref()
            .is_some_and(|share| share.srx.abroad().is_some())
    }

    /// Whether the owner of that has not heard of some message.
    pub(super) fn is_starving(&self) -> bool {
        let share = self.share.as_ref();
        let abroad = share.and_then(|share| share.srx.abroad());
        abroad.is_some_and(Abroad::is_starving)
    }
}

impl Traffic {
    /// A message that was to wait, or has waited, has got something that is shared.
    pub(super) fn started(
        &mut self,
        outlets: &Outlets,
        posted: Posted,
        mut letter: ListBox<Letter>,
    ) {
        let at = letter.title.context;
        letter.goal = Some(Goal::Shared(posted));
        self.offices.of_mut(at).placed.push(letter);
        let _ = self.deliver_at(outlets, at);
    }
}

impl Station {
    /// Has the messages of its only context take what is posted there. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn join(self: &Arc<Self>, srx: &Arc<Srx>) -> Result {
        let share = Share {
            srx: srx.clone(),
            seat: Some(srx.admit(self.clone())?),
            spent: RxEntryList::default(),
            position: 0,
        };
        let old = self.with(|traffic, _| traffic.offices.of_mut(0).share.replace(share));
        drop(old);
        Ok(())
    }

    /// Takes no more, if it does: what messages have got that wait to be told of is posted again. May sleep.
    pub(super) fn leave(&self) {
        let share = self.with(|traffic, _| {
            let share = traffic.offices.of_mut(0).share.as_mut()?;
            // Completions that have not been forwarded are dropped with the endpoint's queue.
            share.free_spent();
            Some((share.srx.clone(), share.seat.take()?))
        });
        let Some((srx, seat)) = share else {
            return;
        };
        srx.dismiss(seat);
        let mut placed = self.with(|traffic, _| mem::take(&mut traffic.offices.of_mut(0).placed));
        while let Some(mut letter) = placed.pop() {
            if let Some(Goal::Shared(posted)) = letter.goal.take() {
                srx.post_again(posted);
            }
        }
    }

    /// Posts something again that a message had got which does not come, after it has
    /// [left](Self::leave).
    pub(super) fn post_again(&self, posted: Posted) {
        let srx = self.with(|traffic, _| {
            let share = traffic.offices.of(0).share.as_ref()?;
            Some(share.srx.clone())
        });
        if let Some(srx) = srx {
            srx.post_again(posted);
        }
    }

    /// Frees the entries whose completions are among the first `count` outcomes of its queue. Any context.
    pub(super) fn passed_on(&self, count: u64) {
        self.with(|traffic, _| traffic.offices.of_mut(0).passed_on(count));
    }

    /// Tries again what another module's provider had no room for, or nothing. Any context.
    pub(super) fn resume_abroad(&self) {
        let srx = self.with(|traffic, _| {
            let share = traffic.offices.of(0).share.as_ref()?;
            Some(share.srx.clone())
        });
        if let Some(srx) = srx {
            srx.try_again();
        }
        self.attend(|traffic, outlets| {
            traffic.go_on(outlets);
            traffic.is_starving |= traffic.offices.of(0).is_starving();
        });
    }

    /// Does something, and has somebody look after what comes of it. Any context.
    fn attend(&self, act: impl FnOnce(&mut Traffic, &Outlets)) {
        let is_calling = self.with(|traffic, outlets| {
            act(traffic, outlets);
            traffic.is_calling()
        });
        if let (true, Ok(bound)) = (is_calling, self.bound()) {
            bound.kick();
        }
    }
}

impl Member for Station {
    fn start(&self, posted: Posted, letter: ListBox<Letter>) {
        self.attend(|traffic, outlets| {
            traffic.started(outlets, posted, letter);
            traffic.go_on(outlets);
        });
    }

    fn go_on(&self) {
        self.attend(Traffic::go_on);
    }

    fn discard(&self, mut letter: ListBox<Letter>) {
        self.attend(|traffic, outlets| {
            let at = letter.title.context;
            letter.goal = Some(Goal::Nowhere);
            traffic.offices.of_mut(at).placed.push(letter);
            let _ = traffic.deliver_at(outlets, at);
            traffic.go_on(outlets);
        });
    }
}
