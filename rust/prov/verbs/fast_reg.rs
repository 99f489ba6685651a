// SPDX-License-Identifier: GPL-2.0

//! Registration of memory for peers, with fast registration work requests.
//!
//! Keys are made and invalidated by work requests, and `fi_mr_reg()` may come before any
//! connection. So a domain has a queue pair for this purpose only, created on first use. Its
//! registrations are valid for every queue pair of the domain. The mutex `reg_qp` guards the queue
//! pair, and is held while a work request is executed: one at a time.

use crate::{
    fi::prelude::*,
    rdma::{
        fast_reg_qp::FastRegQp,
        mr::FastMr,
        pd::Pd, //
    },
    util::log::warn, //
};

/// Registers memory of one protection domain.
#[pin_data]
pub(super) struct FastReg {
    pd: Arc<Pd>,
    /// The queue pair; None before first use, and after a failure.
    #[pin]
    reg_qp: Mutex<Option<FastRegQp>>,
}

impl FastReg {
    /// Creates the registrar of a protection domain. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(pd: Arc<Pd>) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                pd,
                reg_qp <- new_mutex!(None, "kofi::verbs::FastReg"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the protection domain.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Registers `mr` for peers. May sleep, some seconds if the device does not answer.
    ///
    /// # Errors
    ///
    /// -FI_EIO when the device refuses, -FI_ETIMEDOUT when it does not answer, -FI_ENOMEM, and on
    /// iWARP the errors of connecting.
    #[inline(never)]
    pub(super) fn register(&self, mr: &FastMr) -> Result {
        let mut reg_qp = self.reg_qp.lock();
        if let Some(old) = reg_qp.take() {
            *reg_qp = self.register_with(old, mr);
        }
        // The old queue pair may have failed before, so a new one is tried.
        if reg_qp.is_none() {
            *reg_qp = Some(self.register_with_new_qp(mr)?);
        }
        Ok(())
    }

    /// Registers `mr` with an existing queue pair, and returns the queue pair unless it is in
    /// error.
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

    /// Invalidates the key of `mr`, if there is a queue pair. May sleep.
    ///
    /// No queue pair is created for it, and a failure is logged only: dropping `mr` ends the key,
    /// too.
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
        warn(
            &self.pd.device().name(),
            fmt!("the queue pair that gives keys is made anew: {:?}", errno),
        );
    }
}
