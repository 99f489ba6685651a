// SPDX-License-Identifier: GPL-2.0

//! The way of such an operation into its queue, and back out of it. Any context; nothing here sleeps or
//! allocates.

use super::{
    operands,
    AtomicComp,
    CasAtomic,
    CasProgress,
    MOST,
    WORD, //
};
use crate::{
    abi::{
        biased_lock::BiasOwner,
        Errno,
        Result, //
    },
    fi::{
        atomic::Atomic,
        memory::{
            Context,
            Segment, //
        },
    },
    prov::verbs::{
        wc_status,
        wq::{
            OpDesc,
            PostTarget,
            ReportPolicy,
            WorkQueue, //
        },
    },
    rdma::{
        dma::{
            DataDirection,
            DmaMapping,
            PhysRanges, //
        },
        wr::{
            RemoteAddr,
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};
use kernel::sync::Arc;

impl CasAtomic {
    /// Hands the consumer what was there before.
    pub(super) fn deliver(&self) {
        // SAFETY: By what `results` says.
        unsafe { operands::results(&self.old[..self.len], &self.results) };
    }
}

impl WorkQueue {
    /// Whether an operation that takes several requests is under way.
    pub(in crate::prov::verbs) fn has_exchanges(&self) -> bool {
        self.exchanges()
            .is_some_and(|exchanges| exchanges.are_under_way())
    }

    /// From now on somebody sees to it that they come to their end. May sleep.
    pub(in crate::prov::verbs) fn look_after(self: &Arc<Self>, serial: Option<Arc<BiasOwner>>) {
        if let Some(exchanges) = self.exchanges() {
            exchanges.mover.begin(self.clone(), serial);
        }
    }

    /// Nobody does any more. May sleep.
    pub(in crate::prov::verbs) fn look_away(&self) {
        if let Some(exchanges) = self.exchanges() {
            exchanges.mover.end();
        }
    }

    /// Begins an operation on so many bytes at `target`, where such elements may lie.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if there is no room at the moment; -FI_EMSGSIZE for more than [`MOST`] bytes; errors of
    /// [`CasAtomic::load`] and [`WorkQueue::begin`].
    pub(in crate::prov::verbs) fn start_exchange(
        &self,
        atomic: &Atomic<'_>,
        operands: &[Segment],
        target: (RemoteAddr, usize),
        told: AtomicComp,
        flags: SendFlags,
    ) -> Result {
        let exchanges = self.exchanges().ok_or(Errno::EOPNOTSUPP)?;
        let (_, len) = target;
        if len > MOST {
            return Err(Errno::EMSGSIZE);
        }
        let mut new = CasAtomic::new(atomic, target, told);
        new.load(atomic, operands)?;
        let index = exchanges.put(new)?;
        let what = OpDesc {
            context: told.context,
            flags: told.flags,
            len,
            report: ReportPolicy::Always,
        };
        self.trace_post(&what, true);
        self.post_step(index, flags).inspect_err(|errno| {
            self.trace_refused(&what, *errno);
            let _ = exchanges.take(index);
        })?;
        self.exchanged(len);
        exchanges.mover.start();
        Ok(())
    }

    /// Posts what is next of each operation that waits for that; false if something could not be
    /// posted and waits on. Requests that the device does not take, nor will, go to `refused`.
    pub(in crate::prov::verbs) fn move_on(&self, mut refused: impl FnMut(u64)) -> bool {
        let Some(exchanges) = self.exchanges() else {
            return true;
        };
        let mut is_done = true;
        for index in exchanges.take_ready() {
            match self.post_step(index, SendFlags::default()) {
                Ok(()) => {}
                Err(Errno::EAGAIN | Errno::ENOMEM) => {
                    exchanges.set_ready(index);
                    is_done = false;
                }
                // Where there is no queue pair any more it ends with its queue.
                Err(_) => {
                    // SAFETY: It locks nothing.
                    let step =
                        unsafe { self.with_target(|target| Ok(target.place.step_id(index))) };
                    step.into_iter().for_each(&mut refused);
                }
            }
        }
        is_done
    }

    /// Posts what is next of one. There is always room for that.
    fn post_step(&self, index: u32, flags: SendFlags) -> Result {
        let exchanges = self.exchanges().ok_or(Errno::EOPNOTSUPP)?;
        let (ask, landing) = exchanges.ask(index).ok_or(Errno::EOPBADSTATE)?;
        let piece = PhysRanges::new(landing, WORD)?
            .next()
            .ok_or(Errno::EINVAL)??;
        let post = |target: &PostTarget| {
            // SAFETY: The cell lives as long as the queue, which is closed after its queue pair is gone;
            // until the device has answered nobody else uses it.
            let mapping = unsafe { exchanges.pd.dma().map(piece, DataDirection::FromDevice) }?;
            let lkey = exchanges.pd.local_dma_lkey();
            let sges = [Sge::new(mapping.addr(), WORD as u32, lkey)];
            // Before it is posted: its completion may be faster.
            exchanges.keep(index, mapping);
            let wr_id = target.place.step_id(index);
            let flags = flags | SendFlag::Signaled;
            let wr = SendWr::cmp_swap(wr_id, &sges, ask.word, ask.compare, ask.swap, flags);
            // SAFETY: As above.
            unsafe { target.qp.post_send(&wr) }.map_err(|error| {
                self.unmap(exchanges.let_go(index));
                wc_status::refused(error)
            })
        };
        // SAFETY: It locks the table of cells, and not the queue.
        unsafe { self.with_target(post) }
    }

    fn unmap(&self, mapping: Option<DmaMapping>) {
        if let (Some(exchanges), Some(mapping)) = (self.exchanges(), mapping) {
            // SAFETY: It was made there, and what had its address is over, or was not posted.
            unsafe { exchanges.pd.dma().unmap(mapping) };
        }
    }

    /// The request of the operation in a cell has completed, successfully or not.
    pub(in crate::prov::verbs) fn answered(&self, index: u32, is_success: bool) -> CasProgress {
        let Some(exchanges) = self.exchanges() else {
            return CasProgress::Lost;
        };
        // What the device has written is not there before.
        self.unmap(exchanges.let_go(index));
        let progress = exchanges.answer(index, is_success);
        if progress == CasProgress::Again {
            exchanges.set_ready(index);
        }
        progress
    }

    /// What is told of the operation in a cell.
    pub(in crate::prov::verbs) fn told(&self, index: u32) -> Option<AtomicComp> {
        self.exchanges()?.told(index)
    }

    /// The same, when its reader is told, or nobody: the cell is free again.
    pub(in crate::prov::verbs) fn end_exchange(&self, index: u32) -> Option<AtomicComp> {
        let (told, mapping) = self.exchanges()?.take(index)?;
        self.unmap(mapping);
        Some(told)
    }

    /// Ends the use of all cells, when nothing is posted any more: the consumer's contexts go to
    /// `reclaim`.
    pub(in crate::prov::verbs) fn abandon_exchanges(&self, reclaim: &mut dyn FnMut(Context)) {
        let used = self.exchanges().map(|exchanges| exchanges.used());
        for index in used.into_iter().flatten() {
            if let Some(told) = self.end_exchange(index) {
                reclaim(told.context);
            }
        }
    }
}
