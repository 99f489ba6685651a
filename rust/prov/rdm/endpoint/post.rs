// SPDX-License-Identifier: GPL-2.0

//! Messages: what is sent, and what is posted for those that come.

use super::{
    super::{
        direct::{
            Parcel,
            Shortcut, //
        },
        iov::{
            DstBuf,
            SrcBuf, //
        },
        looking::Fate,
        matching::Wish,
        order::Report,
        outlets::{
            Looking,
            Outlets, //
        },
        posting::Packet,
        station::Bound,
        traffic::{
            Floor,
            Traffic, //
        },
        wire::{
            self,
            EAGER, //
        },
    },
    Endpoint,
    Exit, //
};
use crate::{
    abi::{
        flags::*,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        prelude::*,
        provider::Message, //
    },
    util::lock::FastLockIrqGuard, //
};

/// Flags that a send may have.
pub(super) const SEND_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_MORE
    | FI_REMOTE_CQ_DATA
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE;

/// Flags that a receive may have.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Flags that a receive with a tag may have beside them.
pub(in super::super) const LOOK_FLAGS: u64 = FI_PEEK | FI_CLAIM | FI_DISCARD;

/// What has been claimed is not wanted after all.
const CLAIMED_AWAY: u64 = FI_CLAIM | FI_DISCARD;

/// What an operation is started with.
pub(super) trait Starting {
    /// Makes it of a packet.
    fn fill(self, packet: &mut Packet);

    /// The message that it is, if that may go without one.
    #[inline(always)]
    fn parcel(&self) -> Option<&Parcel> {
        None
    }
}

impl<F: FnOnce(&mut Packet)> Starting for F {
    #[inline(always)]
    fn fill(self, packet: &mut Packet) {
        self(packet);
    }
}

impl Starting for Parcel {
    #[inline(always)]
    fn fill(self, packet: &mut Packet) {
        self.pack(packet);
    }

    #[inline(always)]
    fn parcel(&self) -> Option<&Parcel> {
        Some(self)
    }
}

impl Endpoint {
    /// Sends a message.
    pub(super) fn send(&self, message: &Message<'_>) -> Result {
        if message.flags & !(SEND_FLAGS | FI_PEER_TRANSFER) != 0 {
            return Err(Errno::EBADFLAGS);
        }
        let (mut exit, bound) = self.outward()?;
        let mut by = self.context;
        let is_transfer = message.flags & FI_PEER_TRANSFER != 0;
        if is_transfer {
            (exit, by) = self.transfers()?;
        }
        let is_injected = message.flags & FI_INJECT != 0;
        let most = match is_injected {
            true => self.inject,
            false => self.most,
        };
        let len = message.memory.total_len()?;
        if len > most {
            return Err(Errno::EMSGSIZE);
        }
        // What goes in one packet is copied now.
        let memory = match is_injected || len <= EAGER {
            // SAFETY: It is copied and dropped before this call returns.
            true => unsafe { SrcBuf::new_inject(message.memory) }?,
            // SAFETY: It is dropped with the message, before the poster's completion is written.
            false => unsafe { SrcBuf::new(message.memory) }?,
        };
        let to = bound.addresses.lookup(message.peer)?;
        let kind = message.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let report = Report {
            by,
            context: message.context,
            flags: FI_SEND | kind,
            is_wanted: message.flags & FI_COMPLETION != 0
                || !exit.is_selective && !message.errors_only,
        };
        let has_data = message.flags & FI_REMOTE_CQ_DATA != 0;
        // No endpoint has as many as a packet cannot name.
        let context = match is_transfer {
            // That of the peer's transfers, too.
            true => Ok(by),
            false => u8::try_from(bound.addresses.rx_context(message.peer)),
        };
        let title = wire::Message {
            context: context.map_err(|_| Errno::EINVAL)?,
            tag: message.tag.map(|tag| tag.tag),
            len: len as u64,
            data: has_data.then_some(message.data),
        };
        let parcel = Parcel {
            message: title,
            from: memory,
        };
        self.start((exit, bound), &to, len, report, parcel)
    }

    /// Starts an operation on so many bytes.
    #[inline(always)]
    pub(super) fn start(
        &self,
        (exit, bound): (&Exit, &Bound),
        to: &SocketAddr,
        len: usize,
        report: Report,
        what: impl Starting,
    ) -> Result {
        if !exit.queue.reserve() {
            self.station
                .traffic
                .lock()
                .outlets
                .sent
                .of(report.by)
                .record_eagain();
            return Err(Errno::EAGAIN);
        }
        let mut floor = self.station.traffic.lock();
        let slot = floor.number_of(to, &bound.ways);
        if let (Some(slot), Some(parcel)) = (slot, what.parcel()) {
            if let Some(shortcut) = floor.shortcut(slot, &parcel.message) {
                drop(floor);
                match self.hand_over(bound, &shortcut, parcel, &report) {
                    None => return Ok(()),
                    Some(again) => floor = again,
                }
            }
        }
        let (traffic, outlets) = floor.parts();
        let sent = outlets.sent.of(report.by);
        let outlet = outlets.transmits.of(report.by).as_ref();
        let packet = outlet.and_then(|outlet| traffic.packet(to, slot, &outlet.poster));
        let Some(mut packet) = packet else {
            sent.record_eagain();
            drop(floor);
            exit.queue.release();
            return Err(Errno::EAGAIN);
        };
        sent.record_start(report.flags, len);
        packet.begin(report);
        what.fill(&mut packet);
        traffic.send(outlets, to, slot, packet);
        let is_calling = traffic.is_calling();
        drop(floor);
        if is_calling {
            bound.kick();
        }
        Ok(())
    }

    /// Hands a message to a peer on this host; if that does not take it, it is to go in packets, which the lock
    /// comes back for.
    #[inline(never)]
    fn hand_over(
        &self,
        bound: &Bound,
        shortcut: &Shortcut,
        parcel: &Parcel,
        report: &Report,
    ) -> Option<FastLockIrqGuard<'_, Floor>> {
        let is_taken = shortcut.hand(parcel);
        let mut floor = self.station.traffic.lock();
        let (traffic, outlets) = floor.parts();
        if is_taken {
            let sent = outlets.sent.of(report.by);
            sent.record_start(report.flags, parcel.message.len as usize);
        }
        traffic.leave_shortcut(outlets, shortcut, is_taken.then_some(report));
        if !is_taken {
            return Some(floor);
        }
        let is_calling = traffic.is_calling();
        drop(floor);
        if is_calling {
            bound.kick();
        }
        None
    }

    /// Posts a receive.
    pub(super) fn post(&self, message: &Message<'_>) -> Result {
        let known = match message.tag {
            Some(_) => RECEIVE_FLAGS | LOOK_FLAGS,
            None => RECEIVE_FLAGS | FI_MULTI_RECV,
        };
        if message.flags & !known != 0 {
            return self.post_transfer(message);
        }
        let (exit, bound) = self.inward()?;
        let at = self.context;
        let told = Looking {
            context: message.context,
            is_wanted: message.flags & FI_COMPLETION != 0,
        };
        match message.flags & (LOOK_FLAGS | FI_MULTI_RECV) {
            FI_MULTI_RECV => self.post_several((exit, bound), message, &told),
            0 => {
                // SAFETY: It is dropped with the receive, before the poster's completion is written.
                let into = unsafe { DstBuf::new(message.memory) }?;
                let wish = self.wish(bound, message)?;
                self.with_room((exit, bound), |traffic, outlets| {
                    let receive = traffic.receive(at, into, &told).ok_or(Errno::EAGAIN)?;
                    outlets.taken.of(at).record_post();
                    traffic.post(outlets, receive, wish);
                    Ok(())
                })
            }
            FI_CLAIM => {
                // SAFETY: It is dropped with the receive, before the poster's completion is written.
                let into = unsafe { DstBuf::new(message.memory) }?;
                self.with_room((exit, bound), |traffic, outlets| {
                    traffic.receive_claimed(outlets, at, into, &told)?;
                    outlets.taken.of(at).record_post();
                    Ok(())
                })
            }
            CLAIMED_AWAY => self.with_room((exit, bound), |traffic, outlets| {
                traffic.discard_claimed(outlets, at, &told)
            }),
            flags => {
                let fate = match flags ^ FI_PEEK {
                    0 => Fate::Stay,
                    FI_CLAIM => Fate::Claim,
                    FI_DISCARD => Fate::Discard,
                    _ => return Err(Errno::EBADFLAGS),
                };
                let wish = self.wish(bound, message)?;
                self.with_room((exit, bound), |traffic, outlets| {
                    traffic.peek(outlets, at, (&wish, fate), &told)
                })
            }
        }
    }

    /// Posts a receive for a peer's transfer.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS if it is none, or there are none.
    #[cold]
    fn post_transfer(&self, message: &Message<'_>) -> Result {
        let (exit, at) = self.transfers()?;
        if message.flags & !RECEIVE_FLAGS != FI_PEER_TRANSFER {
            return Err(Errno::EBADFLAGS);
        }
        let (_, bound) = self.inward()?;
        let told = Looking {
            context: message.context,
            is_wanted: true,
        };
        // SAFETY: It is dropped with the receive, before the poster's completion is written.
        let into = unsafe { DstBuf::new(message.memory) }?;
        let wish = self.wish(bound, message)?;
        self.with_room((exit, bound), |traffic, outlets| {
            let receive = traffic.receive(at, into, &told).ok_or(Errno::EAGAIN)?;
            outlets.taken.of(at).record_post();
            traffic.post(outlets, receive, wish);
            Ok(())
        })
    }

    /// Posts a receive for several messages. Room to tell of them is taken when they are there.
    fn post_several(
        &self,
        (exit, bound): (&Exit, &Bound),
        message: &Message<'_>,
        told: &Looking,
    ) -> Result {
        if !self.takes_several {
            return Err(Errno::EOPNOTSUPP);
        }
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        // SAFETY: It is dropped with the receive, before the poster's completion is written.
        let into = unsafe { DstBuf::new(message.memory) }?;
        let wish = self.wish(bound, message)?;
        let least = self.least.get();
        self.act((exit, bound), |traffic, _| {
            let receive = traffic.receive(self.context, into, told);
            let receive = receive.ok_or(Errno::EAGAIN)?;
            let office = traffic.offices.of_mut(self.context);
            office.post_several(receive, segment.addr(), least, wish);
            Ok(())
        })?;
        self.station.deliver(bound);
        Ok(())
    }

    /// What a receive is to take.
    #[inline(always)]
    fn wish(&self, bound: &Bound, message: &Message<'_>) -> Result<Wish> {
        let from = match self.is_directed && message.peer != FI_ADDR_UNSPEC {
            true => Some(bound.addresses.lookup(message.peer)?),
            false => None,
        };
        Ok(Wish {
            tag: message.tag.map(|tag| (tag.tag, tag.ignore)),
            from,
        })
    }

    /// Does something of which the consumer is told, if there is room for that.
    #[inline(always)]
    fn with_room(
        &self,
        (exit, bound): (&Exit, &Bound),
        act: impl FnOnce(&mut Traffic, &Outlets) -> Result,
    ) -> Result {
        if !exit.queue.reserve() {
            self.station
                .traffic
                .lock()
                .outlets
                .taken
                .of(self.context)
                .record_eagain();
            return Err(Errno::EAGAIN);
        }
        self.act((exit, bound), act)
            .inspect_err(|_| exit.queue.release())
    }

    /// Does something, and has somebody look after what comes of it.
    #[inline(always)]
    fn act(
        &self,
        (exit, bound): (&Exit, &Bound),
        act: impl FnOnce(&mut Traffic, &Outlets) -> Result,
    ) -> Result {
        let mut floor = self.station.traffic.lock();
        let (traffic, outlets) = floor.parts();
        let done = act(traffic, outlets);
        if done == Err(Errno::EAGAIN) {
            outlets.taken.of(self.context).record_eagain();
            exit.queue.set_slot_waiter();
        }
        let is_calling = traffic.is_calling();
        drop(floor);
        if is_calling {
            bound.kick();
        }
        done
    }
}
