// SPDX-License-Identifier: GPL-2.0

//! The data path: from a message to a work request. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        info::LEVELS,
        sge::{
            self,
            SgeList,
            SingleSge, //
        },
        wc_status,
        wq::{
            OpDesc,
            PostGuard,
            PostResources,
            ReportPolicy, //
        },
    },
    Endpoint, //
};
use crate::{
    abi::{
        cold::aside,
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
            Rma,
            SingleSegment, //
        },
    },
    rdma::{
        dma::{
            DataDirection,
            MEMORY, //
        },
        qp::Qp,
        wr::{
            RecvWr,
            RemoteAddr,
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};
use core::slice::from_ref;
use kernel::sync::atomic::Relaxed;

/// Flags of a transmit; [`Limits`](super::limits::Limits) has those of them that the device cannot do.
pub(super) const TRANSMIT_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_REMOTE_CQ_DATA
    | FI_REMOTE_SIGNAL
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

/// Flags that change nothing of what is posted.
pub(super) const USUAL: u64 = FI_COMPLETION | FI_MORE | LEVELS;

/// Flags of a receive that change nothing of what is posted.
pub(super) const USUAL_RECEIVE: u64 = FI_COMPLETION | FI_MORE;

/// Flags of a receive.
const RECEIVE_FLAGS: u64 = USUAL_RECEIVE | FI_MULTI_RECV;

/// Returns whether the success of an operation writes a completion entry.
#[inline(always)]
pub(super) fn report(message: &Message<'_>) -> ReportPolicy {
    if message.flags & FI_COMPLETION != 0 {
        ReportPolicy::Always
    } else if message.errors_only {
        ReportPolicy::Never
    } else {
        ReportPolicy::AsBound
    }
}

impl Endpoint {
    /// Checks what the consumer asks for, and returns the length of its memory.
    #[inline(always)]
    fn check(
        &self,
        message: &Message<'_>,
        (known, refused): (u64, u64),
        segments: usize,
    ) -> Result<usize> {
        if message.flags & refused != 0 {
            return Err(match message.flags & !known {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        if message.memory.count() > segments {
            return Err(Errno::EINVAL);
        }
        let total = message.memory.total()?;
        if total > self.limits.message as usize {
            return Err(Errno::EMSGSIZE);
        }
        Ok(total)
    }

    /// Every transfer to or from the peer that this side starts.
    #[inline(always)]
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        if let (Operation::Send, Some(single)) = (operation, single(message, USUAL)) {
            if let Some(posted) = self.post_plain::<true>(operation, &single) {
                return posted;
            }
        }
        match message.flags & !USUAL {
            // That the others are not there lets the compiler leave out what they ask for.
            0 => self.post_with(
                operation,
                Message {
                    flags: message.flags & USUAL,
                    ..*message
                },
            ),
            _ => {
                let message = *message;
                aside(move || self.post_special(operation, message))
            }
        }
    }

    /// A transmit with flags that few have.
    #[inline(never)]
    fn post_special(&self, operation: Operation<'_>, message: Message<'_>) -> Result {
        self.check_fence(message.flags)?;
        self.post_with(operation, message)
    }

    /// Whether a fence holds: the device does not know of an operation between two of its requests.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN until there is none.
    pub(super) fn check_fence(&self, flags: u64) -> Result {
        match flags & FI_FENCE != 0 && self.transmit.has_exchanges() {
            true => Err(Errno::EAGAIN),
            false => Ok(()),
        }
    }

    #[inline(always)]
    fn post_with(&self, operation: Operation<'_>, message: Message<'_>) -> Result {
        self.state.check_transmit()?;
        let total = self.check(
            &message,
            (TRANSMIT_FLAGS, self.limits.refused_flags),
            self.limits.segments,
        )?;
        let transmit = TxRequest::new(operation, &message, total)?;
        if transmit.is_read && self.limits.is_iwarp && !self.reads.xchg(true, Relaxed) {
            // What comes behind it may need a fence.
            self.transmit.set_plain(false);
        }
        if transmit.inject {
            check_inject(&message, total, self.limits.inject)?;
        } else if let Some(whole) = self.whole(&message) {
            return self.post_whole(&transmit, &whole);
        }
        aside(move || self.post_gathered(transmit, message.memory, message.descriptors))
    }

    /// The memory of a message that needs no more than the address of its region.
    #[inline(always)]
    fn whole(&self, message: &Message<'_>) -> Option<SingleSge> {
        SingleSge::of(message.memory, message.descriptors, &self.pd)
    }

    /// The same for a work request.
    #[inline(always)]
    fn sge(&self, whole: &SingleSge, is_inline: bool) -> Sge {
        Sge::new(whole.addr(is_inline), whole.len(), self.pd.local_dma_lkey())
    }

    /// What a transmit says to the device of itself.
    #[inline(always)]
    fn send_flags(&self, transmit: &TxRequest, posting: &PostGuard<'_>) -> SendFlags {
        let mut flags = transmit.flags;
        if posting.signal {
            flags |= SendFlag::Signaled;
        }
        // Without a fence siw completes what is behind a read before the read, out of order. A read
        // never overtakes another, and siw takes no fence before one.
        if self.limits.is_iwarp && !transmit.is_read && posting.is_behind_read() {
            flags |= SendFlag::Fence;
        }
        flags
    }

    /// Ends a transmit of a single run of registered memory.
    #[inline(always)]
    fn post_whole(&self, transmit: &TxRequest, whole: &SingleSge) -> Result {
        let is_inline = !transmit.is_read && whole.len() <= self.transmit.inline();
        let sges = [self.sge(whole, is_inline)];
        // SAFETY: This is a data call, which does not lock the queue again before `posting` is gone.
        let posting = unsafe { self.transmit.begin(&transmit.what) }?;
        let mut flags = self.send_flags(transmit, &posting);
        if is_inline {
            flags |= SendFlag::Inline;
        }
        // SAFETY: The segment's type promises that the memory is the operation's until it completes;
        // what is inline is copied now.
        let posted = unsafe { transmit.post(posting.qp(), posting.wr_id(), &sges, flags) };
        posting.settle(&transmit.what, posted)
    }

    /// Ends a transmit whose memory is injected, or has to be mapped or put together.
    #[inline(never)]
    fn post_gathered(
        &self,
        transmit: TxRequest,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        let (direction, limit) = match transmit.is_read {
            false => (DataDirection::ToDevice, self.limits.segments),
            true => (DataDirection::FromDevice, self.limits.read_segments),
        };
        // SAFETY: As in `post_whole`.
        let mut posting = unsafe { self.transmit.begin(&transmit.what) }?;
        let mut flags = self.send_flags(&transmit, &posting);
        let wr_id = posting.wr_id();
        let PostResources {
            qp,
            mappings,
            bounce,
        } = posting.resources();
        let mut gather = SgeList::new(qp, direction, limit, mappings);
        let added = if transmit.inject {
            gather.inject(memory, bounce)
        } else if transmit.is_read && self.limits.is_iwarp {
            gather.add(memory, descriptors).and_then(|()| gather.pad())
        } else {
            gather.add(memory, descriptors)
        };
        if gather.is_inline() {
            flags |= SendFlag::Inline;
        }
        let posted = added.and_then(|()| {
            // SAFETY: The segments' types promise that the memory is the operation's until it
            // completes, that of the bounce slot is, and what is inline is copied now; the slot
            // keeps the mappings as long.
            unsafe { transmit.post(qp, wr_id, gather.sges(), flags) }.inspect_err(|_| gather.undo())
        });
        posting.settle(&transmit.what, posted)
    }

    /// `fi_recv()` and its relatives.
    #[inline(always)]
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        if let Some(single) = single(message, USUAL_RECEIVE) {
            if let Some(posted) = self.post_receive_plain::<true>(&single) {
                return posted;
            }
        }
        self.state.check_receive()?;
        if message.flags & !USUAL_RECEIVE != 0 {
            let message = *message;
            return aside(move || self.post_pieces(&message));
        }
        let len = self.check(
            message,
            (RECEIVE_FLAGS, !RECEIVE_FLAGS),
            self.limits.receive_segments,
        )?;
        let what = OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len,
            report: report(message),
        };
        let Some(whole) = self.whole(message) else {
            let message = *message;
            return aside(move || {
                self.post_receive_gathered(what, message.memory, message.descriptors)
            });
        };
        let sges = [self.sge(&whole, false)];
        // SAFETY: As in `post_whole`.
        let posting = unsafe { self.receive.begin(&what) }?;
        let wr = RecvWr::new(posting.wr_id(), &sges);
        // SAFETY: As in `post_whole`.
        let posted = unsafe { posting.qp().post_recv(&wr) }.map_err(wc_status::refused);
        posting.settle(&what, posted)
    }

    /// What a receive says that was refused with `errno`.
    #[cold]
    pub(super) fn receive_refused(&self, errno: Errno) -> Errno {
        match self.limits.shares_receives {
            // It is the shared ones that are posted.
            true => Errno::ENOSYS,
            false => self.state.receive_refused(errno),
        }
    }

    /// A receive into a buffer that takes several messages: into one piece of it each.
    #[inline(never)]
    fn post_pieces(&self, message: &Message<'_>) -> Result {
        let len = self.check(message, (RECEIVE_FLAGS, !RECEIVE_FLAGS), 1)?;
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        let descriptor = message.descriptors.first().copied();
        let descriptor = descriptor.unwrap_or(Descriptor::NONE);
        // All of it, before the first piece is posted.
        sge::check(segment, descriptor, &self.pd)?;
        let size = self.piece.load(Relaxed);
        let count = len.checked_div(size).ok_or(Errno::EINVAL)?;
        let count = u32::try_from(count).map_err(|_| Errno::EAGAIN)?.max(1);
        // The last one has what is left over as well.
        let piece = |number: u32| {
            let is_last = number == count - 1;
            segment.part(number as usize * size, if is_last { len } else { size })
        };
        let what = |number: u32| OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len: piece(number).len(),
            report: ReportPolicy::Piece {
                start: piece(number).addr(),
                last: number == count - 1,
                always: message.flags & FI_COMPLETION != 0,
            },
        };
        let post = |posting: &mut PostGuard<'_>, number| {
            let piece = piece(number);
            let wr_id = posting.wr_id();
            let PostResources { qp, mappings, .. } = posting.resources();
            let limit = self.limits.receive_segments;
            let mut gather = SgeList::new(qp, DataDirection::FromDevice, limit, mappings);
            gather.add(Memory::Segments(from_ref(&piece)), from_ref(&descriptor))?;
            let wr = RecvWr::new(wr_id, gather.sges());
            // SAFETY: As in `post_gathered`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| {
                gather.undo();
                wc_status::refused(error)
            })
        };
        // SAFETY: This is a data call; the closures look at the memory and post, and lock no queue.
        let posted = unsafe { self.receive.post_all(count, what, post) };
        posted.or_else(|(errno, last)| match (last, self.receive.cq()) {
            // The buffer ends where it could not be posted any more.
            (Some((number, seq)), Some(cq))
                // SAFETY: It has been posted above.
                if unsafe { cq.end_buffer(&self.receive, seq, piece(number).addr()) } =>
            {
                Ok(())
            }
            _ => Err(errno),
        })
    }

    /// Ends a receive whose memory has to be mapped or put together.
    #[inline(never)]
    fn post_receive_gathered(
        &self,
        what: OpDesc,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        // SAFETY: As in `post_whole`.
        let mut posting = unsafe { self.receive.begin(&what) }?;
        let wr_id = posting.wr_id();
        let limit = self.limits.receive_segments;
        let PostResources { qp, mappings, .. } = posting.resources();
        let mut gather = SgeList::new(qp, DataDirection::FromDevice, limit, mappings);
        let posted = gather.add(memory, descriptors).and_then(|()| {
            let wr = RecvWr::new(wr_id, gather.sges());
            // SAFETY: As in `post_gathered`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| {
                gather.undo();
                wc_status::refused(error)
            })
        });
        posting.settle(&what, posted)
    }
}

/// What a transmit asks for, besides the memory that it is of.
#[derive(Clone, Copy)]
struct TxRequest {
    what: OpDesc,
    remote: Option<RemoteAddr>,
    data: Option<u32>,
    is_read: bool,
    inject: bool,
    flags: SendFlags,
}

impl TxRequest {
    /// What `message` asks for, of `total` bytes.
    ///
    /// # Errors
    ///
    /// Those of [`facing`]; -FI_EINVAL for data that does not fit, -FI_EBADFLAGS for what goes
    /// with a message being asked of a read.
    #[inline(always)]
    fn new(operation: Operation<'_>, message: &Message<'_>, total: usize) -> Result<Self> {
        let (flags, is_read, remote) = match operation {
            Operation::Send => (FI_SEND | FI_MSG, false, None),
            Operation::Rma(Rma::Write, remote) => {
                (FI_WRITE | FI_RMA, false, Some(facing(remote, total)?))
            }
            Operation::Rma(Rma::Read, remote) => {
                (FI_READ | FI_RMA, true, Some(facing(remote, total)?))
            }
        };
        let what = OpDesc {
            context: message.context,
            flags,
            len: total,
            report: report(message),
        };
        let data = match message.flags & FI_REMOTE_CQ_DATA {
            0 => None,
            // What goes beside a message has 32 bits.
            _ => Some(u32::try_from(message.data).map_err(|_| Errno::EINVAL)?),
        };
        let inject = message.flags & FI_INJECT != 0;
        if is_read && (inject || data.is_some()) {
            return Err(Errno::EBADFLAGS);
        }
        let mut flags = SendFlags::default();
        if message.flags & FI_FENCE != 0 && !is_read {
            flags |= SendFlag::Fence;
        }
        if message.flags & FI_REMOTE_SIGNAL != 0 {
            flags |= SendFlag::Solicited;
        }
        Ok(Self {
            what,
            remote,
            data,
            is_read,
            inject,
            flags,
        })
    }

    /// Posts it.
    ///
    /// # Safety
    ///
    /// As of [`Qp::post_send`].
    #[inline(always)]
    unsafe fn post(&self, qp: &Qp, wr_id: u64, sges: &[Sge], flags: SendFlags) -> Result {
        let wr = match (self.remote, self.data) {
            (None, None) => SendWr::send(wr_id, sges, flags),
            (None, Some(data)) => SendWr::send_with_imm(wr_id, sges, data, flags),
            (Some(remote), _) if self.is_read => SendWr::read(wr_id, sges, remote, flags),
            (Some(remote), None) => SendWr::write(wr_id, sges, remote, flags),
            (Some(remote), Some(data)) => SendWr::write_with_imm(wr_id, sges, remote, data, flags),
        };
        // SAFETY: By this function's safety requirement.
        unsafe { qp.post_send(&wr) }.map_err(wc_status::refused)
    }
}

/// A message for which there may be a short way, as its flags are `usual`.
#[inline(always)]
fn single<'a>(message: &Message<'a>, usual: u64) -> Option<SingleSegment<'a>> {
    match (message.memory, message.descriptors, message.flags & !usual) {
        (Memory::Segments([segment]), [descriptor], 0) => Some(SingleSegment {
            segment,
            descriptor: *descriptor,
            context: message.context,
            flags: message.flags,
        }),
        _ => None,
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
pub(super) fn facing(remote: &[fi_rma_iov], len: usize) -> Result<RemoteAddr> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.len != len {
        return Err(Errno::EINVAL);
    }
    Ok(RemoteAddr {
        addr: range.addr,
        rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
    })
}
