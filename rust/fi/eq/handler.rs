// SPDX-License-Identifier: GPL-2.0

//! Event queues of Rust consumers that have a handler, and the end of its calls.

use super::{
    super::fabric::Fabric,
    Attr,
    EventQueue,
    Handler, //
};
use crate::abi::{
    callback::Functions,
    context::ProcessContext,
    deferred_drop::{
        DeferredDrop,
        DropSlot, //
    },
    Result, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An event queue with a handler, which is called until this is dropped.
///
/// Dropping it waits for a call that is under way, unless it is that call which drops it, and drops
/// the handler; where that may not sleep, this happens soon after. The calls of one that was forgotten
/// end when the module of the handler has been unloaded, before the module's memory is freed.
pub struct EventHandler(DeferredDrop<HandlerStop>);

/// What ends the calls.
struct HandlerStop(Arc<EventQueue>);

impl EventHandler {
    /// Opens a queue of `fabric`, whose handler is called whenever events have arrived.
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
        let functions = Functions::one(ready as *const ());
        Self::open_for(
            here,
            fabric,
            attr,
            KBox::new(handler, GFP_KERNEL)?,
            functions,
        )
    }

    /// Not generic, so that only this crate can register callbacks.
    fn open_for(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        attr: Attr,
        handler: KBox<dyn Handler>,
        functions: Functions,
    ) -> Result<Self> {
        let room = DropSlot::for_calls()?;
        let queue = fabric.event_queue(here, attr)?;
        let handled = Self(room.hold(HandlerStop(queue)));
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
        self.0.end_calls();
    }
}
