// SPDX-License-Identifier: GPL-2.0

//! Which receive takes which message.
//!
//! A message goes to the receive that was posted first of those that it fits, and a receive takes the
//! message that arrived first of those that fit it. A receive that takes several messages keeps its place
//! among the others until it takes no more. Messages with a tag and receives that want one are among
//! themselves.

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

/// What a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MatchSpec {
    /// A tag, and the bits of it that do not matter; none: messages without one.
    pub(super) tag: Option<(u64, u64)>,
    /// Whom it is from; none: anybody.
    pub(super) from: Option<SocketAddr>,
}

/// What decides who takes a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MsgKey {
    /// Which receive context it is for.
    pub(super) context: u8,
    /// Its tag, if it has one.
    pub(super) tag: Option<u64>,
    /// Whom it is from.
    pub(super) from: SocketAddr,
}

impl MsgKey {
    /// That of what is no message: nobody is there.
    pub(super) const NONE: Self = Self {
        context: 0,
        tag: None,
        from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    };
}

impl MatchSpec {
    /// Whether a message of this title is meant.
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

/// A receive that waits for a message.
pub(super) trait HasMatchSpec {
    /// What it takes.
    fn spec(&self) -> &MatchSpec;

    /// If it takes several messages, the number of its buffer.
    fn buffer(&self) -> Option<u32>;
}

/// Who takes a message.
pub(super) enum MatchResult<R> {
    /// A receive, which waits no more.
    One(ListBox<R>),
    /// One that takes several, into the buffer of that number, and waits on.
    Multi(u32),
}

/// A message that waits for a receive.
pub(super) trait HasMsgKey {
    /// What decides who takes it.
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

/// Where receives and messages wait for each other. None waits that fits another.
pub(super) struct Matcher<R, M> {
    untagged: Queues<R, M>,
    tagged: Queues<R, M>,
}

impl<R: HasMatchSpec, M: HasMsgKey> Matcher<R, M> {
    /// Nobody waits.
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

    /// Has a receive wait, unless there is a message for it: then both come back.
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

    /// The messages that wait for a receive which takes several: `takes` says of each that fits whether it
    /// takes that too. If it takes more, it is to [`wait`](Self::wait_on).
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

    /// Who takes a message that arrives; if there is nobody, it is to [`wait`](Self::wait) before the next
    /// one arrives. A receive that takes no more with it is to be [`cancelled`](Self::cancel).
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

    /// Has a message wait for its receive.
    #[inline]
    pub(super) fn queue_unexp(&mut self, message: ListBox<M>) {
        let queues = self.queues(message.key().tag.is_some());
        queues.messages.push(message);
    }

    /// Has a message wait, unless there is a receive for it, none of which takes several: then both come
    /// back.
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

    /// Has messages wait that came before those that do.
    pub(super) fn requeue_front(&mut self, mut messages: BoxList<M>) {
        let tagged = messages.drain_where(|message| message.key().tag.is_some());
        for (mut first, queues) in [(messages, &mut self.untagged), (tagged, &mut self.tagged)] {
            first.append(&mut queues.messages);
            queues.messages = first;
        }
    }

    /// The message that a receive with this wish would take.
    pub(super) fn peek(&mut self, spec: &MatchSpec) -> Option<&M> {
        let queues = self.queues(spec.tag.is_some());
        queues
            .messages
            .iter()
            .find(|message| spec.matches(message.key()))
    }

    /// Takes that message.
    #[inline]
    pub(super) fn claim(&mut self, spec: &MatchSpec) -> Option<ListBox<M>> {
        let queues = self.queues(spec.tag.is_some());
        queues
            .messages
            .remove_first_where(|message| spec.matches(message.key()))
    }

    /// Takes the first receive that `is` the one, of those that want a tag or of the others.
    pub(super) fn cancel(
        &mut self,
        is_tagged: bool,
        is: impl FnMut(&R) -> bool,
    ) -> Option<ListBox<R>> {
        self.queues(is_tagged).receives.remove_first_where(is)
    }

    /// Takes every message that `goes`, as those of a peer that is no more.
    pub(super) fn remove_unexp(&mut self, mut selects: impl FnMut(&M) -> bool) -> [BoxList<M>; 2] {
        [
            self.untagged.messages.drain_where(&mut selects),
            self.tagged.messages.drain_where(selects),
        ]
    }

    /// Has a receive wait for which there is no message, as the endpoint comes to its end, or as it takes
    /// more than there was.
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
