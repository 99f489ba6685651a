// SPDX-License-Identifier: GPL-2.0

//! The ready list: the members of a set that may be ready, in the order in which they became so.
//!
//! The list has two parts, and a member is on at most one of them, once. An event pushes its member onto a
//! lock-free stack. A scan, under the set's lock, moves the stack to its [`ScanQueue`], polls the members of the
//! queue in order, and pushes those that are still ready onto the stack again. The end marker of the stack says
//! whether a scan has members left: the list counts as not empty while one of them is queued or being polled.

use super::super::wait::{
    Listener,
    Signal, //
};
use crate::{
    compat::smp_mb,
    fi::prelude::*, //
};
use core::borrow::Borrow;

/// End marker of the stack and of the queue; as the top of the stack, the list is empty.
const EMPTY: u32 = u32::MAX;

/// End marker of the stack while members are in the scan queue or being polled.
const SCANNING: u32 = u32::MAX - 1;

/// `next` of a member that is not on the list.
const NOT_QUEUED: u32 = u32::MAX - 2;

/// The lock-free stack of the list. Members that a scan has taken are in its [`ScanQueue`].
#[pin_data]
pub(super) struct ReadyList {
    /// Raised whenever a member is added.
    #[pin]
    pub(super) signal: Signal,
    /// Number of the member on top of the stack.
    top: Atomic<u32>,
}

/// The link of one member. It is a [`Listener`] of the member, and puts it onto the ready list at each event.
pub(super) struct ReadyLink {
    list: Arc<ReadyList>,
    /// Number of the member.
    pub(super) number: u32,
    /// Number of the member below it in the stack or after it in the queue, or an end marker; `NOT_QUEUED` if the
    /// member is in neither.
    next: Atomic<u32>,
}

/// The queue of a scan: members that [`Self::collect`] has moved from the stack, oldest first.
pub(super) struct ScanQueue {
    first: u32,
    last: u32,
}

impl ReadyList {
    /// Returns an empty list.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            signal <- Signal::new(c"kofi::ReadyList::signal", static_lock_class!()),
            top: Atomic::new(EMPTY),
        })
    }

    /// Returns true if no member is on the list or being polled. Any context.
    pub(super) fn is_empty(&self) -> bool {
        self.top.load(Acquire) == EMPTY
    }
}

impl ScanQueue {
    /// Returns an empty queue.
    pub(super) const fn new() -> Self {
        Self {
            first: EMPTY,
            last: EMPTY,
        }
    }

    /// Moves all members from the stack to the end of the queue. `links` has the link of each member of the
    /// set at the index that is the member's number. Any context.
    pub(super) fn collect(&mut self, list: &ReadyList, links: &[impl Borrow<ReadyLink>]) {
        let newest = list.top.xchg(SCANNING, Full);
        // The stack has the newest member on top: this reverses it.
        let (mut at, mut oldest) = (newest, EMPTY);
        while let Some(watch) = links.get(at as usize).map(Borrow::borrow) {
            at = watch.next.load(Relaxed);
            watch.next.store(oldest, Relaxed);
            oldest = watch.number;
        }
        if oldest == EMPTY {
            return;
        }
        match links.get(self.last as usize).map(Borrow::borrow) {
            Some(last) => last.next.store(oldest, Relaxed),
            None => self.first = oldest,
        }
        self.last = newest;
    }

    /// Removes the first member and returns its number. [`ReadyLink::enqueue`] does not queue it again before
    /// [`ReadyLink::mark_unqueued`]. Any context.
    pub(super) fn pop(&mut self, links: &[impl Borrow<ReadyLink>]) -> Option<usize> {
        let called = self.first as usize;
        let watch = links.get(called).map(Borrow::borrow)?;
        self.first = watch.next.load(Relaxed);
        if self.first == EMPTY {
            self.last = EMPTY;
        }
        Some(called)
    }

    /// Ends a scan, after each member that `pop` returned has been marked unqueued. Any context.
    pub(super) fn finish(&self, list: &ReadyList) {
        if self.first == EMPTY {
            // Fails if a member has been pushed since, in which case the list is not empty.
            let _ = list.top.cmpxchg(SCANNING, EMPTY, Release);
        }
    }
}

impl ReadyLink {
    /// Returns the link of the member `number`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(list: &Arc<ReadyList>, number: u32) -> Result<Arc<Self>> {
        new_arc(Self {
            list: list.clone(),
            number,
            next: Atomic::new(NOT_QUEUED),
        })
    }

    /// Puts the member onto the list, unless it is there already. The scan that polls the member sees all
    /// stores before this call. Any context.
    pub(super) fn enqueue(&self) {
        while self.next.cmpxchg(NOT_QUEUED, EMPTY, Full).is_err() {
            // A failed cmpxchg orders nothing. This barrier pairs with the Full of `mark_unqueued`: either
            // the member is still queued after it, or it was marked unqueued before the caller's stores were
            // visible, and is queued again.
            smp_mb(Full);
            if self.next.load(Relaxed) != NOT_QUEUED {
                return;
            }
        }
        let mut top = self.list.top.load(Relaxed);
        loop {
            self.next.store(top, Relaxed);
            match self.list.top.cmpxchg(top, self.number, Full) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Marks the member as not queued, before it is polled: a later event puts it onto the list again. Any
    /// context.
    pub(super) fn mark_unqueued(&self) {
        // Full: the stores of a caller that found the member still queued are visible here. Pairs with `enqueue`.
        let _ = self.next.xchg(NOT_QUEUED, Full);
    }
}

impl Listener for ReadyLink {
    fn notify(&self) {
        self.enqueue();
        // Raised even if the member was queued before: a thread may have polled it already, and sleep until its next
        // event.
        self.list.signal.raise();
    }
}

#[kunit_tests(kofi_fi_ready_list)]
mod tests {
    use super::*;
    use crate::fi::wait::{
        Budget,
        Woken, //
    };

    struct Fixture {
        list: Arc<ReadyList>,
        queue: ScanQueue,
        links: KVec<Arc<ReadyLink>>,
    }

    impl Fixture {
        fn new(links: u32) -> Result<Self> {
            let list = Arc::pin_init(ReadyList::new(), GFP_KERNEL)?;
            let mut all = KVec::new();
            for number in 0..links {
                all.push(ReadyLink::new(&list, number)?, GFP_KERNEL)?;
            }
            Ok(Self {
                list,
                queue: ScanQueue::new(),
                links: all,
            })
        }

        fn next(&mut self) -> Option<usize> {
            self.queue.collect(&self.list, &self.links);
            let popped = self.queue.pop(&self.links);
            if let Some(number) = popped {
                self.links[number].mark_unqueued();
            }
            self.queue.finish(&self.list);
            popped
        }
    }

    #[test]
    fn poll_02_members_are_returned_in_ready_order() -> kernel::error::Result {
        let mut fixture = Fixture::new(5)?;
        assert!(fixture.list.is_empty());
        for round in 0..7 {
            for at in 0..4 {
                fixture.links[(round + at) % 5].enqueue();
            }
            fixture.links[(round + 2) % 5].enqueue();
            for at in 0..4 {
                assert!(!fixture.list.is_empty());
                assert_eq!(fixture.next(), Some((round + at) % 5));
            }
            assert!(fixture.list.is_empty());
            assert_eq!(fixture.next(), None);
            assert!(fixture.list.is_empty());
        }
        Ok(())
    }

    #[test]
    fn poll_02_later_members_follow_the_collected_ones() -> kernel::error::Result {
        let mut fixture = Fixture::new(6)?;
        for number in [4, 0, 2] {
            fixture.links[number].enqueue();
        }
        assert_eq!(fixture.next(), Some(4));
        for number in [5, 4, 0, 1] {
            fixture.links[number].enqueue();
        }
        for expected in [0, 2, 5, 4, 1] {
            assert!(!fixture.list.is_empty());
            assert_eq!(fixture.next(), Some(expected));
        }
        assert!(fixture.list.is_empty());
        Ok(())
    }

    #[test]
    fn poll_02_list_is_not_empty_during_a_scan() -> kernel::error::Result {
        let mut fixture = Fixture::new(2)?;
        fixture.links[1].notify();
        fixture.queue.collect(&fixture.list, &fixture.links);
        assert_eq!(fixture.queue.pop(&fixture.links), Some(1));
        assert!(!fixture.list.is_empty());
        fixture.links[1].mark_unqueued();
        assert!(!fixture.list.is_empty());
        fixture.links[1].notify();
        fixture.queue.finish(&fixture.list);
        assert!(!fixture.list.is_empty());
        assert_eq!(fixture.next(), Some(1));
        assert!(fixture.list.is_empty());
        Ok(())
    }

    #[test]
    fn poll_02_ready_order_matches_a_naive_model() -> kernel::error::Result {
        const MEMBERS: usize = 50;
        let mut fixture = Fixture::new(MEMBERS as u32)?;
        let mut model = KVec::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (seed >> 33) as usize % MEMBERS;
            // Additions outnumber removals for a while, and then the reverse.
            if (seed >> 56) as usize % 100 < 30 + (seed >> 20) as usize % 40 {
                fixture.links[number].enqueue();
                if !model.contains(&number) {
                    model.push(number, GFP_KERNEL)?;
                }
            } else {
                let expected = (!model.is_empty()).then(|| model.remove(0).ok()).flatten();
                assert_eq!(fixture.next(), expected);
            }
            assert_eq!(fixture.list.is_empty(), model.is_empty());
        }
        Ok(())
    }

    #[test]
    fn poll_06_queued_member_signals_again() -> kernel::error::Result {
        let fixture = Fixture::new(1)?;
        let mut budget = Budget::from_millis(0);
        for _ in 0..2 {
            let ticket = fixture.list.signal.ticket();
            assert!(fixture.list.signal.wait(&ticket, &mut budget) == Woken::Timeout);
            fixture.links[0].notify();
            assert!(fixture.list.signal.wait(&ticket, &mut budget) == Woken::Signal);
        }
        Ok(())
    }
}
