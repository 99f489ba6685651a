// SPDX-License-Identifier: GPL-2.0

//! Handlers of event queues, and event queues with a handler for Rust consumers.

use super::{
    super::fabric::Fabric,
    Attr,
    EventQueue, //
};
use crate::{
    fi::prelude::*,
    util::{
        callback::Functions,
        deferred_drop::DropSlot, //
    },
};

/// A handler of the events of a queue.
pub trait Handler: Send + Sync {
    /// Called when at least one event has been queued. May read the queue. Calls do not overlap.
    fn ready(&self, here: ProcessContext, queue: &Arc<EventQueue>);
}

impl<F: Fn(ProcessContext, &Arc<EventQueue>) + Send + Sync> Handler for F {
    fn ready(&self, here: ProcessContext, queue: &Arc<EventQueue>) {
        self(here, queue);
    }
}

/// An event queue with a handler, which is called until this object is dropped.
///
/// Dropping it waits for a running call, unless the call itself drops it, and drops the handler; in atomic
/// context both happen later, in a work item. If the object is leaked, the calls end when the handler's
/// module has been unloaded, before the module's memory is freed.
pub struct EventHandler(DeferredDrop<HandlerStop>);

/// Stops the handler when dropped.
struct HandlerStop(Arc<EventQueue>);

impl EventHandler {
    /// Opens a queue of `fabric` with `handler`.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn open<H: Handler + 'static>(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        attr: Attr,
        handler: H,
    ) -> Result<Self> {
        let ready: fn(&H, ProcessContext, &Arc<EventQueue>) = H::ready;
        let functions = Functions::single(ready as *const ());
        let handler = KBox::new(handler, GFP_KERNEL)?;
        Self::open_for(here, fabric, attr, handler, functions)
    }

    /// Opens the queue. Not generic, so that only this crate can register callbacks.
    fn open_for(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        attr: Attr,
        handler: KBox<dyn Handler>,
        functions: Functions,
    ) -> Result<Self> {
        let space = DropSlot::new_for_calls()?;
        let queue = fabric.event_queue(here, attr)?;
        let handled = Self(space.store(HandlerStop(queue)));
        handled.set_handler(handler, functions)?;
        Ok(handled)
    }
}

impl Deref for EventHandler {
    type Target = Arc<EventQueue>;

    fn deref(&self) -> &Arc<EventQueue> {
        &self.0 .0
    }
}

impl Drop for HandlerStop {
    fn drop(&mut self) {
        self.0.stop_handler();
    }
}
