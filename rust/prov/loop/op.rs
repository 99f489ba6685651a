// SPDX-License-Identifier: GPL-2.0

//! Posted operations, and how they are executed by the thread that processes the channel.

use super::{
    super::common::mr_table::{
        AccessKind,
        RmaIoc, //
    },
    prelude::*, //
};
use crate::fi::atomic::{
    load_element,
    store_element,
    Operands, //
};

/// Most bytes of an atomic operation's operands, which are stored inline, as are the compare operands.
const MAX_ATOMIC_BYTES: usize = 64;

/// Returns the most elements of an atomic operation.
pub(super) fn max_elements(datatype: Datatype) -> usize {
    datatype.count_in(MAX_ATOMIC_BYTES)
}

/// Location of an operation's source bytes.
pub(super) enum Bytes {
    /// In the poster's memory, which stays unchanged until the operation completes.
    Borrowed(SrcBuf),
    /// Copied inline; the value is the number of bytes.
    Inline(usize),
}

/// A remote memory address.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub(super) addr: u64,
    pub(super) key: u64,
}

/// The kind of an operation, with its parameters.
pub(super) enum OpKind {
    /// An unused slot.
    Unused,
    /// A message.
    Send { from: Bytes, data: Option<u32> },
    /// A write to the peer's memory.
    Write {
        from: Bytes,
        to: Remote,
        data: Option<u32>,
    },
    /// A read from the peer's memory.
    Read { from: Remote, into: DstBuf },
    /// An atomic operation, whose [`Operands`](InlineData) are stored inline.
    Atomic(AtomicOp),
}

/// An atomic operation.
pub(super) struct AtomicOp {
    pub(super) form: Form,
    pub(super) op: Op,
    pub(super) datatype: Datatype,
    pub(super) target: RmaIoc,
    pub(super) result: DstBuf,
}

/// Inline storage for injected data, or for the operands and compare operands of an atomic operation.
pub(super) struct InlineData([u8; 2 * MAX_ATOMIC_BYTES]);

/// Source data that the poster may reuse at once, and that is stored if the operation does not complete by
/// then.
pub(super) enum SourceData {
    /// No data.
    Empty,
    /// The sent data.
    Injected,
    /// The operands, already stored.
    Operands(InlineData),
}

/// A posted operation.
pub(super) struct PostedOp {
    pub(super) kind: OpKind,
    pub(super) info: CompInfo,
    inline_data: InlineData,
}

/// A posted receive.
pub(super) struct Receive {
    pub(super) dst: DstBuf,
    pub(super) info: CompInfo,
    /// Address of the piece of a multi-receive buffer, whose last piece has FI_MULTI_RECV in `info`; 0 for a plain
    /// receive.
    pub(super) piece_addr: usize,
}

/// Reason of a failed operation.
pub(super) enum OpError {
    /// The message is this many bytes longer than the receive.
    Truncated(usize),
    /// The peer's memory region or rights do not permit it.
    Rejected(Errno),
}

impl OpError {
    /// Returns whether the peer named memory that is not open to it.
    pub(super) fn is_violation(&self) -> bool {
        matches!(self, Self::Rejected(Errno::EACCES))
    }
}

/// Attributes of an operation for the completion of the receive that it took.
#[derive(Clone, Copy)]
pub(super) struct RxCompletion {
    pub(super) len: usize,
    pub(super) data: Option<u32>,
    /// Set for a write with remote CQ data instead of a message.
    pub(super) is_write: bool,
    /// Set if the sender passed FI_REMOTE_SIGNAL.
    pub(super) remote_signal: bool,
}

impl CompInfo {
    const EMPTY: Self = Self {
        context: Context::NULL,
        flags: 0,
        reports_success: false,
        remote_signal: false,
        later_parts: 0,
    };
}

impl Receive {
    /// Returns a receive for an unused slot.
    pub(super) fn unused() -> Self {
        Self {
            dst: DstBuf::EMPTY,
            info: CompInfo::EMPTY,
            piece_addr: 0,
        }
    }
}

impl OpKind {
    /// Returns whether the operation consumes one of the peer's receives.
    #[inline]
    pub(super) fn consumes_receive(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { data: Some(_), .. })
    }

    /// Returns how many bytes the operation moves.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Unused => 0,
            Self::Send { from, .. } | Self::Write { from, .. } => from.len(),
            Self::Read { into, .. } => into.len(),
            Self::Atomic(atomic) => atomic.target.count as usize * atomic.datatype.size(),
        }
    }
}

impl Bytes {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Borrowed(memory) => memory.len(),
            Self::Inline(len) => *len,
        }
    }

    /// Copies `len` bytes from offset `at` to the start of `to`; `inline_data` is the inline storage.
    #[inline]
    fn copy_to(&self, inline_data: &[u8], at: usize, len: usize, to: &DstBuf) {
        match self {
            Self::Borrowed(memory) => {
                memory.copy_range_to(at, len, to, 0);
            }
            Self::Inline(_) => {
                to.copy_from_slice(0, inline_data.get(at..at + len).unwrap_or(&[]));
            }
        }
    }
}

impl InlineData {
    const ZEROED: Self = Self([0; 2 * MAX_ATOMIC_BYTES]);

    /// Capacity in bytes.
    pub(super) const SIZE: usize = 2 * MAX_ATOMIC_BYTES;

    /// Stores the operands of an atomic operation.
    pub(super) fn from_operands(operands: &SrcBuf, compare: &SrcBuf) -> Self {
        let mut inline_data = Self::ZEROED;
        let (first, second) = inline_data.0.split_at_mut(MAX_ATOMIC_BYTES);
        operands.copy_to_slice(0, first);
        compare.copy_to_slice(0, second);
        inline_data
    }
}

impl PostedOp {
    /// Returns an operation for an unused slot.
    pub(super) fn unused() -> Self {
        Self {
            kind: OpKind::Unused,
            info: CompInfo::EMPTY,
            inline_data: InlineData::ZEROED,
        }
    }

    /// Fills the slot with an operation. With `is_now` it completes before the poster continues, and injected
    /// data is not copied.
    #[inline]
    pub(super) fn init(
        &mut self,
        kind: OpKind,
        info: CompInfo,
        source_data: SourceData,
        is_now: bool,
    ) {
        self.kind = kind;
        self.info = info;
        match source_data {
            SourceData::Empty => {}
            SourceData::Injected if is_now => {}
            SourceData::Injected => self.copy_inline(),
            SourceData::Operands(inline_data) => self.inline_data = inline_data,
        }
    }

    #[inline(never)]
    fn copy_inline(&mut self) {
        if let OpKind::Send { from, .. } | OpKind::Write { from, .. } = &mut self.kind {
            if let Bytes::Borrowed(memory) = from {
                *from = Bytes::Inline(memory.copy_to_slice(0, &mut self.inline_data.0));
            }
        }
    }

    /// Executes the operation, on the memory of a peer that has these regions and rights, and with the peer's
    /// `receive` if it consumes one.
    pub(super) fn execute(
        &self,
        (mr_table, rights): (&MrTable, EpRights),
        receive: Option<&Receive>,
    ) -> core::result::Result<RxCompletion, OpError> {
        let len = self.kind.len();
        let (data, is_write) = match &self.kind {
            OpKind::Unused => (None, false),
            OpKind::Send { from, data } => {
                let Some(receive) = receive else {
                    return Err(OpError::Truncated(len));
                };
                match len.checked_sub(receive.dst.len()) {
                    None | Some(0) => {}
                    Some(dropped) => return Err(OpError::Truncated(dropped)),
                }
                from.copy_to(&self.inline_data.0, 0, len, &receive.dst);
                (*data, false)
            }
            OpKind::Write { from, to, data } => {
                let write = |part: &Segment, before| {
                    // SAFETY: It is dropped here, while the region is visited and cannot be closed.
                    let into = unsafe { DstBuf::from_region(part) };
                    from.copy_to(&self.inline_data.0, before, part.len(), &into);
                };
                for_each_part((mr_table, rights), *to, len, AccessKind::Write, write)?;
                (*data, true)
            }
            OpKind::Read { from, into } => {
                let read = |part: &Segment, before| {
                    // SAFETY: As above.
                    let from = unsafe { SrcBuf::from_region(part) };
                    from.copy_range_to(0, part.len(), into, before);
                };
                for_each_part((mr_table, rights), *from, len, AccessKind::Read, read)?;
                (None, false)
            }
            OpKind::Atomic(atomic) => {
                let done = atomic.execute(&self.inline_data, mr_table, rights);
                done.map_err(OpError::Rejected)?;
                (None, false)
            }
        };
        Ok(RxCompletion {
            len,
            data,
            is_write,
            remote_signal: self.info.remote_signal,
        })
    }
}

impl AtomicOp {
    /// Executes the operation.
    fn execute(&self, inline_data: &InlineData, mr_table: &MrTable, rights: EpRights) -> Result {
        let (op, datatype, size) = (self.op, self.datatype, self.datatype.size());
        // Each atomic operation but a read needs read and write access, as on devices, where it returns the
        // old value.
        let access = match op {
            Op::Read => AccessKind::Read,
            _ => AccessKind::ReadWrite,
        };
        rights.check_atomic(access)?;
        let load = |at: usize| inline_data.0.get(at..at + size).map_or(0, load_element);
        mr_table.for_each_element([self.target], datatype, access, |number, element| {
            let at = number * size;
            let mut given = Operands {
                old: 0,
                operand: load(at),
                compare: load(MAX_ATOMIC_BYTES + at),
            };
            let old = element.update(|old| {
                given.old = old;
                op.apply(datatype, given)
            });
            if self.form != Form::Base {
                let mut bytes = [0; 8];
                let bytes = bytes.get_mut(..size).unwrap_or_default();
                store_element(bytes, old);
                self.result.copy_from_slice(at, bytes);
            }
        })
    }
}

/// Calls `act` for each part of a peer's memory, if the peer's endpoint and the region permit the access. An access
/// of 0 bytes needs the endpoint's permission but no key, as on a device.
fn for_each_part(
    (mr_table, rights): (&MrTable, EpRights),
    at: Remote,
    len: usize,
    access: AccessKind,
    act: impl FnMut(&Segment, usize),
) -> core::result::Result<(), OpError> {
    rights.check_rma(access).map_err(OpError::Rejected)?;
    if len == 0 {
        return Ok(());
    }
    let visit = mr_table.acquire(at.key, (at.addr, len), access);
    visit.map_err(OpError::Rejected)?.for_each_segment(act);
    Ok(())
}

#[kernel::prelude::kunit_tests(kofi_loop_op)]
mod tests {
    use super::*;

    /// Tests that a misaligned atomic operation, for example, is an error of the sender and no violation.
    #[test]
    fn mr_04_access_errors_only_are_violations() {
        assert!(OpError::Rejected(Errno::EACCES).is_violation());
        assert!(!OpError::Rejected(Errno::EINVAL).is_violation());
        assert!(!OpError::Rejected(Errno::EOPBADSTATE).is_violation());
        assert!(!OpError::Truncated(1).is_violation());
    }
}
