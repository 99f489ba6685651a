// SPDX-License-Identifier: GPL-2.0

//! The sink for the completions of one direction of an endpoint.

use super::{
    super::common::sw_cq::SwCq,
    prelude::*, //
};
use crate::{
    abi::flags::*,
    fi::{
        cq::{
            Completion,
            CqEntry,
            ErrData,
            Failure, //
        },
        provider::CqBinding, //
    },
};

/// Unread completions that are discarded in one pass.
const DISCARD_BATCH: usize = 16;

/// Completion attributes of an operation.
#[derive(Clone, Copy)]
pub(super) struct CompInfo {
    /// The poster's context.
    pub(super) context: Context,
    /// Flags of the completion.
    pub(super) flags: u64,
    /// Set if a success is reported too.
    pub(super) reports_success: bool,
    /// FI_REMOTE_SIGNAL of a transmit: wakes a peer's reader that sleeps until signalled.
    pub(super) remote_signal: bool,
    /// Number of parts of the operation behind this one. Only the last part reports a success.
    pub(super) later_parts: u16,
}

/// Sink for the completions of one direction of an endpoint.
pub(super) struct CompSink {
    pub(super) cq: Arc<SwCq>,
    /// A success is reported without FI_COMPLETION.
    pub(super) reports_all_successes: bool,
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
    pub(super) fn new(
        binding: &CqBinding,
        source: Source,
        waits_for_signals: bool,
    ) -> Result<Self> {
        let cq = binding.queue.core().clone().into_any().downcast::<SwCq>();
        Ok(Self {
            cq: cq.map_err(|_| Errno::EINVAL)?,
            reports_all_successes: !binding.selective,
            waits_for_signals,
            source,
        })
    }

    /// Reserves a completion queue slot for an operation. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN.
    #[inline]
    pub(super) fn reserve(&self) -> Result {
        self.reserve_many(1)
    }

    /// Reserves the entries of `count` operations, or none.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN.
    #[inline]
    pub(super) fn reserve_many(&self, count: u32) -> Result {
        Errno::EAGAIN.when(!self.cq.reserve_many(count))
    }

    /// Returns the completion of an operation without receive data.
    pub(super) fn new_completion(&self, info: &CompInfo) -> Completion {
        Completion {
            source: self.source.0 as u64,
            ..Completion::new(info.context, info.flags)
        }
    }

    /// Reports that an operation has succeeded. Any context.
    #[inline]
    pub(super) fn report_success(&self, info: &CompInfo, completion: Completion) {
        match info.reports_success {
            true => self.cq.push_success(completion),
            false => self.cq.complete_silent(),
        }
    }

    /// Reports a message or write for a receive; `piece_addr` is the address of a piece of a multi-receive buffer,
    /// or 0. Any context.
    #[inline]
    pub(super) fn report_receive(
        &self,
        info: &CompInfo,
        piece_addr: usize,
        rx_comp: &RxCompletion,
    ) {
        let kind = match rx_comp.is_write {
            true => FI_RMA | FI_REMOTE_WRITE | info.flags & FI_MULTI_RECV,
            false => info.flags,
        };
        let data = rx_comp.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let completion = Completion {
            flags: kind | data,
            len: rx_comp.len,
            data: rx_comp.data.map_or(0, u64::from),
            buf: piece_addr,
            ..self.new_completion(info)
        };
        // A write with remote CQ data is always reported.
        let is_special = rx_comp.is_write || info.flags & FI_MULTI_RECV != 0;
        match info.reports_success || is_special {
            true if self.waits_for_signals && !rx_comp.remote_signal => {
                self.cq.push_success_quiet(completion);
            }
            true => self.cq.push_success(completion),
            false => self.cq.complete_silent(),
        }
    }

    /// Reports that an operation failed, with the address of its buffer piece and `dropped` truncated bytes.
    /// Any context.
    #[cold]
    pub(super) fn report_failure(
        &self,
        info: &CompInfo,
        piece_addr: usize,
        errno: Errno,
        dropped: usize,
    ) {
        self.cq.push(CqEntry::Failed(Failure {
            completion: Completion {
                buf: piece_addr,
                ..self.new_completion(info)
            },
            olen: dropped,
            errno,
            prov_errno: -errno.to_int(),
            err_data: ErrData::None,
        }));
    }

    /// Discards unread completions and passes their contexts to `reclaim`, which is called without a lock;
    /// with `keeps_receives`, completions of shared receives remain. Any context in which `reclaim` may be
    /// called.
    pub(super) fn discard_unread(&self, keeps_receives: bool, reclaim: &mut dyn FnMut(Context)) {
        loop {
            let mut removed = [Context::NULL; DISCARD_BATCH];
            let mut slots = removed.iter_mut();
            let mut is_all = true;
            self.cq.discard_matching(|entry| {
                let completion = entry.completion();
                let is_receive = completion.flags & (FI_RECV | FI_REMOTE_WRITE) != 0;
                let is_kept = is_receive && keeps_receives;
                let is_its = completion.source == self.source.0 as u64 && !is_kept;
                // A multi-receive buffer is returned with its last piece.
                if !is_its || completion.buf != 0 && completion.flags & FI_MULTI_RECV == 0 {
                    return is_its;
                }
                match slots.next() {
                    Some(slot) => *slot = completion.context,
                    None => is_all = false,
                }
                is_all
            });
            let left = slots.len();
            for &context in removed.iter().take(DISCARD_BATCH - left) {
                reclaim(context);
            }
            if is_all {
                return;
            }
        }
    }
}
