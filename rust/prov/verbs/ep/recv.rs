// SPDX-License-Identifier: GPL-2.0

//! Posting of receives: from the provider's interface to `ib_post_recv()`, by the steps of
//! [`post`](super::post). Any context; nothing here sleeps or allocates.

use super::{
    super::{
        super::common::flags::check_message,
        sge::{
            check_descriptor,
            SgeList,
            SingleSge, //
        },
        wq::{
            PostResources,
            ReportPolicy,
            ReservedSlot, //
        },
    },
    post::{
        as_single_xfer,
        report_policy, //
    },
};
use crate::{
    fi::provider::SingleSegment,
    prov::verbs::prelude::*,
    util::cold::call_cold, //
};
use core::slice::from_ref;

/// Flags of a receive that do not change the work request.
const FAST_RX_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Flags of a receive.
const RX_FLAGS: u64 = FAST_RX_FLAGS | FI_MULTI_RECV;

impl Endpoint {
    /// Posts a receive into a single range of a registered region. Returns None, without any
    /// effect, if the fast path cannot take it. `LOCKS` is as for
    /// [`post_fast`](Endpoint::post_fast).
    #[inline(always)]
    pub(super) fn post_recv_fast<const LOCKS: bool>(
        &self,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        if single.flags & !FAST_RX_FLAGS != 0 {
            return None;
        }
        let sge = SingleSge::from_segment(single.segment, single.descriptor, &self.pd)?;
        // SAFETY: This is a data call, which does not lock the queue again before `finish_fast`.
        let mut slot = unsafe {
            self.rq
                .reserve_fast::<LOCKS>(single.context, (FI_RECV | FI_MSG, 0), OpKind::Reported)
        }?;
        let wr_id = slot.wr_id;
        let range = (sge.addr(false), sge.len());
        // SAFETY: It is the receive queue. The segment's type promises that the memory is the
        // operation's until it completes.
        let posted = unsafe { slot.recv_template().post(wr_id, range) };
        slot.finish_fast(&posted);
        Some(match posted {
            Ok(()) => Ok(()),
            Err(error) => call_cold(move || Err(self.receive_error(wc_status::post_errno(error)))),
        })
    }

    /// Posts a receive of any kind, for `fi_recv()` and its variants.
    #[inline(always)]
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        if let Some(single) = as_single_xfer(message, FAST_RX_FLAGS) {
            if let Some(posted) = self.post_recv_fast::<true>(&single) {
                return posted;
            }
        }
        self.state.check_receive()?;
        if message.flags & !FAST_RX_FLAGS != 0 {
            let message = *message;
            return call_cold(move || self.post_multi_recv(&message));
        }
        let limits = (self.attrs.rx_iov_limit, self.attrs.max_msg_size as usize);
        let len = check_message(message, (RX_FLAGS, !RX_FLAGS), limits)?;
        let op = OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len,
            report_policy: report_policy(message),
        };
        let Some(sge) = SingleSge::from_memory(message.memory, message.descriptors, &self.pd)
        else {
            let message = *message;
            return call_cold(move || {
                self.post_recv_sge_list(op, message.memory, message.descriptors)
            });
        };
        let sges = [sge.build(false, &self.pd)];
        // SAFETY: This is a data call, which does not lock the queue again before `finish`.
        let slot = unsafe { self.rq.reserve(&op) }?;
        let wr = RecvWr::new(slot.wr_id, &sges);
        // SAFETY: As in `post_recv_fast`.
        let posted = unsafe { slot.qp().post_recv(&wr) }.map_err(wc_status::post_errno);
        slot.finish(&op, posted)
    }

    /// Posts a receive whose memory has to be mapped or takes several elements.
    #[inline(never)]
    fn post_recv_sge_list(
        &self,
        op: OpDesc,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        // SAFETY: As in `post_receive`.
        let mut slot = unsafe { self.rq.reserve(&op) }?;
        let posted = self.build_and_post_recv(&mut slot, memory, descriptors);
        slot.finish(&op, posted)
    }

    /// Builds the scatter/gather list of a receive, and posts it in its slot; nothing is mapped
    /// after an error.
    fn build_and_post_recv(
        &self,
        slot: &mut ReservedSlot<'_>,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        let wr_id = slot.wr_id;
        let limit = self.attrs.rx_iov_limit;
        let PostResources { qp, mappings, .. } = slot.resources();
        let mut list = SgeList::new(&self.pd, DataDirection::FromDevice, limit, mappings);
        list.push_memory(memory, descriptors)?;
        let wr = RecvWr::new(wr_id, list.sges());
        // SAFETY: The segments' types promise that the memory is the operation's until it
        // completes; the slot keeps the mappings as long.
        unsafe { qp.post_recv(&wr) }.map_err(|error| {
            list.unmap_all();
            wc_status::post_errno(error)
        })
    }

    /// Posts a multi-receive buffer: one receive for each of its pieces.
    #[inline(never)]
    fn post_multi_recv(&self, message: &Message<'_>) -> Result {
        let limits = (1, self.attrs.max_msg_size as usize);
        let len = check_message(message, (RX_FLAGS, !RX_FLAGS), limits)?;
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        let descriptor = message.descriptors.first().copied();
        let descriptor = descriptor.unwrap_or(Descriptor::NONE);
        // The whole buffer is checked before the first piece is posted.
        check_descriptor(segment, descriptor, &self.pd)?;
        let size = self.options.min_multi_recv.get();
        let count = len.checked_div(size).ok_or(Errno::EINVAL)?;
        let count = u32::try_from(count).map_err(|_| Errno::EAGAIN)?.max(1);
        // The last piece has the remainder, too.
        let piece = |number: u32| {
            let is_last = number == count - 1;
            segment.part(number as usize * size, if is_last { len } else { size })
        };
        let op_at = |number: u32| OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len: piece(number).len(),
            report_policy: ReportPolicy::MultiRecv {
                start: piece(number).addr(),
                last: number == count - 1,
                always: message.flags & FI_COMPLETION != 0,
            },
        };
        let post = |slot: &mut ReservedSlot<'_>, number| {
            let piece = piece(number);
            let memory = Memory::Segments(from_ref(&piece));
            self.build_and_post_recv(slot, memory, from_ref(&descriptor))
        };
        // SAFETY: This is a data call; the closures access the memory and post, and lock no queue.
        let posted = unsafe { self.rq.post_all((count, false), op_at, post) };
        posted.or_else(|(errno, last)| match (last, self.rq.cq_for_data_call()) {
            // The buffer ends at the first piece that could not be posted.
            (Some((number, seq)), Some(cq))
                // SAFETY: It has been posted above.
                if unsafe { cq.end_multi_recv(&self.rq, seq, piece(number).addr()) } =>
            {
                Ok(())
            }
            _ => Err(errno),
        })
    }

    /// Returns the error of a receive that failed with `errno`.
    #[cold]
    pub(super) fn receive_error(&self, errno: Errno) -> Errno {
        match self.attrs.uses_srx {
            // Receives are posted to the shared receive context.
            true => Errno::ENOSYS,
            false => self.state.receive_error(errno),
        }
    }
}
