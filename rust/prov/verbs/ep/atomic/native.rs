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
        sge::check_descriptor,
        wq::OpDesc, //
    },
    rdma::wr::{
        RemoteAddr,
        SendFlag,
        SendFlags,
        SendWr, //
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
            NativeAtomic::FetchAdd | NativeAtomic::CmpSwap => {
                operands::read_operand_word(message.memory)?
            }
        };
        let compare = operands::read_operand_word(Memory::Segments(atomic.compare))?;
        let op = OpDesc {
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
                    unsafe { Segment::new(self.discard_buf.as_ptr().cast(), super::WORD_SIZE) };
                (slice::from_ref(&unwanted), &[])
            }
        };
        let memory = (Memory::Segments(memory), descriptors);
        let limit = match native {
            NativeAtomic::Read => self.attrs.read_iov_limit,
            NativeAtomic::FetchAdd | NativeAtomic::CmpSwap => 1,
        };
        // SAFETY: This is a data call; the closure makes a work request, and locks nothing.
        unsafe {
            self.sq.post_fetch(
                &op,
                memory,
                (limit, fence_flag(message.flags)),
                |wr_id, sges, flags| {
                    let one = || sges.try_into().map_err(|_| Errno::EINVAL);
                    Ok(match native {
                        NativeAtomic::FetchAdd => {
                            SendWr::fetch_add(wr_id, one()?, remote, operand, flags)
                        }
                        NativeAtomic::CmpSwap => {
                            SendWr::cmp_swap(wr_id, one()?, remote, compare, operand, flags)
                        }
                        NativeAtomic::Read => SendWr::read(wr_id, sges, remote, flags),
                    })
                },
            )
        }
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
