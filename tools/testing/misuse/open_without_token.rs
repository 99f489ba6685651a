// SPDX-License-Identifier: GPL-2.0

//! E0061: a function that may sleep cannot be called without a `ProcessContext` token.

use kernel::sync::Arc;
use kofi::{
    abi::Result,
    fi::{
        eq::{
            Attr,
            EventQueue, //
        },
        fabric::Fabric, //
    },
    util::context::ProcessContext, //
};

/// Opens an event queue with the token.
pub fn open(here: ProcessContext, fabric: &Arc<Fabric>) -> Result<Arc<EventQueue>> {
    let _ = here;
    #[cfg(misuse)]
    return fabric.event_queue(Attr::default());
    #[cfg(not(misuse))]
    fabric.event_queue(here, Attr::default())
}
