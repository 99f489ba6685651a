// SPDX-License-Identifier: GPL-2.0

//! The data path from a message to the channel. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        super::common::{
            iov::{
                DstBuf,
                SrcBuf, //
            },
            mr_table::RmaIoc, //
        },
        channel::Channel,
        completion::{
            CompInfo,
            CompSink, //
        },
        info::LEVELS,
        mr,
        op::{
            self,
            Bytes,
            InlineData,
            OpKind,
            Remote,
            SourceData, //
        }, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Atomic,
            Form,
            Op, //
        },
        memory::{
            Descriptor,
            Memory, //
        },
        provider::{
            Message,
            Operation,
            Rma, //
        },
    },
};
use core::slice::from_ref;
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// Flags that a transmit may have.
const TRANSMIT_FLAGS: u64 =
    FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | FI_REMOTE_CQ_DATA | FI_REMOTE_SIGNAL | LEVELS;

/// Flags that an atomic operation may have, which carries no remote CQ data.
const ATOMIC_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | LEVELS;

/// Flags that a receive may have.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

impl Endpoint {
    /// Returns the channel to the peer, and the sink for transmit completions.
    #[inline]
    fn outward(&self) -> Result<(&Arc<Channel>, &CompSink)> {
        self.state.check_transmit()?;
        let outbound = self.outbound.as_ref().ok_or(Errno::ENOTCONN)?;
        Ok((outbound, outbound.sender()?))
    }

    /// Checks the flags and limits of a request, and returns the length of its memory.
    #[inline]
    fn check(&self, message: &Message<'_>, known: u64, segments: usize) -> Result<usize> {
        if message.flags & !known != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if message.flags & self.limits.missing_flags != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if message.memory.count() > segments {
            return Err(Errno::EINVAL);
        }
        let total = message.memory.total_len()?;
        let is_injected = message.flags & FI_INJECT != 0;
        if total > self.limits.most || is_injected && total > self.limits.inject {
            return Err(Errno::EMSGSIZE);
        }
        Ok(total)
    }

    /// Returns the source buffer of a transmit.
    #[inline]
    fn outgoing(
        &self,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        is_injected: bool,
    ) -> Result<SrcBuf> {
        if is_injected {
            // SAFETY: It is copied and dropped before this call returns.
            return unsafe { SrcBuf::new_inject(memory) };
        }
        let regions = self.domain.regions();
        if let Some(part) = mr::registered(memory, descriptors, regions) {
            // SAFETY: The consumer keeps the region open until the operation is over.
            return Ok(unsafe { SrcBuf::from_region(part) });
        }
        mr::check(memory, descriptors, regions)?;
        // SAFETY: It is dropped with the operation, before the poster's completion is written.
        unsafe { SrcBuf::new(memory) }
    }

    /// Returns the destination buffer of a receive or a read.
    #[inline]
    fn incoming(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result<DstBuf> {
        let regions = self.domain.regions();
        if let Some(part) = mr::registered(memory, descriptors, regions) {
            // SAFETY: The consumer keeps the region open until the operation is over.
            return Ok(unsafe { DstBuf::from_region(part) });
        }
        mr::check(memory, descriptors, regions)?;
        // SAFETY: As for `outgoing`; only received bytes are written to it.
        unsafe { DstBuf::new(memory) }
    }

    /// Posts a send, write or read.
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        let (outbound, exit) = self.outward()?;
        let total = self.check(message, TRANSMIT_FLAGS, self.limits.segments)?;
        let is_injected = message.flags & FI_INJECT != 0;
        let data = match message.flags & FI_REMOTE_CQ_DATA {
            0 => None,
            _ => Some(u32::try_from(message.data).map_err(|_| Errno::EINVAL)?),
        };
        let from = || self.outgoing(message.memory, message.descriptors, is_injected);
        let (flags, work) = match operation {
            Operation::Send => return send((outbound, exit), from()?, data, message),
            Operation::Rma(Rma::Write, remote) => (
                FI_WRITE | FI_RMA,
                OpKind::Write {
                    to: facing(remote, total, self.limits.last_key)?,
                    from: Bytes::Lent(from()?),
                    data,
                },
            ),
            Operation::Rma(Rma::Read, remote) => {
                if is_injected || data.is_some() {
                    return Err(Errno::EBADFLAGS);
                }
                let work = OpKind::Read {
                    from: facing(remote, total, self.limits.last_key)?,
                    into: self.incoming(message.memory, message.descriptors)?,
                };
                (FI_READ | FI_RMA, work)
            }
        };
        start((outbound, exit), (work, loan(message)), flags, message)
    }

    /// Posts an atomic operation: `fi_atomic()` and its variants.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        if let Some(errno) = self.limits.no_atomics {
            return Err(errno);
        }
        let (outbound, exit) = self.outward()?;
        if message.flags & !ATOMIC_FLAGS != 0 {
            return Err(match message.flags & !TRANSMIT_FLAGS {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        let is_injected = message.flags & FI_INJECT != 0;
        let (range, len) = atomic.check_target(message, op::most_elements(datatype))?;
        if is_injected && op != Op::Read && len > self.limits.inject {
            return Err(Errno::EMSGSIZE);
        }
        // A read has no operands, whatever the message says.
        let operands = match op {
            Op::Read => SrcBuf::EMPTY,
            // SAFETY: They are copied and dropped before this call returns.
            _ => unsafe { SrcBuf::new_inject(message.memory) }?,
        };
        // SAFETY: As above.
        let compare = unsafe { SrcBuf::new_inject(Memory::Segments(atomic.compare)) }?;
        let result = Memory::Segments(atomic.result);
        if range.key > self.limits.last_key {
            return Err(Errno::ENOKEY);
        }
        let work = OpKind::Atomic {
            form,
            op,
            datatype,
            target: RmaIoc {
                addr: range.addr,
                count: range.count as u64,
                key: range.key,
            },
            result: self.incoming(result, atomic.result_descriptors)?,
        };
        let flags = match form {
            Form::Base => FI_ATOMIC | FI_WRITE,
            Form::Fetch | Form::Compare => FI_ATOMIC | FI_READ,
        };
        let loan = SourceData::Operands(InlineData::operands(&operands, &compare));
        start((outbound, exit), (work, loan), flags, message)
    }

    /// Posts a receive: `fi_recv()` and its variants.
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        self.state.check_receive()?;
        if self.limits.shares_receives {
            return Err(Errno::ENOSYS);
        }
        let exit = &self.inbound.receiver()?.exit;
        let is_several = message.flags & FI_MULTI_RECV != 0;
        let segments = match is_several {
            true => 1,
            false => self.limits.receive_segments,
        };
        let len = self.check(message, RECEIVE_FLAGS, segments)?;
        let report = CompInfo {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            is_wanted: message.flags & FI_COMPLETION != 0 || exit.tells_all(),
            is_signal: false,
        };
        if is_several {
            return self.post_pieces(message, len, report);
        }
        let mut into = Some(self.incoming(message.memory, message.descriptors)?);
        exit.reserve()?;
        let posted = self.inbound.receive(1, |_, receive| {
            receive.into = into.take().unwrap_or(DstBuf::EMPTY);
            receive.report = report;
            receive.piece = 0;
            receive.is_last = false;
        });
        posted.inspect_err(|_| exit.release())
    }

    /// Posts a multi-receive buffer as receives of one piece each.
    #[inline(never)]
    fn post_pieces(&self, message: &Message<'_>, len: usize, report: CompInfo) -> Result {
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        // Checks the whole buffer before the first piece is posted.
        let _ = self.incoming(message.memory, message.descriptors)?;
        let exit = &self.inbound.receiver()?.exit;
        let size = self.piece.load(Relaxed);
        let count = len.checked_div(size).ok_or(Errno::EINVAL)?.max(1);
        if count > self.limits.receives {
            return Err(Errno::EAGAIN);
        }
        for reserved in 0..count {
            if let Err(errno) = exit.reserve() {
                for _ in 0..reserved {
                    exit.release();
                }
                return Err(errno);
            }
        }
        let posted = self.inbound.receive(count, |number, receive| {
            let is_last = number == count - 1;
            // The last piece includes the remainder.
            let piece = segment.part(number * size, if is_last { len } else { size });
            // SAFETY: It is dropped with the piece, which ends before the buffer does. Pieces do not overlap.
            let into = unsafe { DstBuf::new(Memory::Segments(from_ref(&piece))) };
            receive.into = into.unwrap_or(DstBuf::EMPTY);
            receive.report = report;
            receive.piece = piece.addr();
            receive.is_last = is_last;
        });
        posted.inspect_err(|_| {
            for _ in 0..count {
                exit.release();
            }
        })
    }
}

/// Posts an operation whose completion has `flags`.
fn start(
    way: (&Arc<Channel>, &CompSink),
    what: (OpKind, SourceData),
    flags: u64,
    message: &Message<'_>,
) -> Result {
    let report = report(way.1, flags, message);
    way.1.reserve()?;
    post(way, what, report)
}

/// Sends a message, at once where possible.
#[inline]
fn send(
    way: (&Arc<Channel>, &CompSink),
    from: SrcBuf,
    data: Option<u32>,
    message: &Message<'_>,
) -> Result {
    let report = report(way.1, FI_SEND | FI_MSG, message);
    way.1.reserve()?;
    if way.0.send(&from, data, &report) {
        return Ok(());
    }
    let from = Bytes::Lent(from);
    post(way, (OpKind::Send { from, data }, loan(message)), report)
}

/// Posts an operation whose completion has been reserved.
#[inline(never)]
fn post(
    (outbound, exit): (&Arc<Channel>, &CompSink),
    (work, loan): (OpKind, SourceData),
    report: CompInfo,
) -> Result {
    let posted = outbound.transmit(work, report, loan);
    posted.inspect_err(|_| exit.release())
}

/// Returns the completion info of an operation whose completion has `flags`.
#[inline]
fn report(exit: &CompSink, flags: u64, message: &Message<'_>) -> CompInfo {
    CompInfo {
        context: message.context,
        flags,
        is_wanted: message.flags & FI_COMPLETION != 0 || exit.tells_all() && !message.errors_only,
        is_signal: message.flags & FI_REMOTE_SIGNAL != 0,
    }
}

/// Returns which source data the poster may reuse as soon as the call returns.
fn loan(message: &Message<'_>) -> SourceData {
    match message.flags & FI_INJECT {
        0 => SourceData::Nothing,
        _ => SourceData::Injected,
    }
}

/// Returns the single remote range, which has to be as long as the `len` local bytes.
///
/// # Errors
///
/// -FI_EINVAL for several ranges, or for one of another length; -FI_ENOKEY for a key above `last_key`.
#[inline]
fn facing(remote: &[fi_rma_iov], len: usize, last_key: u64) -> Result<Remote> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.len != len {
        return Err(Errno::EINVAL);
    }
    if range.key > last_key {
        return Err(Errno::ENOKEY);
    }
    Ok(Remote {
        addr: range.addr,
        key: range.key,
    })
}
