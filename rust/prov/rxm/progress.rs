// SPDX-License-Identifier: GPL-2.0

//! Progress: polls the lower completion queues and dispatches their completions.
//!
//! Completions are handled by readers and by the queue's handler. A reader of the consumer's completion queue that
//! finds it empty polls, in any context. The handler is a work item that is called for the next completion after the
//! queue has been found empty, so progress does not depend on readers. Completions are polled and dispatched in
//! batches under `EpCore::inner`, by one thread at a time (see [`turn`](super::turn)), which keeps their order.
//!
//! An endpoint may have more completion queues. Those of [rings](super::ring) that are ready are polled with the first
//! one.
//!
//! While readers keep polling, the handler is not armed for each completion, because a call would cost more than the
//! rest of a short message. It runs every [`POLL_INTERVAL`] until no reader has polled in between.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::{
    ep_core::{
        Bound,
        EpCore, //
    },
    ep_state::EpState,
    pkt_buf::{
        BufState,
        RxData, //
    },
    ring::Ring,
    sw_cq::ProgressSource,
    turn::{
        Batch,
        Held, //
    },
};
use crate::{
    abi::{
        flags::FI_REMOTE_WRITE,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        cq::{
            CompletionQueue,
            FormatEntry,
            SourcedEntry,
            TaskHandler, //
        },
        eq::Source,
        prelude::*,
        provider, //
    },
    util::{
        context,
        once::{
            load_acquire,
            write_once, //
        },
    },
};

/// Number of batches after which a queue that does not become empty is left.
const MAX_BATCHES: usize = 1 << 16;

/// Longest time that a completion waits after its reader has stopped polling.
const POLL_INTERVAL: Delta = Delta::from_millis(1);

/// Limits of one call, beyond which other work has its turn.
#[derive(Clone, Copy)]
struct Budget {
    /// Number of batches.
    batches: usize,
    /// Number of completions of a batch.
    entries: usize,
}

/// Limits of a reader before it checks its own queue again.
const READER_BUDGET: Budget = Budget {
    batches: 4,
    entries: BATCH,
};

/// Limits of a reader with disabled interrupts, which stay disabled while messages are copied.
const ATOMIC_BUDGET: Budget = Budget {
    batches: 1,
    entries: 4,
};

/// Limits of the handler before it yields its workqueue.
const HANDLER_BUDGET: Budget = Budget {
    batches: 16,
    entries: BATCH,
};

impl EpCore {
    /// Polls within `budget`; if `arms` is set, arms the handler when the queue is empty. Returns true if there was a
    /// completion. Any context.
    fn drain(&self, arms: bool, budget: Budget) -> bool {
        let Some(bound) = self.bound.get() else {
            return false;
        };
        let mut made_progress = false;
        for _ in 0..budget.batches {
            let taken = self.poll_batch(bound, self.hold(), (arms, budget.entries));
            made_progress |= taken.made_progress;
            if taken.drained {
                return made_progress;
            }
        }
        // The handler continues where interrupts are enabled.
        if arms || budget.entries < BATCH {
            bound.queue.schedule_handler();
        }
        made_progress
    }

    /// Delivers messages that waited only for a free entry of the consumer's queue, and retries deferred packets. If
    /// another thread has the turn, it has that done. Any context.
    pub(super) fn deliver(&self, bound: &Bound) {
        let needs_cm_work = loop {
            let mut held = self.hold();
            let has_more = held.with_turn(|held, _| held.deliver());
            if has_more == Some(true) {
                continue;
            }
            held.turn.again |= has_more.is_none();
            held.retry_if_wanted();
            break held.needs_cm_work();
        };
        if needs_cm_work {
            bound.schedule_cm_work();
        }
    }

    /// Polls and dispatches up to `most` completions of the first ring, and as many of another ring that is ready. If
    /// `arms` is set, arms the handler when the first ring is empty.
    fn poll_batch(&self, bound: &Bound, held: Held<'_>, (arms, most): (bool, usize)) -> Progress {
        if arms {
            // Set before the queue is armed, since the handler clears it, and before the list of ready rings is read.
            let _ = self.is_armed.xchg(1, Full);
        }
        self.poll_held(bound, held, arms, |held, batch| {
            let first = held.poll_lower((batch, most), &bound.queue, arms);
            if self.ready_rings.is_empty() {
                return first;
            }
            let other = self.poll_ready(bound, held, (batch, most));
            Progress {
                made_progress: first.made_progress || other.made_progress,
                drained: first.drained && other.drained && self.ready_rings.is_empty(),
            }
        })
    }

    /// Polls a batch of the ring that has been ready longest.
    fn poll_ready(
        &self,
        bound: &Bound,
        held: &mut Held<'_>,
        (batch, most): (&mut Batch, usize),
    ) -> Progress {
        let Some(ring) = self.ready_rings.pop() else {
            return Progress::NONE;
        };
        let progress = held.poll_lower((batch, most), &ring.queue, true);
        if !progress.drained {
            self.ring_ready(bound, &ring);
        }
        // It is not the last reference: the table of rings has one.
        drop(ring);
        progress
    }

    /// Polls with `poll` in a turn, and has the connection manager do what is left for it. If another thread has the
    /// turn, does nothing, but has the handler called again if `arms` is set.
    #[inline(always)]
    fn poll_held(
        &self,
        bound: &Bound,
        mut held: Held<'_>,
        arms: bool,
        poll: impl FnOnce(&mut Held<'_>, &mut Batch) -> Progress,
    ) -> Progress {
        let progress = held.with_turn(poll);
        held.turn.again |= arms && progress.is_none();
        let Progress {
            made_progress,
            drained,
        } = progress.unwrap_or(Progress::NONE);
        let needs_cm_work = held.needs_cm_work();
        // The reader may have freed an entry of its queue.
        let awaits_reader = held.awaits_reader();
        drop(held);
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        if awaits_reader {
            self.deliver(bound);
        }
        Progress {
            made_progress: made_progress || awaits_reader,
            drained,
        }
    }

    /// Handles the completions that are in the first ring and in ready rings now. The number of batches is bounded,
    /// because a peer can send as fast as they are handled. May sleep.
    pub(super) fn drain_lower(&self) {
        if let Some(bound) = self.bound.get() {
            let poll = |_| self.poll_batch(bound, self.quiesced(), (false, BATCH));
            let _ = (0..MAX_BATCHES).all(|at| !poll(at).drained);
        }
    }

    /// Handles the completions that are in a ring now, as [`Self::drain_lower`]. May sleep.
    pub(super) fn drain_ring(&self, ring: &Ring) {
        if let Some(bound) = self.bound.get() {
            let poll = |_| {
                self.poll_held(bound, self.quiesced(), false, |held, batch| {
                    held.poll_lower((batch, BATCH), &ring.queue, false)
                })
            };
            let _ = (0..MAX_BATCHES).all(|at| !poll(at).drained);
        }
    }

    /// Drops the completions of a queue that have not been handled. No connection is left. May sleep.
    pub(super) fn abandon_completions(&self, queue: &CompletionQueue) {
        let has_more = |held: &mut Held<'_>, batch: &mut Batch| {
            match queue
                .read_queue()
                .read(FormatEntry::entries(batch.as_mut_slots()))
            {
                Ok(count) => {
                    for entry in (0..count).filter_map(|at| batch.nth(at)) {
                        held.abandon(entry.context);
                    }
                }
                Err(Errno::EAVAIL) => {
                    if let Ok(failure) = queue.read_queue().read_error() {
                        held.abandon(failure.completion.context);
                    }
                }
                Err(_) => return false,
            }
            true
        };
        while self.quiesced().with_turn(has_more) == Some(true) {}
    }

    /// Makes progress for a reader that found its queue empty. Returns true if there was a completion. Any context.
    fn reader_poll(&self) -> bool {
        write_once(&self.is_read, 1);
        let budget = match context::has_interrupts() {
            true => READER_BUDGET,
            false => ATOMIC_BUDGET,
        };
        self.drain(false, budget)
    }

    /// Arms the handler for a reader that waits instead of polling. Any context.
    pub(super) fn arm(&self) {
        write_once(&self.is_read, 0);
        let is_armed = load_acquire(&self.is_armed) != 0 && self.ready_rings.is_empty();
        if let Some(bound) = self.bound.get().filter(|_| !is_armed) {
            bound.queue.schedule_handler();
        }
    }

    /// Runs the completion handler.
    fn handler_poll(&self) {
        write_once(&self.is_armed, 0);
        let is_read = self.is_read.xchg(0, Full) != 0;
        let uses_timer = is_read && !self.inner.lock().sinks.has_waiter();
        match self.bound.get().filter(|_| uses_timer) {
            None => drop(self.drain(true, HANDLER_BUDGET)),
            Some(bound) => {
                let _ = self.drain(false, HANDLER_BUDGET);
                bound
                    .progress_timer
                    .arm(&mut self.poll_timer.lock(), POLL_INTERVAL);
            }
        }
    }

    /// Stops the poll timer, after the handler has been stopped. May sleep.
    pub(super) fn stop_poll_timer(&self) {
        drop(self.poll_timer.lock().take());
    }
}

/// Makes progress for readers of the consumer's completion queues.
pub(super) struct ReaderProgress(Arc<EpCore>);

impl ReaderProgress {
    /// Creates the progress source of `core`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn source_of(core: &Arc<EpCore>) -> Result<Arc<dyn ProgressSource>> {
        let source: Arc<dyn ProgressSource> = new_arc(Self(core.clone()))?;
        Ok(source)
    }
}

impl ProgressSource for ReaderProgress {
    fn progress(&self) -> bool {
        self.0.reader_poll()
    }

    fn arm(&self) {
        self.0.arm();
    }

    fn entries_forwarded(&self, count: u64) {
        self.0.entries_forwarded(count);
    }
}

/// Makes progress as the handler of the lower completion queue.
pub(super) struct HandlerProgress(pub(super) Arc<EpCore>);

impl TaskHandler for HandlerProgress {
    fn ready(&self, _here: ProcessContext) {
        self.0.handler_poll();
    }
}

/// Number of completions that are polled at once.
pub(super) const BATCH: usize = 16;

/// Describes the result of polling a batch.
pub(super) struct Progress {
    /// True if the queue is empty.
    pub(super) drained: bool,
    /// True if there was a completion.
    pub(super) made_progress: bool,
}

/// Reads a batch of completions of the lower provider. Returns the number of entries, and whether the queue is empty.
///
/// A read stops before a failure: a short batch does not mean that the queue is empty.
fn read_batch(
    queue: &dyn provider::CompletionQueue,
    space: &mut [MaybeUninit<SourcedEntry>],
) -> Result<(usize, bool)> {
    let most = space.len();
    let count = queue.read(FormatEntry::entries(space))?;
    Ok((count, count < most && !queue.has_backlog()))
}

/// Returns the connection that a completion names, for shared receives.
fn source_of(source: fi_addr_t) -> Option<Source> {
    (source != FI_ADDR_NOTAVAIL).then_some(Source(source as usize))
}

impl Progress {
    /// Result of a poll that found nothing.
    const NONE: Self = Self {
        drained: true,
        made_progress: false,
    };
}

impl Held<'_> {
    /// Polls up to `most` completions of the lower `queue` into `batch` and dispatches them; if `arms` is set, arms its
    /// handler when it is empty.
    #[inline]
    pub(super) fn poll_lower(
        &mut self,
        (batch, most): (&mut Batch, usize),
        queue: &CompletionQueue,
        arms: bool,
    ) -> Progress {
        let slots = batch.as_mut_slots();
        let most = most.min(slots.len());
        let space = &mut slots[..most];
        let found = match arms {
            // The queue is armed only after a read that finds it empty.
            true => queue.read(space).map(|count| (count, false)),
            false => read_batch(queue.read_queue(), space),
        };
        let (made_progress, drained) = match found {
            Ok((count, drained)) => {
                for entry in (0..count).filter_map(|at| batch.nth(at)) {
                    self.complete_found(entry);
                }
                (true, drained)
            }
            Err(Errno::EAVAIL) => {
                if let Ok(failure) = queue.read_queue().read_error() {
                    let (context, errno) = (failure.completion.context, failure.errno);
                    let source = source_of(failure.completion.source);
                    self.complete_one(context, source, Err(errno));
                }
                (true, false)
            }
            Err(_) => (false, true),
        };
        Progress {
            drained,
            made_progress,
        }
    }

    /// Handles the completion of one lower operation. `source` names the connection if it shares receives.
    #[inline]
    pub(super) fn complete_one(
        &mut self,
        context: Context,
        source: Option<Source>,
        result: Result<RxData>,
    ) {
        let (state, sinks) = self.split();
        if let Some(packet) = state.inflight.complete(context) {
            match packet.state {
                BufState::RxPosted => self.rx_complete(packet, source, result),
                _ => state.sent(sinks, packet, result.map(drop)),
            }
        } else if let Some(receive) = state.reads_inflight.complete(context) {
            state.read_complete(sinks, receive, result.map(drop));
        }
    }

    /// Handles a completion of a batch.
    #[inline(always)]
    fn complete_found(&mut self, entry: &SourcedEntry) {
        let (context, source) = (entry.context, source_of(entry.source));
        let rx_data = match entry.flags & FI_REMOTE_WRITE {
            0 => RxData::Bytes(entry.len),
            _ => RxData::RemoteWrite(entry.len, entry.data),
        };
        self.complete_one(context, source, Ok(rx_data));
    }
}

impl EpState {
    /// Handles the completion of an operation whose endpoint is being closed: nothing is reported, and
    /// [`EpState::end`] frees it.
    pub(super) fn abandon(&mut self, context: Context) {
        if let Some(receive) = self.reads_inflight.complete(context) {
            self.keep_until_end(receive);
        } else if let Some(packet) = self.inflight.complete(context) {
            self.pending_dereg.push(packet);
        }
    }
}
