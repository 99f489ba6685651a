// SPDX-License-Identifier: GPL-2.0

//! Atomic operations of an endpoint: checks before posting, and a native work request, or the first
//! of a sequence of them. Posting runs in any context; nothing of it sleeps or allocates.
//!
//! The fast path takes operations on one word, whose old value goes into a registered region. It
//! leaves others to [`post_atomic`](Endpoint::post_atomic), before anything has been done.

use super::{
    super::{
        super::common::flags::{
            check_flags,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        cas_atomic::{
            operands,
            AtomicComp,
            MAX_OP_SIZE,
            WORD_SIZE, //
        },
        sge::{
            check_descriptor,
            SgeList,
            SingleSge, //
        },
        wq::PostResources, //
    },
    post::report_policy, //
};
use crate::{
    fi::atomic::{
        Atomic,
        Datatype,
        Form,
        Op, //
    },
    prov::verbs::prelude::*,
    rdma::device_attr::DeviceAttr, //
};

/// Atomic work request of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NativeAtomic {
    FetchAdd,
    CmpSwap,
    Read,
}

impl NativeAtomic {
    /// Returns the work request that performs an operation alone, if there is one. A read takes
    /// elements of any size, side by side; the others take one word. An atomic write is no RDMA
    /// write: that could fall between the read and the write of a concurrent sum.
    fn for_op(form: Form, op: Op, datatype: Datatype, count: usize) -> Option<Self> {
        match (form, op) {
            (Form::Fetch, Op::Read) => Some(Self::Read),
            _ if datatype.size() != WORD_SIZE || count != 1 => None,
            (Form::Base | Form::Fetch, Op::Sum) => Some(Self::FetchAdd),
            (Form::Compare, Op::Swap) => Some(Self::CmpSwap),
            _ => None,
        }
    }
}

/// Returns the maximum number of elements of one operation. Operations that the device lacks are
/// built from compare and swap.
///
/// # Errors
///
/// -FI_EOPNOTSUPP when the device has no atomic operations.
pub(in crate::prov::verbs) fn max_atomic_elements(
    attributes: &DeviceAttr,
    datatype: Datatype,
) -> Result<usize> {
    match attributes.has_atomics {
        true => Ok(datatype.count_in(MAX_OP_SIZE)),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns the errno of atomic operations, if an endpoint has none.
pub(super) fn atomics_errno(attributes: &DeviceAttr, info: &Info) -> Option<Errno> {
    if !attributes.has_atomics {
        Some(Errno::EOPNOTSUPP)
    } else if info.caps() & FI_ATOMIC == 0 {
        Some(Errno::ENOSYS)
    } else {
        None
    }
}

/// Flags of an atomic operation, which carries no immediate data.
const ATOMIC_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | COMPLETION_LEVELS;

impl Endpoint {
    /// Returns the maximum number of elements, for `fi_atomicvalid()` and its variants.
    pub(super) fn atomic_count_limit(&self, datatype: Datatype) -> Result<usize> {
        match self.attrs.atomics_errno {
            Some(errno) => Err(errno),
            None => max_atomic_elements(&self.pd.device().attributes, datatype),
        }
    }

    /// Posts an atomic operation, for `fi_atomic()` and its variants.
    pub(super) fn post_atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        let Atomic {
            form, op, datatype, ..
        } = *atomic;
        let most = self.atomic_count_limit(datatype)?;
        self.state.check_transmit()?;
        let refused = !ATOMIC_FLAGS | self.attrs.unsupported_flags;
        check_flags(message.flags, (TRANSMIT_FLAGS, refused))?;
        self.check_fence(message.flags)?;
        let (range, len) = atomic.check_target(message, most)?;
        let remote = RemoteAddr {
            addr: range.addr,
            rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
        };
        let counts = [
            message.memory.count(),
            atomic.compare.len(),
            atomic.result.len(),
        ];
        if counts.iter().any(|count| *count > self.attrs.tx_iov_limit) {
            return Err(Errno::EINVAL);
        }
        if message.flags & FI_INJECT != 0 && op != Op::Read && len > self.attrs.inject_size {
            return Err(Errno::EMSGSIZE);
        }
        match NativeAtomic::for_op(form, op, datatype, datatype.count_in(len)) {
            Some(native) => self.post_native_atomic(native, atomic, message, (remote, len)),
            None => self.post_cas_atomic(atomic, message, (remote, len)),
        }
    }

    /// Posts an operation as the one work request that the device has for it.
    fn post_native_atomic(
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
                unwanted = unsafe { Segment::new(self.discard_buf.0.as_ptr().cast(), WORD_SIZE) };
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
    fn post_cas_atomic(
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

    /// Posts a fetching operation that the device has. Returns None if the fast path cannot take
    /// it.
    #[inline(always)]
    pub(super) fn post_atomic_fast(
        &self,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
    ) -> Option<Result> {
        // On iWARP later operations would need a fence.
        let is_special = message.flags & self.attrs.slow_path_flags != 0;
        if is_special || self.attrs.atomics_errno.is_some() || self.attrs.is_iwarp {
            return None;
        }
        let native = NativeAtomic::for_op(atomic.form, atomic.op, atomic.datatype, 1)?;
        let ([range], [result], [descriptor], Memory::Segments(operands)) = (
            atomic.remote,
            atomic.result,
            atomic.result_descriptors,
            message.memory,
        ) else {
            return None;
        };
        if range.count != 1 || range.addr % WORD_SIZE as u64 != 0 {
            return None;
        }
        let remote = RemoteAddr {
            addr: range.addr,
            rkey: u32::try_from(range.key).ok()?,
        };
        let sge = SingleSge::from_segment(result, *descriptor, &self.pd)?;
        if sge.len() as usize != WORD_SIZE {
            return None;
        }
        let op = match native {
            NativeAtomic::Read => WrOp::Read(remote),
            NativeAtomic::FetchAdd => WrOp::FetchAdd(remote, operand_word(operands)?),
            NativeAtomic::CmpSwap => WrOp::CmpSwap(
                remote,
                operand_word(atomic.compare)?,
                operand_word(operands)?,
            ),
        };
        let flags = FI_READ | FI_ATOMIC;
        // SAFETY: This is a data call, which does not lock the queue again before `finish_fast`.
        let slot = unsafe {
            self.sq
                .reserve_fast::<false>(message.context, (flags, WORD_SIZE), OpKind::Reported)
        };
        let mut slot = slot?;
        let wr_id = slot.wr_id;
        let range = (sge.addr(false), sge.len());
        let send_flags = SendFlags::from(SendFlag::Signaled);
        // SAFETY: It is the send queue. The segment's type promises that the memory is the
        // operation's until it completes.
        let posted = unsafe { slot.send_template().post(wr_id, range, op, send_flags) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
    }
}

/// Returns the operand of an operation on one word.
fn operand_word(segments: &[Segment]) -> Option<u64> {
    match segments {
        [segment] if segment.len() == WORD_SIZE => operands::read_segment_word(segment).ok(),
        _ => None,
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
