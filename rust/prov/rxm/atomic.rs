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
    completion::CompSinks,
    ep_state::EpState,
    inflight::Indexed,
    pkt_buf::{
        BufState,
        Packet, //
    },
    wire::{
        AtomicCall,
        PktHdr,
        ProtoError,
        Ranges,
        MAX_PACKET, //
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
pub(super) struct AtomicRequest {
    /// What the peer calls it.
    pub(super) id: u64,
    /// Which operation.
    pub(super) call: AtomicCall,
    /// To what.
    pub(super) targets: Ranges,
    /// Bytes of the operands, and what to compare with.
    pub(super) operands: usize,
}

impl AtomicRequest {
    fn req_hdr(&self) -> PktHdr {
        PktHdr::AtomicReq {
            id: self.id,
            call: self.call,
            targets: self.targets,
        }
    }

    fn resp_hdr(&self, status: i32) -> PktHdr {
        PktHdr::AtomicResp {
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
        let (from, to) = (self.req_hdr().len(), self.resp_hdr(0).len());
        let bytes = bytes.filter(|bytes| *bytes <= MAX_PACKET - to);
        let bytes = bytes.ok_or(Errno::EMSGSIZE)?;
        let expected = match (op, form) {
            (Op::Read, _) => 0,
            (_, Form::Compare) => 2 * bytes,
            _ => bytes,
        };
        if self.operands != expected {
            return Err(Errno::EINVAL);
        }
        let access_kind = match (op, form) {
            (Op::Read, _) => AccessKind::Read,
            (_, Form::Base) => AccessKind::Write,
            _ => AccessKind::ReadWrite,
        };
        rights.check_atomic(access_kind)?;
        let targets = self.targets.as_slice().iter().map(RmaIoc::from);
        regions.for_each_element(targets, datatype, access_kind, |number, element| {
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

impl EpState {
    /// Runs the operation that a packet requests, and sends the answer. A request for memory without permission
    /// is refused, and that refusal is the last answer on the connection: a peer has one guess at a key.
    pub(super) fn handle_atomic_req(
        &mut self,
        mut packet: ListBox<Packet>,
        request: &AtomicRequest,
    ) {
        let (regions, rights) = &self.regions;
        let done = request.execute((regions, *rights), packet.bytes());
        let (status, len) = match done {
            Ok(len) => (0, len),
            Err(errno) => (errno.to_int(), 0),
        };
        let is_last = matches!(done, Err(Errno::EACCES));
        packet.write_any(0, &request.resp_hdr(status), len);
        packet.state = BufState::AtomicResp;
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let Self {
            peers, inflight, ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let conn = peer.and_then(|peer| peer.conn.as_mut());
        let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) else {
            self.keep(packet);
            return;
        };
        let number = packet.number();
        conn.atomic_resps.push(packet);
        if !is_last {
            return;
        }
        conn.last_atomic_resp = Some(number);
        conn.send_atomic_resps(inflight);
        let has_gone = conn.atomic_resps.is_empty();
        self.note_violation(
            peer_idx,
            "an atomic operation on memory that is not open to it",
        );
        if !has_gone {
            // The peer has no receive for the answer: do not wait for it.
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }

    /// Handles an answer that was sent, or failed: posts its packet as a receive again, unless it was the last
    /// answer.
    pub(super) fn atomic_resp_sent(&mut self, packet: ListBox<Packet>) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let conn = self.conn(peer_idx).filter(|conn| conn.conn_gen == conn_gen);
        let is_last = conn.is_some_and(|conn| conn.last_atomic_resp == Some(packet.number()));
        // `repost()` keeps a packet whose connection has sent its last answer.
        let _ = self.repost(packet);
        if is_last {
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }

    /// A peer says what has come of an operation that it was asked for.
    ///
    /// # Errors
    ///
    /// It was not asked for it.
    pub(super) fn handle_atomic_resp(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        id: u64,
        status: i32,
        old: &[u8],
    ) -> core::result::Result<(), ProtoError> {
        const UNKNOWN: ProtoError = ProtoError("an answer to what was not asked for");
        let in_flight = self.inflight.get(Packet::number_of(id));
        let in_flight = in_flight.filter(|packet| packet.has_id(peer_idx, id));
        if let Some(atomic_tx) = in_flight.and_then(Packet::atomic_tx) {
            if atomic_tx.early_result.is_some() {
                return Err(UNKNOWN);
            }
            let result = atomic_tx.take(status, old)?;
            atomic_tx.early_result = Some(result);
            self.return_atomic_credit(peer_idx, result);
            return Ok(());
        }
        let peer = self.peer(peer_idx).ok_or(UNKNOWN)?;
        let is_it = |packet: &Packet| packet.has_id(peer_idx, id) && packet.is_atomic();
        let mut packet = peer
            .awaiting_reply
            .remove_first_where(is_it)
            .ok_or(UNKNOWN)?;
        let taken = packet
            .atomic_tx()
            .map(|atomic_tx| atomic_tx.take(status, old));
        match taken {
            Some(Ok(result)) => {
                self.return_atomic_credit(peer_idx, result);
                self.finish(sinks, packet, result);
                Ok(())
            }
            Some(Err(error)) => {
                if let Some(peer) = self.peer(peer_idx) {
                    peer.awaiting_reply.push(packet);
                }
                Err(error)
            }
            None => Err(UNKNOWN),
        }
    }

    /// Handles an answer: one more request may be sent to the peer. If the peer refused access to its memory,
    /// ends the connection, so that the next operation uses another one.
    fn return_atomic_credit(&mut self, peer_idx: u32, result: Result) {
        let Some(conn) = self.conn(peer_idx) else {
            return;
        };
        conn.atomics += 1;
        let conn_gen = conn.conn_gen;
        if result == Err(Errno::EACCES) {
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }
}
