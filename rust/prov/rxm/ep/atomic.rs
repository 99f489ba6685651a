// SPDX-License-Identifier: GPL-2.0

//! Atomic calls: requests that the peer's CPU executes.

use super::{
    super::{
        flags::{
            check_flags,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        iov::{
            AddrCheck,
            PostedDst,
            PostedSrc,
            Slot,
            MAX_IOV, //
        },
        pkt_buf::{
            BufState,
            Packet, //
        },
        tx_op::{
            AtomicTx,
            TxComp,
            TxOp, //
        },
        wire::{
            AtomicCall,
            PktHdr,
            Range,
            Ranges,
            ATOMIC_MAX_OPERANDS,
            ATOMIC_MAX_RESULT, //
        },
    },
    Endpoint, //
};
use crate::{
    abi::flags::*,
    fi::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        prelude::*,
        provider::Message, //
    },
};

/// Flags that an atomic operation accepts. The operation is complete at the peer when it responds.
const FLAGS: u64 = FI_COMPLETION | FI_INJECT | FI_MORE | COMPLETION_LEVELS;

/// Returns the largest number of elements of an operation, whose request and response fit into a packet each.
pub(in super::super) fn max_elements(form: Form, datatype: Datatype) -> usize {
    let bytes = match form {
        Form::Compare => ATOMIC_MAX_OPERANDS / 2,
        Form::Base | Form::Fetch => ATOMIC_MAX_OPERANDS.min(ATOMIC_MAX_RESULT),
    };
    datatype.count_in(bytes)
}

impl Endpoint {
    /// Posts an atomic operation.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let (bound_cq, bound) = self.tx_path()?;
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        if !self.has_atomics {
            return Err(Errno::ENOSYS);
        }
        check_flags(message.flags, (TRANSMIT_FLAGS, !FLAGS))?;
        let is_injected = message.flags & FI_INJECT != 0;
        let (range, len) = atomic.check_target(message, max_elements(form, datatype))?;
        if is_injected && op != Op::Read && len > self.inject {
            return Err(Errno::EMSGSIZE);
        }
        let targets = Ranges::new(&[Range {
            addr: range.addr,
            len: range.count as u64,
            key: range.key,
        }]);
        let targets = targets.ok_or(Errno::EINVAL)?;
        // A read has no operands, whatever the caller passed.
        let operands = match op {
            Op::Read => PostedSrc::EMPTY,
            // SAFETY: The buffer is copied and dropped before this call returns.
            _ => unsafe { PostedSrc::borrow(message.memory, AddrCheck::Kernel, MAX_IOV) }?,
        };
        // SAFETY: The buffer is copied and dropped before this call returns.
        let compare = unsafe {
            PostedSrc::borrow(Memory::Segments(atomic.compare), AddrCheck::Kernel, MAX_IOV)
        }?;
        let results = Memory::Segments(atomic.result);
        let domain = &self.core.domain;
        domain.check_descriptors(results, atomic.result_descriptors)?;
        // SAFETY: The buffer is dropped with the operation, before the poster's completion is written.
        let result = unsafe { PostedDst::borrow(results, AddrCheck::Device, MAX_IOV) }?;
        let to = bound.addresses.lookup(message.peer)?;
        let flags = match form {
            Form::Base => FI_ATOMIC | FI_WRITE,
            Form::Fetch | Form::Compare => FI_ATOMIC | FI_READ,
        };
        let comp = TxComp {
            tx_ctx: self.context,
            context: message.context,
            flags,
            reports_success: message.flags & FI_COMPLETION != 0
                || !bound_cq.is_selective && !message.errors_only,
        };
        let call = AtomicCall {
            form,
            op: op.to_raw() as u8,
            datatype: datatype.to_raw() as u8,
        };
        self.start((bound_cq, bound), &to, len, comp, |packet: &mut Packet| {
            let space = packet.operands();
            let first = operands.copy_to_slice(0, space);
            let second = space
                .get_mut(first..)
                .map_or(0, |space| compare.copy_to_slice(0, space));
            let hdr = PktHdr::AtomicReq {
                id: packet.id(),
                call,
                targets,
            };
            packet.write_any(0, &hdr, first + second);
            packet.state = BufState::Tx(TxOp::Atomic(AtomicTx {
                result: result.into_entry(Slot::none),
                early_result: None,
            }));
        })
    }
}
