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
    reg_qp: Mutex<Option<FastRegQp>>,
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
                reg_qp <- new_mutex!(None, "kofi::Registrar"),
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
        let mut reg_qp = self.reg_qp.lock();
        if let Some(old) = reg_qp.take() {
            *reg_qp = self.register_with(old, mr);
        }
        // The old queue pair may have failed before: a new one decides.
        if reg_qp.is_none() {
            *reg_qp = Some(self.register_with_new_qp(mr)?);
        }
        Ok(())
    }

    /// Registers `mr` with an existing queue pair, and returns the queue pair unless it is in error.
    #[inline(never)]
    fn register_with(&self, old: FastRegQp, mr: &FastMr) -> Option<FastRegQp> {
        let same = old.register(mr);
        same.inspect_err(|error| self.warn((*error).into())).ok()
    }

    /// Registers `mr` with a new queue pair, and returns the queue pair.
    #[inline(never)]
    fn register_with_new_qp(&self, mr: &FastMr) -> Result<FastRegQp> {
        Ok(FastRegQp::new(&self.pd)?.register(mr)?)
    }

    /// Closes the memory of `mr` to peers, if that can be done at once. May sleep.
    ///
    /// No queue pair is made for it, and a failure is no matter: dropping `mr` closes it too.
    pub(super) fn invalidate(&self, mr: &FastMr) {
        let mut reg_qp = self.reg_qp.lock();
        if let Some(old) = reg_qp.take() {
            match old.invalidate(mr) {
                Ok(same) => *reg_qp = Some(same),
                Err(error) => self.warn(error.into()),
            }
        }
    }

    fn warn(&self, errno: Errno) {
        complain(
            &self.pd.device().name(),
            fmt!("the queue pair that gives keys is made anew: {:?}", errno),
        );
    }
}
