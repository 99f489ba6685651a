// SPDX-License-Identifier: GPL-2.0

//! Receives of the consumer's, and the messages that wait for one.

use super::{
    buffers::Place,
    flights::Numbered,
    iov::{
        DstBuf,
        Payload,
        MAX_IOV, //
    },
    matching::{
        Title,
        Titled,
        Wish,
        Wishing, //
    },
    segments::Partial,
    wire::{
        Message,
        Range,
        Ranges, //
    },
};
use crate::{
    abi::FI_ADDR_NOTAVAIL,
    fi::prelude::*,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// What a receive takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One message.
    Single,
    /// As many as its buffer takes.
    Several {
        /// No more, as the consumer does not want it any more.
        is_cancelled: bool,
    },
    /// One, that has a place in a buffer.
    Place {
        /// The number of the buffer's receive.
        of: u32,
        /// Where it begins.
        at: usize,
    },
    /// One, that has got what was posted for several endpoints.
    Shared,
}

/// What has been posted for the messages of several endpoints.
pub(super) struct Posted {
    /// What it takes.
    pub(super) wish: Wish,
    /// Where that goes.
    pub(super) into: DstBuf,
    /// Descriptors posted with the receive, for another provider.
    pub(super) descriptors: [Descriptor; MAX_IOV],
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told where not each is.
    pub(super) is_wanted: bool,
    /// By what its owner knows it, if that is another module's provider.
    pub(super) ticket: usize,
}

impl Posted {
    /// Nothing.
    pub(super) const NOTHING: Self = Self {
        wish: Wish {
            tag: None,
            from: None,
        },
        into: DstBuf::EMPTY,
        descriptors: [Descriptor::NONE; MAX_IOV],
        context: Context::NULL,
        is_wanted: false,
        ticket: 0,
    };

    /// Takes it, and leaves nothing.
    #[inline]
    pub(super) fn take(&mut self) -> Self {
        mem::replace(self, Self::NOTHING)
    }
}

impl Wishing for Posted {
    fn wish(&self) -> &Wish {
        &self.wish
    }

    fn buffer(&self) -> Option<u32> {
        None
    }
}

/// What a message has got that is not a receive of its endpoint's.
pub(super) enum Goal {
    /// A place in a buffer.
    Place(Place),
    /// What was posted for several endpoints.
    Shared(Posted),
    /// Nowhere: nobody is told of it.
    Nowhere,
}

/// A receive.
pub(super) struct Receive {
    number: u32,
    /// Of which receive context.
    pub(super) office: u8,
    /// Whether it is never posted, and for messages that have got something else.
    is_helper: bool,
    /// What it takes.
    pub(super) kind: Kind,
    /// And which.
    pub(super) wish: Wish,
    /// Where it goes.
    pub(super) into: DstBuf,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
    /// Whether the consumer knows what has come of it: what is left to do concerns the sender.
    pub(super) is_told: bool,
    /// The ticket of what was posted for several endpoints.
    pub(super) ticket: usize,
    /// Descriptors of the memory.
    descriptors: [Descriptor; MAX_IOV],
    /// The message that it has taken, if that is still with its sender.
    pub(super) fetch: Option<Fetch>,
}

/// A message that its sender lets be read.
pub(super) struct Fetch {
    /// Who that is.
    pub(super) slot: u32,
    /// By which connection.
    pub(super) attempt: usize,
    /// What it calls the message.
    pub(super) id: u64,
    /// Who takes it.
    pub(super) title: Title,
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) ranges: Ranges,
    /// How many of its bytes are here.
    pub(super) done: usize,
    /// How many more are on their way.
    pub(super) coming: usize,
    /// Whether those that are here may not be what was there, as nothing has been read behind them.
    pub(super) is_doubtful: bool,
}

/// A read.
pub(super) struct Next {
    pub(super) from: Range,
    pub(super) into: Segment,
    /// Of a byte that is there, so that there is no doubt about those before it.
    pub(super) is_again: bool,
}

impl Receive {
    /// One that is not posted, or a helper.
    pub(super) const fn idle(number: u32, office: u8, is_helper: bool) -> Self {
        Self {
            number,
            office,
            is_helper,
            kind: Kind::Single,
            wish: Wish {
                tag: None,
                from: None,
            },
            into: DstBuf::EMPTY,
            context: Context::NULL,
            is_wanted: false,
            is_told: false,
            ticket: 0,
            descriptors: [Descriptor::NONE; MAX_IOV],
            fetch: None,
        }
    }

    /// Makes it one that is not posted.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.kind = Kind::Single;
        self.wish.tag = None;
        self.wish.from = None;
        self.into = DstBuf::EMPTY;
        self.is_told = false;
        self.fetch = None;
    }

    /// Whether it is never posted, and for messages that have got something else.
    pub(super) fn is_helper(&self) -> bool {
        self.is_helper
    }

    /// Makes it the receive of a message that has got that. Each message in a buffer is told of, or nobody
    /// would know where it is.
    pub(super) fn help(&mut self, goal: Goal) {
        match goal {
            Goal::Place(place) => {
                self.kind = Kind::Place {
                    of: place.of,
                    at: place.at,
                };
                self.into = place.into;
                self.context = place.context;
                self.is_wanted = true;
            }
            Goal::Shared(posted) => {
                self.kind = Kind::Shared;
                self.wish = posted.wish;
                self.into = posted.into;
                self.context = posted.context;
                self.is_wanted = posted.is_wanted;
                self.ticket = posted.ticket;
                self.descriptors = posted.descriptors;
            }
            Goal::Nowhere => self.is_told = true,
        }
    }

    /// Takes what was posted for several endpoints, if it has got that and nobody has been told of it.
    pub(super) fn take_posted(&mut self) -> Option<Posted> {
        if self.kind != Kind::Shared || self.is_told {
            return None;
        }
        Some(Posted {
            wish: self.wish,
            into: mem::replace(&mut self.into, DstBuf::EMPTY),
            descriptors: self.descriptors,
            context: self.context,
            is_wanted: self.is_wanted,
            ticket: self.ticket,
        })
    }

    /// Whether room has been taken for what comes of it: those of a buffer take it one by one.
    pub(super) fn has_room(&self) -> bool {
        match self.kind {
            Kind::Single | Kind::Place { .. } | Kind::Shared => true,
            Kind::Several { is_cancelled } => is_cancelled,
        }
    }

    /// What is to be read next of the message that it fetches. None if all that there is room for has been.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that is not there any more.
    pub(super) fn next(&self) -> Result<Option<Next>> {
        let Some(fetch) = &self.fetch else {
            return Ok(None);
        };
        let wanted = fetch.message.len.min(self.into.len() as u64) as usize;
        let (is_again, at, most) = match wanted.checked_sub(fetch.done) {
            None => return Ok(None),
            Some(0) if fetch.is_doubtful => (true, fetch.done.saturating_sub(1), 1),
            Some(left) => (false, fetch.done, left),
        };
        let Some(from) = fetch.ranges.rest(at as u64) else {
            return Ok(None);
        };
        let len = most.min(from.len as usize);
        // SAFETY: The receive completes after the read into it; only one operation at a time writes to it.
        let into = unsafe { self.into.first_contiguous(at, len) }?;
        Ok(into.map(|into| Next {
            from: Range {
                len: into.len() as u64,
                ..from
            },
            into,
            is_again,
        }))
    }
}

impl Numbered for Receive {
    fn number(&self) -> u32 {
        self.number
    }
}

impl Wishing for Receive {
    fn wish(&self) -> &Wish {
        &self.wish
    }

    fn buffer(&self) -> Option<u32> {
        match self.kind {
            Kind::Several { .. } => Some(self.number),
            Kind::Single | Kind::Place { .. } | Kind::Shared => None,
        }
    }
}

/// A message that waits for its receive.
pub(super) struct Letter {
    /// Who takes it.
    pub(super) title: Title,
    /// The message.
    pub(super) message: Message,
    /// The number of its sender.
    pub(super) slot: u32,
    /// What there is of it.
    pub(super) body: Body,
    /// The context that has claimed it.
    pub(super) claim: Option<Context>,
    /// What it has got, if it waits to be told of.
    pub(super) goal: Option<Goal>,
    /// Whose it is of several endpoints whose messages wait together.
    pub(super) seat: usize,
    /// What it waits with if that is at another module's provider.
    pub(super) ticket: usize,
    /// What its sender is called there.
    pub(super) source: fi_addr_t,
}

/// What there is of a message.
pub(super) enum Body {
    /// All.
    Whole(KVec<u8>),
    /// Nothing: it is to be fetched.
    Offer {
        /// By which connection.
        attempt: usize,
        /// What its sender calls it.
        id: u64,
        /// Where it is.
        ranges: Ranges,
    },
    /// Some segments, or all: its sender's [`Collected`] of this number.
    Parts(u64),
    /// What another module's provider has under this number: no endpoint's here.
    Guest(usize),
}

impl Titled for Letter {
    fn title(&self) -> &Title {
        &self.title
    }
}

/// What a letter costs beside its bytes.
pub(super) const ENVELOPE: usize = 512;

impl Letter {
    /// A message, which is to wait.
    pub(super) fn new(title: Title, message: Message, slot: u32, body: Body) -> Self {
        Self {
            title,
            message,
            slot,
            body,
            claim: None,
            goal: None,
            seat: 0,
            ticket: 0,
            source: FI_ADDR_NOTAVAIL,
        }
    }

    /// A message whose bytes are there. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is to be expected.
    pub(super) fn whole(
        title: Title,
        message: Message,
        slot: u32,
        payload: &(impl Payload + ?Sized),
    ) -> Result<ListBox<Self>> {
        let body = Body::Whole(payload.to_kvec()?);
        ListBox::new_atomic(Self::new(title, message, slot, body))
    }

    /// How much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        ENVELOPE
            + match &self.body {
                Body::Whole(bytes) => bytes.len(),
                Body::Offer { .. } | Body::Parts(_) | Body::Guest(_) => 0,
            }
    }
}

/// A message that comes in segments.
pub(super) struct Collected {
    /// Its number; no other message has it.
    pub(super) number: u64,
    /// By which connection.
    pub(super) attempt: usize,
    /// Who takes it.
    pub(super) title: Title,
    /// Who has taken it.
    pub(super) receive: Option<ListBox<Receive>>,
    /// How many of its bytes are there.
    pub(super) len: usize,
    /// Those that came before it was taken.
    chunks: BoxList<KVec<u8>>,
    /// Whether all of it is there.
    pub(super) is_whole: bool,
}

/// A message of which segments are there.
pub(super) type Parts = Partial<Collected>;

impl Collected {
    /// Nothing.
    pub(super) const fn idle() -> Self {
        Self {
            number: 0,
            attempt: 0,
            title: Title::NONE,
            receive: None,
            len: 0,
            chunks: BoxList::new(),
            is_whole: false,
        }
    }

    /// A message.
    pub(super) fn begin(&mut self, number: u64, attempt: usize, title: Title) {
        self.number = number;
        self.attempt = attempt;
        self.title = title;
    }

    /// Nothing again.
    pub(super) fn clear(&mut self) {
        *self = Self::idle();
    }

    /// The next of its bytes, for the receive that has taken it. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM where nobody has and they cannot be kept: nothing has changed.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result {
        match &self.receive {
            Some(receive) => {
                receive.into.copy_from_slice(self.len, bytes);
            }
            None => self.chunks.push(ListBox::new_atomic(bytes.to_kvec()?)?),
        }
        self.len += bytes.len();
        Ok(())
    }

    /// How much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// A receive has taken it.
    pub(super) fn take(&mut self, receive: ListBox<Receive>) {
        let mut at = 0;
        for chunk in mem::take(&mut self.chunks).iter() {
            receive.into.copy_from_slice(at, chunk);
            at += chunk.len();
        }
        self.receive = Some(receive);
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
        receive.fetch = Some(Fetch {
            slot: 0,
            attempt: 0,
            id: 0,
            title: Title::NONE,
            message: Message {
                context: 0,
                tag: None,
                len: ALL as u64,
                data: None,
            },
            ranges: Ranges::new(&ranges).ok_or(Errno::EOTHER)?,
            done: 0,
            coming: 0,
            is_doubtful: false,
        });
        Ok(receive)
    }

    type Found = Option<(u64, u64, bool)>;

    /// Where the next read is, how long it is, and whether it is one of what is there.
    fn next(receive: &mut Receive, done: usize, is_doubtful: bool) -> Result<Found> {
        if let Some(fetch) = &mut receive.fetch {
            fetch.done = done;
            fetch.is_doubtful = is_doubtful;
        }
        let next = receive.next()?;
        Ok(next.map(|next| (next.from.addr - FAR, next.from.len, next.is_again)))
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
        let into = receive.next()?.map(|next| next.into.addr());
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
