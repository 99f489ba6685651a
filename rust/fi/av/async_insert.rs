// SPDX-License-Identifier: GPL-2.0

//! Asynchronous insertion: FI_EVENT.
//!
//! Each address is inserted at once, so that handles are assigned in the order of the calls. A work item then
//! resolves the routes to the peers, removes the addresses without a route, and writes the completion event.
//! The mutex of an insertion guards the state that its work item takes.

use super::{
    table::{
        SlotId,
        MAX_ADDRESSES, //
    },
    AddressVector,
    Insertion, //
};
use crate::{
    abi::FI_AV_COMPLETE,
    fi::{
        eq::{
            Batch,
            Event,
            EventQueue,
            OwnedEvent,
            Source, //
        },
        prelude::*,
        provider::AsyncResolve,
        rundown::OwnedRundownGuard, //
    },
};
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        KVVec, //
    },
    workqueue, //
};

/// Observer of the addresses of an insertion. Each result is reported after the insertion, and again if the
/// address is removed because its peer cannot be reached.
pub trait InsertObserver: Send {
    /// Reports the result for the address with this number in the call.
    fn report(&mut self, number: usize, result: Result<fi_addr_t>);
}

impl<F: FnMut(usize, Result<fi_addr_t>) + Send> InsertObserver for F {
    fn report(&mut self, number: usize, outcome: Result<fi_addr_t>) {
        self(number, outcome);
    }
}

/// An inserted address.
#[derive(Clone, Copy)]
struct PendingAddr {
    number: u32,
    slot: SlotId,
    /// True until its route is resolved or has failed.
    is_pending: bool,
}

/// The remaining work of an asynchronous insertion.
struct InsertWork {
    addresses: KVVec<PendingAddr>,
    /// Number of addresses passed to the provider.
    submitted: usize,
    observer: KBox<dyn InsertObserver>,
    batch: KBox<Batch>,
    event: OwnedEvent,
    eq: ChildRef<EventQueue>,
    vector: Arc<AddressVector>,
    /// Dropped last: the close of the vector waits until the other fields are gone.
    _guard: OwnedRundownGuard,
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
    pub(crate) fn check_eq_bound(&self, _here: ProcessContext) -> Result {
        Errno::ENOEQ.when(self.is_async && self.resources.lock().eq.is_none())
    }

    /// Starts to insert `count` addresses. Each one gets its handle now; the bound event queue reports the
    /// addresses whose peers cannot be reached, and the completion, with `source` and `context`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOEQ if no queue is bound, -FI_EINVAL if insertions are not asynchronous or the vector is closed,
    /// -FI_EACCES for a read-only vector, -FI_ENOMEM, also for more addresses than a vector can hold.
    pub(crate) fn insert_async(
        self: &Arc<Self>,
        here: ProcessContext,
        (source, context): (Source, usize),
        count: usize,
        insertions: impl IntoIterator<Item = Insertion>,
        observer: KBox<dyn InsertObserver>,
    ) -> Result {
        self.check_eq_bound(here)?;
        Errno::EACCES.when(self.is_read_only)?;
        Errno::EINVAL.when(!self.is_async)?;
        let eq = self.resources.lock().eq.as_ref().map(ChildRef::try_clone);
        let eq = eq.ok_or(Errno::ENOEQ)??;
        // More addresses cannot fit: refused before memory is allocated for them.
        Errno::ENOMEM.when(count > MAX_ADDRESSES as usize)?;
        let mut task = InsertWork {
            addresses: KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?,
            submitted: 0,
            observer,
            batch: Batch::new(FI_AV_COMPLETE, context, count)?,
            event: Event::alloc(source)?,
            eq,
            vector: self.clone(),
            _guard: self.async_inserts.begin_owned_call().ok_or(Errno::EINVAL)?,
        };
        let work = pin_arc(pin_init!(AsyncInsert {
            work <- new_work!("kofi::av::AsyncInsert::work"),
            task <- new_mutex!(None, "kofi::av::AsyncInsert"),
        }))?;
        let mut place = |number, outcome| task.record_insertion(number, outcome);
        self.insert_slots(&mut insertions.into_iter(), &mut place);
        *work.task.lock() = Some(task);
        // The work item is new, so it is not queued yet.
        let _ = workqueue::system_long().enqueue(work);
        Ok(())
    }
}

impl InsertWork {
    fn record_insertion(&mut self, number: usize, outcome: Result<SlotId>) {
        self.observer
            .report(number, outcome.map(|spot| self.vector.to_addr(spot)));
        match outcome {
            Ok(slot) => {
                let number = number as u32;
                // `addresses` has capacity for `count` addresses.
                let _ = self.addresses.push_within_capacity(PendingAddr {
                    number,
                    slot,
                    is_pending: true,
                });
            }
            Err(errno) => self.batch.add_failure(number as u32, errno),
        }
    }

    /// Records the final result of the address at `at`, and removes the address if it failed.
    fn finish_addr(&mut self, at: usize, result: Result) {
        let Some(placed) = self.addresses.get_mut(at) else {
            return;
        };
        placed.is_pending = false;
        let PendingAddr { number, slot, .. } = *placed;
        let Err(errno) = result else {
            self.batch.add_success();
            return;
        };
        // The consumer may already have removed the address.
        let _ = self.vector.table.write().remove(slot);
        self.observer.report(number as usize, Err(errno));
        self.batch.add_failure(number, errno);
    }

    fn run(mut self) {
        let vector = self.vector.clone();
        vector.entry_guard.parent.core().resolve(&mut self);
        for at in 0..self.addresses.len() {
            let address = self.addresses.get(at);
            if address.is_some_and(|address| address.is_pending) {
                self.finish_addr(at, Err(Errno::ECANCELED));
            }
        }
        let queue = self.eq.arc().clone();
        // The consumer may free the observer's data when it has read the event.
        drop(self.observer);
        queue.push(self.event.set_batch(self.batch));
    }
}

impl AsyncResolve for InsertWork {
    fn next(&mut self) -> Option<(usize, SocketAddr)> {
        loop {
            let at = self.submitted;
            let spot = self.addresses.get(at)?.slot;
            self.submitted += 1;
            match self.vector.table.get(spot.index) {
                Some((address, now)) if now == spot => return Some((at, address)),
                // The address was removed in the meantime.
                _ => self.finish_addr(at, Err(Errno::ECANCELED)),
            }
        }
    }

    fn complete(&mut self, number: usize, outcome: Result) {
        self.finish_addr(number, outcome);
    }

    fn is_canceled(&self) -> bool {
        self.vector.async_inserts.has_started()
    }
}
