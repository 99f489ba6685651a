// SPDX-License-Identifier: GPL-2.0

//! Flags of transfers, and the checks of flags and memory.

use crate::{
    abi::flags::*,
    fi::{
        prelude::*,
        provider::Message, //
    },
};

/// Completion levels of transmits.
pub(crate) const COMPLETION_LEVELS: u64 =
    FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/// Flags that are defined for transmits. A provider that does not offer one of them refuses it with
/// -FI_EOPNOTSUPP.
pub(crate) const TRANSMIT_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_REMOTE_CQ_DATA
    | FI_REMOTE_SIGNAL
    | COMPLETION_LEVELS;

/// Checks flags of which `known` are defined for the call, and all but `refused` are taken.
///
/// # Errors
///
/// -FI_EOPNOTSUPP for flags that are defined and refused, -FI_EBADFLAGS for others.
#[inline(always)]
pub(crate) fn check_flags(flags: u64, (known, refused): (u64, u64)) -> Result {
    if flags & refused != 0 {
        return Err(match flags & !known {
            0 => Errno::EOPNOTSUPP,
            _ => Errno::EBADFLAGS,
        });
    }
    Ok(())
}

/// Checks the flags and memory of a message, and returns the length of the memory, of at most
/// `segments` segments and `max_len` bytes.
///
/// # Errors
///
/// The errors of [`check_flags`], -FI_EINVAL for more segments, -FI_EMSGSIZE for more bytes.
#[inline(always)]
pub(crate) fn check_message(
    message: &Message<'_>,
    flags: (u64, u64),
    (segments, max_len): (usize, usize),
) -> Result<usize> {
    check_flags(message.flags, flags)?;
    if message.memory.count() > segments {
        return Err(Errno::EINVAL);
    }
    let total = message.memory.total_len()?;
    if total > max_len {
        return Err(Errno::EMSGSIZE);
    }
    Ok(total)
}
