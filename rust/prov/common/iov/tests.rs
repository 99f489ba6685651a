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
