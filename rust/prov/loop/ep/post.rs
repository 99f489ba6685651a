// SPDX-License-Identifier: GPL-2.0

//! The data path from a message to the channel. Any context; nothing here sleeps or allocates.

use super::super::{
    super::common::{
        flags::{
            check_flags,
            check_message,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        mr_table::RmaIoc, //
    },
    mr,
    op::{
        self,
        AtomicOp,
        Bytes,
        InlineData,
        OpKind,
        Remote,
        SourceData, //
    },
    prelude::*, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*, //
    },
    fi::{
        atomic::Atomic,
        provider::{
            Operation,
            Rma, //
        },
    },
};
use core::slice::from_ref;

/// Flags that an atomic operation may have, which carries no remote CQ data.
const ATOMIC_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | COMPLETION_LEVELS;

/// Flags that a receive may have.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

impl Endpoint {
    /// Returns the channel to the peer, and the sink for transmit completions.
    #[inline]
    pub(super) fn tx_path(&self) -> Result<(&Arc<Channel>, &CompSink)> {
        self.state.check_transmit()?;
        let tx_channel = self.tx_channel.as_ref().ok_or(Errno::ENOTCONN)?;
        Ok((tx_channel, tx_channel.tx_comp_sink()?))
    }

    /// Checks the flags and limits of a request, and returns the length of its memory.
    #[inline]
    pub(super) fn check_message(
        &self,
        message: &Message<'_>,
        allowed_flags: u64,
        segments: usize,
    ) -> Result<usize> {
        let refused = !allowed_flags | self.limits.unsupported_flags;
        let limits = (segments, self.limits.max_msg_size);
        let total = check_message(message, (allowed_flags, refused), limits)?;
        if message.flags & FI_INJECT != 0 && total > self.limits.inject_size {
            return Err(Errno::EMSGSIZE);
        }
        Ok(total)
    }

    /// Returns the source buffer of a transmit.
    #[inline]
    fn src_buf(
        &self,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        is_injected: bool,
    ) -> Result<SrcBuf> {
        if is_injected {
            // SAFETY: It is copied and dropped before this call returns.
            return unsafe { SrcBuf::new_inject(memory) };
        }
        let mr_table = &self.domain.mr_table;
        if let Some(part) = mr::registered_segment(memory, descriptors, mr_table) {
            // SAFETY: The consumer keeps the region open until the operation is over.
            return Ok(unsafe { SrcBuf::from_region(part) });
        }
        mr::check_descriptors(memory, descriptors, mr_table)?;
        // SAFETY: It is dropped with the operation, before the poster's completion is written.
        unsafe { SrcBuf::new(memory) }
    }

    /// Returns the destination buffer of a receive or a read.
    #[inline]
    fn dst_buf(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result<DstBuf> {
        let mr_table = &self.domain.mr_table;
        if let Some(part) = mr::registered_segment(memory, descriptors, mr_table) {
            // SAFETY: The consumer keeps the region open until the operation is over.
            return Ok(unsafe { DstBuf::from_region(part) });
        }
        mr::check_descriptors(memory, descriptors, mr_table)?;
        // SAFETY: As for `src_buf`; only received bytes are written to it.
        unsafe { DstBuf::new(memory) }
    }

    /// Posts a send, write or read.
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        if let Operation::Rma(rma, remote) = operation {
            if remote.len() != 1 || message.memory.count() > self.limits.tx_iov_limit {
                return self.post_long_rma(rma, remote, message);
            }
        }
        let (tx_channel, comp_sink) = self.tx_path()?;
        let total = self.check_message(message, TRANSMIT_FLAGS, self.limits.tx_iov_limit)?;
        let is_injected = message.flags & FI_INJECT != 0;
        let data = remote_cq_data(message)?;
        let from = || self.src_buf(message.memory, message.descriptors, is_injected);
        let (flags, kind) = match operation {
            Operation::Send => {
                return send_message((tx_channel, comp_sink), from()?, data, message)
            }
            Operation::Rma(Rma::Write, remote) => (
                FI_WRITE | FI_RMA,
                OpKind::Write {
                    to: remote_range(remote, total, self.limits.max_key)?,
                    from: Bytes::Borrowed(from()?),
                    data,
                },
            ),
            Operation::Rma(Rma::Read, remote) => {
                if is_injected || data.is_some() {
                    return Err(Errno::EBADFLAGS);
                }
                let kind = OpKind::Read {
                    from: remote_range(remote, total, self.limits.max_key)?,
                    into: self.dst_buf(message.memory, message.descriptors)?,
                };
                (FI_READ | FI_RMA, kind)
            }
        };
        reserve_and_post(
            (tx_channel, comp_sink),
            (kind, source_data(message)),
            flags,
            message,
        )
    }

    /// Posts an atomic operation: `fi_atomic()` and its variants.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let (form, op, datatype) = (atomic.form, atomic.op, atomic.datatype);
        self.limits.check_atomics()?;
        let (tx_channel, comp_sink) = self.tx_path()?;
        check_flags(message.flags, (TRANSMIT_FLAGS, !ATOMIC_FLAGS))?;
        let is_injected = message.flags & FI_INJECT != 0;
        let (range, len) = atomic.check_target(message, op::max_elements(datatype))?;
        if is_injected && op != Op::Read && len > self.limits.inject_size {
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
        if range.key > self.limits.max_key {
            return Err(Errno::ENOKEY);
        }
        let kind = OpKind::Atomic(AtomicOp {
            form,
            op,
            datatype,
            target: RmaIoc {
                addr: range.addr,
                count: range.count as u64,
                key: range.key,
            },
            result: self.dst_buf(result, atomic.result_descriptors)?,
        });
        let flags = match form {
            Form::Base => FI_ATOMIC | FI_WRITE,
            Form::Fetch | Form::Compare => FI_ATOMIC | FI_READ,
        };
        let source_data = SourceData::Operands(InlineData::from_operands(&operands, &compare));
        reserve_and_post((tx_channel, comp_sink), (kind, source_data), flags, message)
    }

    /// Posts a receive: `fi_recv()` and its variants.
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        self.state.check_receive()?;
        if self.limits.shares_receives {
            return Err(Errno::ENOSYS);
        }
        let comp_sink = &self.rx_channel.rx_side()?.comp_sink;
        let is_several = message.flags & FI_MULTI_RECV != 0;
        let segments = match is_several {
            true => 1,
            false => self.limits.rx_iov_limit,
        };
        let len = self.check_message(message, RECEIVE_FLAGS, segments)?;
        let info = CompInfo {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            reports_success: message.flags & FI_COMPLETION != 0 || comp_sink.reports_all_successes,
            remote_signal: false,
            later_parts: 0,
        };
        if is_several {
            return self.post_multi_recv(message, len, info);
        }
        let mut into = Some(self.dst_buf(message.memory, message.descriptors)?);
        comp_sink.reserve()?;
        let posted = self.rx_channel.post_receives(1, |_, receive| {
            receive.dst = into.take().unwrap_or(DstBuf::EMPTY);
            receive.info = info;
            receive.piece_addr = 0;
        });
        posted.inspect_err(|_| comp_sink.cq.release())
    }

    /// Posts a multi-receive buffer as receives of one piece each.
    #[inline(never)]
    fn post_multi_recv(&self, message: &Message<'_>, len: usize, info: CompInfo) -> Result {
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        // Checks the whole buffer before the first piece is posted.
        let _ = self.dst_buf(message.memory, message.descriptors)?;
        let comp_sink = &self.rx_channel.rx_side()?.comp_sink;
        let size = self.min_multi_recv.get();
        let count = len.checked_div(size).ok_or(Errno::EINVAL)?.max(1);
        if count > self.limits.rx_size {
            return Err(Errno::EAGAIN);
        }
        comp_sink.reserve_many(count as u32)?;
        let posted = self.rx_channel.post_receives(count, |number, receive| {
            let is_last = number == count - 1;
            // The last piece includes the remainder.
            let piece = segment.part(number * size, if is_last { len } else { size });
            // SAFETY: It is dropped with the piece, which ends before the buffer does. Pieces do not overlap.
            let into = unsafe { DstBuf::new(Memory::Segments(from_ref(&piece))) };
            receive.dst = into.unwrap_or(DstBuf::EMPTY);
            receive.info = info;
            receive.piece_addr = piece.addr();
            if is_last {
                receive.info.flags |= FI_MULTI_RECV;
            }
        });
        posted.inspect_err(|_| comp_sink.cq.release_many(count as u32))
    }
}

/// Posts an operation whose completion has `flags`.
fn reserve_and_post(
    path: (&Arc<Channel>, &CompSink),
    op: (OpKind, SourceData),
    flags: u64,
    message: &Message<'_>,
) -> Result {
    let info = comp_info(path.1, flags, message);
    path.1.reserve()?;
    post_reserved(path, op, info)
}

/// Sends a message, at once where possible.
#[inline]
fn send_message(
    path: (&Arc<Channel>, &CompSink),
    from: SrcBuf,
    data: Option<u32>,
    message: &Message<'_>,
) -> Result {
    let info = comp_info(path.1, FI_SEND | FI_MSG, message);
    path.1.reserve()?;
    if path.0.try_send(&from, data, &info) {
        return Ok(());
    }
    let from = Bytes::Borrowed(from);
    post_reserved(
        path,
        (OpKind::Send { from, data }, source_data(message)),
        info,
    )
}

/// Posts an operation whose completion has been reserved.
#[inline(never)]
fn post_reserved(
    (tx_channel, comp_sink): (&Arc<Channel>, &CompSink),
    (kind, source_data): (OpKind, SourceData),
    info: CompInfo,
) -> Result {
    let posted = tx_channel.post_transmit(kind, info, source_data);
    posted.inspect_err(|_| comp_sink.cq.release())
}

/// Returns the remote CQ data of a message; -FI_EINVAL for more than 32 bits.
#[inline]
pub(super) fn remote_cq_data(message: &Message<'_>) -> Result<Option<u32>> {
    Ok(match message.flags & FI_REMOTE_CQ_DATA {
        0 => None,
        _ => Some(u32::try_from(message.data).map_err(|_| Errno::EINVAL)?),
    })
}

/// Returns the completion info of an operation whose completion has `flags`.
#[inline]
pub(super) fn comp_info(comp_sink: &CompSink, flags: u64, message: &Message<'_>) -> CompInfo {
    CompInfo {
        context: message.context,
        flags,
        reports_success: message.flags & FI_COMPLETION != 0
            || comp_sink.reports_all_successes && !message.errors_only,
        remote_signal: message.flags & FI_REMOTE_SIGNAL != 0,
        later_parts: 0,
    }
}

/// Returns which source data the poster may reuse as soon as the call returns.
pub(super) fn source_data(message: &Message<'_>) -> SourceData {
    match message.flags & FI_INJECT {
        0 => SourceData::Empty,
        _ => SourceData::Injected,
    }
}

/// Returns the single remote range, which has to be as long as the `len` local bytes.
///
/// # Errors
///
/// -FI_EINVAL for several ranges, or for one of another length; -FI_ENOKEY for a key above `max_key`.
#[inline]
fn remote_range(remote: &[fi_rma_iov], len: usize, max_key: u64) -> Result<Remote> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.len != len {
        return Err(Errno::EINVAL);
    }
    if range.key > max_key {
        return Err(Errno::ENOKEY);
    }
    Ok(Remote {
        addr: range.addr,
        key: range.key,
    })
}
