// SPDX-License-Identifier: GPL-2.0

//! The data path: from a message to a work request. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        gather::Gather,
        queue::{
            Post,
            Report, //
        }, //
    },
    Endpoint,
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        memory::Start,
        provider::{
            Message,
            Operation,
            Rma, //
        },
    },
    rdma::{
        dma::Direction,
        wr::{
            RecvWr,
            Remote,
            SendFlag,
            SendFlags,
            SendWr, //
        },
    },
};
use core::{
    mem,
    ops::Range, //
};
use kernel::page::PAGE_SIZE;

/// Flags of a transmit, of which [`Limits`](super::Limits) has those that the device can do.
pub(super) const TRANSMIT_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_REMOTE_CQ_DATA
    | FI_REMOTE_SIGNAL
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

/// Flags of a receive.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Where there is memory: the first page is for NULL, the last one for error pointers.
pub(super) const MEMORY: Range<usize> = PAGE_SIZE..usize::MAX - 2 * PAGE_SIZE;

/// What is told of an operation's success.
#[inline(always)]
pub(super) fn report(flags: u64) -> Report {
    if flags & FI_COMPLETION != 0 {
        Report::Always
    } else if flags & FI_INJECT != 0 {
        Report::Never
    } else {
        Report::AsBound
    }
}

impl Endpoint {
    /// Checks what the consumer asks for, and returns the length of its memory.
    #[inline(always)]
    fn check(
        &self,
        message: &Message<'_>,
        (known, offered): (u64, u64),
        segments: usize,
    ) -> Result<usize> {
        if message.flags & !offered != 0 {
            return Err(match message.flags & !known {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        if message.memory.count() > segments {
            return Err(Errno::EINVAL);
        }
        let total = message.memory.total()?;
        if total > self.limits.message {
            return Err(Errno::EMSGSIZE);
        }
        Ok(total)
    }

    /// Every transfer to or from the peer that this side starts.
    #[inline(always)]
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        self.state.check_transmit()?;
        let total = self.check(
            message,
            (TRANSMIT_FLAGS, self.limits.transmit_flags),
            self.limits.segments,
        )?;
        let (flags, direction, remote) = match operation {
            Operation::Send => (FI_SEND | FI_MSG, Direction::ToDevice, None),
            Operation::Rma(Rma::Write, remote) => (
                FI_WRITE | FI_RMA,
                Direction::ToDevice,
                Some(facing(remote, total)?),
            ),
            Operation::Rma(Rma::Read, remote) => (
                FI_READ | FI_RMA,
                Direction::FromDevice,
                Some(facing(remote, total)?),
            ),
        };
        let data = match message.flags & FI_REMOTE_CQ_DATA {
            0 => None,
            // What goes beside a message has 32 bits.
            _ => Some(u32::try_from(message.data).map_err(|_| Errno::EINVAL)?),
        };
        let inject = message.flags & FI_INJECT != 0;
        if inject {
            check_inject(message, total, self.limits.inject)?;
        }
        let is_read = direction == Direction::FromDevice;
        if is_read && (inject || data.is_some()) {
            return Err(Errno::EBADFLAGS);
        }
        let what = Post {
            context: message.context,
            flags,
            report: report(message.flags),
        };
        let mut posting = self.transmit.begin(&what)?;
        let mut flags = SendFlags::default();
        if posting.signal {
            flags |= SendFlag::Signaled;
        }
        // A read never overtakes another, and siw takes no fence before one. Without a fence siw
        // completes what is behind a read before the read, out of order.
        let is_fenced =
            message.flags & FI_FENCE != 0 || (self.limits.is_iwarp && posting.is_behind_read());
        if is_fenced && !is_read {
            flags |= SendFlag::Fence;
        }
        if message.flags & FI_REMOTE_SIGNAL != 0 {
            flags |= SendFlag::Solicited;
        }
        let limit = match is_read {
            false => self.limits.segments,
            true => self.limits.read_segments,
        };
        let mappings = mem::take(&mut posting.mappings);
        let qp = posting.qp();
        let mut gather = Gather::new(qp, direction, limit, mappings);
        let added = if inject {
            gather.inject(message, posting.bounce())
        } else if is_read && self.limits.is_iwarp {
            gather.add(message, false).and_then(|()| gather.pad())
        } else {
            let may_inline = !is_read && total <= self.limits.inject && posting.takes_inline();
            gather.add(message, may_inline)
        };
        if gather.is_inline() {
            flags |= SendFlag::Inline;
        }
        let posted = if added.is_ok() {
            let (wr_id, sges) = (posting.wr_id(), gather.sges());
            let wr = match (remote, data) {
                (None, None) => SendWr::send(wr_id, sges, flags),
                (None, Some(data)) => SendWr::send_with_imm(wr_id, sges, data, flags),
                (Some(remote), _) if is_read => SendWr::read(wr_id, sges, remote, flags),
                (Some(remote), None) => SendWr::write(wr_id, sges, remote, flags),
                (Some(remote), Some(data)) => {
                    SendWr::write_with_imm(wr_id, sges, remote, data, flags)
                }
            };
            // SAFETY: The segments' types promise that the memory is the operation's until it
            // completes, that of the bounce slot is, and what is inline is copied now; the slot
            // keeps the mappings as long.
            unsafe { qp.post_send(&wr) }.map_err(|error| refused(error, &mut gather))
        } else {
            added
        };
        posting.settle(&what, posted)
    }

    /// `fi_recv()` and its relatives.
    #[inline(always)]
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        self.state.check_receive()?;
        self.check(
            message,
            (RECEIVE_FLAGS, RECEIVE_FLAGS),
            self.limits.receive_segments,
        )?;
        let what = Post {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            report: report(message.flags),
        };
        let mut posting = self.receive.begin(&what)?;
        let mappings = mem::take(&mut posting.mappings);
        let qp = posting.qp();
        let mut gather = Gather::new(
            qp,
            Direction::FromDevice,
            self.limits.receive_segments,
            mappings,
        );
        let added = gather.add(message, false);
        let posted = if added.is_ok() {
            let wr = RecvWr::new(posting.wr_id(), gather.sges());
            // SAFETY: As in `post_transmit`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| refused(error, &mut gather))
        } else {
            added
        };
        posting.settle(&what, posted)
    }
}

/// Checks memory that is copied while it is posted, which may be anywhere in the kernel: a stack too.
///
/// # Errors
///
/// -FI_EMSGSIZE for more than can be injected; -FI_EINVAL for where nobody has memory.
#[inline]
fn check_inject(message: &Message<'_>, total: usize, most: usize) -> Result {
    if total > most {
        return Err(Errno::EMSGSIZE);
    }
    message.memory.each(|part| match part.start() {
        Start::Address(addr) if !part.is_empty() && !MEMORY.contains(&addr) => Err(Errno::EINVAL),
        _ => Ok(()),
    })
}

/// The one range of the peer's memory that faces `len` bytes of ours.
///
/// # Errors
///
/// -FI_EINVAL for several ranges, or for one of another length; -FI_ENOKEY for what is no key of a
/// verbs device.
#[inline(always)]
fn facing(remote: &[fi_rma_iov], len: usize) -> Result<Remote> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.len != len {
        return Err(Errno::EINVAL);
    }
    Ok(Remote {
        addr: range.addr,
        rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
    })
}

/// The device has refused a request: its mappings are undone. A driver's own queue is never smaller
/// than ours: without memory it ran out of something that comes back.
#[cold]
pub(super) fn refused(error: kernel::error::Error, gather: &mut Gather<'_>) -> Errno {
    gather.undo();
    if error == kernel::error::code::ENOMEM {
        Errno::EAGAIN
    } else {
        error.into()
    }
}
