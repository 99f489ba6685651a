// SPDX-License-Identifier: GPL-2.0

//! Operands and results of atomic operations: operands are copied while an operation is posted, and
//! the CPU stores results of compare-and-swap sequences.

use super::WORD_SIZE;
use crate::{
    prov::verbs::prelude::*,
    rdma::dma::VALID_ADDRS, //
};

/// Copies operands to the beginning of `to`, which may be longer.
///
/// # Errors
///
/// -FI_EINVAL for addresses outside the kernel's; -FI_EMSGSIZE for more bytes than `to` has.
pub(in crate::prov::verbs) fn copy_operands(from: &[Segment], to: &mut [u8]) -> Result {
    let mut rest = to;
    for segment in from.iter().filter(|segment| !segment.is_empty()) {
        let (space, left) = rest
            .split_at_mut_checked(segment.len())
            .ok_or(Errno::EMSGSIZE)?;
        if !VALID_ADDRS.contains(&segment.addr()) {
            return Err(Errno::EINVAL);
        }
        let from = segment.addr() as *const u8;
        // SAFETY: By the segment's invariant its memory is valid, and does not overlap `to`.
        unsafe { ptr::copy_nonoverlapping(from, space.as_mut_ptr(), space.len()) };
        rest = left;
    }
    Ok(())
}

/// Copies results to segments that have as many bytes altogether.
///
/// # Safety
///
/// The addresses and lengths in `to` are of writable memory that is not accessed otherwise.
pub(in crate::prov::verbs) unsafe fn store_results(mut from: &[u8], to: &[(usize, usize)]) {
    for (addr, len) in to {
        let Some((part, rest)) = from.split_at_checked(*len) else {
            return;
        };
        // SAFETY: By this function's safety requirement.
        unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), *addr as *mut u8, part.len()) };
        from = rest;
    }
}

/// Reads an operand of one word.
pub(in crate::prov::verbs) fn read_operand_word(memory: Memory<'_>) -> Result<u64> {
    let Memory::Segments(segments) = memory else {
        return Err(Errno::EINVAL);
    };
    let mut bytes = [0; 8];
    copy_operands(segments, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Reads the word of a segment of [`WORD_SIZE`] bytes.
///
/// # Errors
///
/// -FI_EINVAL for another size, or an address outside the kernel's.
#[inline(always)]
pub(in crate::prov::verbs) fn read_segment_word(segment: &Segment) -> Result<u64> {
    if segment.len() != WORD_SIZE || !VALID_ADDRS.contains(&segment.addr()) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the segment's invariant its memory is valid.
    Ok(unsafe { (segment.addr() as *const u64).read_unaligned() })
}
