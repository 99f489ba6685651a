// SPDX-License-Identifier: GPL-2.0

//! Tests of the table against a simple model, and of readers concurrent with a writer.

use super::*;
use crate::util::{
    context::{
        kthread_should_stop,
        ProcessContext, //
    },
    thread::Thread, //
};
use kernel::{
    alloc::KVVec,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Number of random operations; fewer under KASAN, which slows each one down a hundredfold.
const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
    true => 20_000,
    false => 1_000_000,
};

/// A reproducible pseudorandom sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).checked_rem(bound.into()).unwrap_or(0) as u32
    }
}

fn v4(number: u32) -> SocketAddr {
    SocketAddrV4::new(
        Ipv4Addr::from(0x0a00_0000 + number / 4),
        7500 + (number % 4) as u16,
    )
    .into()
}

fn v6(number: u32) -> SocketAddr {
    let ip = Ipv6Addr::from(0xfe80 << 112 | u128::from(number / 4));
    SocketAddrV6::new(ip, 7500, 0, number % 4).into()
}

/// Returns an IPv4 or an IPv6 address.
fn address(number: u32) -> SocketAddr {
    match number % 2 {
        0 => v4(number / 2),
        _ => v6(number / 2),
    }
}

fn table(max_generations: u32) -> Result<Arc<Table>> {
    Ok(Arc::pin_init(Table::new(max_generations), GFP_KERNEL)?)
}

/// Removes the entry at an index, of the given generation if any.
fn remove(table: &Table, index: u32, generation: Option<u32>) -> Result {
    let mut writer = table.write();
    let slot = writer.slot_at(index, generation)?;
    writer.remove(slot)
}

/// A simple model of [`Table`].
struct Model {
    /// Address number and use count at each index.
    entries: KVVec<Option<(u32, u32)>>,
    /// Index of each address number.
    indexes: KVVec<Option<usize>>,
    lowest: usize,
}

impl Model {
    fn insert(&mut self, number: u32) -> usize {
        if let Some(at) = self.indexes[number as usize] {
            if let Some((_, users)) = &mut self.entries[at] {
                *users += 1;
            }
            return at;
        }
        let mut at = self.lowest;
        while self.entries[at].is_some() {
            at += 1;
        }
        self.entries[at] = Some((number, 1));
        self.indexes[number as usize] = Some(at);
        self.lowest = at + 1;
        at
    }

    fn remove(&mut self, at: usize) -> bool {
        match &mut self.entries[at] {
            None => return false,
            Some((_, users)) if *users > 1 => *users -= 1,
            Some((number, _)) => {
                self.indexes[*number as usize] = None;
                self.entries[at] = None;
                self.lowest = self.lowest.min(at);
            }
        }
        true
    }
}

#[kunit_tests(kofi_fi_av_table)]
mod suite {
    use super::*;

    #[test]
    fn av_25_random_operations_match_a_naive_model() -> kernel::error::Result {
        const ADDRESSES: u32 = 3000;
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        let mut model = Model {
            entries: KVVec::from_elem(None, ADDRESSES as usize + 1, GFP_KERNEL)?,
            indexes: KVVec::from_elem(None, ADDRESSES as usize, GFP_KERNEL)?,
            lowest: 0,
        };
        let mut random = Random(1);
        for round in 0..ROUNDS {
            let number = random.below(ADDRESSES);
            // Phases of mostly insertions and mostly removals alternate.
            if random.below(8) < 3 + (round / 10_000 % 2) * 2 {
                let index = table.write().insert(&address(number), None);
                let expected = model.insert(number);
                assert!(index.is_ok_and(|slot| slot.index as usize == expected));
            } else {
                let done = remove(&table, number, None).is_ok();
                assert_eq!(done, model.remove(number as usize));
            }
            let number = random.below(ADDRESSES);
            let found = table.find(&address(number)).map(|slot| slot.index as usize);
            assert_eq!(found, model.indexes[number as usize]);
            let at = random.below(ADDRESSES);
            let stored = table.get(at).map(|(address, _)| address);
            let expected = model.entries[at as usize].map(|(number, _)| address(number));
            assert!(stored == expected);
        }
        let mut count = 0;
        table.write().for_each(|_| count += 1);
        let expected = model.entries.iter().filter(|entry| entry.is_some()).count();
        assert_eq!(count, expected);
        Ok(())
    }

    #[test]
    fn av_25_indexes_stay_valid_as_the_table_grows() -> kernel::error::Result {
        let count = ROUNDS / 4;
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        for number in 0..count {
            let slot = table.write().insert(&v4(number), None);
            assert!(slot.is_ok_and(|slot| slot.index == number));
        }
        for number in 0..count {
            assert!(table
                .find(&v4(number))
                .is_some_and(|slot| slot.index == number));
            assert!(table
                .get(number)
                .is_some_and(|(address, _)| address == v4(number)));
        }
        assert!(table.find(&v4(count)).is_none());
        assert!(table.get(count).is_none());
        // 32 bytes per entry, two bits for the free indices, and the unused rest of the last leaf.
        assert!(table.size() <= 34 * count as usize + 32 * 1024);
        Ok(())
    }

    #[test]
    fn av_24_reserve_does_not_change_indexes() -> kernel::error::Result {
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        table.write().reserve(1000);
        for number in 0..3000 {
            let slot = table.write().insert(&address(number), None);
            assert!(slot.is_ok_and(|slot| slot.index == number));
        }
        for number in 0..3000 {
            let found = table.find(&address(number));
            assert!(found.is_some_and(|slot| slot.index == number));
        }
        Ok(())
    }

    #[test]
    fn av_15_addresses_differ_by_port_scope_and_family() -> kernel::error::Result {
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        let ip = Ipv6Addr::LOCALHOST;
        let v6 = |port, flow, scope| SocketAddrV6::new(ip, port, flow, scope).into();
        let index = |address: SocketAddr| table.write().insert(&address, None).map(|s| s.index);
        assert!(index(v6(1, 5, 0)) == Ok(0));
        assert!(index(v6(1, 6, 0)) == Ok(0));
        assert!(index(v6(2, 5, 0)) == Ok(1));
        assert!(index(v6(1, 5, 1)) == Ok(2));
        assert!(index(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1).into()) == Ok(3));
        assert!(index(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2).into()) == Ok(4));
        // Equal addresses share an entry with the first one's flow label, and are removed one by one.
        assert!(table
            .get(0)
            .is_some_and(|(address, _)| address == v6(1, 5, 0)));
        assert!(remove(&table, 0, None).is_ok());
        assert!(table.get(0).is_some());
        assert!(remove(&table, 0, None).is_ok());
        assert!(table.get(0).is_none());
        assert!(remove(&table, 0, None).is_err());
        Ok(())
    }

    #[test]
    fn av_20_generations_are_not_reused() -> kernel::error::Result {
        const MAX_GENERATIONS: u32 = 5;
        let table = table(MAX_GENERATIONS).map_err(|_| ENOMEM)?;
        for generation in 0..MAX_GENERATIONS {
            let slot = table.write().insert(&v4(generation), None);
            assert!(
                slot == Ok(SlotId {
                    index: 0,
                    generation
                })
            );
            assert!(remove(&table, 0, Some(generation + 1)).is_err());
            assert!(remove(&table, 0, Some(generation)).is_ok());
            assert!(remove(&table, 0, Some(generation)).is_err());
        }
        let slot = table.write().insert(&v4(0), None);
        assert!(
            slot == Ok(SlotId {
                index: 1,
                generation: 0
            })
        );
        Ok(())
    }

    #[test]
    fn av_22_user_ids_stay_with_their_addresses() -> kernel::error::Result {
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        assert!(table.write().insert(&v4(0), None).is_ok());
        assert!(table.write().insert(&v4(1), Some(77)).is_ok());
        assert_eq!(table.user_id(0, None), None);
        assert_eq!(table.user_id(1, None), Some(77));
        // A later identifier replaces an earlier one.
        assert!(table.write().insert(&v4(1), Some(78)).is_ok());
        assert_eq!(table.user_id(1, None), Some(78));
        assert!(table.write().insert(&v4(1), None).is_ok());
        assert_eq!(table.user_id(1, None), Some(78));
        for _ in 0..3 {
            assert!(remove(&table, 1, None).is_ok());
        }
        assert!(table
            .write()
            .insert(&v4(2), None)
            .is_ok_and(|slot| slot.index == 1));
        assert_eq!(table.user_id(1, None), None);
        assert_eq!(table.user_id(5000, None), None);
        Ok(())
    }

    #[test]
    fn av_22_user_id_belongs_to_one_generation() -> kernel::error::Result {
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        for (generation, id) in [(0, Some(77)), (1, Some(78)), (2, None), (3, Some(79))] {
            let slot = table.write().insert(&v4(generation), id);
            assert!(
                slot == Ok(SlotId {
                    index: 0,
                    generation
                })
            );
            assert_eq!(table.user_id(0, Some(generation)), id);
            assert_eq!(table.user_id(0, Some(generation + 1)), None);
            assert!(generation == 0 || table.user_id(0, Some(generation - 1)).is_none());
            assert!(remove(&table, 0, None).is_ok());
            assert_eq!(table.user_id(0, Some(generation)), None);
            assert_eq!(table.user_id(0, None), None);
        }
        Ok(())
    }

    /// Tests that stable addresses are always found while a writer changes others, and that every lookup returns
    /// the address and the identifier that belong together.
    #[test]
    fn av_25_lookups_are_correct_during_concurrent_writes() -> kernel::error::Result {
        const STABLE: u32 = 100;
        const ROUNDS: u32 = super::ROUNDS / 10;
        let table = table(u32::MAX).map_err(|_| ENOMEM)?;
        for number in 0..STABLE {
            assert!(table.write().insert(&address(number), None).is_ok());
        }
        let wrong = Arc::new(Atomic::new(0u32), GFP_KERNEL)?;
        let reader = {
            let (table, wrong) = (table.clone(), wrong.clone());
            Thread::spawn(ProcessContext::assume(), c"kofi-av-reader", move |_| {
                let mut random = Random(2);
                while !kthread_should_stop() {
                    for _ in 0..100 {
                        let number = random.below(STABLE);
                        let found = table.find(&address(number));
                        if found.is_none_or(|slot| slot.index != number) {
                            let _ = wrong.fetch_add(1u32, Relaxed);
                        }
                        let number = STABLE + random.below(5 * STABLE);
                        let found = table.find(&address(number));
                        // A reused slot must hold another of these addresses.
                        let entry = found.and_then(|slot| table.get(slot.index));
                        let is_variable = |addr: SocketAddr| {
                            (STABLE..6 * STABLE).any(|number| address(number) == addr)
                        };
                        if entry.is_some_and(|(addr, _)| !is_variable(addr)) {
                            let _ = wrong.fetch_add(1u32, Relaxed);
                        }
                        let id =
                            found.and_then(|slot| table.user_id(slot.index, Some(slot.generation)));
                        if id.is_some_and(|id| id != u64::from(number)) {
                            let _ = wrong.fetch_add(1u32, Relaxed);
                        }
                    }
                    // Sleeps to yield the CPU.
                    fsleep(Delta::from_micros(50));
                }
            })
        };
        let reader = reader.map_err(|_| ENOMEM)?;
        let mut random = Random(3);
        let mut failed = 0;
        for round in 0..ROUNDS {
            let number = STABLE + random.below(5 * STABLE);
            let mut writer = table.write();
            if random.below(2) == 0 {
                // Every other address has its own number as its identifier.
                let id = (number % 2 == 0).then_some(u64::from(number));
                failed += u32::from(writer.insert(&address(number), id).is_err());
            } else {
                let slot = writer.slot_at(number, None);
                let _ = slot.and_then(|slot| writer.remove(slot));
            }
            // Chains are rebuilt from time to time.
            if round % 50 == 0 && round < 500 * 50 {
                let allocated = writer.writer.allocated;
                writer.reserve(allocated + 1);
            }
        }
        drop(reader);
        assert_eq!(failed, 0);
        assert_eq!(wrong.load(Relaxed), 0);
        Ok(())
    }
}
