// SPDX-License-Identifier: GPL-2.0

//! Posted operations, and how they are executed by the thread that processes the channel.

use super::{
    super::common::{
        iov::{
            DstBuf,
            SrcBuf, //
        },
        mr_table::{
            AccessKind,
            EpRights,
            MrTable,
            RmaIoc, //
        },
    },
    completion::CompInfo, //
};
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Datatype,
            Form,
            Op,
            Operands, //
        },
        memory::Context, //
    },
};

/// Most bytes of an atomic operation's operands, which are stored inline, as are the compare operands.
const MOST_ATOMIC: usize = 64;

/// Returns the most elements of an atomic operation.
pub(super) fn most_elements(datatype: Datatype) -> usize {
    datatype.count_in(MOST_ATOMIC)
}

/// Location of an operation's source bytes.
pub(super) enum Bytes {
    /// In the poster's memory, which stays unchanged until the operation completes.
    Lent(SrcBuf),
    /// Copied inline; the value is the number of bytes.
    Kept(usize),
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
    Nothing,
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
    /// An atomic operation, whose [`Operands`](Kept) are stored inline.
    Atomic {
        form: Form,
        op: Op,
        datatype: Datatype,
        target: RmaIoc,
        result: DstBuf,
    },
}

/// Inline storage for injected data, or for the operands and compare operands of an atomic operation.
pub(super) struct InlineData([u8; 2 * MOST_ATOMIC]);

/// Source data that the poster may reuse at once, and that is stored if the operation does not complete by
/// then.
pub(super) enum SourceData {
    /// No data.
    Nothing,
    /// The sent data.
    Injected,
    /// The operands, already stored.
    Operands(InlineData),
}

/// A posted operation.
pub(super) struct PostedOp {
    pub(super) work: OpKind,
    pub(super) report: CompInfo,
    kept: InlineData,
}

/// A posted receive.
pub(super) struct Receive {
    pub(super) into: DstBuf,
    pub(super) report: CompInfo,
    /// Address of the piece of a multi-receive buffer; 0 for a plain receive.
    pub(super) piece: usize,
    /// Set if the multi-receive buffer is released with this piece.
    pub(super) is_last: bool,
}

/// Reason of a failed operation.
pub(super) enum OpError {
    /// The message is this many bytes longer than the receive.
    TooLong(usize),
    /// The peer's memory region or rights do not permit it.
    Refused(Errno),
}

impl OpError {
    /// Returns whether the peer named memory that is not open to it.
    pub(super) fn is_violation(&self) -> bool {
        matches!(self, Self::Refused(Errno::EACCES))
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
    pub(super) is_signal: bool,
}

impl CompInfo {
    const NOBODY: Self = Self {
        context: Context::NULL,
        flags: 0,
        is_wanted: false,
        is_signal: false,
    };
}

impl Receive {
    /// Returns a receive for an unused slot.
    pub(super) fn idle() -> Self {
        Self {
            into: DstBuf::EMPTY,
            report: CompInfo::NOBODY,
            piece: 0,
            is_last: false,
        }
    }

    /// Returns the completion info, with FI_MULTI_RECV if the buffer is released.
    pub(super) fn whole_report(&self) -> CompInfo {
        let last = if self.is_last { FI_MULTI_RECV } else { 0 };
        CompInfo {
            flags: self.report.flags | last,
            ..self.report
        }
    }
}

impl OpKind {
    /// Returns whether the operation consumes one of the peer's receives.
    #[inline]
    pub(super) fn takes_receive(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { data: Some(_), .. })
    }

    /// Returns how many bytes the operation moves.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Send { from, .. } | Self::Write { from, .. } => from.len(),
            Self::Read { into, .. } => into.len(),
            Self::Atomic {
                target, datatype, ..
            } => target.count as usize * datatype.size(),
        }
    }
}

impl Bytes {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Lent(memory) => memory.len(),
            Self::Kept(len) => *len,
        }
    }

    /// Copies `len` bytes from offset `at` to the start of `to`; `kept` is the inline storage.
    #[inline]
    fn copy(&self, kept: &[u8], at: usize, len: usize, to: &DstBuf) {
        match self {
            Self::Lent(memory) => {
                memory.copy_range_to(at, len, to, 0);
            }
            Self::Kept(_) => {
                to.copy_from_slice(0, kept.get(at..at + len).unwrap_or(&[]));
            }
        }
    }
}

/// Reads the number of `size` bytes at offset `at`.
fn number_at(kept: &[u8], at: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    let found = kept.get(at..at + size).unwrap_or(&[]);
    for (to, from) in bytes.iter_mut().zip(found) {
        *to = *from;
    }
    let [a, b, c, d, ..] = bytes;
    match size {
        1 => u64::from(a),
        2 => u64::from(u16::from_ne_bytes([a, b])),
        4 => u64::from(u32::from_ne_bytes([a, b, c, d])),
        _ => u64::from_ne_bytes(bytes),
    }
}

/// Returns a number's bytes, of which the first `size` are valid.
fn bytes_of(number: u64, size: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    let mut put = |from: &[u8]| {
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
    };
    match size {
        1 => put(&[number as u8]),
        2 => put(&(number as u16).to_ne_bytes()),
        4 => put(&(number as u32).to_ne_bytes()),
        _ => put(&number.to_ne_bytes()),
    }
    bytes
}

impl InlineData {
    const NOTHING: Self = Self([0; 2 * MOST_ATOMIC]);

    /// Capacity in bytes.
    pub(super) const SIZE: usize = 2 * MOST_ATOMIC;

    /// Stores the operands of an atomic operation.
    pub(super) fn operands(operands: &SrcBuf, compare: &SrcBuf) -> Self {
        let mut kept = Self::NOTHING;
        let (first, second) = kept.0.split_at_mut(MOST_ATOMIC);
        operands.copy_to_slice(0, first);
        compare.copy_to_slice(0, second);
        kept
    }
}

impl PostedOp {
    /// Returns an operation for an unused slot.
    pub(super) fn idle() -> Self {
        Self {
            work: OpKind::Nothing,
            report: CompInfo::NOBODY,
            kept: InlineData::NOTHING,
        }
    }

    /// Fills the slot with an operation. With `is_now` it completes before the poster continues, and injected
    /// data is not copied.
    #[inline]
    pub(super) fn fill(&mut self, work: OpKind, report: CompInfo, loan: SourceData, is_now: bool) {
        self.work = work;
        self.report = report;
        match loan {
            SourceData::Nothing => {}
            SourceData::Injected if is_now => {}
            SourceData::Injected => self.keep(),
            SourceData::Operands(kept) => self.kept = kept,
        }
    }

    #[inline(never)]
    fn keep(&mut self) {
        if let OpKind::Send { from, .. } | OpKind::Write { from, .. } = &mut self.work {
            if let Bytes::Lent(memory) = from {
                *from = Bytes::Kept(memory.copy_to_slice(0, &mut self.kept.0));
            }
        }
    }

    /// Executes the operation, on the memory of a peer that has these regions and rights, and with the peer's
    /// `receive` if it consumes one.
    pub(super) fn execute(
        &self,
        (regions, rights): (&MrTable, EpRights),
        receive: Option<&Receive>,
    ) -> core::result::Result<RxCompletion, OpError> {
        let len = self.work.len();
        let arrival = |data: Option<u32>, is_write: bool| RxCompletion {
            len,
            data,
            is_write,
            is_signal: self.report.is_signal,
        };
        match &self.work {
            OpKind::Nothing => Ok(arrival(None, false)),
            OpKind::Send { from, data } => {
                let Some(receive) = receive else {
                    return Err(OpError::TooLong(len));
                };
                match len.checked_sub(receive.into.len()) {
                    None | Some(0) => {}
                    Some(dropped) => return Err(OpError::TooLong(dropped)),
                }
                from.copy(&self.kept.0, 0, len, &receive.into);
                Ok(arrival(*data, false))
            }
            OpKind::Write { from, to, data } => {
                visit(
                    (regions, rights),
                    *to,
                    len,
                    AccessKind::Write,
                    |part, before| {
                        // SAFETY: It is dropped here, while the region is visited and cannot be closed.
                        let into = unsafe { DstBuf::from_region(part) };
                        from.copy(&self.kept.0, before, part.len(), &into);
                    },
                )?;
                Ok(arrival(*data, true))
            }
            OpKind::Read { from, into } => {
                visit(
                    (regions, rights),
                    *from,
                    len,
                    AccessKind::Read,
                    |part, before| {
                        // SAFETY: As above.
                        let from = unsafe { SrcBuf::from_region(part) };
                        from.copy_range_to(0, part.len(), into, before);
                    },
                )?;
                Ok(arrival(None, false))
            }
            OpKind::Atomic { .. } => {
                self.change(regions, rights).map_err(OpError::Refused)?;
                Ok(arrival(None, false))
            }
        }
    }

    /// Executes an atomic operation.
    fn change(&self, regions: &MrTable, rights: EpRights) -> Result {
        let OpKind::Atomic {
            form,
            op,
            datatype,
            target,
            result,
            ..
        } = &self.work
        else {
            return Ok(());
        };
        // Each atomic operation but a read needs read and write access, as on devices, where it returns the
        // old value.
        let touch = match op {
            Op::Read => AccessKind::Read,
            _ => AccessKind::ReadWrite,
        };
        rights.check_atomic(touch)?;
        let size = datatype.size();
        regions.for_each_element([*target], *datatype, touch, |number, element| {
            let at = number * size;
            let mut given = Operands {
                old: 0,
                operand: number_at(&self.kept.0, at, size),
                compare: number_at(&self.kept.0, MOST_ATOMIC + at, size),
            };
            let old = element.update(|old| {
                given.old = old;
                op.apply(*datatype, given)
            });
            if *form != Form::Base {
                let bytes = bytes_of(old, size);
                result.copy_from_slice(at, bytes.get(..size).unwrap_or(&bytes));
            }
        })
    }
}

/// Calls `act` for each part of a peer's memory, if the peer's endpoint and the region permit the access. An access
/// of 0 bytes needs the endpoint's permission but no key, as on a device.
fn visit(
    (regions, rights): (&MrTable, EpRights),
    at: Remote,
    len: usize,
    touch: AccessKind,
    act: impl FnMut(&crate::fi::memory::Segment, usize),
) -> core::result::Result<(), OpError> {
    rights.check_rma(touch).map_err(OpError::Refused)?;
    if len == 0 {
        return Ok(());
    }
    let visit = regions.acquire(at.key, (at.addr, len), touch);
    visit.map_err(OpError::Refused)?.for_each_segment(act);
    Ok(())
}

#[kernel::prelude::kunit_tests(kofi_loop_order)]
mod tests {
    use super::*;

    /// Tests that a misaligned atomic operation, for example, is an error of the sender and no violation.
    #[test]
    fn mr_04_only_a_wrong_key_range_or_right_is_a_violation() {
        assert!(OpError::Refused(Errno::EACCES).is_violation());
        assert!(!OpError::Refused(Errno::EINVAL).is_violation());
        assert!(!OpError::Refused(Errno::EOPBADSTATE).is_violation());
        assert!(!OpError::TooLong(1).is_violation());
    }
}
