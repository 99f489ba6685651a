// SPDX-License-Identifier: GPL-2.0

//! Tag matcher: posted receives and unexpected messages of one context, in two queues (tagged and untagged).
//!
//! Guarded by `EpCore::inner`, or by the lock of a shared receive context. A message matches the oldest posted
//! receive, and a receive the oldest message. A multi-receive buffer keeps its position until it takes no more
//! messages.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::util::owned_list::{
    BoxList,
    ListBox,
    ScanAction, //
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    SocketAddr, //
};

/// Messages that a receive matches.
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
    /// Tag.
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
pub(super) trait HasMatchSpec {
    /// Returns the messages that the receive matches.
    fn spec(&self) -> &MatchSpec;

    /// Returns the buffer's number if the receive is a multi-receive buffer.
    fn buffer(&self) -> Option<u32>;
}

/// Receive that matches a message.
pub(super) enum MatchResult<R> {
    /// A receive, which has been removed from the queue.
    One(ListBox<R>),
    /// The multi-receive buffer of this number, which stays in the queue.
    Multi(u32),
}

/// Messages that can be queued in a matcher.
pub(super) trait HasMsgKey {
    /// Returns the matching key.
    fn key(&self) -> &MsgKey;
}

struct Queues<R, M> {
    receives: BoxList<R>,
    messages: BoxList<M>,
}

impl<R, M> Queues<R, M> {
    const fn new() -> Self {
        Self {
            receives: BoxList::new(),
            messages: BoxList::new(),
        }
    }
}

/// Queues of posted receives and unexpected messages.
///
/// # Invariants
///
/// No queued receive matches a queued message.
pub(super) struct Matcher<R, M> {
    untagged: Queues<R, M>,
    tagged: Queues<R, M>,
}

impl<R: HasMatchSpec, M: HasMsgKey> Matcher<R, M> {
    /// Creates an empty matcher.
    pub(super) const fn new() -> Self {
        Self {
            untagged: Queues::new(),
            tagged: Queues::new(),
        }
    }

    #[inline]
    fn queues(&mut self, is_tagged: bool) -> &mut Queues<R, M> {
        match is_tagged {
            true => &mut self.tagged,
            false => &mut self.untagged,
        }
    }

    /// Posts a receive. If a queued message matches, returns both.
    #[inline]
    pub(super) fn post(&mut self, receive: ListBox<R>) -> Option<(ListBox<R>, ListBox<M>)> {
        match self.claim(receive.spec()) {
            Some(message) => Some((receive, message)),
            None => {
                let queues = self.queues(receive.spec().tag.is_some());
                queues.receives.push(receive);
                None
            }
        }
    }

    /// Takes the queued messages that match a multi-receive buffer and that `takes` accepts. If the buffer takes
    /// more, the caller [queues](Self::queue_receive) it.
    pub(super) fn claim_multi(
        &mut self,
        spec: &MatchSpec,
        mut takes: impl FnMut(&mut M) -> bool,
    ) -> BoxList<M> {
        let queues = self.queues(spec.tag.is_some());
        queues
            .messages
            .drain_where_mut(|message| spec.matches(message.key()) && takes(message))
    }

    /// Finds the receive for a message that has arrived. If there is none, the caller [queues](Self::queue_unexp) the
    /// message before the next one arrives. The caller [cancels](Self::cancel) a multi-receive buffer that takes no
    /// more messages.
    #[inline]
    pub(super) fn match_msg(&mut self, key: &MsgKey) -> Option<MatchResult<R>> {
        let queues = self.queues(key.tag.is_some());
        let action = |receive: &R| match (receive.spec().matches(key), receive.buffer()) {
            (false, _) => ScanAction::Continue,
            (true, None) => ScanAction::Take,
            (true, Some(buffer)) => ScanAction::Keep(buffer),
        };
        Some(match queues.receives.scan(action)? {
            Ok(receive) => MatchResult::One(receive),
            Err(buffer) => MatchResult::Multi(buffer),
        })
    }

    /// Queues an unexpected message.
    #[inline]
    pub(super) fn queue_unexp(&mut self, message: ListBox<M>) {
        let queues = self.queues(message.key().tag.is_some());
        queues.messages.push(message);
    }

    /// Queues an unexpected message, unless a receive matches: then returns both. Not for matchers with multi-receive
    /// buffers.
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

    /// Puts messages in front of the queued ones.
    pub(super) fn requeue_front(&mut self, mut messages: BoxList<M>) {
        let tagged = messages.drain_where(|message| message.key().tag.is_some());
        for (mut first, queues) in [(messages, &mut self.untagged), (tagged, &mut self.tagged)] {
            first.append(&mut queues.messages);
            queues.messages = first;
        }
    }

    /// Returns the message that a receive with this `spec` would match.
    pub(super) fn peek(&mut self, spec: &MatchSpec) -> Option<&M> {
        let queues = self.queues(spec.tag.is_some());
        queues
            .messages
            .iter()
            .find(|message| spec.matches(message.key()))
    }

    /// Takes the message that a receive with this `spec` would match.
    #[inline]
    pub(super) fn claim(&mut self, spec: &MatchSpec) -> Option<ListBox<M>> {
        let queues = self.queues(spec.tag.is_some());
        queues
            .messages
            .remove_first_where(|message| spec.matches(message.key()))
    }

    /// Takes the first tagged or untagged receive for which `is` returns true.
    pub(super) fn cancel(
        &mut self,
        is_tagged: bool,
        is: impl FnMut(&R) -> bool,
    ) -> Option<ListBox<R>> {
        self.queues(is_tagged).receives.remove_first_where(is)
    }

    /// Takes every message that `selects` accepts.
    pub(super) fn remove_unexp(&mut self, mut selects: impl FnMut(&M) -> bool) -> [BoxList<M>; 2] {
        [
            self.untagged.messages.drain_where(&mut selects),
            self.tagged.messages.drain_where(selects),
        ]
    }

    /// Queues a receive without matching: no message matches, or the endpoint ends.
    pub(super) fn queue_receive(&mut self, receive: ListBox<R>) {
        let queues = self.queues(receive.spec().tag.is_some());
        queues.receives.push(receive);
    }

    /// Takes all receives.
    pub(super) fn take_receives(&mut self) -> [BoxList<R>; 2] {
        [
            core::mem::take(&mut self.untagged.receives),
            core::mem::take(&mut self.tagged.receives),
        ]
    }
}
