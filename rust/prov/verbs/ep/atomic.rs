// SPDX-License-Identifier: GPL-2.0

//! Atomic operations: what the device does of them, and what is checked before one is posted.

mod plain;
mod post;

use super::{
    super::{
        exchange::{
            MOST,
            WORD, //
        },
        offer, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        fi_rma_ioc,
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
        memory::Segment,
        provider::Message, //
    },
    rdma::{
        attributes::Attributes,
        wr::Remote, //
    },
};

/// What a device does with a single request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Native {
    Add,
    Swap,
    Read,
}

impl Native {
    /// Reads are of elements of any size, side by side; everything else is of one word. A write is none
    /// of them: it may fall between the reading and the writing of another's sum.
    fn of(form: Form, op: Op, datatype: Datatype, count: usize) -> Option<Self> {
        match (form, op) {
            (Form::Fetch, Op::Read) => Some(Self::Read),
            _ if datatype.size() != WORD || count != 1 => None,
            (Form::Base | Form::Fetch, Op::Sum) => Some(Self::Add),
            (Form::Compare, Op::Swap) => Some(Self::Swap),
            _ => None,
        }
    }
}

/// Most elements of one operation on a device. What it does not have is made of what it has.
///
/// # Errors
///
/// -FI_EOPNOTSUPP when the device has no atomic operations.
pub(in crate::prov::verbs) fn most_elements(
    attributes: &Attributes,
    datatype: Datatype,
) -> Result<usize> {
    match offer::has_atomics(attributes) {
        true => Ok(datatype.count_in(MOST)),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// Why an endpoint has no atomic operations, if it has none.
pub(super) fn missing(attributes: &Attributes, info: &Info) -> Option<Errno> {
    if !offer::has_atomics(attributes) {
        Some(Errno::EOPNOTSUPP)
    } else if info.caps() & FI_ATOMIC == 0 {
        Some(Errno::ENOSYS)
    } else {
        None
    }
}

/// Flags of an atomic operation, which has nothing beside it.
const FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

/// How many bytes there are in local memory that is to have as many elements as the peer's.
fn total(segments: &[Segment]) -> Result<usize> {
    let mut total = 0usize;
    for segment in segments {
        total = total.checked_add(segment.len()).ok_or(Errno::EMSGSIZE)?;
    }
    Ok(total)
}

/// The one range of the peer's memory that an operation changes, and how many bytes it has.
///
/// # Errors
///
/// -FI_EINVAL for none or several, for no elements, for some that do not lie where such elements
/// lie or beyond the last address; -FI_EMSGSIZE for too many; -FI_ENOKEY for what is no key of a
/// verbs device.
fn target(remote: &[fi_rma_ioc], datatype: Datatype, most: usize) -> Result<(Remote, usize)> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.count > most {
        return Err(Errno::EMSGSIZE);
    }
    // A power of two.
    let size = datatype.size();
    let last = (range.count * size).checked_sub(1).ok_or(Errno::EINVAL)? as u64;
    if range.addr & (size as u64 - 1) != 0 || range.addr.checked_add(last).is_none() {
        return Err(Errno::EINVAL);
    }
    let remote = Remote {
        addr: range.addr,
        rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
    };
    Ok((remote, range.count * size))
}

impl Endpoint {
    /// `fi_atomicvalid()` and its relatives.
    pub(super) fn count_elements(&self, datatype: Datatype) -> Result<usize> {
        match self.limits.no_atomics {
            Some(errno) => Err(errno),
            None => most_elements(self.domain.pd().device().attributes(), datatype),
        }
    }

    /// `fi_atomic()` and its relatives.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        let most = self.count_elements(datatype)?;
        self.state.check_transmit()?;
        self.check_flags(form, message.flags)?;
        self.check_fence(message.flags)?;
        let (remote, len) = target(atomic.remote, datatype, most)?;
        let wanted = |wanted: bool| if wanted { len } else { 0 };
        let fits = (op == Op::Read || message.memory.total()? == len)
            && total(atomic.compare)? == wanted(form == Form::Compare)
            && total(atomic.result)? == wanted(form != Form::Base);
        let counts = [
            message.memory.count(),
            atomic.compare.len(),
            atomic.result.len(),
        ];
        if !fits || counts.iter().any(|count| *count > self.limits.segments) {
            return Err(Errno::EINVAL);
        }
        if message.flags & FI_INJECT != 0 && len > self.limits.inject {
            return Err(Errno::EMSGSIZE);
        }
        match Native::of(form, op, datatype, datatype.count_in(len)) {
            Some(native) => self.post_native(native, atomic, message, (remote, len)),
            None => self.post_exchange(atomic, message, (remote, len)),
        }
    }

    fn check_flags(&self, form: Form, flags: u64) -> Result {
        let known = super::post::TRANSMIT_FLAGS;
        if flags & (!FLAGS | self.limits.refused_flags) != 0 {
            return Err(match flags & !known {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        // Nobody could tell when the old values are there.
        if flags & FI_INJECT != 0 && form != Form::Base {
            return Err(Errno::EBADFLAGS);
        }
        Ok(())
    }
}
