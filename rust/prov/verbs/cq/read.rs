// SPDX-License-Identifier: GPL-2.0

//! Reads of a completion queue: from the provider's interface to `ib_poll_cq()`.
//!
//! A read polls one batch of completions from the device, and writes a run of successes straight to
//! the consumer's entries. A backlog, counted entries and special completions go through
//! `read_general`, entry by entry. The lock of `state` is held while a batch is polled and read.

use super::poll::{
    CqState,
    POLL_BATCH, //
};
use crate::{
    abi::{
        KOFI_VALUE_CALLBACKS,
        KOFI_VALUE_ENTRIES,
        KOFI_VALUE_ERRORS,
        KOFI_VALUE_OVERRUNS,
        KOFI_VALUE_SIZE, //
    },
    fi::cq::{
        Completion,
        Entries,
        ErrData,
        Failure,
        Notifier, //
    },
    prov::verbs::{
        prelude::*,
        wc_backlog::DeferredWc, //
    },
    rdma::{
        self,
        cq::{
            CqNotify,
            Wc, //
        },
        dim::CqDim, //
    },
};

impl provider::CompletionQueue for Cq {
    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(KOFI_VALUE_SIZE, self.size as u64);
        out.add_value(KOFI_VALUE_ENTRIES, self.entries_read.get());
        out.add_value(KOFI_VALUE_ERRORS, self.errors_read.get());
        out.add_value(KOFI_VALUE_CALLBACKS, self.interrupts.handler_calls());
        out.add_value(KOFI_VALUE_OVERRUNS, self.overruns.load(Relaxed));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    #[inline(always)]
    fn read(&self, entries: Entries<'_>) -> Result<usize> {
        match entries {
            Entries::Context(space) => self.read_into(space),
            Entries::Msg(space) => self.read_into(space),
            Entries::Data(space) => self.read_into(space),
            Entries::Tagged(space) => self.read_into(space),
            Entries::Sourced(space) => self.read_into(space),
        }
    }

    fn read_error(&self) -> Result<Failure> {
        let mut freed = 0;
        let mut state = self.lock_data();
        if state.backlog.is_empty() {
            state.poll_to_backlog(&self.poller, &mut freed);
        }
        let is_next = state.backlog.front().is_some_and(DeferredWc::is_failure);
        let taken = if is_next {
            state.pop_deferred(&mut freed)
        } else {
            None
        };
        let failure = taken.map(|(completion, direction, done)| Failure {
            completion: Completion {
                len: 0,
                ..completion
            },
            olen: 0,
            errno: wc_status::status_errno(done.status, direction),
            prov_errno: done.status.code() as i32,
            err_data: ErrData::None,
        });
        self.errors_read.add(u64::from(failure.is_some()));
        self.unlock_and_post(state, freed);
        failure.ok_or(Errno::EAGAIN)
    }

    fn progress(&self) {
        self.progress_all();
    }

    fn set_moderation(&self, count: u16, period: u16) -> Result {
        let _changing = self.moderation.lock();
        self.is_adaptive.store(false, Relaxed);
        if let Some(dim) = self.dim.as_ref() {
            // A reader that has seen the flag may take one more sample, which changes nothing.
            dim.set_enabled(false)?;
        }
        Ok(self.poller.cq().set_moderation(count, period)?)
    }

    fn set_adaptive(&self, is_adaptive: bool) -> Result {
        if !is_adaptive {
            return self.set_moderation(0, 0);
        }
        let _changing = self.moderation.lock();
        if self.dim.as_ref().is_none() {
            let dim = CqDim::new(self.poller.cq().clone())?;
            // There is no other caller.
            let _ = self.dim.populate(dim);
        }
        if let Some(dim) = self.dim.as_ref() {
            dim.set_enabled(true)?;
        }
        self.is_adaptive.store(true, Relaxed);
        Ok(())
    }

    fn arm(&self) -> bool {
        self.poller.cq().req_notify(match self.is_solicited_only() {
            true => CqNotify::Solicited,
            false => CqNotify::NextComp,
        })
    }

    fn has_backlog(&self) -> bool {
        // A thread that has polled completions and not yet moved them to the backlog holds the
        // lock.
        !self.lock_data().backlog.is_empty()
    }

    fn notifier(&self) -> &Notifier {
        &self.interrupts
    }

    fn strerror(&self, prov_errno: i32) -> &'static CStr {
        wc_status::status_text(WcStatus::from_code(prov_errno as u32))
    }

    fn close(&self) {}
}

impl Cq {
    /// Reads completions into entries of one format. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN without a completion, -FI_EAVAIL when a failure is next.
    #[inline(always)]
    fn read_into<E: From<Completion>>(&self, entries: &mut [MaybeUninit<E>]) -> Result<usize> {
        // SAFETY: As in `lock_data`.
        match unsafe { self.state.enter_biased() } {
            Some(inner) => self.read_fast(inner, entries),
            None => self.read_locked(entries),
        }
    }

    /// Reads like [`Self::read_into`], with the lock taken.
    #[inline(never)]
    fn read_locked<E: From<Completion>>(&self, entries: &mut [MaybeUninit<E>]) -> Result<usize> {
        self.read_fast(self.lock_data(), entries)
    }

    /// Reads like [`Self::read_into`]. In nearly all cases one poll returns all completions, and
    /// `complete_run` writes all of them.
    #[inline(always)]
    fn read_fast<E: From<Completion>>(
        &self,
        mut inner: BiasedGuard<'_, CqState>,
        entries: &mut [MaybeUninit<E>],
    ) -> Result<usize> {
        if entries.is_empty() || !inner.can_read_fast() || trace::completions() {
            // SAFETY: No batch has been polled.
            return unsafe { self.read_general(inner, entries, None) };
        }
        let batch = entries.len().min(POLL_BATCH);
        let polled = inner.batch.poll(&self.poller, batch);
        if polled == 0 {
            return Err(Errno::EAGAIN);
        }
        // Entries are not counted here: `can_read_fast` says so.
        // SAFETY: The batch has just been polled, and the backlog is empty, as `can_read_fast`
        // says.
        let run = unsafe { inner.complete_run(0, entries, &mut 0) };
        if run == polled && (run < batch || run == entries.len()) {
            // SAFETY: The lock of `state` is held.
            unsafe { self.count_read(run) };
            return Ok(run);
        }
        // SAFETY: `complete_run` has taken the first `run` completions.
        unsafe { self.read_general(inner, entries, Some(run)) }
    }

    /// Continues [`Self::read_fast`] after the first `taken` completions of the batch, if a batch
    /// has been polled.
    ///
    /// # Safety
    ///
    /// The first `taken` completions of the batch have been taken, and no others.
    #[inline(never)]
    unsafe fn read_general<E: From<Completion>>(
        &self,
        mut inner: BiasedGuard<'_, CqState>,
        entries: &mut [MaybeUninit<E>],
        taken: Option<usize>,
    ) -> Result<usize> {
        let mut freed = 0;
        let count = match taken {
            None => inner.read(&self.poller, entries, &mut freed),
            // SAFETY: By this function's safety requirement.
            Some(taken) => unsafe {
                inner.read_rest_of_batch(&self.poller, taken, entries, &mut freed)
            },
        };
        let found = if count > 0 {
            Ok(())
        } else if inner.backlog.is_empty() && !entries.is_empty() {
            Err(Errno::EAGAIN)
        } else {
            inner.peek(&self.poller, &mut freed)
        };
        // SAFETY: The lock of `state` is held.
        unsafe { self.count_read(count) };
        self.unlock_and_post(inner, freed);
        found.map(|()| count)
    }

    /// Counts entries that a reader gets.
    ///
    /// # Safety
    ///
    /// The lock of `state` is held.
    #[inline(always)]
    unsafe fn count_read(&self, count: usize) {
        self.entries_read.add(count as u64);
        if self.is_adaptive.load(Relaxed) {
            // SAFETY: By this function's safety requirement.
            unsafe { self.sample(count) };
        }
    }

    /// Counts entries for the adaptive moderation.
    ///
    /// # Safety
    ///
    /// As for [`Self::count_read`].
    #[cold]
    #[inline(never)]
    unsafe fn sample(&self, count: usize) {
        if let Some(dim) = self.dim.as_ref().filter(|_| count > 0) {
            // SAFETY: The lock of `state` serialises the samples.
            unsafe { dim.sample(count as u64) };
        }
    }
}

impl CqState {
    /// Returns whether a read may report completions as it polls them, with no other work to do.
    #[inline]
    fn can_read_fast(&self) -> bool {
        self.backlog.is_empty() && !self.is_accounting && self.pending_cas_wqs == 0
    }

    /// Writes successes of the batch from index `from` on, as long as they are of one queue and
    /// need no more than an entry; returns their number. This is the common case: values that all
    /// of them share are looked up and stored once.
    ///
    /// # Safety
    ///
    /// The completions of the batch from index `from` on have not been taken, and the backlog is empty.
    #[inline(always)]
    unsafe fn complete_run<E: From<Completion>>(
        &mut self,
        from: usize,
        entries: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let polled = self.batch.completions().get(from..).unwrap_or(&[]);
        let Some(first) = polled.first() else {
            return 0;
        };
        let (wq_index, _) = first.wr_id_halves();
        let Some(Some(entry)) = self.wqs.get_mut(wq_index as usize) else {
            return 0;
        };
        if entry.counters.is_some() {
            return 0;
        }
        let wq = &*entry.wq;
        // SAFETY: `write_entries` passes operations that have succeeded. They have not been retired, by this function's
        // safety requirement, and the lock is held.
        let slots = unsafe { wq.slot_reader() };
        // Completions with immediate data are left to `complete_one`.
        let count = match wq.direction {
            WqDirection::Transmit => write_entries(polled, entries, (wq_index, slots), |_| Some(0)),
            WqDirection::Receive => {
                let mut bytes = 0;
                let count = write_entries(polled, entries, (wq_index, slots), |wc| {
                    let len = (!wc.has_imm()).then(|| wc.byte_len())?;
                    bytes += u64::from(len);
                    Some(len as usize)
                });
                wq.record_received(bytes);
                count
            }
        };
        if let Some(last) = count.checked_sub(1).and_then(|last| polled.get(last)) {
            let (_, seq) = last.wr_id_halves();
            // SAFETY: As above; by the type invariant of the entry. With an empty backlog no
            // completion waits for a reader.
            *freed = freed.wrapping_add(unsafe { wq.retire(&mut entry.tail, seq) });
        }
        count
    }

    /// Continues [`Self::read`] after the first `taken` completions of the batch.
    ///
    /// # Safety
    ///
    /// The first `taken` completions of the batch have been taken, and no others.
    unsafe fn read_rest_of_batch<E: From<Completion>>(
        &mut self,
        poller: &rdma::cq::CqPoller,
        taken: usize,
        entries: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let polled = self.batch.completions().len();
        // SAFETY: By this function's safety requirement.
        let count = unsafe { self.complete_batch(taken, entries, freed) };
        // A batch that was not full was the last one.
        if polled < entries.len().min(POLL_BATCH) {
            return count;
        }
        self.read_batches(poller, count, entries, freed)
    }

    /// Fills `entries`, up to a failure, and returns the number of entries written.
    fn read<E: From<Completion>>(
        &mut self,
        poller: &rdma::cq::CqPoller,
        entries: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let mut count = 0;
        while let Some(into) = entries.get_mut(count) {
            match self.backlog.front() {
                None => return self.read_batches(poller, count, entries, freed),
                Some(front) if front.is_failure() => break,
                Some(_) => {}
            }
            if let Some((completion, _, _)) = self.pop_deferred(freed) {
                into.write(completion.into());
                count += 1;
            }
        }
        count
    }

    /// Fills `entries` from `count` on with completions of the device, as long as the backlog is
    /// empty.
    fn read_batches<E: From<Completion>>(
        &mut self,
        poller: &rdma::cq::CqPoller,
        mut count: usize,
        entries: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        while let (Some(left @ [_, ..]), true) = (entries.get_mut(count..), self.backlog.is_empty())
        {
            let batch = left.len().min(POLL_BATCH);
            let polled = self.batch.poll(poller, batch);
            // SAFETY: The batch has just been polled.
            count += unsafe { self.complete_batch(0, left, freed) };
            if polled < batch {
                break;
            }
        }
        count
    }

    /// Writes the reportable completions of the batch to `entries`, which is at least as long; its
    /// first `count` entries have been written. Returns the number of entries in `entries`.
    ///
    /// # Safety
    ///
    /// The first `count` completions of the batch have been taken, and no others.
    unsafe fn complete_batch<E: From<Completion>>(
        &mut self,
        mut count: usize,
        entries: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let (mut next, end) = (count, self.batch.completions().len());
        while let (true, Some(left)) = (next < end, entries.get_mut(count..)) {
            let run = match self.backlog.is_empty() && !trace::completions() {
                // SAFETY: By this function's safety requirement; what is taken here is before `next`.
                true => unsafe { self.complete_run(next, left, freed) },
                false => 0,
            };
            if run > 0 {
                count += run;
                next += run;
                continue;
            }
            // SAFETY: As above.
            let completion = unsafe { self.complete_one(next, freed) };
            next += 1;
            if let (Some(completion), Some(into)) = (completion, left.first_mut()) {
                into.write(completion.into());
                count += 1;
            }
        }
        count
    }

    /// Returns what a reader that has read nothing finds next.
    ///
    /// # Errors
    ///
    /// -FI_EAVAIL if a failure is next, -FI_EAGAIN without a completion.
    #[cold]
    fn peek(&mut self, poller: &rdma::cq::CqPoller, freed: &mut u32) -> Result {
        self.poll_to_backlog(poller, freed);
        match self.backlog.front() {
            None => Err(Errno::EAGAIN),
            Some(front) if front.is_failure() => Err(Errno::EAVAIL),
            Some(_) => Ok(()),
        }
    }
}

/// Runs the loop of [`CqState::complete_run`], for the queue with index `place` and its slots.
/// `len` returns the number of received bytes, or None if the completion has more to report.
/// Returns the number of entries written.
#[inline(always)]
fn write_entries<E: From<Completion>>(
    polled: &[Wc],
    entries: &mut [MaybeUninit<E>],
    (place, slots): (u32, impl Fn(u32) -> WrSlot),
    mut len: impl FnMut(&Wc) -> Option<usize>,
) -> usize {
    let mut count = 0;
    for (wc, into) in polled.iter().zip(entries) {
        let (upper, seq) = wc.wr_id_halves();
        if upper != place || !wc.is_success() {
            break;
        }
        let slot = slots(seq);
        if slot.kind != OpKind::Reported {
            break;
        }
        let Some(len) = len(wc) else {
            break;
        };
        into.write(E::from(Completion {
            len,
            ..Completion::new(slot.context, slot.flags)
        }));
        count += 1;
    }
    count
}
