// SPDX-License-Identifier: GPL-2.0

//! E0277: where one thread may sleep says nothing of another.

use kofi::abi::{
    context::InProcess,
    thread::Thread,
    Result, //
};

fn in_turn(here: InProcess) -> InProcess {
    here
}

/// Each is given a token of its own.
pub fn start(here: InProcess) -> Result<Thread> {
    Thread::run(here, c"other", move |own| {
        #[cfg(misuse)]
        let own = here;
        drop(in_turn(own));
    })
}
