// SPDX-License-Identifier: GPL-2.0

//! Receives of the consumer's, and the messages that wait for one.

use super::{
    inflight::Indexed,
    iov::{
        DstBuf,
        MAX_IOV, //
    },
    matcher::{
        HasMatchSpec,
        MatchSpec,
        MsgKey, //
    },
    multi_recv::MultiRecvSlot,
    wire::{
        Message,
        Range,
        Ranges, //
    },
};
use crate::fi::prelude::*;

/// What a receive takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RxKind {
    /// One message.
    Single,
    /// As many as its buffer takes.
    Multi {
        /// No more, as the consumer does not want it any more.
        is_cancelled: bool,
    },
    /// One, that has a place in a buffer.
    Placed {
        /// The number of the buffer's receive.
        of: u32,
        /// Where it begins.
        at: usize,
    },
    /// One, that has got what was posted for several endpoints.
    Shared,
}

/// What has been posted for the messages of several endpoints.
pub(super) struct SrxRecv {
    /// What it takes.
    pub(super) spec: MatchSpec,
    /// Where that goes.
    pub(super) into: DstBuf,
    /// Descriptors posted with the receive, for another provider.
    pub(super) descriptors: [Descriptor; MAX_IOV],
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told where not each is.
    pub(super) reports_success: bool,
    /// By what its owner knows it, if that is another module's provider.
    pub(super) peer_entry: usize,
}

impl SrxRecv {
    /// Nothing.
    pub(super) const EMPTY: Self = Self {
        spec: MatchSpec {
            tag: None,
            from: None,
        },
        into: DstBuf::EMPTY,
        descriptors: [Descriptor::NONE; MAX_IOV],
        context: Context::NULL,
        reports_success: false,
        peer_entry: 0,
    };

    /// Takes it, and leaves nothing.
    #[inline]
    pub(super) fn take(&mut self) -> Self {
        mem::replace(self, Self::EMPTY)
    }
}

impl HasMatchSpec for SrxRecv {
    fn spec(&self) -> &MatchSpec {
        &self.spec
    }

    fn buffer(&self) -> Option<u32> {
        None
    }
}

/// What a message has got that is not a receive of its endpoint's.
pub(super) enum RxTarget {
    /// A place in a buffer.
    Slot(MultiRecvSlot),
    /// What was posted for several endpoints.
    Shared(SrxRecv),
    /// Nowhere: nobody is told of it.
    Discard,
}

/// A receive.
pub(super) struct Receive {
    number: u32,
    /// Of which receive context.
    pub(super) rx_ctx: u8,
    /// Whether it is never posted, and for messages that have got something else.
    is_internal: bool,
    /// What it takes.
    pub(super) kind: RxKind,
    /// And which.
    pub(super) spec: MatchSpec,
    /// Where it goes.
    pub(super) into: DstBuf,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told too.
    pub(super) reports_success: bool,
    /// Whether the consumer knows what has come of it: what is left to do concerns the sender.
    pub(super) is_reported: bool,
    /// The ticket of what was posted for several endpoints.
    pub(super) peer_entry: usize,
    /// Descriptors of the memory.
    descriptors: [Descriptor; MAX_IOV],
    /// The message that it has taken, if that is still with its sender.
    pub(super) rndv: Option<RndvRead>,
}

/// A message that its sender lets be read.
pub(super) struct RndvRead {
    /// Who that is.
    pub(super) peer_idx: u32,
    /// By which connection.
    pub(super) conn_gen: usize,
    /// What it calls the message.
    pub(super) id: u64,
    /// Who takes it.
    pub(super) key: MsgKey,
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) ranges: Ranges,
    /// How many of its bytes are here.
    pub(super) done: usize,
    /// How many more are on their way.
    pub(super) in_flight: usize,
    /// Whether those that are here may not be what was there, as nothing has been read behind them.
    pub(super) needs_confirm: bool,
}

/// A read.
pub(super) struct RndvReadStep {
    pub(super) from: Range,
    pub(super) into: Segment,
    /// Of a byte that is there, so that there is no doubt about those before it.
    pub(super) is_confirm: bool,
}

impl Receive {
    /// One that is not posted, or a helper.
    pub(super) const fn idle(number: u32, rx_ctx: u8, is_internal: bool) -> Self {
        Self {
            number,
            rx_ctx,
            is_internal,
            kind: RxKind::Single,
            spec: MatchSpec {
                tag: None,
                from: None,
            },
            into: DstBuf::EMPTY,
            context: Context::NULL,
            reports_success: false,
            is_reported: false,
            peer_entry: 0,
            descriptors: [Descriptor::NONE; MAX_IOV],
            rndv: None,
        }
    }

    /// Makes it one that is not posted.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.kind = RxKind::Single;
        self.spec.tag = None;
        self.spec.from = None;
        self.into = DstBuf::EMPTY;
        self.is_reported = false;
        self.rndv = None;
    }

    /// Whether it is never posted, and for messages that have got something else.
    pub(super) fn is_internal(&self) -> bool {
        self.is_internal
    }

    /// Makes it the receive of a message that has got that. Each message in a buffer is told of, or nobody
    /// would know where it is.
    pub(super) fn assign(&mut self, target: RxTarget) {
        match target {
            RxTarget::Slot(slot) => {
                self.kind = RxKind::Placed {
                    of: slot.of,
                    at: slot.at,
                };
                self.into = slot.into;
                self.context = slot.context;
                self.reports_success = true;
            }
            RxTarget::Shared(srx_recv) => {
                self.kind = RxKind::Shared;
                self.spec = srx_recv.spec;
                self.into = srx_recv.into;
                self.context = srx_recv.context;
                self.reports_success = srx_recv.reports_success;
                self.peer_entry = srx_recv.peer_entry;
                self.descriptors = srx_recv.descriptors;
            }
            RxTarget::Discard => self.is_reported = true,
        }
    }

    /// Takes what was posted for several endpoints, if it has got that and nobody has been told of it.
    pub(super) fn take_srx_recv(&mut self) -> Option<SrxRecv> {
        if self.kind != RxKind::Shared || self.is_reported {
            return None;
        }
        Some(SrxRecv {
            spec: self.spec,
            into: mem::replace(&mut self.into, DstBuf::EMPTY),
            descriptors: self.descriptors,
            context: self.context,
            reports_success: self.reports_success,
            peer_entry: self.peer_entry,
        })
    }

    /// Whether room has been taken for what comes of it: those of a buffer take it one by one.
    pub(super) fn has_room(&self) -> bool {
        match self.kind {
            RxKind::Single | RxKind::Placed { .. } | RxKind::Shared => true,
            RxKind::Multi { is_cancelled } => is_cancelled,
        }
    }

    /// What is to be read next of the message that it fetches. None if all that there is room for has been.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that is not there any more.
    pub(super) fn next_read(&self) -> Result<Option<RndvReadStep>> {
        let Some(rndv) = &self.rndv else {
            return Ok(None);
        };
        let wanted = rndv.message.len.min(self.into.len() as u64) as usize;
        let (is_confirm, at, most) = match wanted.checked_sub(rndv.done) {
            None => return Ok(None),
            Some(0) if rndv.needs_confirm => (true, rndv.done.saturating_sub(1), 1),
            Some(left) => (false, rndv.done, left),
        };
        let Some(from) = rndv.ranges.range_at(at as u64) else {
            return Ok(None);
        };
        let len = most.min(from.len as usize);
        // SAFETY: The receive completes after the read into it; only one operation at a time writes to it.
        let into = unsafe { self.into.first_contiguous(at, len) }?;
        Ok(into.map(|into| RndvReadStep {
            from: Range {
                len: into.len() as u64,
                ..from
            },
            into,
            is_confirm,
        }))
    }
}

impl Indexed for Receive {
    fn number(&self) -> u32 {
        self.number
    }
}

impl HasMatchSpec for Receive {
    fn spec(&self) -> &MatchSpec {
        &self.spec
    }

    fn buffer(&self) -> Option<u32> {
        match self.kind {
            RxKind::Multi { .. } => Some(self.number),
            RxKind::Single | RxKind::Placed { .. } | RxKind::Shared => None,
        }
    }
}

#[kunit_tests(kofi_rdm_receive)]
mod tests {
    use super::*;
    use crate::abi::Errno;

    const LENS: [usize; 2] = [100, 200];
    const ALL: usize = LENS[0] + LENS[1];
    const FAR: u64 = 1 << 40;

    /// A receive into `bytes`, which fetches what is in two ranges, one behind the other.
    fn fetching(bytes: &mut [u8]) -> Result<Receive> {
        let mut far = FAR;
        let ranges = LENS.map(|len| {
            let range = Range {
                addr: far,
                len: len as u64,
                key: len as u64,
            };
            far += len as u64;
            range
        });
        let mut receive = Receive::idle(0, 0, false);
        // SAFETY: The memory is never written to.
        receive.into = unsafe { DstBuf::from_bytes(bytes) }?;
        receive.rndv = Some(RndvRead {
            peer_idx: 0,
            conn_gen: 0,
            id: 0,
            key: MsgKey::NONE,
            message: Message {
                context: 0,
                tag: None,
                len: ALL as u64,
                data: None,
            },
            ranges: Ranges::new(&ranges).ok_or(Errno::EOTHER)?,
            done: 0,
            in_flight: 0,
            needs_confirm: false,
        });
        Ok(receive)
    }

    type Found = Option<(u64, u64, bool)>;

    /// Where the next read is, how long it is, and whether it is one of what is there.
    fn next(receive: &mut Receive, done: usize, needs_confirm: bool) -> Result<Found> {
        if let Some(rndv) = &mut receive.rndv {
            rndv.done = done;
            rndv.needs_confirm = needs_confirm;
        }
        let next = receive.next_read()?;
        Ok(next.map(|next| (next.from.addr - FAR, next.from.len, next.is_confirm)))
    }

    #[test]
    fn one_range_behind_the_other_and_nothing_else() -> Result {
        let mut bytes = KVec::from_elem(0, ALL, GFP_KERNEL)?;
        let mut receive = fetching(&mut bytes)?;
        assert!(next(&mut receive, 0, false)? == Some((0, 100, false)));
        assert!(next(&mut receive, 60, false)? == Some((60, 40, false)));
        assert!(next(&mut receive, 100, true)? == Some((100, 200, false)));
        assert!(next(&mut receive, ALL, false)?.is_none());
        assert!(next(&mut receive, usize::MAX, true)?.is_none());
        Ok(())
    }

    #[test]
    fn what_is_doubtful_is_looked_at_once_more() -> Result {
        let mut bytes = KVec::from_elem(0, ALL, GFP_KERNEL)?;
        let mut receive = fetching(&mut bytes)?;
        assert!(next(&mut receive, ALL, true)? == Some((ALL as u64 - 1, 1, true)));
        let into = receive.next_read()?.map(|next| next.into.addr());
        assert!(into == Some(bytes.as_ptr() as usize + ALL - 1));
        // What there is no room for is nothing to look at.
        let mut few = KVec::from_elem(0, 150, GFP_KERNEL)?;
        let mut receive = fetching(&mut few)?;
        assert!(next(&mut receive, 100, true)? == Some((100, 50, false)));
        assert!(next(&mut receive, 150, true)? == Some((149, 1, true)));
        assert!(next(&mut receive, 150, false)?.is_none());
        Ok(())
    }
}
