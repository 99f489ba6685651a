// SPDX-License-Identifier: GPL-2.0

//! Atomic operations, at both ends.
//!
//! Whoever is asked for one does it when the request arrives, and answers in the packet that has brought
//! it, which receives again when the answer has gone: so nothing has to be found for an answer. Whoever
//! asks has only some unanswered, so that not all of the peer's packets are answers.

use super::{
    super::common::mr_table::{
        AccessKind,
        EpRights,
        MrTable,
        RmaIoc, //
    },
    flights::Numbered,
    outlets::Outlets,
    posting::{
        Packet,
        Use, //
    },
    traffic::Traffic,
    wire::{
        Call,
        Head,
        Malformed,
        Ranges,
        MOST, //
    },
};
use crate::{
    fi::{
        atomic::{
            Datatype,
            Form,
            Op,
            Operands, //
        },
        prelude::*, //
    },
    util::owned_list::ListBox, //
};

/// What a peer asks for.
pub(super) struct Request {
    /// What the peer calls it.
    pub(super) id: u64,
    /// Which operation.
    pub(super) call: Call,
    /// To what.
    pub(super) targets: Ranges,
    /// Bytes of the operands, and what to compare with.
    pub(super) operands: usize,
}

impl Request {
    fn head(&self) -> Head {
        Head::Atomic {
            id: self.id,
            call: self.call,
            targets: self.targets,
        }
    }

    fn answer(&self, status: i32) -> Head {
        Head::Answer {
            id: self.id,
            call: self.call,
            status,
        }
    }

    /// Runs the operation on memory in `regions` for a peer with the given rights. The operands are in `packet`;
    /// the old values are written into it at the offset of an answer's values. Returns their length in bytes.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for what is no operation on integers, -FI_EINVAL for operands that are not as many
    /// as there are elements, -FI_EMSGSIZE for more elements than an answer has room for, -FI_EACCES for a right
    /// that is missing, and those of [`MrTable::each`]. Then nothing has been done.
    fn execute(&self, (regions, rights): (&MrTable, EpRights), packet: &mut [u8]) -> Result<usize> {
        let form = self.call.form;
        let op = Op::from_raw(self.call.op.into(), form)?;
        let datatype = Datatype::from_raw(self.call.datatype.into())?;
        let size = datatype.size();
        let bytes = self.targets.elements().and_then(|count| {
            let count = usize::try_from(count).ok()?;
            count.checked_mul(size)
        });
        let (from, to) = (self.head().len(), self.answer(0).len());
        let bytes = bytes.filter(|bytes| *bytes <= MOST - to);
        let bytes = bytes.ok_or(Errno::EMSGSIZE)?;
        let wanted = match (op, form) {
            (Op::Read, _) => 0,
            (_, Form::Compare) => 2 * bytes,
            _ => bytes,
        };
        if self.operands != wanted {
            return Err(Errno::EINVAL);
        }
        let touch = match (op, form) {
            (Op::Read, _) => AccessKind::Read,
            (_, Form::Base) => AccessKind::Write,
            _ => AccessKind::ReadWrite,
        };
        rights.check_atomic(touch)?;
        let targets = self.targets.as_slice().iter().map(RmaIoc::from);
        regions.for_each_element(targets, datatype, touch, |number, element| {
            let at = number * size;
            let mut operands = Operands {
                old: 0,
                operand: get(packet, from + at, size),
                compare: get(packet, from + bytes + at, size),
            };
            let old = element.update(|old| {
                operands.old = old;
                op.apply(datatype, operands)
            });
            // What an answer has before its values is shorter than what a request has before its
            // operands: those that are to be read are never there.
            if form != Form::Base {
                put(packet, to + at, size, old);
            }
        })?;
        Ok(match form {
            Form::Base => 0,
            _ => bytes,
        })
    }
}

/// The number that stands there in so many bytes; 0 where there are none.
fn get(packet: &[u8], at: usize, size: usize) -> u64 {
    let bytes = packet.get(at..).unwrap_or(&[]);
    match size {
        1 => bytes.first().copied().map(u64::from),
        2 => bytes
            .first_chunk()
            .map(|bytes| u16::from_ne_bytes(*bytes).into()),
        4 => bytes
            .first_chunk()
            .map(|bytes| u32::from_ne_bytes(*bytes).into()),
        _ => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
    }
    .unwrap_or(0)
}

/// Puts a number there.
fn put(packet: &mut [u8], at: usize, size: usize, number: u64) {
    fn write<const SIZE: usize>(to: &mut [u8], bytes: [u8; SIZE]) {
        if let Some(to) = to.first_chunk_mut() {
            *to = bytes;
        }
    }
    let to = packet.get_mut(at..).unwrap_or(&mut []);
    match size {
        1 => write(to, (number as u8).to_ne_bytes()),
        2 => write(to, (number as u16).to_ne_bytes()),
        4 => write(to, (number as u32).to_ne_bytes()),
        _ => write(to, number.to_ne_bytes()),
    }
}

impl Traffic {
    /// Runs the operation that a packet requests, and sends the answer. A request for memory without permission
    /// is refused, and that refusal is the last answer on the connection: a peer has one guess at a key.
    pub(super) fn operate(&mut self, mut packet: ListBox<Packet>, request: &Request) {
        let (regions, rights) = &self.regions;
        let done = request.execute((regions, *rights), packet.bytes());
        let (status, len) = match done {
            Ok(len) => (0, len),
            Err(errno) => (errno.to_int(), 0),
        };
        let is_last = matches!(done, Err(Errno::EACCES));
        packet.write_any(0, &request.answer(status), len);
        packet.usage = Use::Answer;
        let (slot, attempt) = (packet.slot, packet.attempt);
        let Self { peers, flights, .. } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        let lane = peer.and_then(|peer| peer.lane.as_mut());
        let Some(lane) = lane.filter(|lane| lane.attempt == attempt) else {
            self.keep(packet);
            return;
        };
        let number = packet.number();
        lane.answers.push(packet);
        if !is_last {
            return;
        }
        lane.last_answer = Some(number);
        lane.send_answers(flights);
        let has_gone = lane.answers.is_empty();
        self.note_violation(slot, "an atomic operation on memory that is not open to it");
        if !has_gone {
            // The peer has no receive for the answer: do not wait for it.
            self.break_off(slot, attempt);
        }
    }

    /// Handles an answer that was sent, or failed: posts its packet as a receive again, unless it was the last
    /// answer.
    pub(super) fn answer_sent(&mut self, packet: ListBox<Packet>) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let lane = self.lane(slot).filter(|lane| lane.attempt == attempt);
        let is_last = lane.is_some_and(|lane| lane.last_answer == Some(packet.number()));
        // `repost()` keeps a packet whose connection has sent its last answer.
        let _ = self.repost(packet);
        if is_last {
            self.break_off(slot, attempt);
        }
    }

    /// A peer says what has come of an operation that it was asked for.
    ///
    /// # Errors
    ///
    /// It was not asked for it.
    pub(super) fn answered_with(
        &mut self,
        outlets: &Outlets,
        slot: u32,
        id: u64,
        status: i32,
        old: &[u8],
    ) -> core::result::Result<(), Malformed> {
        const UNKNOWN: Malformed = Malformed("an answer to what was not asked for");
        let on_its_way = self.flights.get(Packet::number_of(id));
        let on_its_way = on_its_way.filter(|packet| packet.is_called(slot, id));
        if let Some(asked) = on_its_way.and_then(Packet::asked) {
            if asked.answer.is_some() {
                return Err(UNKNOWN);
            }
            let result = asked.take(status, old)?;
            asked.answer = Some(result);
            self.may_ask_again(slot, result);
            return Ok(());
        }
        let peer = self.peer(slot).ok_or(UNKNOWN)?;
        let is_meant = |packet: &Packet| packet.is_called(slot, id) && packet.is_asked();
        let mut packet = peer
            .unanswered
            .remove_first_where(is_meant)
            .ok_or(UNKNOWN)?;
        let taken = packet.asked().map(|asked| asked.take(status, old));
        match taken {
            Some(Ok(result)) => {
                self.may_ask_again(slot, result);
                self.finish(outlets, packet, result);
                Ok(())
            }
            Some(Err(malformed)) => {
                if let Some(peer) = self.peer(slot) {
                    peer.unanswered.push(packet);
                }
                Err(malformed)
            }
            None => Err(UNKNOWN),
        }
    }

    /// Handles an answer: one more request may be sent to the peer. If the peer refused access to its memory,
    /// ends the connection, so that the next operation uses another one.
    fn may_ask_again(&mut self, slot: u32, result: Result) {
        let Some(lane) = self.lane(slot) else {
            return;
        };
        lane.atomics += 1;
        let attempt = lane.attempt;
        if result == Err(Errno::EACCES) {
            self.break_off(slot, attempt);
        }
    }
}
