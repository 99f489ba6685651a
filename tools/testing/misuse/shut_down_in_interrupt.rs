// SPDX-License-Identifier: GPL-2.0

//! E0277: a handler in interrupt context cannot shut down a connection, because that may sleep.

use kernel::sync::Arc;
use kofi::{
    abi::Result,
    fi::msg::{
        Completions,
        Endpoint,
        HandlerGuard, //
    },
    util::context::ProcessContext, //
};

/// Installs a handler, which cannot capture the token of the caller.
pub fn handle(
    here: ProcessContext,
    queue: &Arc<Completions>,
    endpoint: Arc<Endpoint>,
) -> Result<HandlerGuard> {
    queue.on_interrupt(here, move |arrived| {
        while arrived.read().is_ok() {}
        #[cfg(misuse)]
        let _ = endpoint.shutdown(here);
        let _ = &endpoint;
    })
}
