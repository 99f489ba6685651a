// SPDX-License-Identifier: GPL-2.0

//! The short way into a queue, which nearly everything takes.
//!
//! It is there while no others are about, the endpoint is connected both ways, every success is
//! reported, and everything fits into the completion queue: the gate of `head` is barred for each of these
//! that is not so, and a post looks at one number. Where the consumer's data calls may meet it has the lock,
//! and is another function. What finds it shut, or is to be
//! traced, goes by [`posting`](super::posting).

use super::{
    OpKind,
    Producer,
    StatKind,
    WorkQueue,
    WrTemplate, //
};
use crate::{
    abi::{
        biased_lock::BiasedGuard,
        trace, //
    },
    fi::memory::Context,
    prov::verbs::wr_ring::WrSlot,
    rdma::wr_template::{
        RecvTemplate,
        SendTemplate, //
    },
};
use core::{
    hint::unreachable_unchecked,
    ptr::NonNull, //
};
use kernel::error::Result;

/// A post by the short way: it has its slot and its number, is counted, and `settle` or `finish_silent`
/// ends it.
///
/// # Invariants
///
/// `poster` is that of `head`, which is locked.
pub(in crate::prov::verbs) struct FastPost<'a, P> {
    /// Where it is posted.
    pub(in crate::prov::verbs) wq: &'a WorkQueue,
    producer: BiasedGuard<'a, Producer>,
    template: NonNull<P>,
    /// The number that its completion brings back.
    pub(in crate::prov::verbs) wr_id: u64,
    kind: StatKind,
}

impl<P> FastPost<'_, P> {
    /// What to post with.
    #[inline(always)]
    pub(in crate::prov::verbs) fn template(&mut self) -> &mut P {
        // SAFETY: By the type invariant it is there, and nobody else uses it.
        unsafe { self.template.as_mut() }
    }

    /// Nothing has been posted, of so many bytes: slot and number are the next one's.
    #[cold]
    fn undo_post(&mut self, len: usize) {
        self.producer.next_seq = self.producer.next_seq.wrapping_sub(1);
        self.wq.post_stats.undo_post(self.kind, len);
    }
}

impl FastPost<'_, SendTemplate> {
    /// Whether its success is to be signalled, although nobody is told of it.
    #[inline(always)]
    pub(in crate::prov::verbs) fn needs_signal(&self) -> bool {
        self.producer
            .is_signal_due(self.producer.next_seq.wrapping_sub(1))
    }

    /// How many have been posted unsignalled before it, since the last signalled one.
    #[inline(always)]
    fn unsignalled(&self) -> u32 {
        self.producer
            .unsignalled_before(self.producer.next_seq.wrapping_sub(1))
    }

    /// The operation has been posted signalled, or has not been posted.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(mut self, posted: &Result) {
        if posted.is_err() {
            self.undo_send();
        }
    }

    /// The operation, of which nobody is told, has been posted as [`Self::signal`] said, or has not.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish_silent(mut self, posted: &Result) {
        match posted {
            Ok(()) => {
                self.producer.unsignalled = match self.needs_signal() {
                    true => 0,
                    false => self.unsignalled() + 1,
                };
                self.producer.silent_end = self.producer.next_seq;
            }
            Err(_) => self.undo_send(),
        }
    }

    #[cold]
    fn undo_send(&mut self) {
        let len = self.template().len() as usize;
        self.undo_post(len);
    }
}

impl FastPost<'_, RecvTemplate> {
    /// The receive has been posted, or has not.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(mut self, posted: &Result) {
        if posted.is_err() {
            self.undo_post(0);
        }
    }
}

impl WorkQueue {
    /// Begins to send, write or read so many bytes, which is reported with `flags` if it is reported; if
    /// the short way is there and the queue is not full: the one of data calls that are alone, or the one of
    /// those that lock.
    ///
    /// # Safety
    ///
    /// The queue is a send queue, and the requirements of [`WorkQueue::begin`] hold.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn begin_fast_send<const LOCKS: bool>(
        &self,
        context: Context,
        (flags, len): (u64, usize),
        kind: OpKind,
    ) -> Option<FastPost<'_, SendTemplate>> {
        // SAFETY: By this function's safety requirement; the queue is unbarred only with a poster of its direction.
        unsafe {
            self.begin_fast::<_, LOCKS>((context, flags, kind), len, |poster| match poster {
                WrTemplate::Send(sender) => sender,
                WrTemplate::Recv(_) => unreachable_unchecked(),
            })
        }
    }

    /// The same for a receive.
    ///
    /// # Safety
    ///
    /// The queue is a receive queue, and the requirements of [`WorkQueue::begin`] hold.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn begin_fast_recv<const LOCKS: bool>(
        &self,
        context: Context,
        flags: u64,
    ) -> Option<FastPost<'_, RecvTemplate>> {
        // SAFETY: As in `begin_fast_send`.
        unsafe {
            let op = (context, flags, OpKind::Reported);
            self.begin_fast::<_, LOCKS>(op, 0, |poster| match poster {
                WrTemplate::Recv(receiver) => receiver,
                WrTemplate::Send(_) => unreachable_unchecked(),
            })
        }
    }

    /// Fills a slot and takes its number, as [`Self::begin_fast_send`] and [`Self::begin_fast_recv`] do.
    ///
    /// # Safety
    ///
    /// The requirements of [`WorkQueue::begin`] hold.
    #[inline(always)]
    unsafe fn begin_fast<P, const LOCKS: bool>(
        &self,
        (context, flags, usage): (Context, u64, OpKind),
        len: usize,
        poster: impl FnOnce(&mut WrTemplate) -> &mut P,
    ) -> Option<FastPost<'_, P>> {
        if trace::posts() {
            return None;
        }
        let mut head = match LOCKS {
            // SAFETY: By this function's safety requirement.
            false => unsafe { self.producer.enter_alone() },
            true => self.producer.lock_unbarred(),
        }?;
        let seq = head.next_seq;
        if seq == head.free_end {
            return None;
        }
        // SAFETY: The gate is barred as long as it is not there.
        let target = unsafe { head.target.as_mut().unwrap_unchecked() };
        let poster = NonNull::from(poster(&mut target.template));
        let wr_id = target.wq_id.wr_id(seq);
        let slot = WrSlot {
            context,
            flags,
            kind: usage,
            is_deferred: false,
            is_reported: false,
        };
        // SAFETY: The slot is ours: `head` is locked, and `tail` shows it to be free.
        unsafe { self.ring.fill(seq, slot) };
        // Taken back if it is not posted: nobody looks before that. Read again, as registers are few here.
        head.next_seq = head.next_seq.wrapping_add(1);
        let kind = StatKind::from_flags(flags);
        self.post_stats.record_post(kind, len);
        // INVARIANT: It is that of `head`.
        Some(FastPost {
            wq: self,
            producer: head,
            template: poster,
            wr_id,
            kind,
        })
    }
}
