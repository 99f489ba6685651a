// SPDX-License-Identifier: GPL-2.0

//! Ready sets: the common part of poll sets and wait sets, which reports the queues and counters that are
//! ready.
//!
//! A member's signal puts its link onto a [`ReadyList`], in any context; a scan polls only the members on
//! that list. A member that is not ready when it is polled arms its signal and leaves the list. The mutex
//! `changes` serializes changes of the membership. The lock `members` guards the members and is held while
//! they are polled; the locks of members and their devices nest inside it.

use super::{
    introspect::NamedValue,
    locked_list::refit,
    wait::{
        Deadline,
        Listener,
        Signal,
        Woken, //
    },
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    lock::FastLockIrq,
    Errno,
    Result,
    KOFI_VALUE_MEMBERS, //
};
use core::{
    borrow::Borrow,
    mem, //
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        static_lock_class,
        Arc,
        Mutex, //
    },
};

mod ready_list;

use ready_list::{
    ReadyLink,
    ReadyList,
    ScanQueue, //
};

/// An object that can be a member of a set.
pub(super) trait Pollable: Send + 'static {
    /// Returns the signal that is raised when the object may have become ready.
    fn signal(&self) -> &Signal;

    /// Polls the object and arms its signal. `seen` is the state that the set keeps for this member, 0 at
    /// first. Any context.
    fn look(&self, told: &mut u64) -> PollResult;
}

/// The result of polling a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PollResult {
    /// Not ready; the signal is raised when the member becomes ready.
    Nothing,
    /// Ready, to be reported once.
    Once,
    /// Ready until it is read.
    Still,
}

impl PollResult {
    /// Returns the result for a queue, which is ready until it is empty.
    pub(super) fn at_queue(is_ready: bool) -> Self {
        match is_ready {
            true => Self::Still,
            false => Self::Nothing,
        }
    }
}

struct Entry<M: Pollable> {
    member: M,
    token: usize,
    /// Poll state for [`ReadySet::poll_ready`].
    told: u64,
    /// Poll state for [`ReadySet::is_ready`].
    asked: u64,
    watch: Arc<ReadyLink>,
}

impl<M: Pollable> Drop for Entry<M> {
    fn drop(&mut self) {
        self.member.signal().forget(&self.watch);
    }
}

/// A slot of the set. Its link may be on the ready list even after the member has been removed.
struct MemberSlot<M: Pollable> {
    watch: Arc<ReadyLink>,
    entry: Option<Entry<M>>,
}

impl<M: Pollable> Borrow<ReadyLink> for MemberSlot<M> {
    fn borrow(&self) -> &ReadyLink {
        &self.watch
    }
}

/// The slots by the numbers of their links, and the queue of the scan.
struct Members<M: Pollable> {
    places: KVec<MemberSlot<M>>,
    queue: ScanQueue,
}

/// A set of members. Each has a token that identifies it to the consumer.
#[pin_data]
pub(super) struct ReadySet<M: Pollable> {
    #[pin]
    changes: Mutex<()>,
    #[pin]
    members: FastLockIrq<DeferredDrop<Members<M>>>,
    line: Arc<ReadyList>,
    /// Number of members; changed under `changes`.
    size: Arc<NamedValue>,
}

impl<M: Pollable> ReadySet<M> {
    /// Returns an empty set, and the introspection source of its size. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new() -> Result<(impl PinInit<Self>, Arc<NamedValue>)> {
        let line = Arc::pin_init(ReadyList::new(), GFP_KERNEL)?;
        let size = NamedValue::new(KOFI_VALUE_MEMBERS, 0)?;
        let nobody = DeferredDrop::new(Members {
            places: KVec::new(),
            queue: ScanQueue::new(),
        })?;
        let told = size.clone();
        let group = pin_init!(Self {
            changes <- new_mutex!((), "kofi::Group::changes"),
            members <- FastLockIrq::new(nobody, c"kofi::Group", static_lock_class!()),
            line,
            size,
        });
        Ok((group, told))
    }

    /// Adds a member, unless `same` holds for an existing one, and returns its number. A new member is put
    /// onto the ready list, so that it is polled once. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn add(&self, member: M, token: usize, same: impl Fn(&M) -> bool) -> Result<u32> {
        let _changes = self.changes.lock();
        if let Some(known) = self.find(same) {
            return Ok(known);
        }
        let watch = self.free_place()?;
        member.signal().listen(&watch)?;
        let entry = Entry {
            member,
            token,
            told: 0,
            asked: 0,
            watch: watch.clone(),
        };
        if let Some(place) = self.members.lock().places.get_mut(watch.number() as usize) {
            place.entry = Some(entry);
        }
        self.size.add(1);
        watch.hear();
        Ok(watch.number())
    }

    /// Returns the link of a free slot. The caller holds `changes`.
    fn free_place(&self) -> Result<Arc<ReadyLink>> {
        let members = self.members.lock();
        let free = members.places.iter().find(|place| place.entry.is_none());
        if let Some(place) = free {
            return Ok(place.watch.clone());
        }
        let len = members.places.len();
        let is_full = members.places.capacity() == len;
        drop(members);
        let number = u32::try_from(len).map_err(|_| Errno::ENOMEM)?;
        let watch = ReadyLink::new(&self.line, number)?;
        let mut spare = KVec::new();
        if is_full {
            spare.reserve((len + 1).next_power_of_two(), GFP_KERNEL)?;
        }
        let mut members = self.members.lock();
        if is_full {
            refit(&mut members.places, &mut spare);
        }
        // The capacity suffices: no other thread adds slots while `changes` is held.
        let _ = members.places.push_within_capacity(MemberSlot {
            watch: watch.clone(),
            entry: None,
        });
        Ok(watch)
    }

    /// Returns the number of the first member for which `which` holds.
    fn find(&self, which: impl Fn(&M) -> bool) -> Option<u32> {
        let members = self.members.lock();
        let is_it = |place: &MemberSlot<M>| place.entry.as_ref().is_some_and(|e| which(&e.member));
        let number = members.places.iter().position(is_it);
        number.map(|number| number as u32)
    }

    /// Removes the first member for which `which` holds. May sleep.
    pub(super) fn remove_first(&self, which: impl Fn(&M) -> bool) {
        let _changes = self.changes.lock();
        if let Some(number) = self.find(which) {
            self.remove_at(number);
        }
    }

    /// Removes the member with that number. May sleep.
    pub(super) fn remove(&self, number: u32) {
        let _changes = self.changes.lock();
        self.remove_at(number);
    }

    fn remove_at(&self, number: u32) {
        let mut members = self.members.lock();
        let place = members.places.get_mut(number as usize);
        let gone = place.and_then(|place| place.entry.take());
        drop(members);
        self.size.add(-i64::from(gone.is_some()));
        // Detaches the link from the member's signal, which is not raised for this set any more.
        drop(gone);
    }

    /// Returns true if the set has no members. Any context.
    pub(super) fn is_empty(&self) -> bool {
        let members = self.members.lock();
        members.places.iter().all(|place| place.entry.is_none())
    }

    /// Returns the signal that is raised when a member may have become ready.
    pub(super) fn arrival(&self) -> &Signal {
        self.line.arrival()
    }

    /// Takes members off the ready list and calls `visit` for each, at most once per member, until it returns
    /// true. Any context.
    fn call(&self, mut visit: impl FnMut(&mut Entry<M>) -> bool) {
        if self.line.is_empty() {
            return;
        }
        let mut members = self.members.lock();
        let Members { places, queue } = &mut **members;
        queue.gather(&self.line, places);
        while let Some(number) = queue.call(places) {
            let Some(place) = places.get_mut(number) else {
                break;
            };
            place.watch.leave();
            if place.entry.as_mut().is_some_and(&mut visit) {
                break;
            }
        }
        queue.settle(&self.line);
    }

    /// Polls the members on the ready list, and calls `visit` with the tokens of up to `most` ready ones.
    /// Returns their number. Any context.
    pub(super) fn each(&self, most: usize, mut visit: impl FnMut(usize)) -> usize {
        let mut found = 0;
        if most == 0 {
            return found;
        }
        self.call(|entry| {
            let look = entry.member.look(&mut entry.told);
            if look == PollResult::Still {
                entry.watch.stand();
            }
            if look != PollResult::Nothing {
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
        self.call(|entry| {
            let mut told = entry.told;
            let look = entry.member.look(&mut told);
            match look {
                PollResult::Nothing => entry.told = told,
                PollResult::Once | PollResult::Still => entry.watch.stand(),
            }
            let is_new = mem::replace(&mut entry.asked, told) != told;
            is_ready = look == PollResult::Still || look == PollResult::Once && is_new;
            is_ready
        });
        is_ready
    }

    /// Sleeps until [`Self::poll_ready`] reports a member.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or the kthread is told to stop.
    pub(super) fn wait(
        &self,
        here: ProcessContext,
        deadline: &Deadline,
        most: usize,
        mut visit: impl FnMut(usize),
    ) -> Result<usize> {
        here.might_sleep();
        loop {
            let ticket = self.arrival().ticket();
            let found = self.each(most, &mut visit);
            if found > 0 {
                return Ok(found);
            }
            let mut left = deadline.left();
            if left.is_spent() {
                return Err(Errno::ETIMEDOUT);
            }
            if self.arrival().wait(&ticket, &mut left) == Woken::Interrupted {
                return Err(Errno::EINTR);
            }
        }
    }
}
