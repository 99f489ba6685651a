// SPDX-License-Identifier: GPL-2.0

//! What becomes of connections: what the endpoints below tell of them, and what peers ask for.

use super::{
    super::{
        agenda::Task,
        below::Route,
        link::{
            order,
            State,
            Verdict, //
        },
        peer::mirror,
        station::{
            Bound,
            Station, //
        },
        wire::{
            Flow,
            Hello,
            Refusal,
            Welcome, //
        },
    },
    Links,
    FLOW,
    LISTENER, //
};
use crate::{
    abi::{
        FI_CONNECTED,
        FI_CONNREQ, //
    },
    fi::{
        eq::{
            Event,
            Kind,
            OwnedEvent, //
        },
        prelude::*, //
    },
};

/// What is sure of an info that came with an event.
struct Asker {
    peer: SocketAddr,
    local: SocketAddr,
}

impl Asker {
    fn of(info: &Info) -> Result<Self> {
        match info.addresses()? {
            (Some(local), Some(peer)) => Ok(Self { peer, local }),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Station {
    /// Something has come of a connection.
    pub(super) fn hear(
        &self,
        here: ProcessContext,
        bound: &Bound,
        links: &mut Links,
        route: Route,
        mut event: OwnedEvent,
    ) {
        if event.source() == LISTENER {
            if event.kind() == Kind::Connection(FI_CONNREQ) {
                if let Some(mut info) = event.take_info() {
                    self.answer(here, bound, links, route, &mut info, event.data());
                }
            }
            return;
        }
        let attempt = event.source().0;
        let is_iwarp = links.is_iwarp && route == Route::Wire;
        let Some((slot, known)) = links.of_attempt(attempt) else {
            return;
        };
        match (event.kind(), known.link.state()) {
            (Kind::Connection(FI_CONNECTED), State::Answering(_)) => {
                if let Some(who) = known.link.established() {
                    links.patience.rewarded();
                    let to = u64::from(who.index);
                    self.with(|traffic, outlets| {
                        traffic.establish(outlets, slot, attempt, to, None);
                    });
                }
            }
            (Kind::Connection(FI_CONNECTED), _) => match Welcome::from_bytes(event.data()) {
                Ok(welcome) if known.link.accepted(welcome.identity) => {
                    let flow = FLOW.with(welcome.flow);
                    if flow == Flow::Device && !known.is_lavish {
                        // It gets another one, which shares nothing.
                        known.is_lavish = true;
                        return self.lose(here, bound, links, slot);
                    }
                    links.patience.rewarded();
                    let to = u64::from(welcome.identity.index);
                    let said = (flow, welcome.extensions);
                    self.with(|traffic, outlets| {
                        traffic.establish(outlets, slot, attempt, to, Some(said));
                    });
                }
                _ => self.give_up(here, bound, links, slot, Errno::ECONNABORTED),
            },
            (Kind::Error(errno, _), State::Asking) => {
                let refusal = refusal(&event, errno, is_iwarp);
                if known.link.refused(refusal) {
                    self.give_up(here, bound, links, slot, errno);
                } else {
                    self.close_lane(slot);
                    let patience = links.patience.get();
                    links.agenda.plan(Task::Ask, patience);
                }
            }
            _ => self.lose(here, bound, links, slot),
        }
    }

    /// A peer asks for a connection.
    fn answer(
        &self,
        here: ProcessContext,
        bound: &Bound,
        links: &mut Links,
        route: Route,
        info: &mut Info,
        data: &[u8],
    ) {
        let Some(listener) = links.listener(route).cloned() else {
            return;
        };
        let handle = info.handle();
        let refuse = |why: Refusal| {
            // A peer that has gone need not be told.
            let _ = listener.core().reject(handle, &why.to_bytes());
        };
        let (Ok(hello), Ok(asker)) = (Hello::from_bytes(data), Asker::of(info)) else {
            return refuse(Refusal::Refused);
        };
        let below = self.protection.below(route);
        if !below.is_ok_and(|below| below.info.domain_name() == info.domain_name()) {
            return refuse(Refusal::Refused);
        }
        let (mut peer, mut local) = (asker.peer, asker.local);
        peer.set_port(hello.port);
        local.set_port(links.port());
        let order = order(&peer, &local);
        if order.is_eq() && !links.is_own(hello.identity) {
            // Another endpoint on this host claims our address.
            return refuse(Refusal::Refused);
        }
        if links.is_crowded() && bound.ways.find(&peer).is_none() {
            return refuse(Refusal::Already);
        }
        let Ok(slot) = self.enter(here, bound, links, peer) else {
            return refuse(Refusal::Refused);
        };
        let slot = match order.is_eq() {
            true => mirror(slot),
            false => slot,
        };
        if !order.is_eq() && !links.has_place(slot) && links.is_full(&self.limits) {
            // It is asked itself when there is room.
            links.wait(slot);
            return refuse(Refusal::Already);
        }
        let Ok(known) = links.known(slot) else {
            return refuse(Refusal::Refused);
        };
        match known.link.asked(hello.identity, order) {
            Verdict::Refuse => {
                // The probe finds out whether the peer was restarted without a disconnect.
                self.traffic.lock().probe(slot);
                return refuse(Refusal::Already);
            }
            Verdict::Accept => {}
            Verdict::Replace => self.close_lane(slot),
        }
        let said = (FLOW.with(hello.flow), hello.extensions);
        let accepted = self
            .open(here, bound, links, (slot, route), info, Some(said))
            .and_then(|lower| lower.accept(&links.welcome(slot)));
        if accepted.is_err() {
            // Whoever could not be accepted is refused with the endpoint, or here.
            refuse(Refusal::Refused);
            self.lose(here, bound, links, slot);
        }
    }
}

/// What a peer has said with its refusal, if that is why there is no connection. Elsewhere than on iWARP who
/// says nothing is not there; and there an answer that could not be read (`siw_recv_mpa_rr()`, where
/// something is right behind it) says nothing, either.
fn refusal(event: &Event, errno: Errno, is_iwarp: bool) -> Refusal {
    match (errno, Refusal::from_bytes(event.data())) {
        (Errno::ECONNREFUSED, Refusal::Unknown) if !is_iwarp => Refusal::Refused,
        (Errno::ECONNREFUSED, refusal) => refusal,
        (Errno::ECONNABORTED, _) if is_iwarp => Refusal::Unknown,
        _ => Refusal::Refused,
    }
}
