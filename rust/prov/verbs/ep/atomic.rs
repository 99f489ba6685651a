// SPDX-License-Identifier: GPL-2.0

//! Atomic operations: what the device does of them, and what is checked before one is posted.

mod fast;
mod native;

use super::{
    super::{
        cas_atomic::{
            MAX_OP_SIZE,
            WORD_SIZE, //
        },
        info, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        flags::*,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        provider::Message, //
    },
    rdma::{
        device_attr::DeviceAttr,
        wr::RemoteAddr, //
    },
};

/// What a device does with a single request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NativeAtomic {
    FetchAdd,
    CmpSwap,
    Read,
}

impl NativeAtomic {
    /// Reads are of elements of any size, side by side; everything else is of one word. A write is none
    /// of them: it may fall between the reading and the writing of another's sum.
    fn for_op(form: Form, op: Op, datatype: Datatype, count: usize) -> Option<Self> {
        match (form, op) {
            (Form::Fetch, Op::Read) => Some(Self::Read),
            _ if datatype.size() != WORD_SIZE || count != 1 => None,
            (Form::Base | Form::Fetch, Op::Sum) => Some(Self::FetchAdd),
            (Form::Compare, Op::Swap) => Some(Self::CmpSwap),
            _ => None,
        }
    }
}

/// Most elements of one operation on a device. What it does not have is made of what it has.
///
/// # Errors
///
/// -FI_EOPNOTSUPP when the device has no atomic operations.
pub(in crate::prov::verbs) fn max_atomic_elements(
    attributes: &DeviceAttr,
    datatype: Datatype,
) -> Result<usize> {
    match info::has_atomics(attributes) {
        true => Ok(datatype.count_in(MAX_OP_SIZE)),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// Why an endpoint has no atomic operations, if it has none.
pub(super) fn atomics_errno(attributes: &DeviceAttr, info: &Info) -> Option<Errno> {
    if !info::has_atomics(attributes) {
        Some(Errno::EOPNOTSUPP)
    } else if info.caps() & FI_ATOMIC == 0 {
        Some(Errno::ENOSYS)
    } else {
        None
    }
}

/// Flags of an atomic operation, which has nothing beside it.
const ATOMIC_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

impl Endpoint {
    /// `fi_atomicvalid()` and its relatives.
    pub(super) fn atomic_count_limit(&self, datatype: Datatype) -> Result<usize> {
        match self.attrs.atomics_errno {
            Some(errno) => Err(errno),
            None => max_atomic_elements(self.domain.pd().device().attributes(), datatype),
        }
    }

    /// `fi_atomic()` and its relatives.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        let most = self.atomic_count_limit(datatype)?;
        self.state.check_transmit()?;
        self.check_atomic_flags(message.flags)?;
        self.check_fence(message.flags)?;
        let (range, len) = atomic.check_target(message, most)?;
        let remote = RemoteAddr {
            addr: range.addr,
            rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
        };
        let counts = [
            message.memory.count(),
            atomic.compare.len(),
            atomic.result.len(),
        ];
        if counts.iter().any(|count| *count > self.attrs.tx_iov_limit) {
            return Err(Errno::EINVAL);
        }
        if message.flags & FI_INJECT != 0 && op != Op::Read && len > self.attrs.inject_size {
            return Err(Errno::EMSGSIZE);
        }
        match NativeAtomic::for_op(form, op, datatype, datatype.count_in(len)) {
            Some(native) => self.post_native_atomic(native, atomic, message, (remote, len)),
            None => self.post_cas_atomic(atomic, message, (remote, len)),
        }
    }

    fn check_atomic_flags(&self, flags: u64) -> Result {
        let known = super::post::TX_FLAGS;
        if flags & (!ATOMIC_FLAGS | self.attrs.unsupported_flags) != 0 {
            return Err(match flags & !known {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        Ok(())
    }
}
