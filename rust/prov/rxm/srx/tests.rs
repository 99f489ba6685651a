// SPDX-License-Identifier: GPL-2.0

//! Tests of shared receive contexts.

#[kernel::prelude::kunit_tests(kofi_rdm_srx_state)]
mod cases {
    use super::super::{
        super::{
            unexpected::UnexpBody,
            wire, //
        },
        *, //
    };
    use crate::fi::{
        memory::Memory,
        provider::{
            Message,
            SharedReceive,
            Tag, //
        },
    };
    use core::net::SocketAddr;
    use kernel::sync::atomic::Full;

    /// Records the calls into an endpoint.
    struct Recorder {
        started: Atomic<u32>,
        retried: Atomic<u32>,
    }

    impl SrxEp for Recorder {
        fn start(&self, _posted: SrxRecv, _unexp: ListBox<UnexpMsg>) {
            let _ = self.started.fetch_add(1u32, Full);
        }

        fn retry(&self) {
            let _ = self.retried.fetch_add(1u32, Full);
        }

        fn discard(&self, _unexp: ListBox<UnexpMsg>) {}
    }

    impl Recorder {
        fn new() -> Result<Arc<Self>> {
            let recorder = Self {
                started: Atomic::new(0),
                retried: Atomic::new(0),
            };
            Ok(Arc::new(recorder, GFP_KERNEL)?)
        }

        /// Returns the number of starts and of retries.
        fn times(&self) -> (u32, u32) {
            (self.started.load(Acquire), self.retried.load(Acquire))
        }
    }

    fn open(size: usize) -> Result<Arc<Srx>> {
        Srx::new(
            None,
            &Attr {
                size,
                ..Attr::default()
            },
        )
    }

    fn key(tag: Option<u64>) -> MsgKey {
        MsgKey {
            context: 0,
            tag,
            from: SocketAddr::from(([10, 0, 0, 1], 7471)),
        }
    }

    fn unexp(tag: Option<u64>) -> Result<ListBox<UnexpMsg>> {
        let message = wire::Message {
            context: 0,
            ack: None,
            tag,
            len: 0,
            data: None,
        };
        ListBox::new(UnexpMsg::new(key(tag), message, 0, UnexpBody::Sar(0)))
    }

    fn post(srx: &Srx, tag: Option<u64>) -> Result {
        srx.receive(&Message {
            memory: Memory::Segments(&[]),
            descriptors: &[],
            context: Context::NULL,
            flags: 0,
            errors_only: false,
            data: 0,
            peer: 0,
            tag: tag.map(|tag| Tag { tag, ignore: 0 }),
        })
    }

    #[test]
    fn srx_post_starts_the_oldest_matching_message() -> Result {
        let srx = open(4)?;
        let (first, second) = (Recorder::new()?, Recorder::new()?);
        let ep_slots = [srx.attach(first.clone())?, srx.attach(second.clone())?];
        assert!(ep_slots[0] != ep_slots[1]);
        assert!(srx.get(ep_slots[1], &key(None)).is_none());
        assert!(srx.queue(ep_slots[1], unexp(None)?, false).is_none());
        assert!(srx.queue(ep_slots[0], unexp(None)?, false).is_none());
        // A receive takes the message that was queued first, and a tagged receive takes no untagged message.
        post(&srx, Some(7))?;
        assert_eq!((first.times(), second.times()), ((0, 0), (0, 0)));
        post(&srx, None)?;
        assert_eq!((first.times(), second.times()), ((0, 0), (1, 0)));
        post(&srx, None)?;
        assert_eq!((first.times(), second.times()), ((1, 0), (1, 0)));
        assert!(srx.get(ep_slots[0], &key(Some(7))).is_some());
        assert_eq!(srx.receives_left(), 1);
        for left in 2..=4 {
            srx.complete(0);
            assert_eq!(srx.receives_left(), left);
        }
        for ep_slot in ep_slots {
            srx.detach(ep_slot);
        }
        Ok(())
    }

    #[test]
    fn srx_queue_returns_a_receive_that_was_posted_meanwhile() -> Result {
        let srx = open(1)?;
        let ep = Recorder::new()?;
        let ep_slot = srx.attach(ep.clone())?;
        assert!(srx.get(ep_slot, &key(None)).is_none());
        post(&srx, None)?;
        // The post made the starved endpoint retry.
        assert_eq!(ep.times(), (0, 1));
        assert!(srx.queue(ep_slot, unexp(None)?, false).is_some());
        assert_eq!(post(&srx, None), Err(Errno::EAGAIN));
        srx.complete(0);
        post(&srx, None)?;
        assert_eq!(ep.times(), (0, 1));
        srx.detach(ep_slot);
        Ok(())
    }

    #[test]
    fn srx_starved_endpoints_retry_once() -> Result {
        let srx = open(8)?;
        let mut eps = KVec::new();
        for _ in 0..5 {
            let ep = Recorder::new()?;
            let ep_slot = srx.attach(ep.clone())?;
            eps.push((ep_slot, ep), GFP_KERNEL)?;
        }
        let starved = |at: &usize| at % 2 == 0;
        for (ep_slot, _) in eps.iter().filter(|(ep_slot, _)| starved(ep_slot)) {
            assert!(srx.get(*ep_slot, &key(None)).is_none());
            // One message is queued; the endpoint has others that it could not queue.
            assert!(srx.queue(*ep_slot, unexp(Some(1))?, true).is_none());
        }
        for _ in 0..2 {
            post(&srx, None)?;
            for (ep_slot, ep) in eps.iter() {
                assert_eq!(ep.times(), (0, u32::from(starved(ep_slot))));
            }
        }
        for (ep_slot, _) in eps.iter() {
            srx.detach(*ep_slot);
        }
        Ok(())
    }

    #[test]
    fn srx_detach_removes_the_queued_messages() -> Result {
        let srx = open(4)?;
        let (gone, next) = (Recorder::new()?, Recorder::new()?);
        let ep_slot = srx.attach(gone.clone())?;
        for _ in 0..2 {
            assert!(srx.queue(ep_slot, unexp(None)?, true).is_none());
        }
        srx.detach(ep_slot);
        // The next endpoint gets the same slot, without the messages of the first.
        assert_eq!(srx.attach(next.clone())?, ep_slot);
        post(&srx, None)?;
        assert_eq!((gone.times(), next.times()), ((0, 0), (0, 0)));
        let posted = srx.get(ep_slot, &key(None));
        assert_eq!(srx.receives_left(), 3);
        assert!(srx.get(ep_slot, &key(None)).is_none());
        assert!(srx.queue(ep_slot, unexp(None)?, false).is_none());
        srx.post_again(posted.ok_or(Errno::EOTHER)?);
        assert_eq!((next.times(), srx.receives_left()), ((1, 0), 3));
        srx.detach(ep_slot);
        Ok(())
    }
}
