// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints: listeners.

use super::{
    eq::{
        EventQueue,
        Source, //
    },
    fabric::Fabric,
    introspect::ObjectEntry,
    provider, //
};
use crate::{
    abi::KOFI_OBJECT_PASSIVE_EP,
    fi::prelude::*, //
};

/// A listener. The mutex guards the bound event queue and is not held across provider calls.
#[pin_data(PinnedDrop)]
pub struct PassiveEndpoint {
    core: Arc<dyn provider::PassiveEndpoint>,
    #[pin]
    eq: Mutex<Option<Arc<ChildRef<EventQueue>>>>,
    source: Source,
    entry: ObjectEntry,
    fabric: ChildRef<Fabric>,
}

impl PassiveEndpoint {
    pub(super) fn new(fabric: ChildRef<Fabric>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let core = fabric.core().clone().passive_endpoint(info, source)?;
        let described = core.clone();
        let entry = fabric
            .entry()
            .new_child_with(KOFI_OBJECT_PASSIVE_EP, move |info| {
                described.fill_info(info)
            })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                core,
                eq <- new_mutex!(None, "kofi::PassiveEndpoint"),
                source,
                entry,
                fabric,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Binds the event queue for connection requests.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a queue is bound already, or the queue belongs to another fabric.
    pub fn bind_eq(&self, queue: &Arc<EventQueue>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !queue.is_of(self.fabric.arc()) {
            return Err(Errno::EINVAL);
        }
        let held = Arc::new(ChildRef::new(queue)?, GFP_KERNEL)?;
        let mut events = self.eq.lock();
        if events.is_some() {
            return Err(Errno::EINVAL);
        }
        *events = Some(held);
        Ok(())
    }

    /// `fi_listen()`: -FI_ENOEQ without an event queue. May sleep.
    pub fn listen(&self) -> Result {
        let queue = {
            let events = self.eq.lock();
            let held = events.as_ref().ok_or(Errno::ENOEQ)?;
            ChildRef::new(held.arc())?
        };
        self.core.clone().listen(queue)
    }

    /// Returns the provider's object.
    pub fn core(&self) -> &dyn provider::PassiveEndpoint {
        &*self.core
    }

    /// Closes the listener; pending connection requests are rejected. May sleep.
    pub fn close(&self) {
        self.core.close();
        self.entry.remove();
        // Dropped after the lock is released.
        let eq = self.eq.lock().take();
        if let Some(held) = eq {
            held.drop_events(self.source);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for PassiveEndpoint {
    fn drop(self: Pin<&mut Self>) {
        // The provider's close does nothing for a listener that its owner has closed.
        self.close();
    }
}
