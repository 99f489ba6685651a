// SPDX-License-Identifier: GPL-2.0

//! Tests of event queues, with a fabric of the dummy provider.

use super::*;
use crate::{
    abi::{
        FI_AV_COMPLETE,
        FI_SHUTDOWN, //
    },
    fi::{
        object::Listed,
        tests::dummy_provider::{
            fabric,
            HERE, //
        },
    },
    introspect::object_table, //
};
use kernel::{
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

#[kunit_tests(kofi_fi_eq)]
mod suite {
    use super::*;

    fn read_all(queue: &EventQueue) -> u32 {
        let mut count = 0;
        while queue.read(false, |_| Ok(())).is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn eq_08_dropping_an_event_handler_stops_its_calls() -> kernel::error::Result {
        let fabric = fabric()?;
        let events = Arc::new(Atomic::new(0u32), GFP_KERNEL)?;
        let handled_events = events.clone();
        let handler = move |_: ProcessContext, queue: &Arc<EventQueue>| {
            let _ = handled_events.fetch_add(read_all(queue), Full);
        };
        let attr = Attr {
            writable: true,
            ..Attr::default()
        };
        let handler_guard = EventHandler::open(HERE, &fabric, attr, handler)?;
        let queue = handler_guard.clone();
        for number in 0..3 {
            queue.write(HERE, number, b"event")?;
        }
        let mut polls_left = 10_000;
        while events.load(Relaxed) < 3 && polls_left > 0 {
            fsleep(Delta::from_millis(1));
            polls_left -= 1;
        }
        assert_eq!(events.load(Relaxed), 3);

        // The queue still works, but the handler is not called, and its captures have been dropped.
        drop(handler_guard);
        queue.write(HERE, 3, b"unseen")?;
        assert_eq!(read_all(&queue), 1);
        assert_eq!(events.load(Relaxed), 3);
        assert!(Arc::into_unique_or_drop(events).is_some());
        Ok(())
    }

    #[test]
    fn eq_03_writes_to_a_full_queue_count_as_overruns() -> kernel::error::Result {
        let fabric = fabric()?;
        let queue = fabric.event_queue(
            HERE,
            Attr {
                size: 2,
                writable: true,
                ..Attr::default()
            },
        )?;
        for number in 0..5 {
            assert_eq!(queue.write(HERE, number, b"event").is_ok(), number < 2);
        }
        let mut batch = KVec::with_capacity(1, GFP_KERNEL)?;
        let _ = object_table::read_objects(fabric.entry().number(), None, &mut batch);
        let object = batch.first().ok_or(ENOENT)?;
        assert_eq!(object.what[..2], [KOFI_VALUE_DEPTH, KOFI_VALUE_OVERRUNS]);
        assert_eq!(object.values[..2], [2, 3]);
        Ok(())
    }

    /// A new object may have the address of a closed one, whose batch event is still unread.
    #[test]
    fn eq_05_drop_events_discards_connection_events_only() -> kernel::error::Result {
        let queue = fabric()?.event_queue(
            HERE,
            Attr {
                writable: true,
                ..Attr::default()
            },
        )?;
        let source = Source(0x1000);
        let batch_end = Batch::new(FI_AV_COMPLETE, 7, 2)?;
        let shutdown = |at| -> Result<OwnedEvent> {
            Ok(Event::alloc(at)?.fill(Kind::Connection(FI_SHUTDOWN), &[], None))
        };
        queue.push(shutdown(source)?);
        queue.push(Event::alloc(source)?.set_batch(batch_end));
        queue.write(HERE, 3, b"mine")?;
        queue.push(shutdown(source)?);
        queue.push(shutdown(Source(0x2000))?);
        assert!(queue.is_ready());

        queue.drop_events(source);
        let mut budget = Budget::from_millis(0);
        let mut kinds = KVec::new();
        while queue.is_ready() {
            kinds.push(queue.next(HERE, &mut budget)?.kind(), GFP_KERNEL)?;
        }
        let remaining = [
            Kind::Complete(FI_AV_COMPLETE),
            Kind::Written(3),
            Kind::Connection(FI_SHUTDOWN),
        ];
        assert_eq!(kinds[..], remaining);
        assert!(queue.next(HERE, &mut budget).is_err());
        Ok(())
    }
}
