// SPDX-License-Identifier: GPL-2.0

//! Processing of a channel's transmits, in order and by one thread at a time, and direct calls from the sending side
//! into the receiving side's consumer, which replace a message.

use super::{
    super::{
        info::NAME,
        op::{
            OpError,
            OpKind,
            SourceData, //
        },
        prelude::*, //
    },
    Inner, //
};
use crate::{
    fi::cntr::BoundCounters,
    util::{
        context::{
            self,
            Handlers, //
        },
        lock::FastLockIrqGuard, //
    },
};
use core::any::Any;

/// Most operations that one thread processes in a row.
pub(super) const MAX_RUN_OPS: usize = 16;

/// Bytes after which a thread leaves the rest to the work item.
pub(super) const MAX_RUN_BYTES: usize = 1 << 20;

/// Most bytes that are copied in a row in atomic context.
pub(super) const MAX_ATOMIC_RUN_BYTES: usize = 32 << 10;

/// Result of a processed transmit, to be reported.
struct OpResult {
    tx_info: CompInfo,
    rx_info: Option<(CompInfo, usize)>,
    result: core::result::Result<RxCompletion, OpError>,
}

/// The receiving side's consumer, and the value by which that consumer knows the endpoint.
pub(in super::super) struct DirectReceiver {
    pub(in super::super) consumer: Arc<dyn Any + Send + Sync>,
    pub(in super::super) source: Source,
}

impl Channel {
    /// Posts the `count` parts of an operation of `len` bytes, or none of them; `part` returns each one. The caller has
    /// reserved the completion. Any context.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::post_transmit`]; -FI_EAGAIN if too few slots are free.
    #[cold]
    pub(in super::super) fn post_parts(
        self: &Arc<Self>,
        (count, len): (usize, usize),
        mut part: impl FnMut(usize) -> (OpKind, CompInfo, SourceData),
    ) -> Result {
        let mut inner = self.inner.lock();
        if !inner.accepts_transmits() {
            return Err(Errno::ENOTCONN);
        }
        if inner.tx_queue.free_slots() < count {
            return Err(self.reject_full());
        }
        for number in 0..count {
            let (kind, info, source_data) = part(number);
            if number == 0 {
                self.tx_stats.record_start(info.flags, len);
            }
            if let Some(op) = inner.tx_queue.alloc_slot() {
                op.init(kind, info, source_data, false);
            }
        }
        self.try_process(inner);
        Ok(())
    }

    /// Processes transmits, if one can be processed and no other thread does. Returns whether it did.
    pub(super) fn try_process(self: &Arc<Self>, mut inner: FastLockIrqGuard<'_, Inner>) -> bool {
        let is_ready = !inner.is_processing && inner.ready_len(self).is_some();
        if is_ready {
            inner.is_processing = true;
            drop(inner);
            self.process();
        }
        is_ready
    }

    /// Processes the first transmit, which is short and the only one, under the lock.
    #[inline]
    pub(super) fn process_short(&self, mut inner: FastLockIrqGuard<'_, Inner>, has_receive: bool) {
        let Some(op) = inner.tx_queue.front() else {
            return;
        };
        let receive = match has_receive {
            true => inner.receives.fetched(),
            false => None,
        };
        let op_result = self.execute_op(op, receive);
        inner.free_first(has_receive);
        self.settle(&mut inner, &op_result);
        // Reported under the lock, which keeps completions in the order of the posts.
        self.report(&op_result);
    }

    fn execute_op(&self, op: &PostedOp, receive: Option<&Receive>) -> OpResult {
        let result = match self.rx_side() {
            Ok(receiver) => op.execute((&receiver.mr_table, receiver.rights), receive),
            Err(errno) => Err(OpError::Rejected(errno)),
        };
        OpResult {
            tx_info: op.info,
            rx_info: receive.map(|receive| (receive.info, receive.piece_addr)),
            result,
        }
    }

    /// Processes transmits within the limits of one run. The caller has set `is_processing`.
    pub(super) fn process(self: &Arc<Self>) {
        let (mut operations, mut bytes) = (0, 0);
        let may_sleep = context::may_sleep();
        let mut inner = self.inner.lock();
        while let Some(len) = inner.ready_len(self) {
            let is_much = !may_sleep && bytes + len > MAX_ATOMIC_RUN_BYTES;
            if operations == MAX_RUN_OPS || bytes >= MAX_RUN_BYTES || is_much {
                drop(inner);
                // `is_processing` stays set until the work item has run.
                let _ = Handlers::handler_queue().enqueue(self.clone());
                return;
            }
            // Examined in place: a copy is too large for the stack of an interrupt.
            let next = inner.take_first();
            let Some((op, receive)) = &next else {
                break;
            };
            drop(inner);
            let op_result = self.execute_op(op, receive.as_ref());
            operations += 1;
            bytes += len;
            inner = self.inner.lock();
            // Freed before the completion is reported: its reader may post the next operation at once.
            inner.free_first(receive.is_some());
            self.settle(&mut inner, &op_result);
            drop(inner);
            self.report(&op_result);
            inner = self.inner.lock();
            if receive.is_some() {
                inner.is_reporting_receives = false;
                if inner.no_receives {
                    self.idle_wait.notify_all();
                }
            }
        }
        inner.is_processing = false;
        let is_waited_for = inner.is_stopped || inner.no_transmits;
        drop(inner);
        if is_waited_for {
            self.idle_wait.notify_all();
        }
    }

    /// Counts the result of an operation, under the lock, and stops the channel after a failure. The parts behind one
    /// that has failed are not started: its failure is that of the operation.
    #[inline]
    fn settle(&self, inner: &mut Inner, op_result: &OpResult) {
        let later_parts = op_result.tx_info.later_parts;
        if op_result.result.is_ok() && later_parts > 0 {
            return;
        }
        self.count_result(inner, op_result);
        if op_result.result.is_err() {
            inner.is_stopped = true;
            for _ in 0..later_parts {
                inner.tx_queue.free_first();
            }
        }
    }

    /// Counts the result of an operation, under the lock.
    #[inline]
    fn count_result(&self, inner: &Inner, op_result: &OpResult) {
        let rx_comp = op_result.result.as_ref().ok();
        let result = rx_comp.map(|rx_comp| rx_comp.len).ok_or(Errno::EIO);
        self.tx_stats.record_completion(result.map(|_| ()));
        count_op(&inner.tx_counters, op_result.tx_info.flags, result.is_ok());
        let Some((rx_info, _)) = &op_result.rx_info else {
            return;
        };
        self.rx_stats.record_completion(result);
        // A write with remote CQ data consumes the receive, but is no message, and the receive counter leaves
        // it out.
        if !rx_comp.is_some_and(|rx_comp| rx_comp.is_write) {
            count_op(&inner.rx_counters, rx_info.flags, result.is_ok());
        }
    }

    /// Reports a result to both sides. `is_processing`, or the lock, excludes other reporters.
    #[inline(never)]
    fn report(&self, op_result: &OpResult) {
        let (Ok(receiver), Ok(sender)) = (self.rx_side(), self.tx_comp_sink()) else {
            return;
        };
        let sink = &receiver.comp_sink;
        let (tx_info, rx_info) = (&op_result.tx_info, &op_result.rx_info);
        match &op_result.result {
            Ok(_) if tx_info.later_parts > 0 => {}
            Ok(rx_comp) => {
                if let Some((info, piece_addr)) = rx_info {
                    sink.report_receive(info, *piece_addr, rx_comp);
                }
                sender.report_success(tx_info, sender.new_completion(tx_info));
            }
            Err(error) => {
                if error.is_violation() {
                    let what = fmt!(
                        "its connection is closed: operation without the right or a valid key"
                    );
                    self.violations.record(&NAME, what);
                }
                // A refused operation has not used the receive that it matched, which is cancelled.
                let (errno, of_receive, dropped) = match *error {
                    OpError::Truncated(dropped) => (Errno::ECONNRESET, Errno::ETRUNC, dropped),
                    OpError::Rejected(errno) => (errno, Errno::ECANCELED, 0),
                };
                if let Some((info, piece_addr)) = rx_info {
                    sink.report_failure(info, *piece_addr, of_receive, dropped);
                }
                sender.report_failure(tx_info, 0, errno, 0);
                // As on a wire, a failed operation ends the connection.
                if let Some(conn) = self.conn.as_ref() {
                    conn.schedule_disconnect();
                }
            }
        }
    }

    /// Sets the target of direct calls, until the channel ends. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn set_direct_receiver(&self, receiver: DirectReceiver) -> Result {
        // Boxed: with the value in the channel itself, a message between connected endpoints took 5 % longer.
        let receiver = KBox::new(receiver, GFP_KERNEL)?;
        let old = self.inner.lock().direct_receiver.replace(receiver);
        drop(old);
        Ok(())
    }

    /// Calls the target, if no transmit is posted or in process: transmits that are posted meanwhile are
    /// queued, and the end of the channel waits for the call. Returns `None` if a transmit is under way or no
    /// target is set. Any context.
    pub(in super::super) fn call_direct<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&DirectReceiver) -> R,
    ) -> Option<R> {
        let mut inner = self.inner.lock();
        if !inner.accepts_transmits() || !inner.is_idle() {
            return None;
        }
        let receiver = inner.direct_receiver.take()?;
        inner.is_processing = true;
        drop(inner);
        let answer = call(&receiver);
        let mut inner = self.inner.lock();
        inner.direct_receiver = Some(receiver);
        inner.is_processing = false;
        let has_waited = !inner.is_idle() || inner.no_transmits;
        inner.is_processing = has_waited;
        drop(inner);
        if has_waited {
            self.process();
        }
        Some(answer)
    }
}

/// Counts an operation, if a counter is bound for it.
#[inline]
pub(super) fn count_op(counters: &Option<BoundCounters>, flags: u64, is_success: bool) {
    let counter = counters.as_ref().and_then(|bound| bound.counter_for(flags));
    match (counter, is_success) {
        (Some(counter), true) => counter.add(1),
        (Some(counter), false) => counter.add_errors(1),
        (None, _) => {}
    }
}

#[kunit_tests(kofi_loop_process)]
mod tests {
    use super::{
        super::close::ClosingSide,
        *, //
    };

    fn set_receiver(channel: &Channel) -> Result<Arc<u32>> {
        let consumer = Arc::new(7u32, GFP_KERNEL)?;
        let source = Source(3);
        channel.set_direct_receiver(DirectReceiver {
            consumer: consumer.clone(),
            source,
        })?;
        Ok(consumer)
    }

    /// Returns the consumer's value and the source of the direct receiver.
    fn call(channel: &Arc<Channel>) -> Option<(u32, usize)> {
        let answer = channel
            .call_direct(|receiver| Some((*receiver.consumer.downcast_ref()?, receiver.source.0)));
        answer.flatten()
    }

    #[test]
    fn direct_receiver_is_held_until_close() -> Result {
        let channel = Channel::new(0)?;
        assert_eq!(call(&channel), None);
        let consumer = set_receiver(&channel)?;
        assert_eq!(call(&channel), Some((7, 3)));
        assert_eq!(call(&channel), Some((7, 3)));
        channel.close(ClosingSide::Neither, &mut |_| {});
        assert_eq!(call(&channel), None);
        // The channel has dropped its reference.
        assert!(Arc::into_unique_or_drop(consumer).is_some());
        Ok(())
    }

    #[test]
    fn direct_calls_do_not_nest() -> Result {
        let channel = Channel::new(0)?;
        let _consumer = set_receiver(&channel)?;
        assert_eq!(channel.call_direct(|_| call(&channel)), Some(None));
        assert_eq!(call(&channel), Some((7, 3)));
        channel.refuse_transmits();
        assert_eq!(call(&channel), None);
        channel.close(ClosingSide::Neither, &mut |_| {});
        Ok(())
    }
}
