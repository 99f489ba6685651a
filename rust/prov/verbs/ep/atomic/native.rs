// SPDX-License-Identifier: GPL-2.0

//! Posting of atomic operations: a native work request, or the first of several. Any context;
//! nothing here sleeps or allocates.

use super::NativeAtomic;
use crate::{
    abi::flags::*,
    fi::{
        atomic::{
            Atomic,
            Form, //
        },
        prelude::*,
        provider::Message, //
    },
    prov::verbs::{
        cas_atomic::{
            operands,
            AtomicComp, //
        },
        ep::{
            post::report_policy,
            Endpoint, //
        },
        sge::{
            check_descriptor,
            SgeList, //
        },
        wc_status,
        wq::{
            OpDesc,
            PostResources, //
        },
    },
    rdma::{
        dma::DataDirection,
        wr::{
            RemoteAddr,
            SendFlag,
            SendFlags,
            SendWr,
            WrOp, //
        },
    },
};

impl Endpoint {
    /// Posts an operation as the one work request that the device has for it.
    pub(super) fn post_native_atomic(
        &self,
        native: NativeAtomic,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
        (remote, len): (RemoteAddr, usize),
    ) -> Result {
        let operand = match native {
            NativeAtomic::Read => 0,
            _ => operands::read_operand_word(message.memory)?,
        };
        let compare = operands::read_operand_word(Memory::Segments(atomic.compare))?;
        let (op, limit) = match native {
            NativeAtomic::Read => (WrOp::Read(remote), self.attrs.read_iov_limit),
            NativeAtomic::FetchAdd => (WrOp::FetchAdd(remote, operand), 1),
            NativeAtomic::CmpSwap => (WrOp::CmpSwap(remote, compare, operand), 1),
        };
        let desc = OpDesc {
            context: message.context,
            flags: direction_flag(atomic.form) | FI_ATOMIC,
            len,
            report_policy: report_policy(message),
        };
        // Devices return the old value, wanted or not.
        let unwanted;
        let (memory, descriptors): (&[Segment], &[Descriptor]) = match atomic.form {
            Form::Fetch | Form::Compare => (atomic.result, atomic.result_descriptors),
            Form::Base => {
                // SAFETY: The buffer lives as long as the endpoint; several writers are harmless,
                // as it is never read.
                unwanted =
                    unsafe { Segment::new(self.discard_buf.0.as_ptr().cast(), super::WORD_SIZE) };
                (slice::from_ref(&unwanted), &[])
            }
        };
        // SAFETY: This is a data call, which does not lock the queue again before `finish`.
        let mut slot = unsafe { self.sq.reserve(&desc) }?;
        let mut flags = fence_flag(message.flags);
        if slot.is_signalled {
            flags |= SendFlag::Signaled;
        }
        let wr_id = slot.wr_id;
        let PostResources { qp, mappings, .. } = slot.resources();
        let mut list = SgeList::new(&self.pd, DataDirection::FromDevice, limit, mappings);
        let added = list.push_memory(Memory::Segments(memory), descriptors);
        let posted = added.and_then(|()| {
            let posted = match (op, list.sges()) {
                (WrOp::Read(_), sges) | (_, sges @ [_]) => {
                    let wr = SendWr::new(wr_id, sges, op, flags);
                    // SAFETY: The segments' types promise that the memory is the operation's until
                    // it completes; the slot keeps the mappings as long.
                    unsafe { qp.post_send(&wr) }.map_err(wc_status::post_errno)
                }
                _ => Err(Errno::EINVAL),
            };
            posted.inspect_err(|_| list.unmap_all())
        });
        slot.finish(&desc, posted)
    }

    /// Starts the operation as one that takes several work requests.
    pub(super) fn post_cas_atomic(
        &self,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
        target: (RemoteAddr, usize),
    ) -> Result {
        let Memory::Segments(operands) = message.memory else {
            return Err(Errno::EINVAL);
        };
        for (nth, segment) in atomic.result.iter().enumerate() {
            let descriptor = atomic.result_descriptors.get(nth).copied();
            check_descriptor(segment, descriptor.unwrap_or(Descriptor::NONE), &self.pd)?;
        }
        let completion = AtomicComp {
            context: message.context,
            flags: direction_flag(atomic.form) | FI_ATOMIC,
            is_reported: self.sq.is_reported(report_policy(message))?,
        };
        let start = || {
            self.sq.start_cas_atomic(
                atomic,
                operands,
                target,
                completion,
                fence_flag(message.flags),
            )
        };
        match start() {
            // A consumer that gets no completions may never read, so the device is polled here.
            Err(Errno::EAGAIN) => {
                if let Some(cq) = self.sq.cq_for_data_call() {
                    cq.progress_all();
                }
                start()
            }
            started => started,
        }
    }
}

/// Returns the flag for the direction that the completion reports.
fn direction_flag(form: Form) -> u64 {
    match form {
        Form::Base => FI_WRITE,
        Form::Fetch | Form::Compare => FI_READ,
    }
}

fn fence_flag(flags: u64) -> SendFlags {
    match flags & FI_FENCE {
        0 => SendFlags::default(),
        _ => SendFlag::Fence.into(),
    }
}
