// SPDX-License-Identifier: GPL-2.0

//! Connections whose end that accepted has been closed before its peer said that it had heard.
//!
//! ib_cm would say so with a refusal, which may reach the peer before the answer does: the peer does not know
//! yet of whom it is, and throws it away (`cm_acquire_rejected_id()`). Then it is connected with nobody, and
//! waits for ever. So the id stays, without its endpoint, until the peer has said it, and is disconnected then.
//! ib_cm repeats its answer until that has come, or gives up, which ends this as well.
//!
//! There are no more of them than [`MAX_LINGERING`]: peers might never say it. The oldest has to go for the next.

use crate::{
    abi::{
        context::Handlers,
        registry, //
    },
    rdma::cm::{
        CmEvent,
        CmHandler,
        CmId,
        LockedCmId, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};

/// How many connections linger at most.
const MAX_LINGERING: usize = 64;

/// What is left of an endpoint.
#[pin_data]
struct LingeringId {
    /// Until it ends. The id has this for its handler.
    #[pin]
    id: Mutex<Option<Arc<CmId>>>,
    #[pin]
    end_work: Work<LingeringId>,
}

impl_has_work! {
    impl HasWork<Self> for LingeringId { self.end_work }
}

impl WorkItem for LingeringId {
    type Pointer = Arc<LingeringId>;

    fn run(this: Arc<LingeringId>) {
        // Unless somebody else has.
        drop(take_entry(|stay| Arc::ptr_eq(&stay.0, &this)));
    }
}

impl CmHandler for LingeringId {
    fn handle_event(self: Arc<Self>, id: &LockedCmId, event: CmEvent<'_>) {
        match event {
            CmEvent::Established { .. } => {
                let _ = id.disconnect();
            }
            CmEvent::Rejected { .. }
            | CmEvent::Failed { .. }
            | CmEvent::Disconnected
            | CmEvent::DeviceRemoval => {}
            _ => return,
        }
        // Not here: an id that goes in its handler is not waited for when the module goes.
        let _ = Handlers::queue().enqueue(self);
    }
}

/// One in the registry: whoever takes it out ends it, which may sleep.
struct LingerEntry(Arc<LingeringId>);

impl Drop for LingerEntry {
    fn drop(&mut self) {
        let id = self.0.id.lock().take();
        drop(id);
    }
}

/// Takes the first out that is meant.
fn take_entry(is_meant: impl Fn(&LingerEntry) -> bool) -> Option<registry::Entry> {
    registry::with(|entries| {
        let at = entries.iter().position(|entry| {
            let stay = entry.downcast_ref::<LingerEntry>();
            stay.is_some_and(&is_meant)
        });
        entries.remove(at?).ok()
    })
}

/// Lets them linger, as long as the module is there.
pub(crate) struct LingeringIds(());

impl LingeringIds {
    /// None yet.
    pub(crate) fn start() -> Self {
        Self(())
    }
}

impl Drop for LingeringIds {
    fn drop(&mut self) {
        while let Some(stay) = take_entry(|_| true) {
            drop(stay);
        }
    }
}

/// Has an id linger, whose owner will not hear of it any more: to be called with the id locked, and
/// [`evict_oldest`] when it is not any more. May sleep.
///
/// # Errors
///
/// `ENOMEM`: then nothing has changed.
pub(super) fn linger(id: &Arc<CmId>) -> Result {
    let lingering = Arc::pin_init(
        pin_init!(LingeringId {
            id <- new_mutex!(Some(id.clone())),
            end_work <- new_work!("kofi::verbs::Lingering"),
        }),
        GFP_KERNEL,
    )?;
    let entry: registry::Entry = Arc::new(LingerEntry(lingering.clone()), GFP_KERNEL)?;
    registry::with(|entries| entries.push(entry, GFP_KERNEL))?;
    drop(id.set_handler(Some(lingering)));
    Ok(())
}

/// Ends the oldest, if they are too many. May sleep.
pub(super) fn evict_oldest() {
    let count = registry::with(|entries| {
        let stays = entries.iter().filter(|entry| entry.is::<LingerEntry>());
        stays.count()
    });
    if count > MAX_LINGERING {
        drop(take_entry(|_| true));
    }
}
