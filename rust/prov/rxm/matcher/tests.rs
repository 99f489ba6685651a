// SPDX-License-Identifier: GPL-2.0

//! Tests of the matcher; [`model`] compares it with a naive model and counts what searches look at.

mod model;

use super::{
    HasMatchSpec,
    HasMsgKey,
    MatchSpec,
    Matcher,
    MsgKey,
    PostResult,
    Search,
    MSG_TABLES,
    RX_TABLES, //
};
use crate::{
    abi::Result,
    util::{
        indexed_fifo::{
            impl_has_links,
            Links, //
        },
        owned_list::ListBox, //
    }, //
};
use core::net::SocketAddr;

/// Receives with this bit in their number are multi-receive buffers.
const MULTI: u32 = 1 << 31;

struct Receive {
    number: u32,
    spec: MatchSpec,
    context: usize,
    rank: u64,
    links: Links<Receive, RX_TABLES>,
}

struct Message {
    number: u32,
    key: MsgKey,
    owner: u32,
    links: Links<Message, MSG_TABLES>,
}

type Tested = Matcher<Receive, Message>;

/// Cancels a receive with as many calls as that takes.
fn cancel(
    matcher: &mut Tested,
    context: usize,
    accepts: impl Fn(&Receive) -> bool,
) -> Option<ListBox<Receive>> {
    loop {
        match matcher.cancel(context, &accepts) {
            Search::Found(receive) => return Some(receive),
            Search::NotFound => return None,
            Search::Again => {}
        }
    }
}

impl_has_links! {
    impl HasLinks<RX_TABLES> for Receive { self.links }
}

impl_has_links! {
    impl HasLinks<MSG_TABLES> for Message { self.links }
}

impl HasMatchSpec for Receive {
    fn tag(&self) -> Option<(u64, u64)> {
        self.spec.tag
    }

    fn source(&self) -> Option<&SocketAddr> {
        self.spec.from.as_ref()
    }

    fn buffer(&self) -> Option<u32> {
        (self.number & MULTI != 0).then_some(self.number)
    }

    fn context(&self) -> Option<usize> {
        Some(self.context)
    }

    fn rank(&self) -> u64 {
        self.rank
    }

    fn set_rank(&mut self, rank: u64) {
        self.rank = rank;
    }
}

impl HasMsgKey for Message {
    fn key(&self) -> &MsgKey {
        &self.key
    }

    fn owner(&self) -> u32 {
        self.owner
    }

    fn claimed_by(&self) -> Option<usize> {
        Some(self.number as usize % 3)
    }
}

/// Creates a receive whose context is its number.
fn receive(number: u32, spec: MatchSpec) -> Result<ListBox<Receive>> {
    with_context(number, spec, number as usize)
}

fn with_context(number: u32, spec: MatchSpec, context: usize) -> Result<ListBox<Receive>> {
    ListBox::new(Receive {
        number,
        spec,
        context,
        rank: 0,
        links: Links::new(),
    })
}

/// Creates a message whose owner is the last digit of its number.
fn message(number: u32, key: MsgKey) -> Result<ListBox<Message>> {
    ListBox::new(Message {
        number,
        key,
        owner: number % 10,
        links: Links::new(),
    })
}

fn peer(last: u64) -> SocketAddr {
    match last % 2 {
        0 => SocketAddr::from(([10, 0, 0, last as u8], 7471)),
        _ => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, last as u16], 7471)),
    }
}

fn key(tag: Option<u64>, from: u64) -> MsgKey {
    MsgKey {
        context: 0,
        tag,
        from: peer(from),
    }
}

fn spec(tag: Option<(u64, u64)>, from: Option<u64>) -> MatchSpec {
    MatchSpec {
        tag,
        from: from.map(peer),
    }
}

fn found<T>(search: Search<T>) -> Option<T> {
    match search {
        Search::Found(found) => Some(found),
        Search::NotFound | Search::Again => None,
    }
}

fn is_posted(result: PostResult<Receive, Message>) -> bool {
    matches!(result, PostResult::Posted)
}

#[kernel::prelude::kunit_tests(kofi_rdm_matching)]
mod cases {
    use super::{
        super::{
            MatchResult,
            SEARCH_STEP, //
        },
        *, //
    };
    use crate::abi::Result;
    use kernel::prelude::*;

    /// Returns the number of the single receive that matches.
    fn one(result: Option<MatchResult<Receive>>) -> Option<u32> {
        match result? {
            MatchResult::One(receive) => Some(receive.number),
            MatchResult::Multi(_) => None,
        }
    }

    /// Posts a receive until its search is complete. Returns the message, and the number of calls.
    fn post(matcher: &mut Tested, mut receive: ListBox<Receive>) -> (Option<u32>, usize) {
        for calls in 1.. {
            match matcher.post(receive) {
                PostResult::Posted => return (None, calls),
                PostResult::Matched(_, message) => return (Some(message.number), calls),
                PostResult::Again(same) => receive = same,
                PostResult::Refused(_) => break,
            }
        }
        (None, 0)
    }

    #[test]
    fn tags_match_except_for_ignored_bits() {
        for (wanted, ignore, given, matches) in [
            (5, 0, 5, true),
            (5, 0, 4, false),
            (5, 1, 4, true),
            (5, 1, 7, false),
            (0, u64::MAX, 7, true),
            (1 << 63, 0, 0, false),
            (1 << 63, 1 << 63, 0, true),
        ] {
            let spec = spec(Some((wanted, ignore)), None);
            assert_eq!(spec.matches(&key(Some(given), 1)), matches);
        }
    }

    #[test]
    fn tagged_and_untagged_do_not_match() {
        assert!(!spec(Some((0, u64::MAX)), None).matches(&key(None, 1)));
        assert!(!spec(None, None).matches(&key(Some(0), 1)));
        assert!(spec(None, None).matches(&key(None, 1)));
    }

    #[test]
    fn directed_receive_matches_one_source() {
        assert!(spec(None, Some(2)).matches(&key(None, 2)));
        assert!(!spec(None, Some(2)).matches(&key(None, 1)));
        assert!(spec(None, None).matches(&key(None, 2)));
        let same_host = MsgKey {
            context: 0,
            tag: None,
            from: SocketAddr::from(([10, 0, 0, 2], 7472)),
        };
        assert!(!spec(None, Some(2)).matches(&same_host));
    }

    #[test]
    fn peek_keeps_and_claim_removes_the_message() -> Result {
        let mut matcher = Tested::new(false)?;
        let any = spec(Some((0, u64::MAX)), None);
        let peek = |matcher: &mut Tested, spec| found(matcher.peek(spec, |seen| seen.number));
        assert!(peek(&mut matcher, &any).is_none());
        for number in 0..3 {
            matcher.queue_unexp(message(number, key(Some(number.into()), 1))?);
        }
        let second = spec(Some((1, 0)), None);
        assert_eq!(peek(&mut matcher, &second), Some(1));
        assert_eq!(peek(&mut matcher, &second), Some(1));
        assert!(found(matcher.claim(&second)).is_some_and(|node| node.number == 1));
        assert!(peek(&mut matcher, &second).is_none());
        assert!(found(matcher.claim(&any)).is_some_and(|node| node.number == 0));
        assert!(matcher.remove_unexp(&peer(2), |_| true).is_empty());
        assert_eq!(matcher.remove_unexp(&peer(1), |_| true).len(), 1);
        assert!(matcher.pop_unexp().is_none());
        Ok(())
    }

    #[test]
    fn claimed_messages_match_nothing_and_are_found_by_context() -> Result {
        let mut matcher = Tested::new(false)?;
        for number in 0..6 {
            matcher.keep_claimed(message(number, key(Some(1), 1))?);
        }
        assert_eq!(
            post(&mut matcher, receive(0, spec(Some((1, 0)), None))?).0,
            None
        );
        assert!(matcher.take_claimed(3).is_none() && matcher.pop_unexp().is_none());
        for number in [1, 4] {
            assert!(matcher
                .take_claimed(1)
                .is_some_and(|message| message.number == number));
        }
        assert!(matcher.take_claimed(1).is_none());
        for number in [0, 2, 3, 5] {
            assert!(matcher
                .pop_claimed()
                .is_some_and(|message| message.number == number));
        }
        Ok(())
    }

    #[test]
    fn message_is_queued_or_returned_with_its_receive() -> Result {
        let mut matcher = Tested::new(true)?;
        let any = spec(None, None);
        let offer = |matcher: &mut Tested, number, tag| {
            let met = matcher.match_or_queue(message(number, key(tag, 1))?);
            Result::Ok(met.map(|(receive, message)| (receive.number, message.number)))
        };
        assert!(is_posted(matcher.post(receive(1, any)?)));
        assert!(offer(&mut matcher, 2, Some(7))?.is_none());
        assert_eq!(offer(&mut matcher, 3, None)?, Some((1, 3)));
        assert!(offer(&mut matcher, 4, None)?.is_none());
        assert_eq!(post(&mut matcher, receive(5, any)?).0, Some(4));
        Ok(())
    }

    #[test]
    fn pop_owner_examines_no_messages_of_others() -> Result {
        let mut matcher = Tested::new(true)?;
        for number in 0..1_000 {
            let tag = (number % 3 == 0).then_some(number.into());
            matcher.queue_unexp(message(number, key(tag, number.into()))?);
        }
        let mut numbers = 0;
        let before = matcher.probes();
        while let Some(message) = matcher.pop_owner(7) {
            assert!(message.number % 10 == 7);
            numbers += 1;
        }
        assert!(numbers == 100 && matcher.probes() - before <= 8 * numbers);
        assert!(matcher.pop_owner(10).is_none() && matcher.pop_owner(6).is_some());
        Ok(())
    }

    #[test]
    fn cancelled_receive_matches_nothing() -> Result {
        let mut matcher = Tested::new(false)?;
        for number in 0..3 {
            assert!(is_posted(matcher.post(receive(number, spec(None, None))?)));
        }
        assert!(cancel(&mut matcher, 3, |_| true).is_none());
        assert!(cancel(&mut matcher, 1, |_| false).is_none());
        assert!(cancel(&mut matcher, 1, |receive| receive.number == 1).is_some());
        assert!(cancel(&mut matcher, 1, |_| true).is_none());
        for number in [0, 2] {
            assert_eq!(one(matcher.match_msg(&key(None, 1))), Some(number));
        }
        assert!(matcher.match_msg(&key(None, 1)).is_none());
        assert!(is_posted(matcher.post(receive(7, spec(None, None))?)));
        assert!(matcher
            .pop_receive()
            .is_some_and(|receive| receive.number == 7));
        assert!(matcher.pop_receive().is_none());
        Ok(())
    }

    #[test]
    fn receives_with_equal_contexts_are_cancelled_in_posting_order() -> Result {
        let mut matcher = Tested::new(false)?;
        for number in 0..4 {
            let tag = (number % 2 == 0).then_some((number.into(), 0));
            let posted = matcher.post(with_context(number, spec(tag, None), 0)?);
            assert!(is_posted(posted));
        }
        for number in 0..4 {
            assert!(
                cancel(&mut matcher, 0, |_| true).is_some_and(|receive| receive.number == number)
            );
        }
        Ok(())
    }

    #[test]
    fn cancel_examines_each_receive_once_and_few_in_a_call() -> Result {
        const COUNT: u32 = 1_000;
        let mut matcher = Tested::new(false)?;
        for number in 0..COUNT {
            assert!(is_posted(matcher.post(receive(number, spec(None, None))?)));
        }
        let before = matcher.probes();
        let mut calls = 0;
        let found = loop {
            let before = matcher.probes();
            let found = matcher.cancel(COUNT as usize - 1, |_| true);
            assert!(matcher.probes() - before <= 4 * SEARCH_STEP);
            calls += 1;
            if !matches!(found, Search::Again) {
                break found;
            }
        };
        assert!(matches!(found, Search::Found(receive) if receive.number == COUNT - 1));
        assert!(calls >= COUNT as usize / SEARCH_STEP);
        assert!(matcher.probes() - before <= 4 * COUNT as usize);
        let before = matcher.probes();
        for number in 0..COUNT - 1 {
            assert!(matches!(
                matcher.cancel(number as usize, |_| true),
                Search::Found(_)
            ));
        }
        assert!(matcher.probes() - before <= 4 * COUNT as usize);
        assert!(matcher.pop_receive().is_none());
        Ok(())
    }

    #[test]
    fn ep_11_multi_receive_buffer_keeps_its_position() -> Result {
        let mut matcher = Tested::new(false)?;
        let any = spec(None, None);
        for number in [MULTI, 1] {
            assert!(is_posted(matcher.post(receive(number, any)?)));
        }
        for _ in 0..3 {
            let result = matcher.match_msg(&key(None, 1));
            assert!(matches!(result, Some(MatchResult::Multi(MULTI))));
        }
        let spent = matcher.take_receive(&key(None, 1));
        assert!(spent.is_some_and(|receive| receive.number == MULTI));
        assert_eq!(one(matcher.match_msg(&key(None, 1))), Some(1));
        assert!(matcher.match_msg(&key(None, 1)).is_none());
        // The buffer takes as many queued messages as it can.
        for number in 0..3 {
            matcher.queue_unexp(message(number, key(None, number.into()))?);
        }
        for number in 0..2 {
            let taken = found(matcher.claim_if(&any, |message| Some(message.number)));
            let taken = taken
                .flatten()
                .map(|(message, seen)| (message.number, seen));
            assert_eq!(taken, Some((number, number)));
        }
        assert!(found(matcher.claim_if(&any, |_| None::<u32>)).is_some_and(|none| none.is_none()));
        assert!(found(matcher.claim(&any)).is_some_and(|message| message.number == 2));
        Ok(())
    }

    #[test]
    fn masks_are_limited_and_reposted_receives_are_kept() -> Result {
        let mut matcher = Tested::new(false)?;
        let masked = |number: u32| spec(Some((0, u64::from(number) << 8 | 1)), None);
        let mut posted = 0;
        while is_posted(matcher.post(receive(posted, masked(posted))?)) {
            posted += 1;
        }
        // Beside the six classes without a partial mask.
        assert_eq!(posted, 58);
        // Receives that were posted before return even so, in order.
        for number in [posted, posted + 1, posted] {
            assert!(is_posted(
                matcher.post_again(receive(number, masked(number))?)
            ));
        }
        for number in Iterator::chain(0..posted, [posted, posted + 1, posted]) {
            assert_eq!(one(matcher.match_msg(&key(Some(1), 1))), Some(number));
        }
        assert!(matcher.match_msg(&key(Some(1), 1)).is_none());
        // The masks of removed receives are free again.
        assert!(is_posted(matcher.post(receive(0, masked(1_000))?)));
        Ok(())
    }

    #[test]
    fn search_with_a_new_mask_examines_each_message_once() -> Result {
        const MESSAGES: u32 = 1_000;
        let mut matcher = Tested::new(false)?;
        for number in 0..MESSAGES {
            matcher.queue_unexp(message(number, key(Some(u64::from(number) << 8 | 7), 1))?);
        }
        let last = |mask| spec(Some((u64::from(MESSAGES - 1) << 8, mask)), None);
        // The message is the last one.
        let (taken, calls) = post(&mut matcher, receive(0, last(0xff))?);
        assert_eq!(taken, Some(MESSAGES - 1));
        assert_eq!(calls, MESSAGES as usize / SEARCH_STEP + 1);
        // The others are known.
        for number in (0..MESSAGES - 1).rev() {
            let wanted = spec(Some((u64::from(number) << 8, 0xff)), None);
            let before = matcher.probes();
            assert_eq!(post(&mut matcher, receive(0, wanted)?), (Some(number), 1));
            assert!(matcher.probes() - before <= 8);
            matcher.queue_unexp(message(number, key(Some(u64::from(number) << 8 | 9), 2))?);
        }
        Ok(())
    }

    #[test]
    fn concurrent_searches_with_many_masks_end() -> Result {
        let mut matcher = Tested::new(false)?;
        for number in 0..2_000 {
            matcher.queue_unexp(message(number, key(Some(1 << 60), 1))?);
        }
        let masks = [1, 2, 4, 8, 16];
        let mut searching = KVec::new();
        for (number, mask) in masks.into_iter().enumerate() {
            searching.push(
                receive(number as u32, spec(Some((0, mask)), None))?,
                GFP_KERNEL,
            )?;
        }
        let mut calls = 0;
        while let Ok(receive) = searching.remove(0) {
            calls += 1;
            assert!(calls < 100 * 2_000 / SEARCH_STEP);
            match matcher.post(receive) {
                PostResult::Again(receive) => searching.push(receive, GFP_KERNEL)?,
                result => assert!(is_posted(result)),
            }
        }
        Ok(())
    }
}
