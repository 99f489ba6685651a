// SPDX-License-Identifier: GPL-2.0

//! Tests of the object table's entries, with objects of the dummy provider.

use super::*;
use crate::{
    abi::{
        info::Info,
        KOFI_OBJECT_CNTR,
        KOFI_OBJECT_DOMAIN,
        KOFI_OBJECT_EQ,
        KOFI_OBJECT_FABRIC,
        KOFI_OBJECT_POLL_SET,
        KOFI_VALUE_COUNT,
        KOFI_VALUE_ERRORS, //
    },
    fi::{
        cntr, eq,
        tests::dummy_provider::{
            domain,
            fabric,
            HERE, //
        },
    },
    util::thread::Thread, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};

#[kunit_tests(kofi_fi_introspect)]
mod suite {
    use super::*;

    type TestResult = kernel::error::Result;

    /// Number of objects that one read returns, small so that the tests need several reads.
    const BATCH: usize = 3;

    /// Reads the objects with numbers above `after`, in batches.
    fn objects_after(mut after: u64) -> kernel::error::Result<KVec<kofi_object>> {
        let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
        let mut all = KVec::new();
        loop {
            let next = object_table::read_objects(after, None, &mut batch);
            for object in &batch {
                all.push(*object, GFP_KERNEL)?;
            }
            match next {
                Some(last) => {
                    after = last;
                    yield_cpu();
                }
                None => return Ok(all),
            }
        }
    }

    /// Lets other threads run.
    fn yield_cpu() {
        fsleep(Delta::from_micros(20));
    }

    fn kernel_error(errno: crate::abi::Errno) -> kernel::error::Error {
        errno.into()
    }

    #[test]
    fn objects_are_listed_from_open_to_close() -> TestResult {
        let fabric = fabric().map_err(kernel_error)?;
        let root = fabric.entry().number();
        let domain = fabric
            .domain(HERE, &*Info::new().map_err(kernel_error)?)
            .map_err(kernel_error)?;
        let counter = domain
            .counter(HERE, &cntr::Attr::default())
            .map_err(kernel_error)?;
        let queue = fabric
            .event_queue(HERE, eq::Attr::default())
            .map_err(kernel_error)?;
        let set = domain.poll_set(HERE).map_err(kernel_error)?;
        let all = objects_after(root - 1)?;
        let expected = [
            (KOFI_OBJECT_FABRIC, 0),
            (KOFI_OBJECT_DOMAIN, root),
            (KOFI_OBJECT_CNTR, domain.entry().number()),
            (KOFI_OBJECT_EQ, root),
            (KOFI_OBJECT_POLL_SET, domain.entry().number()),
        ];
        let seen = all.iter().map(|object| (object.kind, object.parent));
        assert!(seen.eq(expected));
        assert!(all
            .iter()
            .all(|object| object.owner.starts_with(b"nothing\0")));
        // A close removes the entry, and so does the drop of the last reference.
        assert!(counter.close().is_ok());
        drop((queue, set));
        assert_eq!(objects_after(root)?.len(), 1);
        assert!(domain.close().is_err());
        drop(counter);
        assert!(domain.close().is_ok());
        assert_eq!(objects_after(root)?.len(), 0);
        drop((domain, fabric));
        assert_eq!(objects_after(root - 1)?.len(), 0);
        Ok(())
    }

    #[test]
    fn counter_values_are_reported() -> TestResult {
        let domain = domain().map_err(kernel_error)?;
        let counter = domain
            .counter(HERE, &cntr::Attr::default())
            .map_err(kernel_error)?;
        counter.add(7);
        counter.add_errors(1);
        let all = objects_after(domain.entry().number())?;
        let object = all.first().ok_or(ENOENT)?;
        assert_eq!(object.value_count, 2);
        assert_eq!(object.what[..2], [KOFI_VALUE_COUNT, KOFI_VALUE_ERRORS]);
        assert_eq!(object.values[..2], [7, 1]);
        Ok(())
    }

    #[test]
    fn excess_values_are_dropped() -> TestResult {
        let mut object: KBox<kofi_object> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let capacity = object.values.len();
        for value in 0..2 * capacity as u64 {
            ObjectInfo(&mut object).add_value(KOFI_VALUE_COUNT, value);
        }
        assert_eq!(object.value_count as usize, capacity);
        assert_eq!(object.values.last(), Some(&(capacity as u64 - 1)));
        Ok(())
    }

    #[test]
    fn names_are_truncated_and_line_breaks_replaced() {
        assert!(copy_name(b"a\nb").starts_with(b"a?b\0"));
        let long = copy_name(&[b'x'; 100]);
        assert_eq!(long.iter().position(|&byte| byte == 0), Some(63));
    }

    #[test]
    fn listing_is_limited_to_one_namespace() -> TestResult {
        let fabric = fabric().map_err(kernel_error)?;
        let after = fabric.entry().number() - 1;
        let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
        let _ = object_table::read_objects(after, Some(Namespace::init().address()), &mut batch);
        assert_eq!(batch.len(), 1);
        let _ = object_table::read_objects(after, Some(1), &mut batch);
        assert_eq!(batch.len(), 0);
        Ok(())
    }

    #[test]
    fn parents_are_listed_before_children_during_concurrent_changes() -> TestResult {
        let fabric = fabric().map_err(kernel_error)?;
        let first = fabric.entry().number() - 1;
        let shared_fabric = fabric.clone();
        let thread = Thread::spawn(HERE, c"kofi_card", move |here| {
            while !context::kthread_should_stop() {
                let domain = Info::new().and_then(|info| shared_fabric.domain(here, &info));
                let Ok(domain) = domain else {
                    continue;
                };
                let sets = [(); 4].map(|()| domain.poll_set(here));
                yield_cpu();
                drop(domain);
                yield_cpu();
                drop(sets);
            }
        })
        .map_err(kernel_error)?;
        let mut seen = KVec::new();
        let mut max_seen = 0;
        for _ in 0..500 {
            yield_cpu();
            seen.clear();
            for object in &objects_after(first)? {
                assert!(object.parent == 0 || seen.contains(&object.parent));
                assert!(seen.last().is_none_or(|&last| last < object.id));
                seen.push(object.id, GFP_KERNEL)?;
            }
            max_seen = max_seen.max(seen.len());
        }
        drop(thread);
        assert!(max_seen > 3);
        assert_eq!(objects_after(first)?.len(), 1);
        Ok(())
    }
}
