// SPDX-License-Identifier: GPL-2.0

//! The way of such an operation into its queue, and back out of it. Any context; nothing here sleeps or
//! allocates.

use super::{
    gather,
    Ask,
    Exchange,
    Progress,
    Told,
    WORD, //
};
use crate::{
    abi::{
        serial::Serial,
        Errno,
        Result, //
    },
    fi::{
        atomic::Atomic,
        memory::{
            Context,
            Memory,
            Segment, //
        },
    },
    prov::verbs::queue::{
        Post,
        Queue,
        Report, //
    },
    rdma::wr::{
        Remote,
        SendFlags,
        SendWr, //
    },
};
use core::slice::from_ref;
use kernel::sync::Arc;

impl Exchange {
    /// Hands the consumer what was there before.
    pub(super) fn deliver(&self) {
        // SAFETY: By what `results` says.
        unsafe { gather::results(&self.old[..self.len], &self.results) };
    }
}

impl Queue {
    /// Whether an operation that takes several requests is under way.
    pub(in crate::prov::verbs) fn has_exchanges(&self) -> bool {
        self.exchanges()
            .is_some_and(|exchanges| exchanges.are_under_way())
    }

    /// From now on somebody sees to it that they come to their end. May sleep.
    pub(in crate::prov::verbs) fn look_after(self: &Arc<Self>, serial: Option<Arc<Serial>>) {
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
    /// -FI_EAGAIN when there is no room for it, now; those of [`Exchange::new`] and [`Queue::begin`].
    pub(in crate::prov::verbs) fn start_exchange(
        &self,
        atomic: &Atomic<'_>,
        operands: &[Segment],
        target: (Remote, usize),
        told: Told,
        flags: SendFlags,
    ) -> Result {
        let exchanges = self.exchanges().ok_or(Errno::EOPNOTSUPP)?;
        let index = exchanges.put(Exchange::new(atomic, operands, target, told)?)?;
        self.post_step(index, flags).inspect_err(|_| {
            let _ = exchanges.take(index);
        })?;
        exchanges.mover.start();
        Ok(())
    }

    /// Posts what is next of each operation that waits for that; false if something could not be
    /// posted and waits on.
    pub(in crate::prov::verbs) fn move_on(&self) -> bool {
        let Some(exchanges) = self.exchanges() else {
            return true;
        };
        let mut is_done = true;
        for index in exchanges.take_ready() {
            match self.post_step(index, SendFlags::default()) {
                Ok(()) => {}
                // It ends with its queue.
                Err(Errno::EOPBADSTATE) => {}
                Err(_) => {
                    exchanges.set_ready(index);
                    is_done = false;
                }
            }
        }
        is_done
    }

    /// Posts what is next of one.
    fn post_step(&self, index: u32, flags: SendFlags) -> Result {
        let exchanges = self.exchanges().ok_or(Errno::EOPNOTSUPP)?;
        let (ask, landing) = exchanges.ask(index).ok_or(Errno::EOPBADSTATE)?;
        let what = Post {
            context: Context::NULL,
            flags: 0,
            report: Report::Step(index),
        };
        // SAFETY: The cell lives as long as the queue, which is closed after its queue pair is gone;
        // until the device has answered nobody else uses it.
        let landing = unsafe { Segment::new(landing.cast(), WORD) };
        let memory = (Memory::Segments(from_ref(&landing)), &[][..]);
        let Ask {
            word,
            compare,
            swap,
        } = ask;
        self.post_fetching(&what, memory, (1, flags), |wr_id, sges, flags| {
            let sge = sges.try_into().map_err(|_| Errno::EINVAL)?;
            Ok(SendWr::cmp_swap(wr_id, sge, word, compare, swap, flags))
        })
    }

    /// The request `seq` of an operation has completed, successfully or not. When the operation is over
    /// its slot becomes that of an ordinary one. The caller holds the lock of the queue's completion
    /// queue, and the slot has not been retired.
    pub(in crate::prov::verbs) fn answered(&self, seq: u32, is_success: bool) -> Progress {
        let index = self.slot(seq).flags as u32;
        let Some(exchanges) = self.exchanges() else {
            return Progress::Lost;
        };
        // What the device has written is not there before.
        self.unmap(seq);
        let progress = match is_success {
            true => exchanges.answer(index),
            false => Progress::Over,
        };
        match progress {
            Progress::Again => exchanges.set_ready(index),
            Progress::Over | Progress::Lost => {
                if let Some(told) = exchanges.take(index) {
                    self.end_step(seq, told);
                }
            }
        }
        progress
    }
}
