// SPDX-License-Identifier: GPL-2.0

//! Event queues of Rust consumers that have a handler, and the end of its calls.

use super::{
    super::fabric::Fabric,
    Attr,
    EventQueue,
    Handler, //
};
use crate::abi::{
    closing::{
        Closing,
        Reserved, //
    },
    context::InProcess,
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
/// the handler; where that may not sleep, this happens soon after.
pub struct Handled(Closing<Ending>);

/// What ends the calls.
struct Ending(Arc<EventQueue>);

impl Handled {
    /// Opens a queue of `fabric`, whose handler is called whenever events have arrived.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn open(
        here: InProcess,
        fabric: &Arc<Fabric>,
        attr: Attr,
        handler: impl Handler + 'static,
    ) -> Result<Self> {
        let handler: KBox<dyn Handler> = KBox::new(handler, GFP_KERNEL)?;
        let room = Reserved::for_calls()?;
        let queue = fabric.event_queue(here, attr)?;
        queue.set_handler(handler)?;
        Ok(Self(room.hold(Ending(queue))))
    }
}

impl Deref for Handled {
    type Target = Arc<EventQueue>;

    fn deref(&self) -> &Arc<EventQueue> {
        &self.0 .0
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.handler.stop();
    }
}
