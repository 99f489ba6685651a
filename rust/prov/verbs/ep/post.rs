// SPDX-License-Identifier: GPL-2.0

//! The data path: from a message to a work transmit. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        gather::{
            Gather,
            Whole, //
        },
        queue::{
            Post,
            Posting,
            Report, //
            Resources,
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
        memory::{
            Descriptor,
            Memory,
            Start, //
        },
        provider::{
            Message,
            Operation,
            Rma, //
        },
    },
    rdma::{
        dma::Direction,
        qp::Qp,
        wr::{
            RecvWr,
            Remote,
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};
use core::{
    ops::Range,
    slice, //
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
        let (flags, is_read, remote) = match operation {
            Operation::Send => (FI_SEND | FI_MSG, false, None),
            Operation::Rma(Rma::Write, remote) => {
                (FI_WRITE | FI_RMA, false, Some(facing(remote, total)?))
            }
            Operation::Rma(Rma::Read, remote) => {
                (FI_READ | FI_RMA, true, Some(facing(remote, total)?))
            }
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
        if is_read && (inject || data.is_some()) {
            return Err(Errno::EBADFLAGS);
        }
        let what = Post {
            context: message.context,
            flags,
            report: report(message.flags),
        };
        let posting = self.transmit.begin(&what)?;
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
        let transmit = Transmit {
            remote,
            data,
            is_read,
            inject,
            flags,
        };
        let (memory, descriptors) = (message.memory, message.descriptors);
        let whole = match inject {
            false => Whole::of(memory, descriptors, posting.qp()),
            true => None,
        };
        let Some(whole) = whole else {
            return self.post_gathered(posting, what, memory, descriptors, transmit);
        };
        let is_inline = !is_read && total <= self.limits.inject && posting.takes_inline();
        let sge = whole.sge(posting.qp(), is_inline);
        // SAFETY: The segment's type promises that the memory is the operation's until it completes;
        // what is inline is copied now.
        let posted = unsafe {
            transmit.post(
                posting.qp(),
                posting.wr_id(),
                slice::from_ref(&sge),
                is_inline,
            )
        };
        posting.settle(&what, posted)
    }

    /// Ends a transmit whose memory is injected, or has to be mapped or put together.
    #[inline(never)]
    fn post_gathered(
        &self,
        mut posting: Posting<'_>,
        what: Post,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        transmit: Transmit,
    ) -> Result {
        let (direction, limit) = match transmit.is_read {
            false => (Direction::ToDevice, self.limits.segments),
            true => (Direction::FromDevice, self.limits.read_segments),
        };
        let wr_id = posting.wr_id();
        let Resources {
            qp,
            mappings,
            bounce,
        } = posting.resources();
        let mut gather = Gather::new(qp, direction, limit, mappings);
        let added = if transmit.inject {
            gather.inject(memory, bounce)
        } else if transmit.is_read && self.limits.is_iwarp {
            gather.add(memory, descriptors).and_then(|()| gather.pad())
        } else {
            gather.add(memory, descriptors)
        };
        let posted = added.and_then(|()| {
            // SAFETY: The segments' types promise that the memory is the operation's until it
            // completes, that of the bounce slot is, and what is inline is copied now; the slot
            // keeps the mappings as long.
            unsafe { transmit.post(qp, wr_id, gather.sges(), gather.is_inline()) }
                .inspect_err(|_| gather.undo())
        });
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
        let posting = self.receive.begin(&what)?;
        let (memory, descriptors) = (message.memory, message.descriptors);
        let Some(whole) = Whole::of(memory, descriptors, posting.qp()) else {
            return self.post_receive_gathered(posting, what, memory, descriptors);
        };
        let sge = whole.sge(posting.qp(), false);
        let wr = RecvWr::new(posting.wr_id(), slice::from_ref(&sge));
        // SAFETY: As in `post_transmit`.
        let posted = unsafe { posting.qp().post_recv(&wr) }.map_err(refused);
        posting.settle(&what, posted)
    }

    /// Ends a receive whose memory has to be mapped or put together.
    #[inline(never)]
    fn post_receive_gathered(
        &self,
        mut posting: Posting<'_>,
        what: Post,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        let wr_id = posting.wr_id();
        let limit = self.limits.receive_segments;
        let Resources { qp, mappings, .. } = posting.resources();
        let mut gather = Gather::new(qp, Direction::FromDevice, limit, mappings);
        let posted = gather.add(memory, descriptors).and_then(|()| {
            let wr = RecvWr::new(wr_id, gather.sges());
            // SAFETY: As in `post_gathered`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| {
                gather.undo();
                refused(error)
            })
        });
        posting.settle(&what, posted)
    }
}

/// What a transmit asks for, besides the memory that it is of.
struct Transmit {
    remote: Option<Remote>,
    data: Option<u32>,
    is_read: bool,
    inject: bool,
    flags: SendFlags,
}

impl Transmit {
    /// Posts it.
    ///
    /// # Safety
    ///
    /// As of [`Qp::post_send`].
    #[inline(always)]
    unsafe fn post(&self, qp: &Qp, wr_id: u64, sges: &[Sge], is_inline: bool) -> Result {
        let mut flags = self.flags;
        if is_inline {
            flags |= SendFlag::Inline;
        }
        let wr = match (self.remote, self.data) {
            (None, None) => SendWr::send(wr_id, sges, flags),
            (None, Some(data)) => SendWr::send_with_imm(wr_id, sges, data, flags),
            (Some(remote), _) if self.is_read => SendWr::read(wr_id, sges, remote, flags),
            (Some(remote), None) => SendWr::write(wr_id, sges, remote, flags),
            (Some(remote), Some(data)) => SendWr::write_with_imm(wr_id, sges, remote, data, flags),
        };
        // SAFETY: By this function's safety requirement.
        unsafe { qp.post_send(&wr) }.map_err(refused)
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

/// The device has refused a transmit. A driver's own queue is never smaller than ours: without memory
/// it ran out of something that comes back.
#[cold]
pub(super) fn refused(error: kernel::error::Error) -> Errno {
    if error == kernel::error::code::ENOMEM {
        Errno::EAGAIN
    } else {
        error.into()
    }
}
