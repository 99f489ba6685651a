// SPDX-License-Identifier: GPL-2.0

//! The data path: from a message to a work request. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        gather::Gather,
        queue::Use,
        state::State, //
    },
    Endpoint,
};
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::provider::Message,
    rdma::{
        dma::Direction,
        wr::{
            RecvWr,
            SendFlag,
            SendFlags,
            SendWr, //
        },
    },
};
/// Flags of `fi_sendmsg()`.
const SEND_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

/// Flags of `fi_recvmsg()`.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// What a poster asks of an operation's success.
fn usage(flags: u64) -> Use {
    if flags & FI_COMPLETION == 0 {
        Use::Silent
    } else {
        Use::Reported
    }
}

impl Endpoint {
    #[inline]
    fn check(&self, message: &Message<'_>, flags: u64) -> Result {
        if message.flags & !flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if message.segments.len() > self.limits.segments {
            return Err(Errno::EINVAL);
        }
        let mut total = 0usize;
        for segment in message.segments {
            total = total.checked_add(segment.len()).ok_or(Errno::EMSGSIZE)?;
        }
        if total > self.limits.message {
            return Err(Errno::EMSGSIZE);
        }
        Ok(())
    }

    /// `fi_send()` and its relatives.
    #[inline]
    pub(super) fn post_send(&self, message: &Message<'_>) -> Result {
        match self.state.get() {
            State::Connected | State::NoReceive => {}
            State::Ready | State::Connecting | State::Lost => return Err(Errno::ENOTCONN),
            State::Idle | State::NoTransmit | State::Shut => return Err(Errno::EOPBADSTATE),
        }
        self.check(message, SEND_FLAGS)?;
        self.transmit.post(
            message.context,
            usage(message.flags),
            |qp, wr_id, signal, row| {
                let limit = self.limits.segments;
                let mut gather = Gather::new(qp.pd(), Direction::ToDevice, limit, row);
                gather.add(message)?;
                let mut flags = SendFlags::default();
                if signal {
                    flags |= SendFlag::Signaled;
                }
                if message.flags & FI_FENCE != 0 {
                    flags |= SendFlag::Fence;
                }
                // SAFETY: The segments' types promise that the memory is the operation's until it
                // completes; the slot keeps the mappings as long.
                let posted = unsafe { qp.post_send(&SendWr::send(wr_id, gather.sges(), flags)) };
                posted.map_err(|error| {
                    gather.undo();
                    full(error)
                })
            },
        )
    }

    /// `fi_recv()` and its relatives.
    #[inline]
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        match self.state.get() {
            State::Ready | State::Connecting | State::Connected | State::NoTransmit => {}
            State::Lost => return Err(Errno::ENOTCONN),
            State::Idle | State::NoReceive | State::Shut => return Err(Errno::EOPBADSTATE),
        }
        self.check(message, RECEIVE_FLAGS)?;
        self.receive.post(
            message.context,
            usage(message.flags),
            |qp, wr_id, _, row| {
                let limit = self.limits.segments;
                let mut gather = Gather::new(qp.pd(), Direction::FromDevice, limit, row);
                gather.add(message)?;
                // SAFETY: As in `post_send`.
                let posted = unsafe { qp.post_recv(&RecvWr::new(wr_id, gather.sges())) };
                posted.map_err(|error| {
                    gather.undo();
                    full(error)
                })
            },
        )
    }
}

/// A driver's own queue is never smaller than ours: without memory it ran out of something that
/// comes back.
fn full(error: kernel::error::Error) -> Errno {
    if error == kernel::error::code::ENOMEM {
        Errno::EAGAIN
    } else {
        error.into()
    }
}
