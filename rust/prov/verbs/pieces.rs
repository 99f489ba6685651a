// SPDX-License-Identifier: GPL-2.0

//! Pieces of a message's memory, each of which takes one scatter/gather element of a work request.

use super::{
    mr::VerbsMr,
    prelude::*,
    sge::{
        kernel_addr,
        phys_range, //
    },
};
use crate::{
    fi::memory::{
        Start,
        VectorEntry, //
    },
    rdma::dma::{
        PhysRange,
        PhysRanges, //
    },
};
use kernel::page::PAGE_SIZE;

/// Part of a message's memory that takes one scatter/gather element.
pub(super) enum Piece {
    /// DMA address and length in a registered region.
    Registered(u64, usize),
    /// Memory to be mapped for the operation.
    Unmapped(PhysRange),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Registered(_, len) => *len,
            Self::Unmapped(range) => range.len(),
        }
    }
}

/// Calls `visit` for each piece of `part`, a non-empty part of a message's memory, for a queue pair in `pd`.
///
/// # Errors
///
/// -FI_EINVAL for memory that devices may not access, that is outside of its region, or whose region is not in `pd`;
/// the errors of `visit`.
#[inline]
pub(super) fn for_each_piece(
    pd: &Pd,
    part: &VectorEntry,
    descriptor: Descriptor,
    mut visit: impl FnMut(Piece) -> Result,
) -> Result {
    match VerbsMr::from_descriptor(descriptor) {
        Some(region) if region.is_in_pd(pd) => {
            region.translate(kernel_addr(part)?, part.len(), |addr, len| {
                visit(Piece::Registered(addr, len))
            })
        }
        Some(_) => Err(Errno::EINVAL),
        None => match part.start() {
            Start::Address(addr) => {
                for range in PhysRanges::new(addr, part.len())? {
                    visit(Piece::Unmapped(range?))?;
                }
                Ok(())
            }
            Start::Page(..) => visit(Piece::Unmapped(phys_range(part)?)),
        },
    }
}

/// Returns the number of bytes in the first `space` pieces of `part`, a non-empty part of a message's memory. Subtracts
/// the number of these pieces from `space`.
///
/// # Errors
///
/// The errors of [`for_each_piece`].
pub(super) fn measure_pieces(
    pd: &Pd,
    part: &VectorEntry,
    descriptor: Descriptor,
    space: &mut usize,
) -> Result<usize> {
    take_pieces(pd, part, descriptor, space, |_| Ok(()))
}

/// Passes the first `space` pieces of `part` to `push`, with the results of [`measure_pieces`].
///
/// # Errors
///
/// The errors of [`for_each_piece`] and of `push`.
pub(super) fn take_pieces(
    pd: &Pd,
    part: &VectorEntry,
    descriptor: Descriptor,
    space: &mut usize,
    mut push: impl FnMut(Piece) -> Result,
) -> Result<usize> {
    let (mut bytes, mut is_full) = (0, false);
    let taken = for_each_piece(pd, part, descriptor, |piece| {
        is_full = *space == 0;
        *space = space.checked_sub(1).ok_or(Errno::EINVAL)?;
        let len = piece.len();
        push(piece)?;
        bytes += len;
        Ok(())
    });
    match taken {
        Err(errno) if !is_full => Err(errno),
        _ => Ok(bytes),
    }
}

/// Returns whether a message's memory of `len` bytes takes more than `limit` scatter/gather elements.
///
/// # Errors
///
/// The errors of [`measure_pieces`].
pub(super) fn exceeds_sges(
    pd: &Pd,
    (memory, descriptors, len): (Memory<'_>, &[Descriptor], usize),
    limit: usize,
) -> Result<bool> {
    let for_each = |visit: &mut dyn FnMut(&VectorEntry, Descriptor) -> Result| {
        let mut descriptors = descriptors.iter();
        memory.for_each(|part| {
            let descriptor = descriptors.next().copied().unwrap_or(Descriptor::NONE);
            match part.is_empty() {
                true => Ok(()),
                false => visit(&part, descriptor),
            }
        })
    };
    // An upper bound of the number of pieces. Nearly always it is within the limit. Then addresses are translated only
    // once: when the elements are written.
    let mut bound = 0;
    for_each(&mut |part, descriptor| {
        bound += match VerbsMr::from_descriptor(descriptor) {
            Some(region) => region.span_count(),
            None => part.len() / PAGE_SIZE + 2,
        };
        Ok(())
    })?;
    if bound <= limit {
        return Ok(false);
    }
    let (mut space, mut left) = (limit, len);
    for_each(&mut |part, descriptor| {
        left -= measure_pieces(pd, part, descriptor, &mut space)?;
        Ok(())
    })?;
    Ok(left > 0)
}
