// SPDX-License-Identifier: GPL-2.0

//! Division of an RMA operation into parts: each part has one remote range, and as much local memory as a work request
//! takes.

use crate::{
    abi::fi_rma_iov,
    fi::{
        memory::VectorEntry,
        prelude::*, //
    },
};

/// Maximum number of local segments of an RMA operation of a connected endpoint, whatever its `iov_limit` is.
pub(crate) const RMA_IOV_LIMIT: usize = 256;

/// Number of remote ranges of an RMA operation that a connected endpoint offers. Its info may ask for up to
/// [`RMA_IOV_LIMIT`].
pub(crate) const RMA_RANGE_LIMIT: usize = 16;

/// Position in the local and the remote memory of an RMA operation.
///
/// # Invariants
///
/// The rest of the remote ranges has `left` bytes, as many as the rest of the local memory. `ranges` is not empty.
#[derive(Clone, Copy)]
pub(crate) struct RmaCursor<'a> {
    /// Entries behind `entry`, with their descriptors.
    memory: Memory<'a>,
    descriptors: &'a [Descriptor],
    /// Rest of the current entry, if it has one.
    entry: Option<(VectorEntry, Descriptor)>,
    ranges: &'a [fi_rma_iov],
    /// Number of bytes of the first range that are done.
    done: usize,
    left: usize,
}

impl<'a> RmaCursor<'a> {
    /// Creates the cursor of an operation on the `len` bytes of `memory`. Descriptors that are missing are none.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL without a range, for more than `limit` of them, and if they do not have `len` bytes together;
    /// -FI_ENOKEY for a key above `max_key`.
    pub(crate) fn new(
        (memory, descriptors, len): (Memory<'a>, &'a [Descriptor], usize),
        ranges: &'a [fi_rma_iov],
        (limit, max_key): (usize, u64),
    ) -> Result<Self> {
        if ranges.is_empty() || ranges.len() > limit {
            return Err(Errno::EINVAL);
        }
        let mut total = 0usize;
        for range in ranges {
            total = total.checked_add(range.len).ok_or(Errno::EINVAL)?;
            if range.key > max_key {
                return Err(Errno::ENOKEY);
            }
        }
        if total != len {
            return Err(Errno::EINVAL);
        }
        // INVARIANT: The ranges have `len` bytes, as the memory has.
        Ok(Self {
            memory,
            descriptors,
            entry: None,
            ranges,
            done: 0,
            left: len,
        })
    }

    /// Returns whether all parts have been taken, of which an operation has at least one.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes the next part, and returns its remote range; the range is empty only in an operation without bytes.
    /// `push` is called for the local memory of the part, entry by entry, with the remote address, and returns how many
    /// bytes of the entry it has taken: the part ends before the others.
    ///
    /// # Errors
    ///
    /// The errors of `push`; the cursor has no valid position then.
    pub(crate) fn take_part(
        &mut self,
        mut push: impl FnMut(u64, &VectorEntry, Descriptor) -> Result<usize>,
    ) -> Result<fi_rma_iov> {
        let range = loop {
            match *self.ranges {
                [range, _, ..] if range.len == self.done => {
                    self.ranges = &self.ranges[1..];
                    self.done = 0;
                }
                [range, ..] => break range,
                [] => return Err(Errno::EINVAL),
            }
        };
        let start = self.done;
        while self.done < range.len {
            let Some((entry, descriptor)) = self.take_entry() else {
                break;
            };
            let part = entry.part(0, range.len - self.done);
            let addr = range.addr.wrapping_add(self.done as u64);
            let taken = push(addr, &part, descriptor)?.min(part.len());
            self.entry = Some((entry.part(taken, entry.len()), descriptor));
            self.done += taken;
            if taken < part.len() {
                break;
            }
        }
        let len = self.done - start;
        self.left -= len.min(self.left);
        Ok(fi_rma_iov {
            addr: range.addr.wrapping_add(start as u64),
            len,
            key: range.key,
        })
    }

    /// Takes the rest of the current entry, or the next entry that is not empty.
    fn take_entry(&mut self) -> Option<(VectorEntry, Descriptor)> {
        if let Some(current) = self.entry.take().filter(|(entry, _)| !entry.is_empty()) {
            return Some(current);
        }
        loop {
            let entry = self.memory.take_first()?;
            let descriptor = match self.descriptors.split_first() {
                Some((first, behind)) => {
                    self.descriptors = behind;
                    *first
                }
                None => Descriptor::NONE,
            };
            if !entry.is_empty() {
                return Some((entry, descriptor));
            }
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_rma_cursor)]
mod tests {
    use super::*;

    /// Returns the remote ranges of the parts of an operation on segments and ranges of these lengths, with at most
    /// `limit` pieces of local memory each. Ranges begin at multiples of 1000.
    fn parts(segments: &[usize], ranges: &[usize], limit: usize) -> Result<KVec<(u64, usize)>> {
        let (mut iov, mut remote) = (KVec::new(), KVec::new());
        for len in segments {
            iov.push(Segment::unused(*len), GFP_KERNEL)?;
        }
        for (at, len) in ranges.iter().enumerate() {
            let (addr, key) = (at as u64 * 1000, at as u64);
            let range = fi_rma_iov {
                addr,
                len: *len,
                key,
            };
            remote.push(range, GFP_KERNEL)?;
        }
        let memory = (Memory::Segments(&iov), &[][..], segments.iter().sum());
        let mut cursor = RmaCursor::new(memory, &remote, (RMA_RANGE_LIMIT, 15))?;
        let mut found = KVec::new();
        while found.is_empty() || !cursor.is_done() {
            let mut space = limit;
            let part = cursor.take_part(|_, entry, _| {
                let taken = if space > 0 { entry.len() } else { 0 };
                space = space.saturating_sub(1);
                Ok(taken)
            })?;
            found.push((part.addr, part.len), GFP_KERNEL)?;
        }
        Ok(found)
    }

    #[test]
    fn rma_03_parts_end_at_range_ends_and_at_the_piece_limit() -> Result {
        assert_eq!(*parts(&[10, 20], &[30], 2)?, [(0, 30)]);
        assert_eq!(*parts(&[10, 20], &[30], 1)?, [(0, 10), (10, 20)]);
        assert_eq!(*parts(&[30], &[7, 0, 23], 4)?, [(0, 7), (2000, 23)]);
        assert_eq!(*parts(&[0, 9, 0, 1], &[5, 5], 4)?, [(0, 5), (1000, 5)]);
        assert_eq!(
            *parts(&[3, 3, 3], &[4, 5], 1)?,
            [(0, 3), (3, 1), (1000, 2), (1002, 3)]
        );
        Ok(())
    }

    #[test]
    fn rma_03_operation_without_bytes_has_one_part() -> Result {
        assert_eq!(*parts(&[], &[0], 1)?, [(0, 0)]);
        assert_eq!(*parts(&[0, 0], &[0, 0, 0], 1)?, [(2000, 0)]);
        Ok(())
    }

    #[test]
    fn rma_03_ranges_of_another_length_are_refused() {
        let errno = |segments: &[usize], ranges: &[usize]| parts(segments, ranges, 1).err();
        assert_eq!(errno(&[4], &[]), Some(Errno::EINVAL));
        assert_eq!(errno(&[4], &[1, 2]), Some(Errno::EINVAL));
        assert_eq!(errno(&[4], &[3, 2]), Some(Errno::EINVAL));
        assert_eq!(errno(&[4], &[usize::MAX, 5]), Some(Errno::EINVAL));
        assert_eq!(errno(&[17], &[1; 17]), Some(Errno::EINVAL));
    }
}
