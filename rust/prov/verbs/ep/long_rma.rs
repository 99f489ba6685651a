// SPDX-License-Identifier: GPL-2.0

//! Posting of RMA operations that take several work requests: their local memory has more pieces than a work request
//! has scatter/gather elements, or they have several remote ranges. Any context; nothing here sleeps or allocates.
//!
//! The send queue is locked from the first to the last work request, and has a slot for each one before the first is
//! posted. The last one ends the operation: it is reported and has the remote CQ data. The others are parts, which are
//! never reported; see [`part`](super::super::wq).

use super::{
    super::{
        super::common::{
            flags::{
                check_message,
                TRANSMIT_FLAGS, //
            },
            rma_cursor::{
                RmaCursor,
                RMA_IOV_LIMIT, //
            },
        },
        info::INJECT_SIZE,
        pieces::measure_pieces,
        sge::InjectBuf,
        wq::{
            ReportPolicy,
            ReservedSlot, //
        },
    },
    post::{
        check_inject,
        TxRequest, //
    },
    siw_quirk, //
};
use crate::{
    abi::fi_rma_iov,
    fi::{
        memory::VectorEntry,
        provider::{
            Operation,
            Rma, //
        },
    },
    prov::verbs::prelude::*, //
};
use core::slice::from_ref;

impl Endpoint {
    /// Posts a read or write of up to [`RMA_IOV_LIMIT`] segments and `rma_iov_limit` remote ranges.
    ///
    /// # Errors
    ///
    /// The errors of [`check_message`], of [`RmaCursor::new`] and of [`TxRequest::new`]; -FI_EINVAL for memory that
    /// takes more work requests than the queue has slots; -FI_EAGAIN if fewer slots are free.
    #[cold]
    #[inline(never)]
    pub(super) fn post_long_rma(
        &self,
        rma: Rma,
        remote: &[fi_rma_iov],
        message: &Message<'_>,
    ) -> Result {
        let total = check_message(
            message,
            (TRANSMIT_FLAGS, self.attrs.unsupported_flags),
            (RMA_IOV_LIMIT, self.attrs.max_msg_size as usize),
        )?;
        let limits = (self.attrs.rma_iov_limit, u32::MAX.into());
        let cursor = RmaCursor::new((message.memory, message.descriptors, total), remote, limits)?;
        // Each work request gets a range of its own.
        let whole = fi_rma_iov {
            addr: 0,
            len: total,
            key: 0,
        };
        let request = TxRequest::new(Operation::Rma(rma, from_ref(&whole)), message, total)?;
        self.note_read(&request);
        if !request.inject {
            return self.post_parts(&request, cursor);
        }
        check_inject(message, total, self.attrs.inject_size)?;
        let mut copy = [const { MaybeUninit::uninit() }; INJECT_SIZE];
        // SAFETY: The copy is used only until this call returns.
        let copied = unsafe { InjectBuf::new(&mut copy) }.fill_from(message.memory)?;
        let memory = (Memory::Segments(from_ref(&copied)), &[][..], total);
        self.post_parts(&request, RmaCursor::new(memory, remote, limits)?)
    }

    /// Posts the work requests of an operation on the memory from `start` on.
    #[inline(never)]
    fn post_parts(&self, request: &TxRequest, start: RmaCursor<'_>) -> Result {
        let last = self.count_parts(request, start)?;
        let op_at = |number: u32| match last - number {
            0 => request.op,
            later => OpDesc {
                context: Context::NULL,
                len: 0,
                report_policy: ReportPolicy::Part { later },
                ..request.op
            },
        };
        let (mut cursor, mut has_failed) = (start, false);
        let post = |slot: &mut ReservedSlot<'_>, number: u32| {
            let is_last = number == last;
            let posted = match has_failed {
                false => self.post_part(request, &mut cursor, slot, (number == 0, is_last)),
                true => Err(Errno::EIO),
            };
            match posted {
                // The device accesses the memory of the parts before this one, so the operation ends with an entry.
                Err(_) if number > 0 => {
                    has_failed = true;
                    slot.post_aborted(is_last)
                }
                posted => posted,
            }
        };
        // SAFETY: This is a data call; the closures access the memory and post, and lock no queue.
        let posted = unsafe { self.sq.post_all((last + 1, true), op_at, post) };
        posted.map_err(|(errno, _)| errno)
    }

    /// Returns the number of parts before the last one.
    fn count_parts(&self, request: &TxRequest, mut cursor: RmaCursor<'_>) -> Result<u32> {
        let mut last = 0;
        loop {
            let mut space = self.sge_limit(request);
            cursor.take_part(|addr, entry, descriptor| match request.inject {
                true => Ok(entry.len()),
                false => {
                    let entry = self.cut_read(request, addr, entry);
                    measure_pieces(&self.pd, &entry, descriptor, &mut space)
                }
            })?;
            if cursor.is_done() {
                return Ok(last);
            }
            last += 1;
            if last >= self.attrs.tx_size {
                return Err(Errno::EINVAL);
            }
        }
    }

    /// Posts the next part in its slot.
    #[inline(never)]
    fn post_part(
        &self,
        request: &TxRequest,
        cursor: &mut RmaCursor<'_>,
        slot: &mut ReservedSlot<'_>,
        (is_first, is_last): (bool, bool),
    ) -> Result {
        let mut part = *request;
        if !is_first {
            // What was posted before is behind the fence of the first part.
            part.flags &= !SendFlags::from(SendFlag::Fence);
        }
        if !is_last {
            part.flags &= !SendFlags::from(SendFlag::Solicited);
            part.imm = None;
        }
        self.build_and_post(&part, slot, |list, mut inject_buf| {
            let taken = cursor.take_part(|addr, entry, descriptor| match request.inject {
                true => {
                    let copied = entry.to_segment()?;
                    list.push_inject(Memory::Segments(from_ref(&copied)), inject_buf.take())?;
                    Ok(entry.len())
                }
                false => list.push_some(&self.cut_read(request, addr, entry), descriptor),
            });
            let padded = taken.and_then(|range| {
                self.pad_read(list, request)?;
                match cursor.is_done() == is_last {
                    true => Ok(range),
                    // The memory has changed since the parts were counted.
                    false => Err(Errno::EINVAL),
                }
            });
            let range = padded.inspect_err(|_| list.unmap_all())?;
            Ok(Some(RemoteAddr {
                addr: range.addr,
                rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
            }))
        })
    }

    /// Returns the beginning of an entry up to which one read from `addr` may go; all of it for a write.
    fn cut_read(&self, request: &TxRequest, addr: u64, entry: &VectorEntry) -> VectorEntry {
        let len = match request.is_read {
            true => siw_quirk::max_read(self.pd.device(), addr),
            false => usize::MAX,
        };
        entry.part(0, len)
    }
}
