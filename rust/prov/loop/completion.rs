// SPDX-License-Identifier: GPL-2.0

//! The sink for the completions of one direction of an endpoint.

use super::{
    super::common::sw_cq::{
        ProgressHandle,
        SwCq, //
    },
    op::RxCompletion, //
};
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        cq::{
            Completion,
            CqEntry,
            ErrData,
            Failure, //
        },
        eq::Source,
        memory::Context,
        provider::CqBinding, //
    },
};
use kernel::sync::Arc;

/// Unread completions that are discarded in one pass.
const FORGOTTEN: usize = 16;

/// Completion attributes of an operation.
#[derive(Clone, Copy)]
pub(super) struct CompInfo {
    /// The poster's context.
    pub(super) context: Context,
    /// Flags of the completion.
    pub(super) flags: u64,
    /// Set if a success is reported too.
    pub(super) is_wanted: bool,
    /// FI_REMOTE_SIGNAL of a transmit: wakes a peer's reader that sleeps until signalled.
    pub(super) is_signal: bool,
}

/// Sink for the completions of one direction of an endpoint.
pub(super) struct CompSink {
    queue: Arc<SwCq>,
    /// Successes complete only with FI_COMPLETION.
    is_selective: bool,
    /// Readers sleep until a message with FI_REMOTE_SIGNAL arrives, or a failure.
    waits_for_signals: bool,
    /// The endpoint, as its owner knows it.
    source: Source,
}

impl CompSink {
    /// Makes a sink for a bound completion queue. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a queue of another provider.
    pub(super) fn new(side: &CqBinding, source: Source, waits_for_signals: bool) -> Result<Self> {
        let queue = side.queue.core().clone().into_any().downcast::<SwCq>();
        Ok(Self {
            queue: queue.map_err(|_| Errno::EINVAL)?,
            is_selective: side.selective,
            waits_for_signals,
            source,
        })
    }

    /// Returns whether a success is reported without FI_COMPLETION.
    pub(super) fn tells_all(&self) -> bool {
        !self.is_selective
    }

    /// Reserves a completion queue slot for an operation. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN.
    #[inline]
    pub(super) fn reserve(&self) -> Result {
        match self.queue.reserve() {
            true => Ok(()),
            false => Err(Errno::EAGAIN),
        }
    }

    /// Releases a reserved slot without a completion. Any context.
    pub(super) fn release(&self) {
        self.queue.release();
    }

    /// Requests that readers are woken when an operation ends; see [`SwCq::set_slot_waiter`].
    pub(super) fn await_slot(&self) {
        self.queue.set_slot_waiter();
    }

    /// Returns the completion of an operation without receive data.
    pub(super) fn describe(&self, report: &CompInfo) -> Completion {
        Completion {
            source: self.source.0 as u64,
            ..Completion::new(report.context, report.flags)
        }
    }

    /// Reports that an operation has succeeded. Any context.
    #[inline]
    pub(super) fn done(&self, report: &CompInfo, completion: Completion) {
        match report.is_wanted {
            true => self.queue.push_success(completion),
            false => self.queue.complete_silent(),
        }
    }

    /// Reports a message or write for a receive; `piece` is the address of a piece of a multi-receive buffer,
    /// or 0. Any context.
    #[inline]
    pub(super) fn arrived(&self, report: &CompInfo, piece: usize, arrival: &RxCompletion) {
        let kind = match arrival.is_write {
            true => FI_RMA | FI_REMOTE_WRITE | report.flags & FI_MULTI_RECV,
            false => report.flags,
        };
        let data = arrival.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let completion = Completion {
            flags: kind | data,
            len: arrival.len,
            data: arrival.data.map_or(0, u64::from),
            buf: piece,
            ..self.describe(report)
        };
        // A write with remote CQ data is always reported.
        let report = CompInfo {
            is_wanted: report.is_wanted || arrival.is_write || report.flags & FI_MULTI_RECV != 0,
            ..*report
        };
        match report.is_wanted && self.waits_for_signals && !arrival.is_signal {
            true => self.queue.push_success_quiet(completion),
            false => self.done(&report, completion),
        }
    }

    /// Reports that an operation failed, with the address of its buffer piece and `dropped` truncated bytes.
    /// Any context.
    #[cold]
    pub(super) fn failed(&self, report: &CompInfo, piece: usize, errno: Errno, dropped: usize) {
        self.queue.push(CqEntry::Failed(Failure {
            completion: Completion {
                buf: piece,
                ..self.describe(report)
            },
            olen: dropped,
            errno,
            prov_errno: -errno.to_int(),
            err_data: ErrData::None,
        }));
    }

    /// Attaches a progress source that readers of an empty queue call. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn admit(&self, filling: &ProgressHandle) -> Result {
        self.queue.attach_source(filling)
    }

    /// Removes a progress source. May sleep.
    pub(super) fn dismiss(&self, filling: &ProgressHandle) {
        self.queue.detach_source(filling);
    }

    /// Discards unread completions and passes their contexts to `reclaim`, which is called without a lock;
    /// with `keeps_receives`, completions of shared receives remain. Any context in which `reclaim` may be
    /// called.
    pub(super) fn forget(&self, keeps_receives: bool, reclaim: &mut dyn FnMut(Context)) {
        loop {
            let mut gone = [Context::NULL; FORGOTTEN];
            let mut places = gone.iter_mut();
            let mut is_all = true;
            self.queue.discard_matching(|outcome| {
                let completion = outcome.completion();
                let is_receive = completion.flags & (FI_RECV | FI_REMOTE_WRITE) != 0;
                let is_its =
                    completion.source == self.source.0 as u64 && !(is_receive && keeps_receives);
                // A multi-receive buffer is returned with its last piece.
                if !is_its || completion.buf != 0 && completion.flags & FI_MULTI_RECV == 0 {
                    return is_its;
                }
                match places.next() {
                    Some(place) => *place = completion.context,
                    None => is_all = false,
                }
                is_all
            });
            let left = places.len();
            for &context in gone.iter().take(FORGOTTEN - left) {
                reclaim(context);
            }
            if is_all {
                return;
            }
        }
    }
}
