// SPDX-License-Identifier: GPL-2.0

//! Insertions that go on by themselves: FI_EVENT.
//!
//! An address takes its place at once, as in any insertion, for handles count in the order of the
//! calls. Then a work item looks for the ways to the peers, takes those back that have none, and tells
//! the event queue. The mutex of an insertion is for its work item alone.

use super::{
    table::{
        SlotId,
        MOST_ADDRESSES, //
    },
    AddressVector,
    Insertion, //
};
use crate::{
    abi::{
        context::ProcessContext,
        fi_addr_t,
        Errno,
        Result,
        FI_AV_COMPLETE, //
    },
    fi::{
        eq::{
            Batch,
            Event,
            EventQueue,
            OwnedEvent,
            Source, //
        },
        object::ChildRef,
        provider::AsyncResolve,
        rundown::OwnedRundownGuard, //
    },
};
use core::net::SocketAddr;
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        KVVec, //
    },
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    workqueue::{
        self,
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};

/// Who is told of each address: at first when it takes its place, again if it loses that.
pub trait InsertObserver: Send {
    /// What has become of the address with that number.
    fn tell(&mut self, number: usize, outcome: Result<fi_addr_t>);
}

impl<F: FnMut(usize, Result<fi_addr_t>) + Send> InsertObserver for F {
    fn tell(&mut self, number: usize, outcome: Result<fi_addr_t>) {
        self(number, outcome);
    }
}

/// An address that has its place.
#[derive(Clone, Copy)]
struct PendingAddr {
    number: u32,
    spot: SlotId,
    /// Whether its peer is still looked for.
    is_open: bool,
}

/// What is left to be done.
struct InsertWork {
    placed: KVVec<PendingAddr>,
    /// How many of them have been looked at.
    seen: usize,
    tell: KBox<dyn InsertObserver>,
    batch: KBox<Batch>,
    event: OwnedEvent,
    events: ChildRef<EventQueue>,
    vector: Arc<AddressVector>,
    /// Last: who closes the vector waits for the rest.
    _stay: OwnedRundownGuard,
}

#[pin_data]
struct AsyncInsert {
    #[pin]
    work: Work<AsyncInsert>,
    #[pin]
    task: Mutex<Option<InsertWork>>,
}

impl_has_work! {
    impl HasWork<Self> for AsyncInsert { self.work }
}

impl WorkItem for AsyncInsert {
    type Pointer = Arc<AsyncInsert>;

    fn run(this: Arc<AsyncInsert>) {
        let task = this.task.lock().take();
        if let Some(task) = task {
            task.run();
        }
    }
}

impl AddressVector {
    /// Checks that a vector whose insertions are asynchronous has an event queue.
    ///
    /// # Errors
    ///
    /// -FI_ENOEQ if it has none.
    pub(crate) fn check_bound(&self, _here: ProcessContext) -> Result {
        match self.is_async && self.bound.lock().events.is_none() {
            true => Err(Errno::ENOEQ),
            false => Ok(()),
        }
    }

    /// Begins to insert `count` addresses. Each takes its place now; the bound queue is told of those
    /// whose peers cannot be reached, and of the end, with `source` and `context`.
    ///
    /// # Errors
    ///
    /// -FI_ENOEQ if no queue is bound, -FI_EINVAL unless insertions go on by themselves here or once
    /// the vector is closed, -FI_EACCES where it is only read, -FI_ENOMEM, also for more than a vector
    /// can have.
    pub(crate) fn insert_later(
        self: &Arc<Self>,
        here: ProcessContext,
        (source, context): (Source, usize),
        count: usize,
        insertions: impl IntoIterator<Item = Insertion>,
        tell: KBox<dyn InsertObserver>,
    ) -> Result {
        self.check_bound(here)?;
        self.check_writable()?;
        if !self.is_async {
            return Err(Errno::EINVAL);
        }
        let events = match &self.bound.lock().events {
            None => return Err(Errno::ENOEQ),
            Some(events) => ChildRef::new(events.arc())?,
        };
        // More cannot be there, and memory for them would be asked for in vain and aloud.
        if count > MOST_ADDRESSES as usize {
            return Err(Errno::ENOMEM);
        }
        let mut task = InsertWork {
            placed: KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?,
            seen: 0,
            tell,
            batch: Batch::new(FI_AV_COMPLETE, context, count)?,
            event: Event::alloc(source)?,
            events,
            vector: self.clone(),
            _stay: self.later.begin_owned_call().ok_or(Errno::EINVAL)?,
        };
        let work = Arc::pin_init(
            pin_init!(AsyncInsert {
                work <- new_work!("kofi::av"),
                task <- new_mutex!(None, "kofi::av"),
            }),
            GFP_KERNEL,
        )?;
        let mut place = |number, outcome| task.place(number, outcome);
        self.insert_spots(&mut insertions.into_iter(), &mut place);
        *work.task.lock() = Some(task);
        // It was not queued before.
        let _ = workqueue::system_long().enqueue(work);
        Ok(())
    }
}

impl InsertWork {
    fn place(&mut self, number: usize, outcome: Result<SlotId>) {
        self.tell
            .tell(number, outcome.map(|spot| self.vector.to_addr(spot)));
        match outcome {
            Ok(spot) => {
                let placed = PendingAddr {
                    number: number as u32,
                    spot,
                    is_open: true,
                };
                // There is room for all.
                let _ = self.placed.push_within_capacity(placed);
            }
            Err(errno) => self.batch.add_failure(number as u32, errno),
        }
    }

    /// Whether it succeeded or lost its place is known.
    fn settle(&mut self, at: usize, outcome: Result) {
        let Some(placed) = self.placed.get_mut(at) else {
            return;
        };
        placed.is_open = false;
        let PendingAddr { number, spot, .. } = *placed;
        let Err(errno) = outcome else {
            self.batch.add_success();
            return;
        };
        // The consumer may have removed it before.
        let _ = self.vector.table.write().remove(spot);
        self.tell.tell(number as usize, Err(errno));
        self.batch.add_failure(number, errno);
    }

    fn run(mut self) {
        let vector = self.vector.clone();
        vector.ties.parent.core().resolve(&mut self);
        for at in 0..self.placed.len() {
            if self.placed.get(at).is_some_and(|placed| placed.is_open) {
                self.settle(at, Err(Errno::ECANCELED));
            }
        }
        let queue = self.events.arc().clone();
        // What is told of an address may go when the queue has the end.
        drop(self.tell);
        queue.push(self.event.set_batch(self.batch));
    }
}

impl AsyncResolve for InsertWork {
    fn next(&mut self) -> Option<(usize, SocketAddr)> {
        loop {
            let at = self.seen;
            let spot = self.placed.get(at)?.spot;
            self.seen += 1;
            match self.vector.table.get(spot.index) {
                Some((address, now)) if now == spot => return Some((at, address)),
                // It has been removed meanwhile.
                _ => self.settle(at, Err(Errno::ECANCELED)),
            }
        }
    }

    fn complete(&mut self, number: usize, outcome: Result) {
        self.settle(number, outcome);
    }

    fn is_canceled(&self) -> bool {
        self.vector.later.has_started()
    }
}
