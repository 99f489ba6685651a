// SPDX-License-Identifier: GPL-2.0

//! Two ends that ask each other, in whatever order their letters arrive.

use super::*;
use crate::util::random::SeededRandom;
use kernel::{
    alloc::KVec,
    prelude::*, //
};

/// What one end has said to the other, and what it called the attempt that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letter {
    Request(Identity, u32),
    Welcome(Identity, u32),
    Confirmation(u32),
    Refusal(Refusal, u32),
    /// The sender has dropped the attempt, and all that came of it.
    Goodbye(u32),
}

/// One end.
struct End {
    link: Link,
    identity: Identity,
    /// The attempt that it takes letters of: what others say is about nothing any more.
    attempt: Option<u32>,
    /// Of its address to that of the other.
    order: Ordering,
}

impl End {
    fn new(instance: u32, order: Ordering) -> Self {
        Self {
            link: Link::new(),
            identity: Identity { instance, index: 0 },
            attempt: None,
            order,
        }
    }
}

struct World {
    ends: [End; 2],
    /// Letters to each end, in the order in which each connection's arrive.
    post: [KVec<Letter>; 2],
    attempts: u32,
    random: SeededRandom,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            ends: [End::new(1, Ordering::Less), End::new(2, Ordering::Greater)],
            post: [KVec::new(), KVec::new()],
            attempts: 0,
            random: SeededRandom::new(seed),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_below(bound as u64) as usize
    }

    fn send(&mut self, from: usize, letter: Letter) -> kernel::error::Result {
        Ok(self.post[1 - from].push(letter, GFP_KERNEL)?)
    }

    fn ask(&mut self, who: usize) -> kernel::error::Result {
        self.attempts += 1;
        self.ends[who].attempt = Some(self.attempts);
        self.send(who, Letter::Request(self.ends[who].identity, self.attempts))
    }

    fn want(&mut self, who: usize) -> kernel::error::Result {
        match self.ends[who].link.want() {
            true => self.ask(who),
            false => Ok(()),
        }
    }

    /// Drops what it has of a connection.
    fn hang_up(&mut self, who: usize) -> kernel::error::Result {
        match self.ends[who].attempt.take() {
            Some(attempt) => self.send(who, Letter::Goodbye(attempt)),
            None => Ok(()),
        }
    }

    /// Forgets everything, as another instance.
    fn restart(&mut self, who: usize) -> kernel::error::Result {
        self.hang_up(who)?;
        self.ends[who].link = Link::new();
        self.ends[who].identity.instance += 2;
        Ok(())
    }

    /// Takes one of the letters to an end: any, but in order those of one attempt.
    fn deliver(&mut self, to: usize) -> kernel::error::Result {
        let count = self.post[to].len();
        if count == 0 {
            return Ok(());
        }
        let number = |letter: &Letter| match *letter {
            Letter::Request(_, number)
            | Letter::Welcome(_, number)
            | Letter::Confirmation(number)
            | Letter::Refusal(_, number)
            | Letter::Goodbye(number) => number,
        };
        let chosen = self.below(count);
        let attempt = self.post[to].get(chosen).map(number);
        let first = self.post[to]
            .iter()
            .position(|letter| Some(number(letter)) == attempt);
        let letter = self.post[to]
            .remove(first.unwrap_or(0))
            .map_err(|_| EINVAL)?;
        self.read(to, letter)
    }

    fn read(&mut self, to: usize, letter: Letter) -> kernel::error::Result {
        let (order, identity) = (self.ends[to].order.reverse(), self.ends[to].identity);
        let is_ours = |end: &End, number| end.attempt == Some(number);
        match letter {
            Letter::Request(who, number) => match self.ends[to].link.asked(who, order) {
                Verdict::Refuse => self.send(to, Letter::Refusal(Refusal::Already, number)),
                verdict => {
                    if verdict == Verdict::Replace {
                        self.hang_up(to)?;
                    }
                    self.ends[to].attempt = Some(number);
                    self.send(to, Letter::Welcome(identity, number))
                }
            },
            Letter::Welcome(who, number) if is_ours(&self.ends[to], number) => {
                assert!(self.ends[to].link.accepted(who));
                self.send(to, Letter::Confirmation(number))
            }
            Letter::Welcome(_, number) => self.send(to, Letter::Goodbye(number)),
            Letter::Confirmation(number) if is_ours(&self.ends[to], number) => {
                assert!(self.ends[to].link.established().is_some());
                Ok(())
            }
            Letter::Refusal(why, number) if is_ours(&self.ends[to], number) => {
                assert!(!self.ends[to].link.refused(why));
                self.ends[to].attempt = None;
                Ok(())
            }
            Letter::Goodbye(number) if is_ours(&self.ends[to], number) => {
                self.ends[to].attempt = None;
                self.ends[to].link.lost();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Delivers all that is on its way, and has those ask again who have waited for long.
    fn settle(&mut self) -> kernel::error::Result {
        for _ in 0..8 {
            while self.post.iter().any(|post| !post.is_empty()) {
                let to = self.below(2);
                self.deliver(to)?;
            }
            for who in 0..2 {
                if self.ends[who].link.miss() {
                    self.ask(who)?;
                }
            }
        }
        Ok(())
    }
}

#[kunit_tests(kofi_rdm_link)]
mod cases {
    use super::*;
    use core::net::Ipv4Addr;

    const ONE: Identity = Identity {
        instance: 1,
        index: 5,
    };

    #[test]
    fn one_asks_and_the_other_answers() {
        let mut link = Link::new();
        assert!(link.want());
        assert!(!link.want());
        assert!(!link.miss());
        assert!(link.accepted(ONE));
        assert_eq!(link.state(), State::Open(ONE));
        assert!(!link.accepted(ONE));
        let mut link = Link::new();
        assert_eq!(link.asked(ONE, Ordering::Less), Verdict::Accept);
        assert!(!link.want());
        assert_eq!(link.established(), Some(ONE));
        assert_eq!(link.established(), None);
        assert_eq!(link.state(), State::Open(ONE));
    }

    #[test]
    fn of_two_requests_that_of_the_higher_address_stands() {
        let mut link = Link::new();
        let _ = link.want();
        assert_eq!(link.asked(ONE, Ordering::Less), Verdict::Refuse);
        assert_eq!(link.state(), State::Asking);
        assert_eq!(link.asked(ONE, Ordering::Greater), Verdict::Replace);
        assert_eq!(link.state(), State::Answering(ONE));
    }

    #[test]
    fn who_is_refused_because_the_peer_asks_expects_it() {
        let mut link = Link::new();
        let _ = link.want();
        assert!(!link.refused(Refusal::Already));
        assert_eq!(link.state(), State::Expecting);
        assert!(!link.want());
        assert!(link.miss());
        assert_eq!(link.state(), State::Asking);
        let _ = link.refused(Refusal::Already);
        assert_eq!(link.asked(ONE, Ordering::Less), Verdict::Accept);
        let mut link = Link::new();
        let _ = link.want();
        assert!(link.refused(Refusal::Refused));
        assert_eq!(link.state(), State::Idle);
    }

    #[test]
    fn who_is_expected_for_long_is_given_up() {
        let mut link = Link::new();
        for _ in 0..2 {
            assert!(link.want());
            let mut misses = 0;
            while !link.refused(Refusal::Already) {
                assert!(link.miss());
                misses += 1;
            }
            assert_eq!(misses, MOST_MISSES);
            assert_eq!(link.state(), State::Idle);
        }
        // It counts for whoever lets others go first, too.
        let mut rounds = 0;
        while link.want() && !link.refused(Refusal::Already) {
            assert!(link.step_back() && !link.step_back());
            rounds += 1;
        }
        assert_eq!(rounds, MOST_MISSES);
    }

    #[test]
    fn rdm_10_no_request_replaces_a_connection() {
        let nobody = Identity { instance: 0, ..ONE };
        let other = Identity { instance: 2, ..ONE };
        for first in [ONE, nobody] {
            for open in [false, true] {
                let mut link = Link::new();
                assert_eq!(link.asked(first, Ordering::Less), Verdict::Accept);
                if open {
                    let _ = link.established();
                }
                let state = link.state();
                for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                    for who in [ONE, other, nobody] {
                        assert_eq!(link.asked(who, order), Verdict::Refuse);
                        assert_eq!(link.state(), state);
                    }
                }
                // After the old connection has ended, the next request is accepted.
                link.lost();
                assert_eq!(link.asked(other, Ordering::Less), Verdict::Accept);
                assert_eq!(link.state(), State::Answering(other));
            }
        }
    }

    #[test]
    fn what_comes_too_late_changes_nothing() {
        let mut link = Link::new();
        assert!(!link.accepted(ONE));
        assert_eq!(link.established(), None);
        assert!(!link.refused(Refusal::Refused));
        assert_eq!(link, Link::new());
        let _ = link.asked(ONE, Ordering::Less);
        assert!(!link.refused(Refusal::Already));
        assert_eq!(link.state(), State::Answering(ONE));
        link.lost();
        assert_eq!(link, Link::new());
    }

    #[test]
    fn who_has_got_room_waits_for_none() {
        // By asking for it in turn, or by asking the other once more.
        let ways: [fn(&mut Link); 2] = [
            |link| assert!(link.want()),
            |link| assert_eq!(link.asked(ONE, Ordering::Less), Verdict::Accept),
        ];
        for begin in ways {
            let mut link = Link::new();
            assert!(link.wait(7));
            // It keeps its place in the row.
            assert!(!link.wait(8));
            assert_eq!(link.ticket(), Some(7));
            begin(&mut link);
            assert_eq!(link.ticket(), None);
            assert!(!link.wait(9));
            assert_eq!(link.ticket(), None);
            link.lost();
            assert!(link.wait(10));
            // What ends meanwhile is an attempt that is over.
            link.lost();
            assert_eq!(link.ticket(), Some(10));
        }
    }

    #[test]
    fn addresses_are_compared_as_on_the_wire() {
        let address = |last, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), port));
        let rising = [
            address(1, 0x0100),
            address(1, 0x01ff),
            address(1, 0x0200),
            address(2, 1),
            address(200, 0),
        ];
        for (at, one) in rising.iter().enumerate() {
            for (other_at, other) in rising.iter().enumerate() {
                assert_eq!(order(one, other), at.cmp(&other_at));
            }
        }
        let one = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 0x0100], 9));
        let other = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 0x0201], 1));
        assert_eq!(order(&one, &other), Ordering::Less);
    }

    #[test]
    fn both_are_connected_whoever_asks_and_whatever_comes_first() -> kernel::error::Result {
        let mut crossed = 0;
        for seed in 0..2000 {
            let mut world = World::new(seed);
            for _ in 0..2 + world.below(8) {
                let who = world.below(2);
                match world.below(3) {
                    0 => world.want(who)?,
                    _ => world.deliver(who)?,
                }
            }
            world.want(0)?;
            world.want(1)?;
            crossed += usize::from(world.attempts > 1);
            world.settle()?;
            let [one, other] = &world.ends;
            assert_eq!(one.link.state(), State::Open(other.identity));
            assert_eq!(other.link.state(), State::Open(one.identity));
            assert_eq!(one.attempt, other.attempt);
        }
        assert!(crossed > 200);
        Ok(())
    }

    #[test]
    fn both_are_connected_again_after_any_restarts() -> kernel::error::Result {
        for seed in 0..2000 {
            let mut world = World::new(seed);
            for _ in 0..4 + world.below(30) {
                let who = world.below(2);
                match world.below(6) {
                    0 => world.restart(who)?,
                    1 | 2 => world.want(who)?,
                    _ => world.deliver(who)?,
                }
            }
            world.settle()?;
            world.want(0)?;
            world.want(1)?;
            world.settle()?;
            let [one, other] = &world.ends;
            assert_eq!(one.link.state(), State::Open(other.identity));
            assert_eq!(other.link.state(), State::Open(one.identity));
            assert_eq!(one.attempt, other.attempt);
        }
        Ok(())
    }
}
