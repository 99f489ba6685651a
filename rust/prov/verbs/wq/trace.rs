// SPDX-License-Identifier: GPL-2.0

//! What tracepoints are told of a queue's operations, and the log of what is wrong with it.
//!
//! While somebody listens nothing goes the short ways, which have no words for it: what is here is
//! called from the long ones, out of line. A post is told of before the device has it, so that no
//! completion is told of first.

use super::{
    OpDesc,
    ReportPolicy,
    WorkQueue,
    WqDirection, //
};
use crate::{
    abi::{
        flags::*,
        log::complain,
        trace::{
            self,
            At,
            Operation, //
        },
        Errno, //
    },
    fi::memory::Context,
    prov::verbs::{
        wc_backlog::{
            ImmData,
            PolledWc, //
        },
        wc_status, //
    },
    rdma::cq::WcStatus, //
};
use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

impl WorkQueue {
    /// Has `tell` called with where its operations are.
    pub(in crate::prov::verbs) fn at(&self, tell: impl FnOnce(At<'_>)) {
        tell(At {
            device: self.pd.device().name().as_c_str(),
            qp: self.number.load(Relaxed),
        });
    }

    /// Says what is wrong with the endpoint. Any context.
    #[cold]
    pub(in crate::prov::verbs) fn complain(&self, what: &str) {
        let way = match self.direction {
            WqDirection::Transmit => "transmits",
            WqDirection::Receive => "receives",
        };
        let number = self.number.load(Relaxed);
        complain(
            &self.pd.device().name(),
            fmt!("endpoint {}, {}: {}", number, way, what),
        );
    }

    /// An operation of `what` is about to be posted.
    #[inline(always)]
    pub(in crate::prov::verbs) fn trace_post(&self, what: &OpDesc, signaled: bool) {
        if trace::posts() {
            self.tell_post(what, signaled);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_post(&self, what: &OpDesc, signaled: bool) {
        if what.report != ReportPolicy::Marker {
            self.at(|at| trace::post(at, what.operation(), signaled));
        }
    }

    /// The operation of `what` was not taken by the device.
    #[cold]
    pub(in crate::prov::verbs) fn trace_refused(&self, what: &OpDesc, errno: Errno) {
        if trace::errors() && what.report != ReportPolicy::Marker {
            let said = (WcStatus::GENERAL_ERR.code(), 0);
            self.at(|at| trace::error(at, what.operation(), said, errno));
        }
    }

    /// The completion of an operation with that context and flags was taken from the device.
    #[inline(always)]
    pub(in crate::prov::verbs) fn trace_over(
        &self,
        done: &PolledWc,
        of: impl FnOnce() -> Option<(Context, u64)>,
    ) {
        if trace::completions() || trace::errors() {
            if let Some(of) = of() {
                self.tell_over(done, of);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_over(&self, done: &PolledWc, (context, flags): (Context, u64)) {
        let is_success = done.status == WcStatus::SUCCESS;
        let operation = Operation {
            flags: match done.brought {
                ImmData::Write(_) => FI_RMA | FI_REMOTE_WRITE,
                ImmData::Nothing | ImmData::Message(_) => flags,
            },
            len: match self.direction {
                WqDirection::Receive if is_success => done.len.into(),
                WqDirection::Receive | WqDirection::Transmit => 0,
            },
            context: context.as_ptr(),
        };
        self.at(|at| match is_success {
            true if trace::completions() => trace::complete(at, operation),
            false if trace::errors() => {
                let said = (done.status.code(), done.vendor());
                let errno = wc_status::errno(done.status, self.direction);
                trace::error(at, operation, said, errno);
            }
            _ => {}
        });
    }
}

impl OpDesc {
    fn operation(&self) -> Operation {
        Operation {
            flags: self.flags,
            len: self.len as u64,
            context: self.context.as_ptr(),
        }
    }
}
