// SPDX-License-Identifier: GPL-2.0

//! Receives of the consumer's, and the messages that wait for one.

use super::{
    bounce::Incoming,
    buffers::Place,
    flights::Numbered,
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
    abi::{
        nodes::{
            Own,
            Queue, //
        },
        Result, //
    },
    fi::memory::{
        Context,
        Segment, //
    },
};
use core::mem;
use kernel::prelude::*;

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
    pub(super) into: Incoming,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told where not each is.
    pub(super) is_wanted: bool,
}

impl Posted {
    /// Nothing.
    pub(super) const NOTHING: Self = Self {
        wish: Wish {
            tag: None,
            from: None,
        },
        into: Incoming::NOWHERE,
        context: Context::NULL,
        is_wanted: false,
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
    pub(super) into: Incoming,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
    /// Whether the consumer knows what has come of it: what is left to do concerns the sender.
    pub(super) is_told: bool,
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
            into: Incoming::NOWHERE,
            context: Context::NULL,
            is_wanted: false,
            is_told: false,
            fetch: None,
        }
    }

    /// Makes it one that is not posted.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.kind = Kind::Single;
        self.wish.tag = None;
        self.wish.from = None;
        self.into = Incoming::NOWHERE;
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
            }
        }
    }

    /// Takes what was posted for several endpoints, if it has got that and nobody has been told of it.
    pub(super) fn take_posted(&mut self) -> Option<Posted> {
        if self.kind != Kind::Shared || self.is_told {
            return None;
        }
        Some(Posted {
            wish: self.wish,
            into: mem::replace(&mut self.into, Incoming::NOWHERE),
            context: self.context,
            is_wanted: self.is_wanted,
        })
    }

    /// Whether room has been taken for what comes of it: those of a buffer take it one by one.
    pub(super) fn has_room(&self) -> bool {
        match self.kind {
            Kind::Single | Kind::Place { .. } | Kind::Shared => true,
            Kind::Several { is_cancelled } => is_cancelled,
        }
    }

    /// What is to be read next of the message that it fetches: from where, and where to. None if all
    /// that there is room for has been.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that is not there any more.
    pub(super) fn next(&self) -> Result<Option<(Range, Segment)>> {
        let Some(fetch) = &self.fetch else {
            return Ok(None);
        };
        let wanted = fetch.message.len.min(self.into.len() as u64) as usize;
        let Some(from) = fetch.ranges.rest(fetch.done as u64) else {
            return Ok(None);
        };
        let Some(left) = wanted.checked_sub(fetch.done) else {
            return Ok(None);
        };
        let len = left.min(from.len as usize);
        let into = self.into.piece(fetch.done, len)?;
        Ok(into.map(|into| {
            let len = into.len() as u64;
            (Range { len, ..from }, into)
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
        bytes: &[u8],
    ) -> Result<Own<Self>> {
        let body = Body::Whole(copy(bytes)?);
        Own::at_once(Self::new(title, message, slot, body))
    }

    /// How much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        ENVELOPE
            + match &self.body {
                Body::Whole(bytes) => bytes.len(),
                Body::Offer { .. } | Body::Parts(_) => 0,
            }
    }
}

fn copy(bytes: &[u8]) -> Result<KVec<u8>> {
    let mut copy = KVec::with_capacity(bytes.len(), GFP_NOWAIT)?;
    copy.extend_from_slice(bytes, GFP_NOWAIT)?;
    Ok(copy)
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
    pub(super) receive: Option<Own<Receive>>,
    /// How many of its bytes are there.
    pub(super) len: usize,
    /// Those that came before it was taken.
    chunks: Queue<KVec<u8>>,
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
            chunks: Queue::new(),
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
                receive.into.write(self.len, bytes);
            }
            None => self.chunks.push(Own::at_once(copy(bytes)?)?),
        }
        self.len += bytes.len();
        Ok(())
    }

    /// How much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// A receive has taken it.
    pub(super) fn take(&mut self, receive: Own<Receive>) {
        let mut at = 0;
        for chunk in mem::take(&mut self.chunks).iter() {
            receive.into.write(at, chunk);
            at += chunk.len();
        }
        self.receive = Some(receive);
    }
}
