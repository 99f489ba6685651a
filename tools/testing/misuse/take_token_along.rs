// SPDX-License-Identifier: GPL-2.0

//! E0277: the token of one thread cannot be moved to another thread.

use kofi::{
    abi::Result,
    util::{
        context::ProcessContext,
        thread::Thread, //
    },
};

fn in_turn(here: ProcessContext) -> ProcessContext {
    here
}

/// Starts a thread, which gets a token of its own.
pub fn start(here: ProcessContext) -> Result<Thread> {
    Thread::spawn(here, c"other", move |own| {
        #[cfg(misuse)]
        let own = here;
        drop(in_turn(own));
    })
}
