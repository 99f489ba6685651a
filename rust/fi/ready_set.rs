// SPDX-License-Identifier: GPL-2.0

//! Queues and counters of which somebody wants to know which have something to tell: what poll sets and
//! wait sets are made of.
//!
//! A member's signal puts it into a [`ReadyList`], in any context; whoever looks goes through those that stand
//! there, and not through all. A member that has nothing to tell when it is looked at asks for its signal
//! and leaves the line. `changes` is held where members come and go. `members` guards them and is held
//! while they are looked at: behind it come the locks of the members and of their devices.

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

/// What can be a member.
pub(super) trait Pollable: Send + 'static {
    /// Given when it may have something to tell.
    fn signal(&self) -> &Signal;

    /// Looks whether it has, and has its signal given when there is something new. `told` is the
    /// member's own, and 0 at first. Any context.
    fn look(&self, told: &mut u64) -> PollResult;
}

/// What there is to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PollResult {
    /// Nothing; the signal will say when there is.
    Nothing,
    /// Something that has been told with this.
    Once,
    /// Something that is there until it is read.
    Still,
}

impl PollResult {
    /// For a queue, which has something as long as it is not empty.
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
    /// The member's own account of what [`Group::each`] has told.
    told: u64,
    /// The same of [`Group::is_ready`].
    asked: u64,
    watch: Arc<ReadyLink>,
}

impl<M: Pollable> Drop for Entry<M> {
    fn drop(&mut self) {
        self.member.signal().forget(&self.watch);
    }
}

/// Where a member is, or was: that may stand in the line when it has gone.
struct MemberSlot<M: Pollable> {
    watch: Arc<ReadyLink>,
    entry: Option<Entry<M>>,
}

impl<M: Pollable> Borrow<ReadyLink> for MemberSlot<M> {
    fn borrow(&self) -> &ReadyLink {
        &self.watch
    }
}

/// The places by the numbers of their watches, and those that have been seen standing.
struct Members<M: Pollable> {
    places: KVec<MemberSlot<M>>,
    queue: ScanQueue,
}

/// Members, each with a token by which whoever put it there knows it.
#[pin_data]
pub(super) struct ReadySet<M: Pollable> {
    #[pin]
    changes: Mutex<()>,
    #[pin]
    members: FastLockIrq<DeferredDrop<Members<M>>>,
    line: Arc<ReadyList>,
    /// How many there are; set under `changes`.
    size: Arc<NamedValue>,
}

impl<M: Pollable> ReadySet<M> {
    /// No members, and what tells how many there are. May sleep.
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

    /// Adds a member, unless there is one for which `same` holds; says its number. It is looked at
    /// once, whatever it has. May sleep.
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

    /// The watch of a place that nobody has; `changes` is held.
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
        // There is room: the places do not change meanwhile.
        let _ = members.places.push_within_capacity(MemberSlot {
            watch: watch.clone(),
            entry: None,
        });
        Ok(watch)
    }

    /// The number of the first member for which `which` holds.
    fn find(&self, which: impl Fn(&M) -> bool) -> Option<u32> {
        let members = self.members.lock();
        let is_it = |place: &MemberSlot<M>| place.entry.as_ref().is_some_and(|e| which(&e.member));
        let number = members.places.iter().position(is_it);
        number.map(|number| number as u32)
    }

    /// Takes out the member for which `which` holds, if there is one. May sleep.
    pub(super) fn remove_first(&self, which: impl Fn(&M) -> bool) {
        let _changes = self.changes.lock();
        if let Some(number) = self.find(which) {
            self.remove_at(number);
        }
    }

    /// Takes out the member with that number. May sleep.
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
        // Nobody tells it anything from here on.
        drop(gone);
    }

    /// Whether there are no members. Any context.
    pub(super) fn is_empty(&self) -> bool {
        let members = self.members.lock();
        members.places.iter().all(|place| place.entry.is_none())
    }

    /// Given when a member may have something to tell.
    pub(super) fn arrival(&self) -> &Signal {
        self.line.arrival()
    }

    /// Calls those in the line, which stand there no longer, until `visit` says that it is enough, but
    /// none of them twice. Any context.
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

    /// Looks at those in the line, and calls `visit` with the tokens of up to `most` that have something
    /// to tell; says how many. Any context.
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

    /// Whether a member has something to tell, which [`Self::each`] still will. Of what is told once,
    /// this says so once, too: who asks this and reads the members is not kept awake by it. Any context.
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

    /// [`Self::each`], for which it waits until there is one.
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
