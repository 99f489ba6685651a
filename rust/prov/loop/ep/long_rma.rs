// SPDX-License-Identifier: GPL-2.0

//! Posting of RMA operations of more segments than a transmit has, or of several remote ranges: as parts, each of which
//! takes a slot. Any context; nothing here sleeps or allocates.

use super::{
    super::{
        super::common::{
            flags::TRANSMIT_FLAGS,
            iov::MAX_IOV,
            rma_cursor::{
                RmaCursor,
                RMA_IOV_LIMIT, //
            },
        },
        mr,
        op::{
            Bytes,
            OpKind,
            Remote, //
        },
        prelude::*, //
    },
    post::{
        comp_info,
        remote_cq_data,
        source_data, //
    },
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*, //
    },
    fi::provider::Rma, //
};

impl Endpoint {
    /// Posts a read or write of up to [`RMA_IOV_LIMIT`] segments and `rma_iov_limit` remote ranges.
    ///
    /// # Errors
    ///
    /// The errors of a short operation and of [`RmaCursor::new`]; -FI_EINVAL for more parts than the queue has slots;
    /// -FI_EAGAIN if fewer slots are free.
    #[cold]
    #[inline(never)]
    pub(super) fn post_long_rma(
        &self,
        rma: Rma,
        remote: &[fi_rma_iov],
        message: &Message<'_>,
    ) -> Result {
        let (tx_channel, comp_sink) = self.tx_path()?;
        let total = self.check_message(message, TRANSMIT_FLAGS, RMA_IOV_LIMIT)?;
        let is_injected = message.flags & FI_INJECT != 0;
        let data = remote_cq_data(message)?;
        if rma == Rma::Read && (is_injected || data.is_some()) {
            return Err(Errno::EBADFLAGS);
        }
        if !is_injected {
            let mr_table = &self.domain.mr_table;
            mr::check_descriptors(message.memory, message.descriptors, mr_table)?;
        }
        let memory = (message.memory, message.descriptors, total);
        let limits = (self.limits.rma_iov_limit, self.limits.max_key);
        let mut cursor = RmaCursor::new(memory, remote, limits)?;
        let count = count_parts(cursor, rma, is_injected)?;
        if count > self.limits.tx_size {
            return Err(Errno::EINVAL);
        }
        let flags = match rma {
            Rma::Write => FI_WRITE | FI_RMA,
            Rma::Read => FI_READ | FI_RMA,
        };
        let info = comp_info(comp_sink, flags, message);
        comp_sink.reserve()?;
        let posted = tx_channel.post_parts((count, total), |number| {
            let later = count - 1 - number;
            let info = CompInfo {
                later_parts: later as u16,
                ..info
            };
            let data = data.filter(|_| later == 0);
            // Cannot fail: `count_parts` has taken the same parts.
            let kind = take_part(&mut cursor, rma, is_injected, data);
            (kind.unwrap_or(OpKind::Unused), info, source_data(message))
        });
        posted.inspect_err(|_| comp_sink.cq.release())
    }
}

/// Returns the number of parts of an operation.
///
/// # Errors
///
/// -FI_EINVAL for memory that cannot be used.
#[inline(never)]
fn count_parts(mut cursor: RmaCursor<'_>, rma: Rma, is_injected: bool) -> Result<usize> {
    let mut count = 0;
    loop {
        take_part(&mut cursor, rma, is_injected, None)?;
        count += 1;
        if cursor.is_done() {
            return Ok(count);
        }
    }
}

/// Takes the next part of an operation.
fn take_part(
    cursor: &mut RmaCursor<'_>,
    rma: Rma,
    is_injected: bool,
    data: Option<u32>,
) -> Result<OpKind> {
    let mut segments = [const { Segment::EMPTY }; MAX_IOV];
    let mut free = segments.iter_mut();
    let range = cursor.take_part(|_, entry, _| match free.next() {
        Some(segment) => {
            *segment = entry.to_segment()?;
            Ok(entry.len())
        }
        None => Ok(0),
    })?;
    let remote = Remote {
        addr: range.addr,
        key: range.key,
    };
    let memory = Memory::Segments(&segments);
    Ok(match rma {
        Rma::Write => OpKind::Write {
            // SAFETY: The buffer is dropped with the operation, before the poster's completion is written; an injected
            // one is copied and dropped before the call that posts it returns.
            from: Bytes::Borrowed(unsafe {
                match is_injected {
                    true => SrcBuf::new_inject(memory),
                    false => SrcBuf::new(memory),
                }
            }?),
            to: remote,
            data,
        },
        Rma::Read => OpKind::Read {
            from: remote,
            // SAFETY: As above; only received bytes are written to it.
            into: unsafe { DstBuf::new(memory) }?,
        },
    })
}
