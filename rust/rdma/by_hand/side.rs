// SPDX-License-Identifier: GPL-2.0

//! One direction of a connection: what is posted, and what of it is over.

use super::{
    super::{
        completion::TimedCompletion,
        cq::{
            Cq,
            CqNotify,
            CqPoller,
            Wc,
            WcStatus, //
        },
        qp::Qp,
        siw_kick::{
            self,
            SiwKicks, //
        },
    },
    Buffer,
    GoOn,
    TICK_MS, //
};
use crate::compat::ECANCELED;
use kernel::{
    prelude::*,
    sync::Arc,
    time::msecs_to_jiffies, //
};

/// How many completions one poll takes.
const BATCH: usize = 8;

/// What has come of a request: where its buffer is kept, and how many bytes a receive has.
#[derive(Clone, Copy)]
struct Over {
    slot: u64,
    status: WcStatus,
    len: u32,
}

const NONE: Over = Over {
    slot: 0,
    status: WcStatus::SUCCESS,
    len: 0,
};

/// What the last poll brought, of which the first `taken` have been told.
struct Batch {
    over: [Over; BATCH],
    found: usize,
    taken: usize,
}

impl Batch {
    const EMPTY: Self = Self {
        over: [NONE; BATCH],
        found: 0,
        taken: 0,
    };

    /// The next that is not told yet, and somebody's: a nudge that was flushed is nobody's.
    #[inline]
    fn next(&mut self) -> Option<Over> {
        loop {
            let over = *self.over.get(self.taken..self.found)?.first()?;
            self.taken += 1;
            if over.slot != siw_kick::KICK_WR_ID {
                return Some(over);
            }
        }
    }

    /// Puts others in their place; whether there are any.
    #[inline]
    fn fill(&mut self, found: impl Iterator<Item = Over>) -> bool {
        (self.found, self.taken) = (0, 0);
        for (place, over) in self.over.iter_mut().zip(found) {
            *place = over;
            self.found += 1;
        }
        self.found > 0
    }
}

/// What who waits does about the peer when nothing comes.
pub(super) struct Patience {
    pub(super) qp: Arc<Qp>,
    pub(super) nudges: SiwKicks,
}

impl Patience {
    /// Waits for `came`, or for as long as nobody is asked.
    fn wait(&mut self, came: &TimedCompletion) {
        let Some(pause) = self.nudges.next_delay() else {
            came.wait_timeout(msecs_to_jiffies(TICK_MS));
            return;
        };
        let pause = u32::try_from(pause.as_millis()).unwrap_or(TICK_MS);
        if came.wait_timeout(msecs_to_jiffies(pause)) == 0 {
            self.nudges.post_next(&self.qp);
        }
    }
}

/// A direction.
pub(super) struct Side {
    poller: CqPoller,
    /// Given when the queue has something new.
    came: Arc<TimedCompletion>,
    /// Who is posted, by the number of the request.
    posted: KVec<Option<KBox<Buffer>>>,
    /// The numbers of those who are not.
    free: KVec<u64>,
    batch: Batch,
}

impl Side {
    pub(super) fn new((cq, came): (Arc<Cq>, Arc<TimedCompletion>), depth: u32) -> Result<Self> {
        let mut posted = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        let mut free = KVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for slot in 0..depth {
            posted.push(None, GFP_KERNEL)?;
            free.push(slot.into(), GFP_KERNEL)?;
        }
        Ok(Self {
            poller: cq.poller(),
            came,
            posted,
            free,
            batch: Batch::EMPTY,
        })
    }

    /// Keeps a buffer that is going to be posted by the number that this gives.
    ///
    /// # Errors
    ///
    /// `ENOSPC`.
    #[inline]
    pub(super) fn keep(&mut self, buffer: KBox<Buffer>) -> Result<u64> {
        let slot = self.free.pop().ok_or(ENOSPC)?;
        if let Some(place) = self.posted.get_mut(slot as usize) {
            *place = Some(buffer);
        }
        Ok(slot)
    }

    /// Takes one back that is not posted any more.
    #[inline]
    pub(super) fn give_back(&mut self, slot: u64) -> Option<KBox<Buffer>> {
        let buffer = self.posted.get_mut(slot as usize)?.take()?;
        let _ = self.free.push_within_capacity(slot);
        Some(buffer)
    }

    /// Waits until a request is over, and gives its buffer back, with the bytes that a receive has.
    ///
    /// # Errors
    ///
    /// `ECANCELED` when the connection has ended, `EIO` for another failure, and `EINTR`.
    pub(super) fn next(
        &mut self,
        patience: &mut Patience,
        go_on: GoOn,
    ) -> Result<(KBox<Buffer>, usize)> {
        let over = self.wait(patience, go_on)?;
        let buffer = self.give_back(over.slot).ok_or(EIO)?;
        match over.status {
            WcStatus::SUCCESS => Ok((buffer, over.len as usize)),
            WcStatus::WR_FLUSH_ERR => Err(ECANCELED),
            _ => Err(EIO),
        }
    }

    fn wait(&mut self, patience: &mut Patience, go_on: GoOn) -> Result<Over> {
        // Also where nobody ever has to wait.
        while go_on() {
            if let Some(over) = self.batch.next() {
                return Ok(over);
            }
            if self.poll()? || self.poller.cq().req_notify(CqNotify::NextComp) {
                continue;
            }
            patience.wait(&self.came);
        }
        Err(EINTR)
    }

    fn poll(&mut self) -> Result<bool> {
        let mut room = Wc::uninit_array::<BATCH>();
        let found = self.poller.poll(&mut room)?;
        let over = |wc: &Wc| Over {
            slot: wc.wr_id(),
            status: wc.status(),
            len: if wc.is_success() { wc.byte_len() } else { 0 },
        };
        Ok(self.batch.fill(found.iter().map(over)))
    }
}

#[kunit_tests(kofi_rdma_by_hand)]
mod tests {
    use super::*;

    /// What has come of requests with these numbers.
    fn over(slots: &[u64]) -> impl Iterator<Item = Over> + '_ {
        slots.iter().map(|&slot| Over { slot, ..NONE })
    }

    #[test]
    fn nobody_is_told_of_nudges() {
        let mut batch = Batch::EMPTY;
        assert!(batch.next().is_none());
        assert!(batch.fill(over(&[
            siw_kick::KICK_WR_ID,
            3,
            siw_kick::KICK_WR_ID,
            siw_kick::KICK_WR_ID,
            0,
            siw_kick::KICK_WR_ID
        ])));
        assert!(batch.next().is_some_and(|over| over.slot == 3));
        assert!(batch.next().is_some_and(|over| over.slot == 0));
        assert!(batch.next().is_none());
        assert!(batch.fill(over(&[siw_kick::KICK_WR_ID])));
        assert!(batch.next().is_none());
    }

    #[test]
    fn what_comes_later_takes_the_place_of_what_was_told() {
        let mut batch = Batch::EMPTY;
        for _ in 0..2 {
            assert!(batch.fill(over(&[7; BATCH + 1])));
            for _ in 0..BATCH {
                assert!(batch.next().is_some_and(|over| over.slot == 7));
            }
            assert!(batch.next().is_none());
        }
        assert!(!batch.fill(over(&[])));
        assert!(batch.next().is_none());
    }
}
