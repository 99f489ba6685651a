// SPDX-License-Identifier: GPL-2.0

//! E0277: a handler in interrupt context cannot allocate a buffer, because that may sleep.

use kernel::sync::Arc;
use kofi::{
    abi::Result,
    fi::{
        memory::Buffer,
        msg::{
            Completions,
            HandlerGuard,
            Poster, //
        },
    },
    util::context::ProcessContext, //
};

/// Posts the buffers of completed receives again.
pub fn handle(
    here: ProcessContext,
    queue: &Arc<Completions>,
    poster: Poster,
) -> Result<HandlerGuard> {
    queue.on_interrupt(here, move |arrived| {
        while let Ok(done) = arrived.read() {
            let _ = poster.receive(done.buffer);
            #[cfg(misuse)]
            let _ = Buffer::new(here, 8, 0);
        }
        let _ = Buffer::new;
    })
}
