// SPDX-License-Identifier: GPL-2.0

//! E0277: a handler in interrupt context cannot wait.

use kernel::sync::Arc;
use kofi::{
    abi::Result,
    fi::{
        msg::{
            Completions,
            HandlerGuard, //
        },
        wait::Budget, //
    },
    util::context::ProcessContext, //
};

/// Installs a handler in process context, which gets a token and may wait.
pub fn handle(
    here: ProcessContext,
    queue: &Arc<Completions>,
    other: Arc<Completions>,
) -> Result<HandlerGuard> {
    #[cfg(misuse)]
    return queue.on_interrupt(here, move |_| {
        let _ = other.wait(here, &mut Budget::from_millis(10));
    });
    #[cfg(not(misuse))]
    queue.on_arrival(here, move |here, _| {
        let _ = other.wait(here, &mut Budget::from_millis(10));
    })
}
