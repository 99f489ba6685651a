// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of a queue's operations, and its log messages.
//!
//! While a tracepoint is enabled no operation takes the fast paths, which have none. The slow paths
//! call these functions out of line. A post is traced before the device has it, so that its
//! completion is never traced first.

use super::StatKind;
use crate::{
    prov::verbs::prelude::*,
    util::trace::{
        At,
        Operation, //
    },
};

impl WorkQueue {
    /// Calls `tell` with the device and queue pair of the queue.
    pub(in crate::prov::verbs) fn with_trace_point(&self, tell: impl FnOnce(At<'_>)) {
        with_trace_point(&self.pd, self.qp_num.load(Relaxed), tell);
    }

    /// Logs an error of the endpoint. Any context.
    #[cold]
    pub(in crate::prov::verbs) fn warn(&self, text: &str) {
        let way = match self.direction {
            WqDirection::Transmit => "transmits",
            WqDirection::Receive => "receives",
        };
        let number = self.qp_num.load(Relaxed);
        warn(
            &self.pd.device().name(),
            fmt!("endpoint {}, {}: {}", number, way, text),
        );
    }

    /// Traces an operation that is about to be posted.
    #[inline(always)]
    pub(in crate::prov::verbs) fn trace_post(&self, op: &OpDesc, signaled: bool) {
        if trace::posts() {
            self.emit_post(op, signaled);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_post(&self, op: &OpDesc, signaled: bool) {
        op.emit_post(&self.pd, self.qp_num.load(Relaxed), signaled);
    }

    /// Traces an operation that the device has not taken.
    #[cold]
    pub(in crate::prov::verbs) fn trace_post_error(&self, op: &OpDesc, errno: Errno) {
        op.emit_post_error(&self.pd, self.qp_num.load(Relaxed), errno);
    }

    /// Traces a completion polled from the device; `of` returns the context and flags of its
    /// operation.
    #[inline(always)]
    pub(in crate::prov::verbs) fn trace_completion(
        &self,
        wc: &PolledWc,
        of: impl FnOnce() -> Option<(Context, u64)>,
    ) {
        if trace::completions() || trace::errors() {
            if let Some(of) = of() {
                self.emit_completion(wc, of);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_completion(&self, wc: &PolledWc, (context, flags): (Context, u64)) {
        let is_success = wc.status == WcStatus::SUCCESS;
        let operation = Operation {
            flags: match wc.imm {
                ImmData::Write(_) => FI_RMA | FI_REMOTE_WRITE,
                ImmData::None | ImmData::Send(_) | ImmData::Invalidated(_) => flags,
            },
            len: match self.direction {
                WqDirection::Receive if is_success => wc.len.into(),
                WqDirection::Receive | WqDirection::Transmit => 0,
            },
            context: context.as_ptr(),
        };
        self.with_trace_point(|at| match is_success {
            true if trace::completions() => trace::complete(at, operation),
            false if trace::errors() => {
                let said = (wc.status.code(), wc.len);
                let errno = wc_status::status_errno(wc.status, self.direction);
                trace::error(at, operation, said, errno);
            }
            _ => {}
        });
    }
}

/// Calls `tell` with the device and the number of a queue pair.
fn with_trace_point(pd: &Pd, qp: u32, tell: impl FnOnce(At<'_>)) {
    tell(At {
        device: pd.device().name().as_c_str(),
        qp,
    });
}

impl OpDesc {
    /// Traces an operation that is about to be posted to the queue pair with the number `qp`.
    #[cold]
    pub(in crate::prov::verbs) fn emit_post(&self, pd: &Pd, qp: u32, signaled: bool) {
        if self.is_operation() {
            with_trace_point(pd, qp, |at| {
                trace::post(at, self.trace_operation(), signaled)
            });
        }
    }

    /// Traces an operation that the device has not taken.
    #[cold]
    pub(in crate::prov::verbs) fn emit_post_error(&self, pd: &Pd, qp: u32, errno: Errno) {
        if trace::errors() && self.is_operation() {
            let said = (WcStatus::GENERAL_ERR.code(), 0);
            with_trace_point(pd, qp, |at| {
                trace::error(at, self.trace_operation(), said, errno)
            });
        }
    }

    /// Returns whether the work request ends an operation.
    fn is_operation(&self) -> bool {
        self.stat_kind() != StatKind::NoOperation
    }

    fn trace_operation(&self) -> Operation {
        Operation {
            flags: self.flags,
            len: self.len as u64,
            context: self.context.as_ptr(),
        }
    }
}
