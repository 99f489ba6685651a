// SPDX-License-Identifier: GPL-2.0

//! Asynchronous insertion: FI_EVENT.
//!
//! Each address is inserted at once, so that handles are assigned in the order of the calls. A work item then
//! resolves the routes to the peers, removes the addresses without a route, and writes the completion event.
//! The mutex of an insertion guards the state that its work item takes.

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

/// Observer of the addresses of an insertion. Each result is reported after the insertion, and again if the
/// address is removed because its peer cannot be reached.
pub trait InsertObserver: Send {
    /// Reports the result for the address with this number in the call.
    fn tell(&mut self, number: usize, outcome: Result<fi_addr_t>);
}

impl<F: FnMut(usize, Result<fi_addr_t>) + Send> InsertObserver for F {
    fn tell(&mut self, number: usize, outcome: Result<fi_addr_t>) {
        self(number, outcome);
    }
}

/// An inserted address.
#[derive(Clone, Copy)]
struct PendingAddr {
    number: u32,
    spot: SlotId,
    /// True until its route is resolved or has failed.
    is_open: bool,
}

/// The remaining work of an asynchronous insertion.
struct InsertWork {
    placed: KVVec<PendingAddr>,
    /// Number of addresses passed to the provider.
    seen: usize,
    tell: KBox<dyn InsertObserver>,
    batch: KBox<Batch>,
    event: OwnedEvent,
    events: ChildRef<EventQueue>,
    vector: Arc<AddressVector>,
    /// Dropped last: the close of the vector waits until the other fields are gone.
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

    /// Starts to insert `count` addresses. Each one gets its handle now; the bound event queue reports the
    /// addresses whose peers cannot be reached, and the completion, with `source` and `context`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOEQ if no queue is bound, -FI_EINVAL if insertions are not asynchronous or the vector is closed,
    /// -FI_EACCES for a read-only vector, -FI_ENOMEM, also for more addresses than a vector can hold.
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
        // More addresses cannot fit: refused before memory is allocated for them.
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
        // The work item is new, so it is not queued yet.
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
                // `addresses` has capacity for `count` addresses.
                let _ = self.placed.push_within_capacity(placed);
            }
            Err(errno) => self.batch.add_failure(number as u32, errno),
        }
    }

    /// Records the final result of the address at `at`, and removes the address if it failed.
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
        // The consumer may already have removed the address.
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
        // The consumer may free the observer's data when it has read the event.
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
                // The address was removed in the meantime.
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
