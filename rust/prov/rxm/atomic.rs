// SPDX-License-Identifier: GPL-2.0

//! Atomic operations, at the target and at the initiator. Guarded by `EpCore::inner`.
//!
//! The target executes a request when it arrives and responds in the packet buffer of the request, which is posted as
//! a receive again when the response has been sent; so no buffer has to be found for a response. The initiator limits
//! its outstanding requests, so that not all receives of the target hold responses.

use super::{
    super::common::mr_table::{
        AccessKind,
        EpRights,
        MrTable,
        RmaIoc, //
    },
    ep_state::EpState,
    inflight::Indexed,
    iov::DstBuf,
    pkt_buf::{
        BufState,
        Packet, //
    },
    turn::Held,
    wire::{
        AtomicCall,
        PktHdr,
        ProtoError,
        Ranges,
        MAX_PACKET, //
    },
};
use crate::fi::{
    atomic::{
        Datatype,
        Form,
        Op,
        Operands, //
    },
    prelude::*, //
};

/// A request of a peer.
pub(super) struct AtomicRequest {
    /// Message id of the initiator.
    pub(super) id: u64,
    /// Operation and datatype.
    pub(super) call: AtomicCall,
    /// Target memory.
    pub(super) targets: Ranges,
    /// Length of the operands and compare values in bytes.
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

    /// Runs the operation on memory in `regions` for a peer with the given rights. The operands are in `packet`; the
    /// old values are written into it at the offset of a response's values. Returns their length in bytes.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for an operation that does not exist for integers, -FI_EINVAL if the number of operands differs
    /// from that of the elements, -FI_EMSGSIZE for more elements than fit into a response, -FI_EACCES for a missing
    /// right, and errors of [`MrTable::for_each_element`]. Nothing has been modified then.
    pub(super) fn execute(
        &self,
        (regions, rights): &(Arc<MrTable>, EpRights),
        packet: &mut [u8],
    ) -> Result<usize> {
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
            // The header of a response is shorter than that of a request, so no operand is overwritten before it has
            // been read.
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

/// Returns the number of `size` bytes at `at`, or 0 if there is none.
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

/// Writes a number of `size` bytes at `at`.
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

/// Takes a response: copies the old values into `into` if the operation succeeded, and returns its result.
///
/// # Errors
///
/// The length of the values differs from the request.
fn take_response(
    into: &DstBuf,
    status: i32,
    old: &[u8],
) -> core::result::Result<Result, ProtoError> {
    if status != 0 {
        let errno = status.checked_neg().and_then(Errno::new);
        return Ok(Err(errno.unwrap_or(Errno::EOTHER)));
    }
    if old.len() != into.len() {
        return Err(ProtoError("atomic response with a wrong number of values"));
    }
    into.copy_from_slice(0, old);
    Ok(Ok(()))
}

impl EpState {
    /// Queues the response to the operation that a packet requests, which has been executed. A request for memory without
    /// permission is refused, and that refusal is the last response on the connection: a peer has one guess at a key.
    pub(super) fn respond_atomic(
        &mut self,
        mut packet: ListBox<Packet>,
        request: &AtomicRequest,
        done: Result<usize>,
    ) {
        let (status, len) = match done {
            Ok(len) => (0, len),
            Err(errno) => (errno.to_int(), 0),
        };
        let is_last = matches!(done, Err(Errno::EACCES));
        packet.write_any(0, &request.resp_hdr(status), len);
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let number = packet.number();
        self.queue_response(packet);
        let Self {
            peers, inflight, ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let conn = peer.and_then(|peer| peer.conn.as_mut());
        let Some(conn) = conn.filter(|conn| is_last && conn.conn_gen == conn_gen) else {
            return;
        };
        conn.last_response = Some(number);
        conn.send_responses(inflight);
        let has_gone = conn.responses.is_empty();
        self.note_violation(
            peer_idx,
            "atomic operation without the right or a valid key",
        );
        if !has_gone {
            // The peer has no receive for the response: do not wait for it.
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }

    /// Refuses an access to a tagged receive, which `packet` requests.
    pub(super) fn refuse_access(&mut self, mut packet: ListBox<Packet>, id: u64, errno: Errno) {
        let status = errno.to_int();
        packet.write_any(0, &PktHdr::AccessRefused { id, status }, 0);
        self.queue_response(packet);
    }

    /// Queues the response that is in the packet of its request.
    fn queue_response(&mut self, mut packet: ListBox<Packet>) {
        packet.state = BufState::Response;
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        match self.conn(peer_idx) {
            Some(conn) if conn.conn_gen == conn_gen => conn.responses.push(packet),
            _ => self.keep(packet),
        }
    }

    /// Handles a response that was sent, or failed: posts its packet as a receive again, unless it was the last
    /// response.
    pub(super) fn response_sent(&mut self, packet: ListBox<Packet>) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let conn = self.conn(peer_idx).filter(|conn| conn.conn_gen == conn_gen);
        let is_last = conn.is_some_and(|conn| conn.last_response == Some(packet.number()));
        // `repost()` keeps a packet whose connection has sent its last response.
        let _ = self.repost(packet);
        if is_last {
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }
}

impl Held<'_> {
    /// Handles the response to an atomic request.
    ///
    /// # Errors
    ///
    /// No request of this id is outstanding.
    pub(super) fn handle_atomic_resp(
        &mut self,
        peer_idx: u32,
        id: u64,
        status: i32,
        old: &[u8],
    ) -> core::result::Result<(), ProtoError> {
        const UNKNOWN: ProtoError = ProtoError("atomic response without a request");
        let is_it = |packet: &Packet| packet.has_id(peer_idx, id) && packet.is_atomic();
        let number = Packet::number_of(id);
        let in_flight = self.inflight.get(number).filter(|packet| is_it(packet));
        if let Some(atomic_tx) = in_flight.and_then(Packet::atomic_tx) {
            if atomic_tx.early_result.is_some() {
                return Err(UNKNOWN);
            }
            // The send completes in a later turn, or after the connection has been closed in one.
            let buf = mem::replace(&mut atomic_tx.result, DstBuf::EMPTY);
            let result = self.copy(old.len(), || take_response(&buf, status, old))?;
            let in_flight = self.inflight.get(number).filter(|packet| is_it(packet));
            if let Some(atomic_tx) = in_flight.and_then(Packet::atomic_tx) {
                atomic_tx.early_result = Some(result);
            }
            self.return_request_credit(peer_idx, result);
            return Ok(());
        }
        let peer = self.peer(peer_idx).ok_or(UNKNOWN)?;
        let mut packet = peer
            .awaiting_reply
            .remove_first_where(is_it)
            .ok_or(UNKNOWN)?;
        let buf = packet.atomic_tx().map(|atomic_tx| &atomic_tx.result);
        let buf = buf.ok_or(UNKNOWN)?;
        match self.copy(old.len(), || take_response(buf, status, old)) {
            Ok(result) => {
                let (state, sinks) = self.split();
                state.return_request_credit(peer_idx, result);
                state.finish(sinks, packet, result);
                Ok(())
            }
            Err(error) => {
                if let Some(peer) = self.peer(peer_idx) {
                    peer.awaiting_reply.push(packet);
                }
                Err(error)
            }
        }
    }
}

impl EpState {
    /// Permits one more request to the peer. If the peer refused access to its memory, closes the connection, so that
    /// the next operation uses another one.
    fn return_request_credit(&mut self, peer_idx: u32, result: Result) {
        let Some(conn) = self.conn(peer_idx) else {
            return;
        };
        conn.requests_left += 1;
        let conn_gen = conn.conn_gen;
        if result == Err(Errno::EACCES) {
            self.schedule_disconnect(peer_idx, conn_gen);
        }
    }
}
