// SPDX-License-Identifier: GPL-2.0

//! The fast path of posting, which most posts take.
//!
//! The fast path is open while the data calls need no lock, the endpoint is connected both ways,
//! every success is reported, and all completions fit into the completion queue. For each condition
//! that does not hold, the lock of `producer` is barred, so that a post checks a single number.
//! Data calls that may run concurrently take the lock, in another instance of the function. A post
//! that finds the fast path barred, or has to be traced, goes by [`post`](super::post).

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

/// A post on the fast path: its slot is filled and its number taken, and it is counted. `finish` or
/// `finish_silent` ends it.
///
/// # Invariants
///
/// `template` is that of `producer`, which is locked.
pub(in crate::prov::verbs) struct FastPost<'a, P> {
    /// Queue that it is posted to.
    pub(in crate::prov::verbs) wq: &'a WorkQueue,
    producer: BiasedGuard<'a, Producer>,
    template: NonNull<P>,
    /// `wr_id` of the work request.
    pub(in crate::prov::verbs) wr_id: u64,
    kind: StatKind,
}

impl<P> FastPost<'_, P> {
    /// Returns the template to post with.
    #[inline(always)]
    pub(in crate::prov::verbs) fn template(&mut self) -> &mut P {
        // SAFETY: By the type invariant it is there, and the lock makes this its only user.
        unsafe { self.template.as_mut() }
    }

    /// Undoes a post of `len` bytes that the device has not taken: the next post gets its slot and
    /// number.
    #[cold]
    fn undo_post(&mut self, len: usize) {
        self.producer.next_seq = self.producer.next_seq.wrapping_sub(1);
        self.wq.post_stats.undo_post(self.kind, len);
    }
}

impl FastPost<'_, SendTemplate> {
    /// Returns whether the work request has to be signalled although its success is not reported.
    #[inline(always)]
    pub(in crate::prov::verbs) fn needs_signal(&self) -> bool {
        self.producer
            .is_signal_due(self.producer.next_seq.wrapping_sub(1))
    }

    /// Returns the number of operations posted unsignalled before this one, since the last
    /// signalled one.
    #[inline(always)]
    fn unsignalled(&self) -> u32 {
        self.producer
            .unsignalled_before(self.producer.next_seq.wrapping_sub(1))
    }

    /// Ends a post that was signalled; `posted` says whether the device has taken it.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(mut self, posted: &Result) {
        if posted.is_err() {
            self.undo_send();
        }
    }

    /// Ends a post that is not reported and was signalled as [`Self::needs_signal`] says; `posted`
    /// says whether the device has taken it.
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
    /// Ends the post; `posted` says whether the device has taken it.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(mut self, posted: &Result) {
        if posted.is_err() {
            self.undo_post(0);
        }
    }
}

impl WorkQueue {
    /// Begins a send, write or read of `len` bytes, whose completion has `flags`. Returns None if
    /// the fast path is barred or the queue looks full. `LOCKS` selects the instance for data calls
    /// that may run concurrently and take the lock.
    ///
    /// # Safety
    ///
    /// The queue is a send queue, and the requirements of [`WorkQueue::begin_post`] hold.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn begin_fast_send<const LOCKS: bool>(
        &self,
        context: Context,
        (flags, len): (u64, usize),
        kind: OpKind,
    ) -> Option<FastPost<'_, SendTemplate>> {
        // SAFETY: By this function's safety requirement; the queue is unbarred only with a template
        // of its direction.
        unsafe {
            self.begin_fast::<_, LOCKS>((context, flags, kind), len, |poster| match poster {
                WrTemplate::Send(sender) => sender,
                WrTemplate::Recv(_) => unreachable_unchecked(),
            })
        }
    }

    /// Begins a receive like [`Self::begin_fast_send`] begins a send.
    ///
    /// # Safety
    ///
    /// The queue is a receive queue, and the requirements of [`WorkQueue::begin_post`] hold.
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

    /// Fills a slot and takes its number, for [`Self::begin_fast_send`] and
    /// [`Self::begin_fast_recv`].
    ///
    /// # Safety
    ///
    /// The requirements of [`WorkQueue::begin_post`] hold.
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
            false => unsafe { self.producer.enter_biased() },
            true => self.producer.lock_fast(),
        }?;
        let seq = head.next_seq;
        if seq == head.free_end {
            return None;
        }
        // SAFETY: The lock is barred as long as there is no target.
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
        // Undone if it is not posted; it is not read before that, as the queue is locked. Read
        // again here because registers are few.
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
