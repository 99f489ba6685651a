// SPDX-License-Identifier: GPL-2.0

//! Queues and counters of which somebody wants to know which have something to tell: what poll sets and
//! wait sets are made of.
//!
//! A member's signal puts it into a [`Line`], in any context; whoever looks goes through those that stand
//! there, and not through all. A member that has nothing to tell when it is looked at asks for its signal
//! and leaves the line. `changes` is held where members come and go. `members` guards them and is held
//! while they are looked at: behind it come the locks of the members and of their devices, and at last
//! that of the line.

use super::{
    roll::refit,
    wait::{
        Deadline,
        Listener,
        Signal,
        Woken, //
    },
};
use crate::abi::{
    context,
    lock::FastLockIrq,
    Errno,
    Result, //
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

mod line;

use line::{
    Line,
    Watch, //
};

/// What can be a member.
pub(super) trait Watched {
    /// Given when it may have something to tell.
    fn signal(&self) -> &Signal;

    /// Looks whether it has, and has its signal given when there is something new. `told` is the
    /// member's own, and 0 at first. Any context.
    fn look(&self, told: &mut u64) -> Look;
}

/// What there is to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// Nothing; the signal will say when there is.
    Nothing,
    /// Something that has been told with this.
    Once,
    /// Something that is there until it is read.
    Still,
}

impl Look {
    /// For a queue, which has something as long as it is not empty.
    pub(super) fn at_queue(is_ready: bool) -> Self {
        match is_ready {
            true => Self::Still,
            false => Self::Nothing,
        }
    }
}

struct Entry<M: Watched> {
    member: M,
    token: usize,
    /// The member's own account of what [`Group::each`] has told.
    told: u64,
    /// The same of [`Group::is_ready`].
    asked: u64,
    watch: Arc<Watch>,
}

impl<M: Watched> Drop for Entry<M> {
    fn drop(&mut self) {
        self.member.signal().forget(&self.watch);
    }
}

/// Members, each with a token by which whoever put it there knows it.
#[pin_data]
pub(super) struct Group<M: Watched> {
    #[pin]
    changes: Mutex<()>,
    #[pin]
    members: FastLockIrq<KVec<Option<Entry<M>>>>,
    line: Arc<Line>,
}

impl<M: Watched> Group<M> {
    /// No members. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new() -> Result<impl PinInit<Self>> {
        let line = Arc::pin_init(Line::new(), GFP_KERNEL)?;
        Ok(pin_init!(Self {
            changes <- new_mutex!((), "kofi::Group::changes"),
            members <- FastLockIrq::new(KVec::new(), c"kofi::Group", static_lock_class!()),
            line,
        }))
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
        let number = self.free_place()?;
        let watch = Watch::new(&self.line, number)?;
        member.signal().listen(&watch)?;
        let entry = Entry {
            member,
            token,
            told: 0,
            asked: 0,
            watch: watch.clone(),
        };
        if let Some(place) = self.members.lock().get_mut(number as usize) {
            *place = Some(entry);
        }
        watch.hear();
        Ok(number)
    }

    /// The number of a place that nobody has, with room in the line; `changes` is held.
    fn free_place(&self) -> Result<u32> {
        let mut spare = KVec::new();
        loop {
            let mut members = self.members.lock();
            let len = members.len();
            let free = members.iter().position(Option::is_none);
            if free.is_none() && members.capacity() == len && spare.capacity() > len {
                refit(&mut members, &mut spare);
            }
            if free.is_some() || members.capacity() > len {
                if free.is_none() {
                    let _ = members.push_within_capacity(None);
                }
                drop(members);
                self.line.reserve(len + 1)?;
                return u32::try_from(free.unwrap_or(len)).map_err(|_| Errno::ENOMEM);
            }
            drop(members);
            spare = KVec::with_capacity((len + 1).next_power_of_two(), GFP_KERNEL)?;
        }
    }

    /// The number of the first member for which `which` holds.
    fn find(&self, which: impl Fn(&M) -> bool) -> Option<u32> {
        let members = self.members.lock();
        let is_it = |entry: &Option<Entry<M>>| entry.as_ref().is_some_and(|e| which(&e.member));
        members.iter().position(is_it).map(|number| number as u32)
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
        let gone = members.get_mut(number as usize).and_then(Option::take);
        drop(members);
        // Nobody tells it anything from here on.
        drop(gone);
        self.line.purge(number);
    }

    /// Whether there are no members. Any context.
    pub(super) fn is_empty(&self) -> bool {
        self.members.lock().iter().all(Option::is_none)
    }

    /// Given when a member may have something to tell.
    pub(super) fn arrival(&self) -> &Signal {
        self.line.arrival()
    }

    /// Looks at those in the line, and calls `visit` with the tokens of up to `most` that have something
    /// to tell; says how many. Any context.
    pub(super) fn each(&self, most: usize, mut visit: impl FnMut(usize)) -> usize {
        if self.line.is_empty() {
            return 0;
        }
        let mut found = 0;
        let mut members = self.members.lock();
        // Who goes to the end of the line is not looked at again.
        for _ in 0..self.line.present() {
            if found >= most {
                break;
            }
            // It stands until it has been put back, or has gone.
            let Some(called) = self.line.call() else {
                break;
            };
            let Some(Some(entry)) = members.get_mut(called.number as usize) else {
                continue;
            };
            entry.watch.leave();
            let look = entry.member.look(&mut entry.told);
            if look == Look::Still {
                entry.watch.stand();
            }
            if look != Look::Nothing {
                visit(entry.token);
                found += 1;
            }
        }
        found
    }

    /// Whether a member has something to tell, which [`Self::each`] still will. Of what is told once,
    /// this says so once, too: who asks this and reads the members is not kept awake by it. Any context.
    pub(super) fn is_ready(&self) -> bool {
        if self.line.is_empty() {
            return false;
        }
        let mut members = self.members.lock();
        for _ in 0..self.line.present() {
            let Some(called) = self.line.call() else {
                break;
            };
            let Some(Some(entry)) = members.get_mut(called.number as usize) else {
                continue;
            };
            entry.watch.leave();
            let mut told = entry.told;
            let look = entry.member.look(&mut told);
            match look {
                Look::Nothing => entry.told = told,
                Look::Once | Look::Still => entry.watch.stand(),
            }
            let is_new = core::mem::replace(&mut entry.asked, told) != told;
            if look == Look::Still || look == Look::Once && is_new {
                return true;
            }
        }
        false
    }

    /// [`Self::each`], for which it waits until there is one. Process context.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT, -FI_EINTR when a signal is pending or the kthread is told to stop,
    /// -FI_EOPBADSTATE in atomic context.
    pub(super) fn wait(
        &self,
        deadline: &Deadline,
        most: usize,
        mut visit: impl FnMut(usize),
    ) -> Result<usize> {
        context::check_may_sleep()?;
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
