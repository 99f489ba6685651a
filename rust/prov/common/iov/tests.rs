// SPDX-License-Identifier: GPL-2.0

//! Tests of the copies between the memory of messages and packets.

use super::*;
use crate::{
    abi::Result,
    util::random::SeededRandom, //
};
use kernel::page::PAGE_SIZE;

#[kernel::prelude::kunit_tests(kofi_prov_iov)]
mod suite {
    use super::*;

    fn pattern(len: usize) -> Result<VVec<u8>> {
        let mut bytes = VVec::with_capacity(len, GFP_KERNEL)?;
        for at in 0..len {
            bytes.push((at * 7 + at / 251) as u8, GFP_KERNEL)?;
        }
        Ok(bytes)
    }

    /// Returns the segment at `at`, for a test that keeps the bytes longer than the objects made from it.
    fn segment(bytes: &mut [u8], at: usize, len: usize) -> Segment {
        let start = bytes.as_mut_ptr().wrapping_add(at);
        // SAFETY: The bytes of a test outlive the objects made from them.
        unsafe { Segment::new(start.cast(), len) }
    }

    fn outgoing(parts: &[Segment]) -> Result<SrcBuf> {
        // SAFETY: The bytes of a test outlive the objects made from them.
        unsafe { SrcBuf::new(Memory::Segments(parts)) }
    }

    fn incoming(parts: &[Segment]) -> Result<DstBuf> {
        // SAFETY: As in `outgoing`; nothing else writes to the bytes until the test has checked them.
        unsafe { DstBuf::new(Memory::Segments(parts)) }
    }

    #[test]
    fn copy_out_and_copy_in_round_trip() -> Result {
        const LEN: usize = 4 * PAGE_SIZE;
        let mut random = SeededRandom::new(1);
        let mut bytes = pattern(LEN)?;
        let model = pattern(LEN)?;
        let mut packet = VVec::from_elem(0, LEN, GFP_KERNEL)?;
        let mut back = VVec::from_elem(0, LEN, GFP_KERNEL)?;
        for _ in 0..300 {
            // Four parts that follow each other with gaps between them, some of them empty.
            let mut lens = [0; MAX_IOV];
            for len in &mut lens {
                *len = random.next_below(3).min(1) as usize
                    * random.next_below(PAGE_SIZE as u64) as usize;
            }
            let mut at = random.next_below(9) as usize;
            let mut expected = VVec::with_capacity(LEN, GFP_KERNEL)?;
            let mut starts = [0; MAX_IOV];
            for (start, len) in starts.iter_mut().zip(lens) {
                *start = at;
                expected.extend_from_slice(&model[at..at + len], GFP_KERNEL)?;
                at = (at + len + random.next_below(5) as usize).min(LEN - PAGE_SIZE);
            }
            let parts: [Segment; MAX_IOV] =
                core::array::from_fn(|at| segment(&mut bytes, starts[at], lens[at]));
            let outgoing = outgoing(&parts)?;
            assert_eq!(outgoing.len(), expected.len());
            let from = random.next_below(expected.len() as u64 + 2) as usize;
            let len = random.next_below(LEN as u64) as usize;
            let copied = outgoing.copy_to_slice(from, &mut packet[..len]);
            let expected_part = expected.get(from..).unwrap_or(&[]);
            let expected_part = &expected_part[..expected_part.len().min(len)];
            assert!(packet[..copied] == *expected_part);
            back.fill(0xee);
            let parts = core::array::from_fn::<_, MAX_IOV, _>(|at| {
                segment(&mut back, starts[at], lens[at])
            });
            let incoming = incoming(&parts)?;
            assert_eq!(incoming.len(), expected.len());
            assert_eq!(incoming.copy_from_slice(from, &packet[..copied]), copied);
            let mut left = expected.len();
            let mut at = 0;
            for (start, len) in starts.into_iter().zip(lens) {
                for (written, original) in back[start..start + len].iter().zip(&model[start..]) {
                    let is_copied = (from..from + copied).contains(&at);
                    assert!(*written == if is_copied { *original } else { 0xee });
                    at += 1;
                    left -= 1;
                }
            }
            assert_eq!(left, 0);
        }
        Ok(())
    }

    /// Number of segments that an entry has no space for.
    const MANY: usize = 40;

    /// Number of bytes of as many segments, at most.
    const LONG: usize = MANY * 70;

    /// Buffers of a test of long vectors.
    struct LongTest {
        random: SeededRandom,
        /// Bytes of the source.
        model: VVec<u8>,
        targets: VVec<u8>,
        packet: VVec<u8>,
    }

    impl LongTest {
        /// Copies a source of `total` bytes at `base` to packets and to a target.
        fn copy<V: Vector>(
            &mut self,
            from: &SrcIov<V>,
            (base, total): (usize, usize),
            to: &DstBuf,
        ) -> Result {
            let Self { model, packet, .. } = self;
            let model = &model[..total];
            assert!(from.len() == total && to.len() == total);
            let start = self.random.next_below(total as u64 + 2) as usize;
            let len = self.random.next_below(LONG as u64) as usize;
            let copied = from.copy_to_slice(start, &mut packet[..len]);
            assert_eq!(copied, total.saturating_sub(start).min(len));
            assert!(packet[..copied] == model[start.min(total)..][..copied]);
            // SAFETY: The result is not posted.
            let first = unsafe { from.0.first_contiguous(start, len) }?;
            assert!(first.is_none() == (copied == 0));
            assert!(first.is_none_or(|first| first.addr() == base + start && first.len() <= copied));
            self.targets.fill(0xee);
            assert_eq!(from.copy_to(to), total);
            assert!(self.targets[..total] == *model);
            assert!(self.targets[total..].iter().all(|&byte| byte == 0xee));
            self.targets.fill(0xee);
            assert_eq!(to.copy_from_slice(start, &packet[..copied]), copied);
            assert!(self.targets[start.min(total)..][..copied] == packet[..copied]);
            Ok(())
        }
    }

    #[test]
    fn long_vectors_are_copied_as_others() -> Result {
        let mut sources = pattern(LONG)?;
        let mut test = LongTest {
            random: SeededRandom::new(1),
            model: pattern(LONG)?,
            targets: VVec::from_elem(0, LONG, GFP_KERNEL)?,
            packet: VVec::from_elem(0, LONG, GFP_KERNEL)?,
        };
        let mut block = IovBlock::new(7, 3, MANY)?;
        for round in 0..300 {
            let (mut from, mut into) = (KVec::new(), KVec::new());
            let mut total = 0;
            for _ in 0..MANY {
                let random = &mut test.random;
                let len = random.next_below(70) as usize * random.next_below(3).min(1) as usize;
                from.push(segment(&mut sources, total, len), GFP_KERNEL)?;
                total += len;
            }
            // The targets have other boundaries, and as many bytes.
            let count = if round % 3 == 0 { 2 } else { MANY };
            let mut at = 0;
            for index in 0..count {
                let end = total * (index + 1) / count;
                into.push(segment(&mut test.targets, at, end - at), GFP_KERNEL)?;
                at = end;
            }
            let (from, into) = (Memory::Segments(&from), Memory::Segments(&into));
            let base = (sources.as_ptr() as usize, total);
            // SAFETY: As in `outgoing`.
            let too_long = unsafe { PostedSrc::borrow(from, AddrCheck::Device, MANY - 1) };
            assert!(matches!(too_long, Err(Errno::EINVAL)));
            // SAFETY: As above.
            let borrowed = unsafe { PostedSrc::borrow(from, AddrCheck::Device, MANY) }?;
            // SAFETY: As above.
            let targets = unsafe { PostedDst::borrow(into, AddrCheck::Device, MANY) }?;
            assert!(targets.is_long() == (count > MAX_IOV));
            // SAFETY: What the slot had in an earlier round has been dropped.
            let targets = targets.into_entry(|| unsafe { block.slot(7 + round % 2) });
            test.copy(&borrowed, base, &targets)?;
            // SAFETY: As above.
            let from = borrowed.into_entry(|| unsafe { block.slot(9) });
            assert!(from.0.is_long());
            test.copy(&from, base, &targets)?;
        }
        Ok(())
    }

    #[test]
    fn vectors_beyond_a_slot_leave_no_memory() -> Result {
        let mut bytes = VVec::from_elem(0, MANY, GFP_KERNEL)?;
        let mut parts = KVec::new();
        for at in 0..MANY {
            parts.push(segment(&mut bytes, at, 1), GFP_KERNEL)?;
        }
        let memory = Memory::Segments(&parts);
        let mut short = IovBlock::new(0, 2, MANY - 1)?;
        let mut none = IovBlock::new(0, 1000, MAX_IOV)?;
        let mut long = IovBlock::new(1, 2, MANY)?;
        // Returns how many bytes a receive takes whose vector is stored in a slot.
        let taken = |block: &mut IovBlock, number| -> Result<usize> {
            // SAFETY: As in `outgoing`.
            let incoming = unsafe { PostedDst::borrow(memory, AddrCheck::Device, MANY) }?;
            // SAFETY: What the slot had before has been dropped.
            let incoming = incoming.into_entry(|| unsafe { block.slot(number) });
            let copied = incoming.copy_from_slice(0, &[1; MANY]);
            assert_eq!(incoming.len(), copied);
            Ok(copied)
        };
        assert_eq!((taken(&mut short, 1)?, taken(&mut none, 0)?), (0, 0));
        assert_eq!((taken(&mut long, 0)?, taken(&mut long, 3)?), (0, 0));
        assert_eq!((taken(&mut long, 1)?, taken(&mut long, 2)?), (MANY, MANY));
        Ok(())
    }

    #[test]
    fn copy_in_stops_at_the_end_of_the_segments() -> Result {
        let mut bytes = VVec::from_elem(0, 16, GFP_KERNEL)?;
        let parts = [segment(&mut bytes, 2, 3), segment(&mut bytes, 9, 2)];
        let incoming = incoming(&parts)?;
        assert_eq!(incoming.copy_from_slice(0, &[1; 16]), 5);
        assert_eq!(*bytes, [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(incoming.copy_from_slice(4, &[2; 16]), 1);
        assert_eq!(incoming.copy_from_slice(5, &[3; 16]), 0);
        assert_eq!(incoming.copy_from_slice(usize::MAX, &[3; 16]), 0);
        assert_eq!(*bytes, [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
        Ok(())
    }

    #[test]
    fn invalid_segments_are_rejected() -> Result {
        let mut bytes = VVec::from_elem(0, PAGE_SIZE, GFP_KERNEL)?;
        let mut local = [0; 8];
        let invalid = [
            segment(&mut local, 0, 8),
            segment(&mut bytes, 0, usize::MAX),
            segment(&mut bytes, 0, usize::MAX / 2),
            // SAFETY: The memory is not accessed.
            unsafe { Segment::new(ptr::null_mut(), 8) },
        ];
        for segment in invalid {
            assert!(incoming(core::slice::from_ref(&segment)).is_err());
            assert!(outgoing(core::slice::from_ref(&segment)).is_err());
        }
        let many: [Segment; MAX_IOV + 1] = core::array::from_fn(|at| segment(&mut bytes, at, 1));
        assert!(outgoing(&many).is_err());
        assert!(outgoing(&many[1..]).is_ok());
        // An empty segment may have any address.
        let empty = segment(&mut bytes, 1 << 62, 0);
        let empty = incoming(&[empty])?;
        assert_eq!((empty.len(), empty.copy_from_slice(0, &[1])), (0, 0));
        Ok(())
    }
}
