// SPDX-License-Identifier: GPL-2.0

//! Tag matcher: posted receives and unexpected messages of one receive context, tagged and untagged ones.
//!
//! Guarded by `EpCore::inner`, or by the lock of a shared receive context. A message takes the oldest posted receive
//! that matches it, and a receive takes the oldest message that it matches. A multi-receive buffer keeps its position
//! until it takes no more messages. The [indices](index) make each call cost the same for any number of entries.
//!
//! A search with an ignore mask other than 0 and all bits may take several calls, between which the caller releases the
//! lock. Messages that arrive meanwhile are queued, and the search finds them. If no message matches, the receive is
//! posted when the search ends. A cancel may take several calls, too, if many receives have been posted since the last
//! cancel.

mod index;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub(super) use self::index::{
    RxBuckets,
    Search,
    MSG_TABLES,
    RX_TABLES,
    SEARCH_STEP, //
};

use self::index::{
    ClaimedBy,
    MsgIndex,
    RxIndex, //
};
use crate::{
    prelude::*,
    util::{
        hash::HashSeed,
        indexed_fifo::{
            HasLinks,
            IndexedFifo, //
        },
    },
};
use core::net::{
    IpAddr,
    Ipv4Addr, //
};

/// Criteria by which a receive matches messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MatchSpec {
    /// Tag and ignored bits; `None` matches untagged messages.
    pub(super) tag: Option<(u64, u64)>,
    /// Source; `None` matches any.
    pub(super) from: Option<SocketAddr>,
}

/// Matching key of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MsgKey {
    /// Index of the receive context.
    pub(super) context: u8,
    /// Tag; `None` for an untagged message.
    pub(super) tag: Option<u64>,
    /// Source.
    pub(super) from: SocketAddr,
}

impl MsgKey {
    /// Key of an entry that holds no message.
    pub(super) const NONE: Self = Self {
        context: 0,
        tag: None,
        from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    };
}

impl MatchSpec {
    /// Returns whether a message with this key matches.
    #[inline]
    fn matches(&self, key: &MsgKey) -> bool {
        let is_tag = match (self.tag, key.tag) {
            (Some((tag, ignore)), Some(given)) => (tag ^ given) & !ignore == 0,
            (None, None) => true,
            _ => false,
        };
        is_tag && self.from.is_none_or(|from| from == key.from)
    }
}

/// Receives that can be posted to a matcher.
pub(super) trait HasMatchSpec: HasLinks<RX_TABLES> {
    /// Returns the tag and the ignored bits; `None` matches untagged messages.
    fn tag(&self) -> Option<(u64, u64)>;

    /// Returns the source; `None` matches any.
    fn source(&self) -> Option<&SocketAddr>;

    /// Returns the criteria by which the receive matches messages.
    #[inline]
    fn spec(&self) -> MatchSpec {
        MatchSpec {
            tag: self.tag(),
            from: self.source().copied(),
        }
    }

    /// Returns the buffer's number if the receive is a multi-receive buffer.
    fn buffer(&self) -> Option<u32>;

    /// Returns the context by which the receive can be cancelled.
    fn context(&self) -> Option<usize>;

    /// Returns the position among the posted receives.
    fn rank(&self) -> u64;

    /// Sets the position among the posted receives.
    fn set_rank(&mut self, rank: u64);
}

/// Receive that matches a message.
pub(super) enum MatchResult<R> {
    /// A receive, which has been removed from the matcher.
    One(ListBox<R>),
    /// The multi-receive buffer of this number, which stays posted.
    Multi(u32),
}

/// Messages that can be queued in a matcher.
pub(super) trait HasMsgKey: HasLinks<MSG_TABLES> {
    /// Returns the matching key.
    fn key(&self) -> &MsgKey;

    /// Returns the number of the endpoint, in a matcher that several endpoints share.
    fn owner(&self) -> u32;

    /// Returns the context that has claimed the message.
    fn claimed_by(&self) -> Option<usize>;
}

/// Result of posting a receive.
pub(super) enum PostResult<R, M> {
    /// The receive is posted.
    Posted,
    /// The receive matches a message, which has been removed.
    Matched(ListBox<R>, ListBox<M>),
    /// The search for a message is not complete: the caller posts the receive again, and can release the lock before.
    Again(ListBox<R>),
    /// The receive is not posted, because receives with too many different ignore masks are posted already.
    Refused(ListBox<R>),
}

/// Posted receives and unexpected messages.
///
/// # Invariants
///
/// No posted receive matches a queued message.
pub(super) struct Matcher<R: HasMatchSpec, M: HasMsgKey> {
    seed: HashSeed,
    receives: RxIndex<R>,
    untagged: MsgIndex<M>,
    tagged: MsgIndex<M>,
    /// Messages that were claimed (FI_CLAIM), which match no posted receive. The first table indexes them by context.
    claimed: IndexedFifo<M, MSG_TABLES>,
}

impl<R: HasMatchSpec, M: HasMsgKey> Matcher<R, M> {
    /// Creates an empty matcher of one receive context. With `is_shared`, several endpoints share the matcher, and no
    /// receive names a source. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(is_shared: bool) -> Result<KBox<Self>> {
        // Initialised in place, because it is too large for the stack.
        let new = init!(Self {
            seed: HashSeed::new(),
            receives: RxIndex::EMPTY,
            untagged <- MsgIndex::init(false, is_shared),
            tagged <- MsgIndex::init(true, is_shared),
            claimed: IndexedFifo::new(),
        });
        Ok(KBox::init(new, GFP_KERNEL)?)
    }

    /// Sets the buckets for the posted receives, of which there are none yet.
    #[inline(never)]
    pub(super) fn set_buckets(&mut self, buckets: RxBuckets<R>) {
        self.receives.set_buckets(buckets);
    }

    /// Returns the number of entries that searches have looked at.
    #[cfg(CONFIG_KUNIT = "y")]
    fn probes(&self) -> usize {
        self.receives.probes() + self.untagged.probes() + self.tagged.probes()
    }

    #[inline]
    fn messages(&mut self, is_tagged: bool) -> (&HashSeed, &mut MsgIndex<M>) {
        match is_tagged {
            true => (&self.seed, &mut self.tagged),
            false => (&self.seed, &mut self.untagged),
        }
    }

    /// Posts a receive, unless a queued message matches.
    #[inline]
    pub(super) fn post(&mut self, receive: ListBox<R>) -> PostResult<R, M> {
        self.post_or_force(receive, false)
    }

    /// Posts a receive again that was taken from the matcher; never refuses it.
    pub(super) fn post_again(&mut self, receive: ListBox<R>) -> PostResult<R, M> {
        self.post_or_force(receive, true)
    }

    #[inline(always)]
    fn post_or_force(&mut self, receive: ListBox<R>, is_forced: bool) -> PostResult<R, M> {
        let (_, messages) = self.messages(receive.tag().is_some());
        let found = match messages.is_empty() {
            true => Search::NotFound,
            false => self.claim(&receive.spec()),
        };
        match found {
            Search::Found(message) => PostResult::Matched(receive, message),
            Search::Again => PostResult::Again(receive),
            Search::NotFound => match self.receives.push(&self.seed, receive, is_forced) {
                Ok(()) => PostResult::Posted,
                Err(receive) => PostResult::Refused(receive),
            },
        }
    }

    /// Takes the receive for a message that has arrived; a multi-receive buffer stays posted. If there is no receive,
    /// the caller [queues](Self::queue_unexp) the message before the next one arrives. The caller
    /// [takes](Self::take_receive) a multi-receive buffer that can hold no more messages.
    #[inline]
    pub(super) fn match_msg(&mut self, key: &MsgKey) -> Option<MatchResult<R>> {
        self.receives.match_msg(&self.seed, key, false)
    }

    /// Takes the receive for a message, also if it is a multi-receive buffer.
    pub(super) fn take_receive(&mut self, key: &MsgKey) -> Option<ListBox<R>> {
        match self.receives.match_msg(&self.seed, key, true)? {
            MatchResult::One(receive) => Some(receive),
            MatchResult::Multi(_) => None,
        }
    }

    /// Queues an unexpected message.
    #[inline]
    pub(super) fn queue_unexp(&mut self, message: ListBox<M>) {
        let (seed, messages) = self.messages(message.key().tag.is_some());
        messages.push_back(seed, message);
    }

    /// Queues an unexpected message, unless a receive matches it: then takes the receive and returns both. Not for
    /// matchers with multi-receive buffers.
    pub(super) fn match_or_queue(
        &mut self,
        message: ListBox<M>,
    ) -> Option<(ListBox<R>, ListBox<M>)> {
        match self.match_msg(message.key()) {
            Some(MatchResult::One(receive)) => Some((receive, message)),
            _ => {
                self.queue_unexp(message);
                None
            }
        }
    }

    /// Puts a message in front of the queued ones.
    pub(super) fn requeue_front(&mut self, message: ListBox<M>) {
        let (seed, messages) = self.messages(message.key().tag.is_some());
        messages.push_front(seed, message);
    }

    /// Calls `see` for the message that a receive with this `spec` would match.
    pub(super) fn peek<T>(&mut self, spec: &MatchSpec, see: impl FnOnce(&M) -> T) -> Search<T> {
        let (seed, messages) = self.messages(spec.tag.is_some());
        messages.search(seed, spec, |entry| see(entry.get()))
    }

    /// Takes the message that a receive with this `spec` would match.
    #[inline]
    pub(super) fn claim(&mut self, spec: &MatchSpec) -> Search<ListBox<M>> {
        let (seed, messages) = self.messages(spec.tag.is_some());
        messages.search(seed, spec, |entry| entry.take())
    }

    /// Takes the message that a receive with this `spec` would match, if `accepts` returns a value for it.
    pub(super) fn claim_if<T>(
        &mut self,
        spec: &MatchSpec,
        accepts: impl FnOnce(&M) -> Option<T>,
    ) -> Search<Option<(ListBox<M>, T)>> {
        let (seed, messages) = self.messages(spec.tag.is_some());
        messages.search(seed, spec, |entry| {
            let accepted = accepts(entry.get())?;
            Some((entry.take(), accepted))
        })
    }

    /// Takes the oldest receive with a context, if `accepts` returns true for it.
    pub(super) fn cancel(
        &mut self,
        context: usize,
        accepts: impl FnOnce(&R) -> bool,
    ) -> Search<ListBox<R>> {
        self.receives.cancel(context, accepts)
    }

    /// Takes the messages of a source that `selects` accepts. Examines all messages of the source.
    pub(super) fn remove_unexp(
        &mut self,
        from: &SocketAddr,
        mut selects: impl FnMut(&M) -> bool,
    ) -> BoxList<M> {
        let mut removed = self.untagged.remove_source(&self.seed, from, &mut selects);
        let mut tagged = self.tagged.remove_source(&self.seed, from, selects);
        removed.append(&mut tagged);
        removed
    }

    /// Takes a message of an endpoint, in a matcher that several endpoints share.
    pub(super) fn pop_owner(&mut self, owner: u32) -> Option<ListBox<M>> {
        let message = self.untagged.pop_owner(&self.seed, owner);
        message.or_else(|| self.tagged.pop_owner(&self.seed, owner))
    }

    /// Takes the oldest untagged message, or the oldest tagged one if there is no untagged one. Claimed messages stay.
    pub(super) fn pop_unexp(&mut self) -> Option<ListBox<M>> {
        let message = self.untagged.pop_front();
        message.or_else(|| self.tagged.pop_front())
    }

    /// Keeps a message that a context has claimed.
    pub(super) fn keep_claimed(&mut self, message: ListBox<M>) {
        let context = message.claimed_by().unwrap_or(0);
        let mut entry = self.claimed.push_back(message);
        entry.index_back(0, &ClaimedBy(context));
    }

    /// Takes the oldest message that a context has claimed.
    pub(super) fn take_claimed(&mut self, context: usize) -> Option<ListBox<M>> {
        Some(self.claimed.find(0, &ClaimedBy(context))?.take())
    }

    /// Takes the oldest claimed message.
    pub(super) fn pop_claimed(&mut self) -> Option<ListBox<M>> {
        self.claimed.pop_front()
    }

    /// Posts a receive without a search for a message. No message matches, or the endpoint is being closed.
    pub(super) fn queue_receive(&mut self, receive: ListBox<R>) {
        // Forced, so `push` does not return the receive.
        let _ = self.receives.push(&self.seed, receive, true);
    }

    /// Takes the oldest receive.
    pub(super) fn pop_receive(&mut self) -> Option<ListBox<R>> {
        self.receives.pop_front()
    }
}
