// SPDX-License-Identifier: GPL-2.0

//! Tests of the accesses to regions and of the rights of endpoints.

use super::*;
use crate::abi::{
    fi_datatype,
    flags::*,
    FI_INT16,
    FI_UINT64,
    FI_UINT8, //
};

#[kunit_tests(kofi_prov_mr)]
mod suite {
    use super::*;

    const KEY: u64 = 77;

    /// A region of two segments, of eight and of four words, which peers address from `base`.
    struct Fixture {
        regions: Arc<MrTable>,
        words: KBox<[u64; 16]>,
        registration: Option<MrRegistration>,
        base: u64,
    }

    impl Fixture {
        fn new(access: u64, addressing: Addressing) -> Result<Self> {
            let mut words = KBox::new([0u64; 16], GFP_KERNEL)?;
            let regions = MrTable::new()?;
            let start = words.as_mut_ptr();
            // SAFETY: The words live as long as the registration.
            let memory = unsafe {
                [
                    Segment::new(start.cast(), 64),
                    Segment::new(start.add(10).cast(), 32),
                ]
            };
            let access = Access::from_bits(access)?;
            let registration = regions.register(KEY, &memory, access, addressing)?;
            Ok(Self {
                regions,
                base: addressing.base(&memory),
                words,
                registration: Some(registration),
            })
        }

        fn add(&self, at: u64, count: u64, key: u64, raw: fi_datatype) -> Result<usize> {
            let addr = self.base.wrapping_add(at);
            let targets = [RmaIoc { addr, count, key }];
            let mut done = 0;
            let datatype = Datatype::from_raw(raw)?;
            self.regions.for_each_element(
                targets,
                datatype,
                AccessKind::ReadWrite,
                |_, element| {
                    element.update(|old| old + 1);
                    done += 1;
                },
            )?;
            Ok(done)
        }
    }

    const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

    #[test]
    fn elements_resolve_within_the_registered_segments_only() -> Result {
        for addressing in [Addressing::Virtual, Addressing::Offset] {
            let fixture = Fixture::new(BOTH, addressing)?;
            assert_eq!(fixture.add(0, 12, KEY, FI_UINT64), Ok(12));
            assert_eq!(fixture.add(56, 2, KEY, FI_UINT64), Ok(2));
            for (at, count) in [
                (0, 13),
                (96, 1),
                (0u64.wrapping_sub(8), 1),
                (0, u64::MAX),
                (8, u64::MAX / 8),
            ] {
                assert_eq!(fixture.add(at, count, KEY, FI_UINT64), Err(Errno::EACCES));
            }
            assert_eq!(fixture.add(0, 1, KEY + 1, FI_UINT64), Err(Errno::EACCES));
            let expected = [1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 2, 1, 1, 1, 0, 0];
            assert_eq!(*fixture.words, expected);
        }
        Ok(())
    }

    #[test]
    fn misaligned_elements_are_rejected_without_an_update() -> Result {
        let fixture = Fixture::new(BOTH, Addressing::Virtual)?;
        assert_eq!(fixture.add(1, 1, KEY, FI_INT16), Err(Errno::EINVAL));
        assert_eq!(fixture.add(4, 1, KEY, FI_UINT64), Err(Errno::EINVAL));
        assert_eq!(*fixture.words, [0; 16]);
        assert_eq!(fixture.add(1, 1, KEY, FI_UINT8), Ok(1));
        assert_eq!(fixture.add(6, 1, KEY, FI_INT16), Ok(1));
        assert_eq!(fixture.words[0], 1 << 8 | 1 << 48);
        Ok(())
    }

    #[test]
    fn update_keeps_the_adjacent_bytes() -> Result {
        let mut fixture = Fixture::new(BOTH, Addressing::Offset)?;
        fixture.words[3] = u64::MAX;
        assert_eq!(fixture.add(24 + 2, 1, KEY, FI_INT16), Ok(1));
        assert_eq!(fixture.words[3], !(0xffff << 16));
        Ok(())
    }

    #[test]
    fn access_rights_are_enforced() -> Result {
        let datatype = Datatype::from_raw(FI_UINT64)?;
        for (access, allowed) in [
            (FI_REMOTE_READ, [true, false, false]),
            (FI_REMOTE_WRITE, [false, true, false]),
            (BOTH, [true, true, true]),
        ] {
            let fixture = Fixture::new(access, Addressing::Offset)?;
            let targets = [RmaIoc {
                addr: 0,
                count: 1,
                key: KEY,
            }];
            for (access_kind, is_allowed) in
                [AccessKind::Read, AccessKind::Write, AccessKind::ReadWrite]
                    .into_iter()
                    .zip(allowed)
            {
                let done =
                    fixture
                        .regions
                        .for_each_element(targets, datatype, access_kind, |_, _| {});
                assert_eq!(done.is_ok(), is_allowed);
            }
        }
        Ok(())
    }

    #[test]
    fn rdm_10_capabilities_set_the_endpoint_rights() {
        let both = FI_REMOTE_READ | FI_REMOTE_WRITE;
        for bits in 0..32u64 {
            let kinds = [FI_MSG, FI_RMA, FI_ATOMIC, FI_REMOTE_READ, FI_REMOTE_WRITE];
            let chosen = kinds.iter().enumerate();
            let caps = chosen.fold(0, |caps, (at, kind)| caps | (kind * (bits >> at & 1)));
            let rights = EpRights::from_caps(caps);
            for (access_kind, needed) in [
                (AccessKind::Read, FI_REMOTE_READ),
                (AccessKind::Write, FI_REMOTE_WRITE),
                (AccessKind::ReadWrite, both),
            ] {
                let has_needed = caps & needed == needed;
                let (rma, atomic) = (caps & FI_RMA != 0, caps & FI_ATOMIC != 0);
                assert_eq!(rights.check_rma(access_kind).is_ok(), rma && has_needed);
                assert_eq!(
                    rights.check_atomic(access_kind).is_ok(),
                    atomic && has_needed
                );
            }
        }
    }

    #[test]
    fn closed_region_is_not_accessible() -> Result {
        let mut fixture = Fixture::new(BOTH, Addressing::Offset)?;
        drop(fixture.registration.take());
        assert_eq!(fixture.add(0, 1, KEY, FI_UINT64), Err(Errno::EACCES));
        Ok(())
    }

    #[test]
    fn invalid_range_prevents_all_updates() -> Result {
        let fixture = Fixture::new(BOTH, Addressing::Offset)?;
        let target = |addr, key| RmaIoc {
            addr,
            count: 1,
            key,
        };
        let targets = [target(0, KEY), target(8, KEY), target(96, KEY)];
        let datatype = Datatype::from_raw(FI_UINT64)?;
        let done = fixture.regions.for_each_element(
            targets,
            datatype,
            AccessKind::ReadWrite,
            |_, element| {
                element.update(|old| old + 1);
            },
        );
        assert_eq!(done, Err(Errno::EACCES));
        assert_eq!(*fixture.words, [0; 16]);
        Ok(())
    }

    #[test]
    fn a_key_belongs_to_one_region() -> Result {
        let mut fixture = Fixture::new(BOTH, Addressing::Offset)?;
        let access = Access::from_bits(FI_REMOTE_READ)?;
        let again = fixture
            .regions
            .register(KEY, &[], access, Addressing::Offset);
        assert!(again.is_err_and(|errno| errno == Errno::ENOKEY));
        assert_eq!(fixture.add(0, 1, KEY, FI_UINT64), Ok(1));
        fixture.registration = None;
        let again = fixture
            .regions
            .register(KEY, &[], access, Addressing::Offset);
        assert!(again.is_ok());
        Ok(())
    }

    #[test]
    fn read_access_does_not_write() -> Result {
        static CONSTANT: [u64; 1] = [5];
        let regions = MrTable::new()?;
        let start = CONSTANT.as_ptr().cast_mut();
        // SAFETY: The static is never freed, and the access is read only.
        let memory = [unsafe { Segment::new(start.cast(), 8) }];
        let access = Access::from_bits(FI_REMOTE_READ)?;
        let _registration = regions.register(KEY, &memory, access, Addressing::Offset)?;
        let targets = [RmaIoc {
            addr: 0,
            count: 1,
            key: KEY,
        }];
        let mut found = 0;
        let datatype = Datatype::from_raw(FI_UINT64)?;
        regions.for_each_element(targets, datatype, AccessKind::Read, |_, element| {
            found = element.update(|old| old);
        })?;
        assert_eq!(found, 5);
        Ok(())
    }
}
