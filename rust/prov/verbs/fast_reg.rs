// SPDX-License-Identifier: GPL-2.0

//! A domain's registrar: who opens memory to peers, and closes it.
//!
//! Keys are made and taken back by work requests, and `fi_mr_reg()` may come before any connection:
//! so a domain has a queue pair for nothing else, made when it is first needed. What it registers
//! is good for every queue pair of the domain. The mutex `line` guards it, and is held while a
//! request is executed: one at a time.

use crate::{
    abi::{
        log::complain,
        Errno,
        Result, //
    },
    rdma::{
        fast_reg_qp::FastRegQp,
        mr::FastMr,
        pd::Pd, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// See above.
#[pin_data]
pub(super) struct FastReg {
    pd: Arc<Pd>,
    /// None before it is needed, and after a failure.
    #[pin]
    line: Mutex<Option<FastRegQp>>,
}

impl FastReg {
    /// A registrar for one protection domain. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(pd: Arc<Pd>) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                pd,
                line <- new_mutex!(None, "kofi::Registrar"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// The protection domain of what it registers.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Opens the memory of `mr` to peers. May sleep, some seconds where the device does not answer.
    ///
    /// # Errors
    ///
    /// -FI_EIO when the device refuses, -FI_ETIMEDOUT when it does not answer, -FI_ENOMEM, and on
    /// iWARP those of connecting.
    #[inline(never)]
    pub(super) fn register(&self, mr: &FastMr) -> Result {
        let mut line = self.line.lock();
        if let Some(old) = line.take() {
            *line = self.register_again(old, mr);
        }
        // The old queue pair may have failed before: a new one decides.
        if line.is_none() {
            *line = Some(self.register_anew(mr)?);
        }
        Ok(())
    }

    /// Registers `mr` with an existing queue pair, and returns the queue pair unless it is in error.
    #[inline(never)]
    fn register_again(&self, old: FastRegQp, mr: &FastMr) -> Option<FastRegQp> {
        let same = old.register(mr);
        same.inspect_err(|error| self.complain((*error).into()))
            .ok()
    }

    /// Registers `mr` with a new queue pair, and returns the queue pair.
    #[inline(never)]
    fn register_anew(&self, mr: &FastMr) -> Result<FastRegQp> {
        Ok(FastRegQp::new(&self.pd)?.register(mr)?)
    }

    /// Closes the memory of `mr` to peers, if that can be done at once. May sleep.
    ///
    /// No queue pair is made for it, and a failure is no matter: dropping `mr` closes it too.
    pub(super) fn invalidate(&self, mr: &FastMr) {
        let mut line = self.line.lock();
        if let Some(old) = line.take() {
            match old.invalidate(mr) {
                Ok(same) => *line = Some(same),
                Err(error) => self.complain(error.into()),
            }
        }
    }

    fn complain(&self, errno: Errno) {
        complain(
            &self.pd.device().name(),
            fmt!("the queue pair that gives keys is made anew: {:?}", errno),
        );
    }
}
