// SPDX-License-Identifier: GPL-2.0

//! Where the consumer is told what has come of its operations.

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

/// How many that nobody has read are given back in one go.
const FORGOTTEN: usize = 16;

/// What is told of an operation.
#[derive(Clone, Copy)]
pub(super) struct CompInfo {
    /// What the poster gets back.
    pub(super) context: Context,
    /// What its completion has.
    pub(super) flags: u64,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
    /// FI_REMOTE_SIGNAL of a transmit: wakes a peer's reader that sleeps until signalled.
    pub(super) is_signal: bool,
}

/// Where the operations of one direction of an endpoint complete.
pub(super) struct CompSink {
    queue: Arc<SwCq>,
    /// Successes complete only with FI_COMPLETION.
    is_selective: bool,
    /// Readers sleep until a message with FI_REMOTE_SIGNAL arrives, or a failure.
    waits_for_signals: bool,
    /// The endpoint.
    source: Source,
}

impl CompSink {
    /// That of what is bound for it. May sleep.
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

    /// Whether a success is told without being asked for.
    pub(super) fn tells_all(&self) -> bool {
        !self.is_selective
    }

    /// Takes room for what comes of an operation. Any context.
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

    /// Gives it back: nobody is told. Any context.
    pub(super) fn release(&self) {
        self.queue.release();
    }

    /// Requests that readers are woken when an operation ends; see [`SwCq::await_slot`].
    pub(super) fn await_slot(&self) {
        self.queue.set_slot_waiter();
    }

    /// What is told of an operation of which nothing else is known.
    pub(super) fn describe(&self, report: &CompInfo) -> Completion {
        Completion {
            source: self.source.0 as u64,
            ..Completion::new(report.context, report.flags)
        }
    }

    /// An operation has been done. Any context.
    #[inline]
    pub(super) fn done(&self, report: &CompInfo, completion: Completion) {
        match report.is_wanted {
            true => self.queue.push_success(completion),
            false => self.queue.complete_silent(),
        }
    }

    /// Something has come for a receive, into a piece of a buffer for several messages if that is not 0. Any
    /// context.
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
        // Who writes with data wants that told.
        let report = CompInfo {
            is_wanted: report.is_wanted || arrival.is_write || report.flags & FI_MULTI_RECV != 0,
            ..*report
        };
        match report.is_wanted && self.waits_for_signals && !arrival.is_signal {
            true => self.queue.push_success_quiet(completion),
            false => self.done(&report, completion),
        }
    }

    /// It has not, whose piece of a buffer is there; `dropped` bytes were too many. Any context.
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

    /// Has a reader who finds nothing ask `filling`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn admit(&self, filling: &ProgressHandle) -> Result {
        self.queue.attach_source(filling)
    }

    /// Has nobody ask it any more. May sleep.
    pub(super) fn dismiss(&self, filling: &ProgressHandle) {
        self.queue.detach_source(filling);
    }

    /// Gives what nobody has read to `reclaim`, which is called without a lock; but for that of receives where
    /// others share them, which remains. Any context that it bears.
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
                // A buffer for several messages is given back with its last piece.
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
