// SPDX-License-Identifier: GPL-2.0

//! Tests of software completion queues.

use super::*;
use crate::{
    abi::{
        fi_cq_msg_entry,
        fi_cq_tagged_entry,
        flags::{
            FI_RECV,
            FI_SEND, //
        },
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        cq::{
            ErrData,
            Format,
            FormatEntry, //
        },
        memory::{
            Context,
            EntrySlots, //
        },
        provider::CompletionQueue, //
    },
    util::{
        context::ProcessContext,
        thread::Thread, //
    },
};
use core::ptr;
use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        delay::{
            fsleep,
            udelay, //
        },
        Delta, //
    },
};

fn queue(size: usize) -> Result<Arc<SwCq>> {
    SwCq::new(&Attr {
        size,
        format: Format::Tagged,
        waitable: true,
        vector: 0,
    })
}

fn context(number: usize) -> Context {
    Context::new(ptr::without_provenance_mut(number))
}

fn done(number: usize) -> CqEntry {
    CqEntry::Done(Completion::new(context(number), FI_SEND))
}

fn failed(number: usize) -> CqEntry {
    CqEntry::Failed(Failure {
        completion: Completion::new(context(number), FI_RECV),
        olen: 0,
        errno: Errno::ECANCELED,
        prov_errno: 0,
        err_data: ErrData::None,
    })
}

/// Reads up to `N` entries and returns their contexts.
fn read<const N: usize>(queue: &SwCq) -> Result<[usize; N]> {
    let mut slots = EntrySlots::<fi_cq_msg_entry, N>::new();
    let count = queue.read(FormatEntry::entries(slots.as_mut_slots()))?;
    let contexts = slots.get().map(|entry| entry.op_context as usize);
    assert!(contexts.iter().skip(count).all(|&context| context == 0));
    Ok(contexts)
}

#[kunit_tests(kofi_prov_cq)]
mod cases {
    use super::*;

    #[test]
    fn successes_before_a_failure_are_read_first() -> Result {
        let queue = queue(8)?;
        assert_eq!(read::<1>(&queue), Err(Errno::EAGAIN));
        assert!(queue.read_error().is_err());
        for entry in [done(1), done(2), failed(3), done(4)] {
            assert!(queue.reserve());
            queue.push(entry);
        }
        assert!(queue.read_error().is_err());
        assert_eq!(read::<8>(&queue), Ok([1, 2, 0, 0, 0, 0, 0, 0]));
        assert_eq!(read::<8>(&queue), Err(Errno::EAVAIL));
        let failure = queue.read_error();
        assert!(failure.is_ok_and(|failure| failure.completion.context == context(3)));
        assert_eq!(read::<1>(&queue), Ok([4]));
        assert_eq!(read::<1>(&queue), Err(Errno::EAGAIN));
        Ok(())
    }

    #[test]
    fn read_of_an_empty_queue_takes_no_lock() -> Result {
        let queue = queue(4)?;
        let ring = queue.ring.lock();
        assert_eq!(read::<1>(&queue).err(), Some(Errno::EAGAIN));
        drop(ring);
        assert!(queue.reserve());
        queue.push(done(7));
        assert_eq!(read::<1>(&queue)?, [7]);
        let ring = queue.ring.lock();
        assert_eq!(read::<1>(&queue).err(), Some(Errno::EAGAIN));
        drop(ring);
        // A read disarms the queue.
        assert!(!queue.arm() && queue.has_waiter());
        assert_eq!(read::<1>(&queue).err(), Some(Errno::EAGAIN));
        assert!(!queue.has_waiter());
        Ok(())
    }

    #[test]
    fn reserved_entries_always_fit() -> Result {
        let queue = queue(3)?;
        for round in 0..7 {
            for number in 0..3 {
                assert!(queue.reserve());
                queue.push(match (round + number) % 2 {
                    0 => done(number + 1),
                    _ => failed(number + 1),
                });
            }
            assert!(!queue.reserve());
            for number in 0..3 {
                match (round + number) % 2 {
                    0 => assert_eq!(read::<3>(&queue)?[0], number + 1),
                    _ => assert!(queue.read_error().is_ok()),
                }
            }
        }
        for _ in 0..3 {
            assert!(queue.reserve());
        }
        queue.release();
        assert!(queue.reserve() && !queue.reserve());
        Ok(())
    }

    #[test]
    fn refused_reservation_takes_and_releases_nothing() -> Result {
        let queue = queue(3)?;
        assert!(queue.reserve());
        assert!(!queue.reserve_many(3));
        // A released entry would have cleared the flag, and called the handler of the poster itself.
        assert!(queue.entry_waiter.take());
        assert!(queue.reserve_many(2) && !queue.reserve());
        Ok(())
    }

    #[test]
    fn size_has_a_default_and_a_limit() -> Result {
        let queue = queue(0)?;
        assert!((0..DEFAULT_SIZE).all(|_| queue.reserve()));
        assert!(!queue.reserve());
        assert!(self::queue(MAX_SIZE + 1).is_err_and(|errno| errno == Errno::EINVAL));
        assert!(self::queue(usize::MAX).is_err_and(|errno| errno == Errno::EINVAL));
        Ok(())
    }

    #[test]
    fn read_from_returns_tag_and_source() -> Result {
        let queue = queue(8)?;
        for (tag, source) in [(7, 2), (8, FI_ADDR_NOTAVAIL)] {
            assert!(queue.reserve());
            queue.push(CqEntry::Done(Completion {
                tag,
                source,
                len: 5,
                data: 6,
                ..Completion::new(context(1), FI_RECV)
            }));
        }
        let mut slots = EntrySlots::<fi_cq_tagged_entry, 3>::new();
        let mut sources = EntrySlots::<fi_addr_t, 3>::new();
        let count = queue.read_from(
            FormatEntry::entries(slots.as_mut_slots()),
            sources.as_mut_slots(),
        );
        assert_eq!(count, Ok(2));
        let entries = slots.get();
        assert_eq!(entries.map(|entry| entry.tag), [7, 8, 0]);
        assert_eq!((entries[0].len, entries[0].data), (5, 6));
        assert_eq!(sources.get(), [&2, &FI_ADDR_NOTAVAIL, &0]);
        Ok(())
    }

    #[test]
    fn discarded_entries_are_not_read() -> Result {
        let queue = queue(4)?;
        for entry in [done(1), failed(2), done(3), failed(1)] {
            assert!(queue.reserve());
            queue.push(entry);
        }
        queue.discard_matching(|entry| match entry {
            CqEntry::Done(done) => done.context == context(1),
            CqEntry::Failed(failure) => failure.completion.context == context(1),
        });
        assert!(queue.reserve() && queue.reserve() && !queue.reserve());
        assert_eq!(read::<4>(&queue), Err(Errno::EAVAIL));
        assert!(queue.read_error().is_ok());
        assert_eq!(read::<4>(&queue), Ok([3, 0, 0, 0]));
        assert_eq!(read::<4>(&queue), Err(Errno::EAGAIN));
        Ok(())
    }

    /// Adds an entry when it is polled for the first time.
    struct OneShotSource {
        queue: Arc<SwCq>,
        polls: Arc<Atomic<u32>>,
    }

    impl ProgressSource for OneShotSource {
        fn progress(&self) -> bool {
            let is_first = self.polls.fetch_add(1u32, Relaxed) == 0;
            if is_first {
                assert!(self.queue.reserve());
                self.queue.push(done(9));
            }
            is_first
        }

        fn arm(&self) {}
    }

    /// A source, and the number of times that it was polled.
    type CountedSource = (Arc<dyn ProgressSource>, Arc<Atomic<u32>>);

    /// Returns a source that adds an entry.
    fn one_shot_source(queue: &Arc<SwCq>) -> Result<CountedSource> {
        let polls = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let source = OneShotSource {
            queue: queue.clone(),
            polls: polls.clone(),
        };
        let source: Arc<dyn ProgressSource> = Arc::new(source, GFP_KERNEL)?;
        Ok((source, polls))
    }

    #[test]
    fn read_of_an_empty_queue_polls_its_sources() -> Result {
        let queue = queue(4)?;
        let (source, polls) = one_shot_source(&queue)?;
        let poll_count = || polls.load(Relaxed);
        for _ in 0..2 {
            queue.attach_source(&source)?;
        }
        assert_eq!(read::<2>(&queue), Ok([9, 0]));
        assert_eq!(poll_count(), 1);
        assert!(queue.reserve());
        queue.push(done(1));
        assert!(queue.arm());
        assert_eq!(read::<2>(&queue), Ok([1, 0]));
        assert_eq!(poll_count(), 1);
        // The source was attached twice.
        queue.detach_source(&source);
        queue.progress();
        assert_eq!(poll_count(), 2);
        queue.detach_source(&source);
        assert_eq!(read::<1>(&queue), Err(Errno::EAGAIN));
        assert!(!queue.arm());
        assert_eq!(poll_count(), 2);
        Ok(())
    }

    /// Stays in a poll until it has been detached, and some time longer; then sets `has_left`. On a single CPU without
    /// preemption it leaves after a second at most.
    struct SlowSource {
        queue: Arc<SwCq>,
        is_inside: Arc<Atomic<u32>>,
        has_left: Arc<Atomic<u32>>,
    }

    impl ProgressSource for SlowSource {
        fn progress(&self) -> bool {
            self.is_inside.store(1, Release);
            let wait = || udelay(Delta::from_millis(1));
            let _ = (0..1_000).find(|_| {
                wait();
                self.queue.sources.is_empty()
            });
            (0..5).for_each(|_| wait());
            self.has_left.store(1, Release);
            false
        }

        fn arm(&self) {}
    }

    #[test]
    fn detach_waits_for_a_reader_inside_the_source() -> Result {
        let queue = queue(4)?;
        let (inside, left) = (
            Arc::new(Atomic::new(0), GFP_KERNEL)?,
            Arc::new(Atomic::new(0), GFP_KERNEL)?,
        );
        let source = SlowSource {
            queue: queue.clone(),
            is_inside: inside.clone(),
            has_left: left.clone(),
        };
        let source: Arc<dyn ProgressSource> = Arc::new(source, GFP_KERNEL)?;
        queue.attach_source(&source)?;
        let polled = queue.clone();
        let reader = Thread::spawn(ProcessContext::assume(), c"kofi-cq-reader", move |_| {
            polled.sources.poll();
        })?;
        while inside.load(Acquire) == 0 {
            fsleep(Delta::from_micros(50));
        }
        queue.detach_source(&source);
        assert_eq!(left.load(Relaxed), 1);
        drop(reader);
        Ok(())
    }

    #[test]
    fn other_sources_stay_when_one_is_detached() -> Result {
        let queue = queue(4)?;
        let (first, first_polls) = one_shot_source(&queue)?;
        let (second, second_polls) = one_shot_source(&queue)?;
        let (third, third_polls) = one_shot_source(&queue)?;
        for source in [&first, &second, &third] {
            queue.attach_source(source)?;
        }
        queue.detach_source(&second);
        queue.progress();
        let polls = || [&first_polls, &second_polls, &third_polls].map(|polls| polls.load(Relaxed));
        assert_eq!(polls(), [1, 0, 1]);
        queue.detach_source(&first);
        queue.progress();
        assert_eq!(polls(), [1, 0, 2]);
        queue.attach_source(&second)?;
        queue.progress();
        assert_eq!(polls(), [1, 1, 3]);
        queue.detach_source(&third);
        queue.detach_source(&second);
        queue.progress();
        assert_eq!(polls(), [1, 1, 3]);
        assert!(queue.sources.is_empty());
        Ok(())
    }
}
