// SPDX-License-Identifier: GPL-2.0

//! Tests of indexed queues against a naive model.

#[kernel::prelude::kunit_tests(kofi_indexed_fifo)]
mod cases {
    use super::super::*;
    use crate::util::random::SeededRandom;

    const TABLES: usize = 2;

    struct Number {
        value: u32,
        links: Links<Number, TABLES>,
    }

    impl_has_links! {
        impl HasLinks<TABLES> for Number { self.links }
    }

    /// Key of the numbers whose remainder by the first field is the second.
    struct Remainder(u32, u32);

    impl GroupKey<Number> for Remainder {
        // A poor hash: several keys share each bucket.
        fn hash(&self) -> u32 {
            self.1 / 2
        }

        fn is_of(&self, number: &Number) -> bool {
            number.value.checked_rem(self.0) == Some(self.1)
        }
    }

    const DIVISORS: [u32; TABLES] = [7, 5000];

    fn key(k: usize, value: u32) -> Remainder {
        Remainder(DIVISORS[k], value % DIVISORS[k])
    }

    fn boxed(value: u32) -> Result<ListBox<Number>> {
        ListBox::new(Number {
            value,
            links: Links::new(),
        })
    }

    /// Adds a number to an end of the queue and to the first table. The second table gets it if it
    /// can: at the front always, at the back if it has all entries.
    fn push(queue: &mut IndexedFifo<Number, TABLES>, value: u32, at_front: bool) -> Result {
        let is_complete = queue.is_complete(1);
        let number = boxed(value)?;
        if at_front {
            let mut entry = queue.push_front(number);
            entry.index_front(0, &key(0, value));
            entry.index_front(1, &key(1, value));
        } else {
            let mut entry = queue.push_back(number);
            entry.index_back(0, &key(0, value));
            if is_complete {
                entry.index_back(1, &key(1, value));
            }
        }
        Ok(())
    }

    /// Adds the entries that the second table does not have yet.
    fn complete(queue: &mut IndexedFifo<Number, TABLES>) {
        while let Some(mut entry) = queue.advance(1) {
            let key = key(1, entry.get().value);
            entry.index_back(1, &key);
        }
    }

    #[test]
    fn matches_a_naive_list() -> Result {
        const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
            true => 2_000,
            false => 20_000,
        };
        let mut random = SeededRandom::new(1);
        let mut queue = IndexedFifo::<Number, TABLES>::new();
        let mut model = KVVec::<u32>::new();
        for round in 0..ROUNDS {
            // The queue grows for 2000 rounds, and shrinks for as many.
            let grows = round / 2000 % 2 == 0;
            let value = random.next_below(20_000) as u32;
            match random.next_below(8) {
                0..4 if grows => {
                    push(&mut queue, value, false)?;
                    model.push(value, GFP_KERNEL)?;
                }
                4 if grows => {
                    push(&mut queue, value, true)?;
                    model.push(0, GFP_KERNEL)?;
                    model.rotate_right(1);
                    model[0] = value;
                }
                5 => {
                    // The last entries are removed from the second table, up to seven.
                    for _ in 0..value % 8 {
                        let _ = queue.retreat(1);
                    }
                }
                6 => complete(&mut queue),
                choice => {
                    let k = (choice % 2) as usize;
                    if k == 1 {
                        complete(&mut queue);
                    }
                    let key = key(k, value);
                    let is = |seen: &u32| seen.checked_rem(key.0) == Some(key.1);
                    let at = model.iter().position(is);
                    let found = queue.find(k, &key).map(|entry| entry.take().value);
                    assert!(found == at.and_then(|at| model.remove(at).ok()));
                }
            }
            assert!(queue.is_empty() == model.is_empty());
        }
        let all = queue.remove_where(0, &key(0, 3), |number| number.value % 2 == 0);
        let is = |value: &&u32| **value % 7 == 3 && **value % 2 == 0;
        assert!(Iterator::eq(
            all.iter().map(|number| &number.value),
            model.iter().filter(is)
        ));
        model.retain(|value| !is(&&*value));
        for value in model.iter() {
            assert!(queue
                .pop_front()
                .is_some_and(|number| number.value == *value));
        }
        assert!(queue.is_empty() && !queue.retreat(1));
        Ok(())
    }

    #[test]
    fn a_search_costs_the_same_for_any_number_of_entries() -> Result {
        const MANY: u32 = 100_000;
        let mut queue = IndexedFifo::<Number, TABLES>::new();
        let max_probes = |queue: &mut IndexedFifo<Number, TABLES>| {
            let mut most = 0;
            for value in 0..1_000 {
                let before = queue.probes();
                assert!(queue.find(1, &key(1, value)).is_some() != queue.is_empty());
                most = most.max(queue.probes() - before);
            }
            most
        };
        for value in 0..MANY {
            push(&mut queue, value, false)?;
        }
        assert!(max_probes(&mut queue) <= 8);
        while queue.pop_front().is_some() {}
        assert!(max_probes(&mut queue) == 0);
        Ok(())
    }
}
