// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints: listeners.

use super::{
    eq::{
        EventQueue,
        Source, //
    },
    fabric::Fabric,
    introspect::EntryGuard,
    provider, //
};
use crate::{
    abi::KOFI_OBJECT_PASSIVE_EP,
    fi::prelude::*,
    util::noio::NoIo, //
};

/// A listener. The mutex guards the bound event queue and is not held across provider calls.
#[pin_data(PinnedDrop)]
pub struct PassiveEndpoint {
    core: Arc<dyn provider::PassiveEndpoint>,
    #[pin]
    eq: Mutex<Option<ChildRef<EventQueue>>>,
    source: Source,
    entry_guard: EntryGuard<Fabric>,
}

impl PassiveEndpoint {
    pub(super) fn new(fabric: ChildRef<Fabric>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let core = fabric
            .resources
            .core
            .clone()
            .passive_endpoint(info, source)?;
        let describe = provider::PassiveEndpoint::fill_info;
        let entry_guard = EntryGuard::of_core(fabric, KOFI_OBJECT_PASSIVE_EP, &core, describe)?;
        pin_arc(pin_init!(Self {
            core,
            eq <- new_mutex!(None, "kofi::PassiveEndpoint"),
            source,
            entry_guard,
        }))
    }

    /// Binds the event queue for connection requests.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a queue is bound already, or the queue belongs to another fabric.
    pub fn bind_eq(&self, queue: &Arc<EventQueue>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        Errno::EINVAL.when(!queue.is_of(self.entry_guard.parent.arc()))?;
        let held = ChildRef::new(queue)?;
        let mut events = self.eq.lock();
        Errno::EINVAL.when(events.is_some())?;
        *events = Some(held);
        Ok(())
    }

    /// `fi_listen()`: -FI_ENOEQ without an event queue. May sleep.
    pub fn listen(&self) -> Result {
        let _scope = NoIo::enter();
        let queue = self.eq.lock().as_ref().map(ChildRef::try_clone);
        self.core.clone().listen(queue.ok_or(Errno::ENOEQ)??)
    }

    /// Returns the provider's object.
    pub fn core(&self) -> &dyn provider::PassiveEndpoint {
        &*self.core
    }

    /// Closes the listener; pending connection requests are rejected. May sleep.
    pub fn close(&self) {
        let _scope = NoIo::enter();
        self.core.close();
        self.entry_guard.entry.remove();
        // Dropped after the lock is released.
        let eq = self.eq.lock().take();
        if let Some(held) = eq {
            held.arc().drop_events(self.source);
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
