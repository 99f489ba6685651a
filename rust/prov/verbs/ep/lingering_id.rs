// SPDX-License-Identifier: GPL-2.0

//! Ids of rdma_cm that outlive their endpoints: the passive side was closed before its peer had
//! acknowledged the answer to its connection request.
//!
//! ib_cm would then send a rejection, which may overtake the answer. The peer cannot assign it to a
//! connection yet and drops it (`cm_acquire_rejected_id()`), then connects on the answer and never
//! hears that nothing is at the other end. So the id stays, without its endpoint, until the peer
//! has acknowledged, and is disconnected then. ib_cm repeats the answer until then, or gives up,
//! which ends the id as well.
//!
//! At most [`MAX_LINGERING`] ids linger, because peers may never acknowledge. A new one evicts the
//! oldest.

use crate::{
    prov::verbs::prelude::*,
    util::{
        context::Handlers,
        registry, //
    },
};
use kernel::error::Result;

/// Maximum number of lingering ids.
const MAX_LINGERING: usize = 64;

/// An id without its endpoint.
#[pin_data]
struct LingeringId {
    /// The id, until it ends. Its handler is this object.
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
        // Finds nothing if the entry has been taken out already.
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
        // Not dropped here: an id that is dropped in its own handler is not waited for at module
        // exit.
        let _ = Handlers::handler_queue().enqueue(self);
    }
}

/// Registry entry; dropping it ends the id, which may sleep.
struct LingerEntry(Arc<LingeringId>);

impl Drop for LingerEntry {
    fn drop(&mut self) {
        let id = self.0.id.lock().take();
        drop(id);
    }
}

/// Takes out the first entry that `is_meant` accepts.
fn take_entry(is_meant: impl Fn(&LingerEntry) -> bool) -> Option<registry::Entry> {
    registry::with_list(|entries| {
        let at = entries.iter().position(|entry| {
            let stay = entry.downcast_ref::<LingerEntry>();
            stay.is_some_and(&is_meant)
        });
        entries.remove(at?).ok()
    })
}

/// Guard for lingering ids: dropping it, at module exit, ends all of them.
pub(crate) struct LingeringIds(());

impl LingeringIds {
    /// Creates the guard.
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

/// Makes an id linger, whose events then no longer go to its owner. The caller holds the id locked,
/// and calls [`evict_oldest`] after it has unlocked it. May sleep.
///
/// # Errors
///
/// `ENOMEM`, without any change.
pub(super) fn linger(id: &Arc<CmId>, _locked: &LockedCmId) -> Result {
    let lingering = Arc::pin_init(
        pin_init!(LingeringId {
            id <- new_mutex!(Some(id.clone()), "kofi::verbs::LingeringId"),
            end_work <- new_work!("kofi::verbs::LingeringId::end_work"),
        }),
        GFP_KERNEL,
    )?;
    let entry: registry::Entry = Arc::new(LingerEntry(lingering.clone()), GFP_KERNEL)?;
    registry::with_list(|entries| entries.push(entry, GFP_KERNEL))?;
    drop(id.set_handler(Some(lingering)));
    Ok(())
}

/// Ends the oldest lingering id if there are too many. May sleep.
pub(super) fn evict_oldest() {
    let count = registry::with_list(|entries| {
        let stays = entries.iter().filter(|entry| entry.is::<LingerEntry>());
        stays.count()
    });
    if count > MAX_LINGERING {
        drop(take_entry(|_| true));
    }
}
