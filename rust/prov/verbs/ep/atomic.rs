// SPDX-License-Identifier: GPL-2.0

//! Atomic operations of an endpoint: checks before posting, and the choice between a native work
//! request and a sequence of them.

mod fast;
mod native;

use super::{
    super::{
        cas_atomic::{
            MAX_OP_SIZE,
            WORD_SIZE, //
        },
        sge::check_flags, //
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
    rdma::{
        device_attr::DeviceAttr,
        wr::RemoteAddr, //
    },
};

/// Atomic work request of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NativeAtomic {
    FetchAdd,
    CmpSwap,
    Read,
}

impl NativeAtomic {
    /// Returns the work request that performs an operation alone, if there is one. A read takes
    /// elements of any size, side by side; the others take one word. An atomic write is no RDMA
    /// write: that could fall between the read and the write of a concurrent sum.
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

/// Returns the maximum number of elements of one operation. Operations that the device lacks are
/// built from compare and swap.
///
/// # Errors
///
/// -FI_EOPNOTSUPP when the device has no atomic operations.
pub(in crate::prov::verbs) fn max_atomic_elements(
    attributes: &DeviceAttr,
    datatype: Datatype,
) -> Result<usize> {
    match attributes.has_atomics {
        true => Ok(datatype.count_in(MAX_OP_SIZE)),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns the errno of atomic operations, if an endpoint has none.
pub(super) fn atomics_errno(attributes: &DeviceAttr, info: &Info) -> Option<Errno> {
    if !attributes.has_atomics {
        Some(Errno::EOPNOTSUPP)
    } else if info.caps() & FI_ATOMIC == 0 {
        Some(Errno::ENOSYS)
    } else {
        None
    }
}

/// Flags of an atomic operation, which carries no immediate data.
const ATOMIC_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

impl Endpoint {
    /// Returns the maximum number of elements, for `fi_atomicvalid()` and its variants.
    pub(super) fn atomic_count_limit(&self, datatype: Datatype) -> Result<usize> {
        match self.attrs.atomics_errno {
            Some(errno) => Err(errno),
            None => max_atomic_elements(&self.pd.device().attributes, datatype),
        }
    }

    /// Posts an atomic operation, for `fi_atomic()` and its variants.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        let most = self.atomic_count_limit(datatype)?;
        self.state.check_transmit()?;
        let refused = !ATOMIC_FLAGS | self.attrs.unsupported_flags;
        check_flags(message.flags, (super::post::TX_FLAGS, refused))?;
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
}
