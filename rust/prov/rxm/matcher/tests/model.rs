// SPDX-License-Identifier: GPL-2.0

//! Comparison of the matcher with a naive model, and the number of entries that its searches look at.

use super::{
    super::{
        MatchResult,
        SEARCH_STEP, //
    },
    *, //
};
use crate::util::random::SeededRandom;
use kernel::{
    error::Result as KernelResult,
    prelude::*, //
};

/// Receive of the model.
#[derive(Clone, Copy)]
struct Posted {
    number: u32,
    spec: MatchSpec,
    context: usize,
    /// Number of messages that it takes.
    left: u32,
}

/// Naive matcher: a list of receives and a list of messages.
struct Model {
    receives: KVVec<Posted>,
    messages: KVVec<(u32, MsgKey)>,
}

impl Model {
    /// Returns the first message that matches.
    fn find(&self, spec: &MatchSpec) -> Option<usize> {
        self.messages.iter().position(|(_, key)| spec.matches(key))
    }

    fn take(&mut self, spec: &MatchSpec) -> Option<u32> {
        let at = self.find(spec)?;
        Some(self.messages.remove(at).ok()?.0)
    }

    /// Returns the messages that a posted receive takes at once.
    fn post(&mut self, mut posted: Posted) -> KernelResult<KVec<u32>> {
        let mut taken = KVec::new();
        while posted.left > 0 {
            let Some(number) = self.take(&posted.spec) else {
                self.receives.push(posted, GFP_KERNEL)?;
                break;
            };
            posted.left -= 1;
            taken.push(number, GFP_KERNEL)?;
        }
        Ok(taken)
    }

    /// Returns the receive of a message, and whether it takes more.
    fn arrive(&mut self, number: u32, key: MsgKey) -> KernelResult<Option<(u32, bool)>> {
        let matches = |posted: &Posted| posted.spec.matches(&key);
        let Some(at) = self.receives.iter().position(matches) else {
            self.messages.push((number, key), GFP_KERNEL)?;
            return Ok(None);
        };
        let posted = self.receives.get_mut(at).ok_or(EINVAL)?;
        posted.left -= 1;
        let (number, takes_more) = (posted.number, posted.left > 0);
        if !takes_more {
            self.receives.remove(at).map_err(|_| EINVAL)?;
        }
        Ok(Some((number, takes_more)))
    }

    fn cancel(&mut self, context: usize) -> Option<u32> {
        let at = self
            .receives
            .iter()
            .position(|posted| posted.context == context)?;
        Some(self.receives.remove(at).ok()?.number)
    }
}

/// A matcher and its model.
struct Pair {
    matcher: KBox<Tested>,
    model: Model,
    random: SeededRandom,
    /// Number of receives and messages that met.
    met: u32,
    /// Number of searches that took several calls.
    stepped: u32,
}

impl Pair {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_below(bound)
    }

    fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[self.below(N as u64) as usize % N]
    }

    fn spec(&mut self, tags: u64) -> MatchSpec {
        let (tag, from) = (self.below(tags), self.below(5));
        let ignore = self.one_of([0, 0, 1, 3, 7, 0xff, u64::MAX]);
        let is_tagged = self.below(3) > 0;
        let is_directed = self.below(2) == 0;
        spec(
            is_tagged.then_some((tag, ignore)),
            is_directed.then_some(from),
        )
    }

    /// Lets a message arrive.
    fn arrive(&mut self, number: u32, tags: u64) -> KernelResult {
        let is_tagged = self.below(3) > 0;
        let tag = self.below(tags);
        let key = key(is_tagged.then_some(tag), self.below(5));
        let expected = self.model.arrive(number, key)?;
        self.met += u32::from(expected.is_some());
        let taken = match self.matcher.match_msg(&key) {
            None => {
                self.matcher.queue_unexp(message(number, key)?);
                None
            }
            Some(MatchResult::One(receive)) => Some((receive.number, false)),
            Some(MatchResult::Multi(number)) => {
                let takes_more = expected.is_some_and(|(_, takes_more)| takes_more);
                if !takes_more {
                    let spent = self.matcher.take_receive(&key);
                    assert!(spent.is_some_and(|receive| receive.number == number));
                }
                Some((number, takes_more))
            }
        };
        assert!(taken == expected);
        Ok(())
    }

    /// Posts a receive. Messages arrive while its search is not complete.
    fn post(&mut self, number: u32, tags: u64) -> KernelResult {
        let posted = Posted {
            number,
            spec: self.spec(tags),
            context: self.below(50) as usize,
            left: 1,
        };
        let mut receive = with_context(number, posted.spec, posted.context)?;
        let taken = loop {
            match self.matcher.post(receive) {
                PostResult::Posted => break None,
                PostResult::Matched(_, message) => break Some(message.number),
                PostResult::Again(same) => receive = same,
                PostResult::Refused(_) => return Err(EINVAL),
            }
            self.stepped += 1;
            self.arrive(number, tags)?;
        };
        self.met += u32::from(taken.is_some());
        assert!(Iterator::eq(taken.iter(), self.model.post(posted)?.iter()));
        Ok(())
    }

    /// Posts a multi-receive buffer for a few messages.
    fn post_multi(&mut self, number: u32) -> KernelResult {
        let mut posted = Posted {
            number: number | MULTI,
            spec: self.spec(1),
            context: self.below(50) as usize,
            left: 1 + self.below(6) as u32,
        };
        posted.spec.tag = None;
        let expected = self.model.post(posted)?;
        let mut taken = KVec::new();
        while posted.left > 0 {
            match self
                .matcher
                .claim_if(&posted.spec, |message| Some(message.number))
            {
                Search::Found(Some((_, number))) => taken.push(number, GFP_KERNEL)?,
                Search::Found(None) | Search::Again => return Err(EINVAL),
                Search::NotFound => {
                    let buffer = with_context(posted.number, posted.spec, posted.context)?;
                    self.matcher.queue_receive(buffer);
                    break;
                }
            }
            posted.left -= 1;
        }
        self.met += taken.len() as u32;
        assert!(*taken == *expected);
        Ok(())
    }

    /// Looks for a message, and takes it or not.
    fn peek(&mut self, number: u32, tags: u64) -> KernelResult {
        let spec = self.spec(tags);
        let takes = self.below(2) == 0;
        let seen = loop {
            match self.matcher.peek(&spec, |message| message.number) {
                Search::Found(number) => break Some(number),
                Search::NotFound => break None,
                Search::Again => {}
            }
            self.stepped += 1;
            self.arrive(number, tags)?;
        };
        let expected = self.model.find(&spec);
        assert!(seen == expected.map(|at| self.model.messages[at].0));
        if takes {
            let taken = found(self.matcher.claim(&spec)).map(|message| message.number);
            assert!(taken == self.model.take(&spec));
        }
        Ok(())
    }

    /// Removes some messages of a peer.
    fn remove(&mut self) {
        let from = peer(self.below(5));
        let part = self.one_of([1, 2, 3]);
        let is = |number: u32| number.checked_rem(part) == Some(0);
        let removed = self
            .matcher
            .remove_unexp(&from, |message| is(message.number));
        let mut count = 0;
        self.model.messages.retain(|(number, key)| {
            let is_removed = key.from == from && is(*number);
            count += usize::from(is_removed);
            !is_removed
        });
        assert!(removed.len() == count);
        assert!(removed
            .iter()
            .all(|message| message.key.from == from && is(message.number)));
    }

    /// Takes a message and puts it in front of the others.
    fn requeue(&mut self, tags: u64) {
        let spec = self.spec(tags);
        if let Some(at) = self.model.find(&spec) {
            if let Search::Found(message) = self.matcher.claim(&spec) {
                self.matcher.requeue_front(message);
                self.model.messages[..=at].rotate_right(1);
            }
        }
    }
}

#[kunit_tests(kofi_rdm_matching_model)]
mod cases {
    use super::*;

    #[test]
    fn every_operation_does_what_a_naive_model_does() -> KernelResult {
        const ROUNDS: u32 = 50_000;
        let mut pair = Pair {
            matcher: Tested::new(false)?,
            model: Model {
                receives: KVVec::new(),
                messages: KVVec::new(),
            },
            random: SeededRandom::new(1),
            met: 0,
            stepped: 0,
        };
        for number in 0..ROUNDS {
            // Alternate between more receives and more messages, and between few tags and many.
            let receives = if number >> 9 & 1 == 0 { 5 } else { 10 };
            let tags = if number >> 11 & 1 == 0 { 4 } else { 300 };
            match pair.below(16) {
                0 => {
                    let context = pair.below(50) as usize;
                    let cancelled = cancel(&mut pair.matcher, context, |_| true);
                    let cancelled = cancelled.map(|receive| receive.number);
                    assert!(cancelled == pair.model.cancel(context));
                }
                1 => pair.peek(number, tags)?,
                2 => pair.requeue(tags),
                3 if pair.below(16) == 0 => pair.remove(),
                4 => pair.post_multi(number)?,
                choice if choice < receives => pair.post(number, tags)?,
                _ => pair.arrive(number, tags)?,
            }
        }
        assert!(pair.met > ROUNDS / 8 && pair.stepped > ROUNDS / 500);
        // What is left comes out in order.
        while let Some(receive) = pair.matcher.pop_receive() {
            let expected = pair.model.receives.remove(0).map_err(|_| EINVAL)?;
            assert!(receive.number == expected.number);
        }
        for is_tagged in [false, true] {
            let of = |(_, key): &&(u32, MsgKey)| key.tag.is_some() == is_tagged;
            for (number, _) in pair.model.messages.iter().filter(of) {
                let message = pair.matcher.pop_unexp();
                assert!(message.is_some_and(|message| message.number == *number));
            }
        }
        assert!(pair.model.receives.is_empty() && pair.matcher.pop_unexp().is_none());
        Ok(())
    }

    const MANY: u32 = 100_000;

    /// Largest number of entries that an operation may look at.
    const MOST: usize = 24;

    fn tagged(number: u32) -> Option<u64> {
        Some(u64::from(number))
    }

    /// Returns the number of entries that `act` looks at.
    fn probes(
        matcher: &mut Tested,
        act: impl FnOnce(&mut Tested) -> KernelResult<bool>,
    ) -> KernelResult<usize> {
        let before = matcher.probes();
        assert!(act(matcher)?);
        Ok(matcher.probes() - before)
    }

    /// Counts the entries that an arrival and a cancellation look at beside `count` posted receives. Every second
    /// receive has the same tag.
    fn probes_beside_receives(count: u32) -> KernelResult<usize> {
        let mut matcher = Tested::new(false)?;
        for number in 0..count {
            let tag = if number % 2 == 0 { number } else { u32::MAX };
            let spec = match number % 3 {
                0 => spec(Some((tag.into(), 0)), Some(number.into())),
                1 => spec(Some((tag.into(), 0)), None),
                _ => spec(Some((tag.into(), 1 << 40)), None),
            };
            assert!(is_posted(matcher.post(receive(number, spec)?)));
        }
        // The first cancel examines each receive, in several calls.
        assert!(cancel(&mut matcher, usize::MAX, |_| true).is_none());
        let mut most = 0;
        for number in (0..count).step_by(1 + count as usize / 1_000) {
            let is_even = number % 2 == 0;
            most = most.max(probes(&mut matcher, |matcher| {
                if !is_even {
                    return Ok(cancel(matcher, number as usize, |_| true).is_some());
                }
                let result = matcher.match_msg(&key(tagged(number), number.into()));
                Ok(matches!(result, Some(MatchResult::One(receive)) if receive.number == number))
            })?);
            let strange = key(tagged(u32::MAX - 1), 1);
            let arrive = |matcher: &mut Tested| Ok(matcher.match_msg(&strange).is_none());
            most = most.max(probes(&mut matcher, arrive)?);
        }
        Ok(most)
    }

    /// Counts the entries that a post and a removal look at beside `count` unexpected messages. Every second message
    /// has the same tag.
    fn probes_beside_messages(count: u32) -> KernelResult<usize> {
        let mut matcher = Tested::new(false)?;
        for number in 0..count {
            let tag = if number % 2 == 0 { number } else { u32::MAX };
            matcher.queue_unexp(message(number, key(tagged(tag), 2))?);
        }
        matcher.queue_unexp(message(count, key(Some(0), 4))?);
        let mut most = 0;
        for number in (0..count).step_by(1 + count as usize / 1_000) {
            let tag = if number % 2 == 0 { number } else { u32::MAX };
            for from in [None, Some(2), Some(8)] {
                // The first one takes the message, the others take none, or others with the tag.
                let spec = spec(Some((tag.into(), 0)), from);
                let claim = |matcher: &mut Tested| {
                    let taken = found(matcher.claim(&spec)).map(|message| message.number);
                    Ok(from.is_some() || number % 2 == 1 || taken == Some(number))
                };
                most = most.max(probes(&mut matcher, claim)?);
            }
        }
        let remove = |matcher: &mut Tested| Ok(matcher.remove_unexp(&peer(4), |_| true).len() == 1);
        most = most.max(probes(&mut matcher, remove)?);
        Ok(most)
    }

    #[test]
    fn matching_costs_the_same_for_any_number_of_entries() -> KernelResult {
        for count in [1, MANY] {
            let receives = probes_beside_receives(count)?;
            let messages = probes_beside_messages(count)?;
            pr_info!(
                "matching beside {} entries looks at {} receives, {} messages at most\n",
                count,
                receives,
                messages
            );
            assert!(receives <= MOST && messages <= MOST);
        }
        Ok(())
    }

    #[test]
    fn growing_and_shrinking_costs_the_same_in_each_step() -> KernelResult {
        let mut matcher = Tested::new(false)?;
        let mut most = 0;
        for number in 0..MANY {
            most = most.max(probes(&mut matcher, |matcher| {
                matcher.queue_unexp(message(number, key(tagged(number), number.into()))?);
                Ok(true)
            })?);
        }
        while let Search::Found(message) = matcher.claim(&spec(Some((0, u64::MAX)), None)) {
            drop(message);
        }
        assert!(most <= 3 * MOST);
        assert!(SEARCH_STEP <= 64);
        Ok(())
    }
}
