// SPDX-License-Identifier: GPL-2.0

//! Ready sets: the common part of poll sets and wait sets, which reports the queues and counters that are
//! ready.
//!
//! A member's signal puts its link onto a [`ReadyList`], in any context; a scan polls only the members on
//! that list. A member that is not ready when it is polled arms its signal and leaves the list. The mutex
//! `changes` serializes changes of the membership. The lock `members` guards the members and is held while
//! they are polled; the locks of members and their devices nest inside it.

use super::{
    cntr::Counter,
    cq::CompletionQueue,
    eq::EventQueue,
    introspect::NamedValue,
    locked_list::move_into_larger,
    wait::{
        Deadline,
        Listener,
        Signal,
        Woken, //
    },
};
use crate::{
    abi::KOFI_VALUE_MEMBERS,
    fi::prelude::*,
    util::lock::assert_held, //
};
use core::borrow::Borrow;

mod ready_list;

use ready_list::{
    ReadyLink,
    ReadyList,
    ScanQueue, //
};

/// An object that is a member of a set. The references of a poll set count as children: a member cannot be
/// closed. Those of a wait set do not.
pub(super) enum Target {
    /// Completion queue in a poll set.
    PolledQueue(ChildRef<CompletionQueue>),
    /// Counter in a poll set.
    PolledCounter(ChildRef<Counter>),
    /// Completion queue in a wait set.
    Queue(Arc<CompletionQueue>),
    /// Counter in a wait set.
    Counter(Arc<Counter>),
    /// Event queue in a wait set.
    Events(Arc<EventQueue>),
}

impl Target {
    /// Returns the signal that is raised when the object may have become ready. No two objects have the same.
    fn signal(&self) -> &Signal {
        match self {
            Self::PolledQueue(queue) => queue.arrival_signal(),
            Self::PolledCounter(counter) => counter.signal(),
            Self::Queue(queue) => queue.arrival_signal(),
            Self::Counter(counter) => counter.signal(),
            Self::Events(queue) => queue.signal(),
        }
    }

    /// Polls the object and arms its signal. `seen` is the state that the set keeps for this member, 0 at
    /// first. Any context.
    fn poll(&self, seen: &mut u64) -> PollResult {
        match self {
            Self::PolledQueue(queue) => queue.poll(),
            Self::PolledCounter(counter) => counter.poll(seen),
            Self::Queue(queue) => queue.poll_for_waiter(seen),
            Self::Counter(counter) => counter.poll(seen),
            Self::Events(queue) => queue.poll(),
        }
    }
}

/// The result of polling a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PollResult {
    /// Not ready; the signal is raised when the member becomes ready.
    NotReady,
    /// Ready, to be reported once.
    ReadyOnce,
    /// Ready until it is read.
    Ready,
}

impl PollResult {
    /// Returns the result for a queue, which is ready until it is empty.
    pub(super) fn for_queue(is_ready: bool) -> Self {
        match is_ready {
            true => Self::Ready,
            false => Self::NotReady,
        }
    }
}

struct Entry {
    target: Target,
    token: usize,
    /// Poll state for [`ReadySet::poll_ready`].
    poll_seen: u64,
    /// Poll state for [`ReadySet::is_ready`].
    ready_seen: u64,
    link: Arc<ReadyLink>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.target.signal().remove_listener(&self.link);
    }
}

/// A slot of the set. Its link may be on the ready list even after the member has been removed.
struct MemberSlot {
    link: Arc<ReadyLink>,
    entry: Option<Entry>,
}

impl Borrow<ReadyLink> for MemberSlot {
    fn borrow(&self) -> &ReadyLink {
        &self.link
    }
}

/// The slots by the numbers of their links, and the queue of the scan.
struct Members {
    slots: KVec<MemberSlot>,
    scan_queue: ScanQueue,
}

/// A set of members. Each has a token that identifies it to the consumer.
#[pin_data]
pub(super) struct ReadySet {
    #[pin]
    changes: Mutex<()>,
    #[pin]
    members: FastLockIrq<DeferredDrop<Members>>,
    ready_list: Arc<ReadyList>,
    /// Number of members; changed under `changes`.
    size: Arc<NamedValue>,
}

impl ReadySet {
    /// Returns an empty set, and the introspection source of its size. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new() -> Result<(impl PinInit<Self>, Arc<NamedValue>)> {
        let ready_list = pin_arc(ReadyList::new())?;
        let size = NamedValue::new(KOFI_VALUE_MEMBERS, 0)?;
        let members = DeferredDrop::new(Members {
            slots: KVec::new(),
            scan_queue: ScanQueue::new(),
        })?;
        let shared_size = size.clone();
        let set = pin_init!(Self {
            changes <- new_mutex!((), "kofi::ReadySet::changes"),
            members <- FastLockIrq::new(members, c"kofi::ReadySet", static_lock_class!()),
            ready_list,
            size,
        });
        Ok((set, shared_size))
    }

    /// Adds a member and returns its number; of a poll set only if it is not there already. A new member is put
    /// onto the ready list, so that it is polled once. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn add(&self, target: Target, token: usize) -> Result<u32> {
        let _changes = self.changes.lock();
        if let Target::PolledQueue(_) | Target::PolledCounter(_) = &target {
            if let Some(number) = self.find(target.signal()) {
                return Ok(number);
            }
        }
        let link = self.free_slot()?;
        target.signal().add_listener(&link)?;
        let entry = Entry {
            target,
            token,
            poll_seen: 0,
            ready_seen: 0,
            link: link.clone(),
        };
        if let Some(slot) = self.members.lock().slots.get_mut(link.number as usize) {
            slot.entry = Some(entry);
        }
        self.size.add(1);
        link.notify();
        Ok(link.number)
    }

    /// Returns the link of a free slot. The caller holds `changes`.
    fn free_slot(&self) -> Result<Arc<ReadyLink>> {
        assert_held(&self.changes);
        let members = self.members.lock();
        let free = members.slots.iter().find(|place| place.entry.is_none());
        if let Some(place) = free {
            return Ok(place.link.clone());
        }
        let len = members.slots.len();
        let is_full = members.slots.capacity() == len;
        drop(members);
        let number = u32::try_from(len).map_err(|_| Errno::ENOMEM)?;
        let watch = ReadyLink::new(&self.ready_list, number)?;
        let mut spare = KVec::new();
        if is_full {
            spare.reserve((len + 1).next_power_of_two(), GFP_KERNEL)?;
        }
        let mut members = self.members.lock();
        if is_full {
            move_into_larger(&mut members.slots, &mut spare);
        }
        // The capacity suffices: no other thread adds slots while `changes` is held.
        let _ = members.slots.push_within_capacity(MemberSlot {
            link: watch.clone(),
            entry: None,
        });
        Ok(watch)
    }

    /// Returns the number of the first member with that signal.
    fn find(&self, signal: &Signal) -> Option<u32> {
        let members = self.members.lock();
        let is_it = |entry: &Entry| ptr::eq(entry.target.signal(), signal);
        let mut slots = members.slots.iter();
        let number = slots.position(|slot| slot.entry.as_ref().is_some_and(is_it))?;
        Some(number as u32)
    }

    /// Removes the first member with that signal. May sleep.
    pub(super) fn remove_first(&self, signal: &Signal) {
        let _changes = self.changes.lock();
        if let Some(number) = self.find(signal) {
            self.remove_at(number);
        }
    }

    /// Removes the member with that number. May sleep.
    pub(super) fn remove(&self, number: u32) {
        let _changes = self.changes.lock();
        self.remove_at(number);
    }

    /// Removes the member with that number. The caller holds `changes`.
    fn remove_at(&self, number: u32) {
        assert_held(&self.changes);
        let mut members = self.members.lock();
        let place = members.slots.get_mut(number as usize);
        let gone = place.and_then(|place| place.entry.take());
        drop(members);
        self.size.add(-i64::from(gone.is_some()));
        // Detaches the link from the member's signal, which is not raised for this set any more.
        drop(gone);
    }

    /// Returns true if the set has no members. Any context.
    pub(super) fn is_empty(&self) -> bool {
        let members = self.members.lock();
        members.slots.iter().all(|place| place.entry.is_none())
    }

    /// Returns the signal that is raised when a member may have become ready.
    pub(super) fn signal(&self) -> &Signal {
        &self.ready_list.signal
    }

    /// Takes members off the ready list and calls `visit` for each, at most once per member, until it returns
    /// true. Any context.
    fn scan(&self, mut visit: impl FnMut(&mut Entry) -> bool) {
        if self.ready_list.is_empty() {
            return;
        }
        let mut members = self.members.lock();
        let Members { slots, scan_queue } = &mut **members;
        scan_queue.collect(&self.ready_list, slots);
        while let Some(number) = scan_queue.pop(slots) {
            let Some(slot) = slots.get_mut(number) else {
                break;
            };
            slot.link.mark_unqueued();
            if slot.entry.as_mut().is_some_and(&mut visit) {
                break;
            }
        }
        scan_queue.finish(&self.ready_list);
    }

    /// Polls the members on the ready list, and calls `visit` with the tokens of up to `most` ready ones.
    /// Returns their number. Any context.
    pub(super) fn poll_ready(&self, most: usize, mut visit: impl FnMut(usize)) -> usize {
        let mut found = 0;
        if most == 0 {
            return found;
        }
        self.scan(|entry| {
            let look = entry.target.poll(&mut entry.poll_seen);
            if look == PollResult::Ready {
                entry.link.enqueue();
            }
            if look != PollResult::NotReady {
                visit(entry.token);
                found += 1;
            }
            found == most
        });
        found
    }

    /// Returns true if a member is ready, which [`Self::poll_ready`] still reports afterwards. A member that
    /// is ready once makes this return true only once, so that a caller that reads the members itself can
    /// sleep. Any context.
    pub(super) fn is_ready(&self) -> bool {
        let mut is_ready = false;
        self.scan(|entry| {
            let mut seen = entry.poll_seen;
            let look = entry.target.poll(&mut seen);
            match look {
                PollResult::NotReady => entry.poll_seen = seen,
                PollResult::ReadyOnce | PollResult::Ready => entry.link.enqueue(),
            }
            let is_new = mem::replace(&mut entry.ready_seen, seen) != seen;
            is_ready = look == PollResult::Ready || look == PollResult::ReadyOnce && is_new;
            is_ready
        });
        is_ready
    }

    /// Sleeps until [`Self::poll_ready`] reports a member.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or the kthread should stop.
    pub(super) fn wait(
        &self,
        here: ProcessContext,
        deadline: &Deadline,
        most: usize,
        mut visit: impl FnMut(usize),
    ) -> Result<usize> {
        here.might_sleep();
        loop {
            let ticket = self.signal().ticket();
            let found = self.poll_ready(most, &mut visit);
            if found > 0 {
                return Ok(found);
            }
            let mut left = deadline.remaining();
            Errno::ETIMEDOUT.when(left.is_spent())?;
            Errno::EINTR.when(self.signal().wait(&ticket, &mut left) == Woken::Interrupted)?;
        }
    }
}
