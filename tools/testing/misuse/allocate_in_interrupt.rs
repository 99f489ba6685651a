// SPDX-License-Identifier: GPL-2.0

//! E0277: a handler in interrupt context makes no buffer, which may sleep.

use kernel::sync::Arc;
use kofi::{
    abi::{
        context::InProcess,
        Result, //
    },
    fi::{
        memory::Buffer,
        msg::{
            Calls,
            Completions,
            Poster, //
        },
    },
};

/// It posts those that come back.
pub fn handle(here: InProcess, queue: &Arc<Completions>, poster: Poster) -> Result<Calls> {
    queue.on_interrupt(here, move |arrived| {
        while let Ok(done) = arrived.read() {
            let _ = poster.receive(done.buffer);
            #[cfg(misuse)]
            let _ = Buffer::new(here, 8, 0);
        }
        let _ = Buffer::new;
    })
}
