// SPDX-License-Identifier: GPL-2.0

//! Tests of the matcher, among them a comparison with a naive model.

#[kernel::prelude::kunit_tests(kofi_rdm_matching)]
mod cases {
    use super::super::*;
    use crate::{
        abi::Result,
        util::random::SeededRandom, //
    };
    use kernel::{
        alloc::KVec,
        prelude::*, //
    };

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Receive(u32, MatchSpec);

    /// Receives with this bit in their number are multi-receive buffers.
    const MULTI: u32 = 1 << 31;

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Message(u32, MsgKey);

    impl HasMatchSpec for Receive {
        fn spec(&self) -> &MatchSpec {
            &self.1
        }

        fn buffer(&self) -> Option<u32> {
            (self.0 & MULTI != 0).then_some(self.0)
        }
    }

    /// Returns the number of the single receive that matches.
    fn one(result: Option<MatchResult<Receive>>) -> Option<u32> {
        match result? {
            MatchResult::One(receive) => Some(receive.0),
            MatchResult::Multi(_) => None,
        }
    }

    impl HasMsgKey for Message {
        fn key(&self) -> &MsgKey {
            &self.1
        }
    }

    fn peer(last: u64) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last as u8], 7471))
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

    #[test]
    fn tags_fit_but_for_the_bits_that_do_not_matter() {
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
    fn tagged_and_others_are_among_themselves() {
        assert!(!spec(Some((0, u64::MAX)), None).matches(&key(None, 1)));
        assert!(!spec(None, None).matches(&key(Some(0), 1)));
        assert!(spec(None, None).matches(&key(None, 1)));
    }

    #[test]
    fn a_directed_receive_takes_from_one_only() {
        assert!(spec(None, Some(1)).matches(&key(None, 1)));
        assert!(!spec(None, Some(1)).matches(&key(None, 2)));
        assert!(spec(None, None).matches(&key(None, 2)));
        let same_host = MsgKey {
            context: 0,
            tag: None,
            from: SocketAddr::from(([10, 0, 0, 1], 7472)),
        };
        assert!(!spec(None, Some(1)).matches(&same_host));
    }

    #[test]
    fn who_looks_takes_nothing_and_who_claims_takes_it() -> Result {
        let mut matcher = Matcher::<Receive, Message>::new();
        let any = spec(Some((0, u64::MAX)), None);
        assert!(matcher.peek(&any).is_none());
        for number in 0..3 {
            matcher.queue_unexp(ListBox::new(Message(number, key(Some(number.into()), 1)))?);
        }
        let second = spec(Some((1, 0)), None);
        assert!(matcher.peek(&second).is_some_and(|seen| seen.0 == 1));
        assert!(matcher.peek(&second).is_some_and(|seen| seen.0 == 1));
        assert!(matcher.claim(&second).is_some_and(|node| node.0 == 1));
        assert!(matcher.peek(&second).is_none());
        assert!(matcher.claim(&any).is_some_and(|node| node.0 == 0));
        let [untagged, tagged] = matcher.remove_unexp(|message| message.1.from == peer(1));
        assert!(untagged.is_empty() && tagged.len() == 1);
        Ok(())
    }

    #[test]
    fn what_is_offered_waits_or_comes_back_with_its_receive() -> Result {
        let mut matcher = Matcher::<Receive, Message>::new();
        let any = spec(None, None);
        let offer = |matcher: &mut Matcher<Receive, Message>, number, tag| {
            let met = matcher.match_or_queue(ListBox::new(Message(number, key(tag, 1)))?);
            Result::Ok(met.map(|(receive, message)| (receive.0, message.0)))
        };
        assert!(matcher.post(ListBox::new(Receive(1, any))?).is_none());
        assert!(offer(&mut matcher, 2, Some(7))?.is_none());
        assert_eq!(offer(&mut matcher, 3, None)?, Some((1, 3)));
        assert!(offer(&mut matcher, 4, None)?.is_none());
        let met = matcher.post(ListBox::new(Receive(5, any))?);
        assert!(met.is_some_and(|(receive, message)| (receive.0, message.0) == (5, 4)));
        Ok(())
    }

    #[test]
    fn a_cancelled_receive_takes_nothing() -> Result {
        let mut matcher = Matcher::<Receive, Message>::new();
        for number in 0..3 {
            let posted = matcher.post(ListBox::new(Receive(number, spec(None, None)))?);
            assert!(posted.is_none());
        }
        assert!(matcher.cancel(true, |receive| receive.0 == 1).is_none());
        assert!(matcher.cancel(false, |receive| receive.0 == 1).is_some());
        assert!(matcher.cancel(false, |receive| receive.0 == 1).is_none());
        for number in [0, 2] {
            assert_eq!(one(matcher.match_msg(&key(None, 1))), Some(number));
        }
        assert!(matcher.match_msg(&key(None, 1)).is_none());
        let _ = matcher.post(ListBox::new(Receive(7, spec(None, None)))?);
        let [untagged, tagged] = matcher.take_receives();
        assert_eq!((untagged.len(), tagged.len()), (1, 0));
        Ok(())
    }

    #[test]
    fn ep_11_a_receive_for_several_messages_keeps_its_place() -> Result {
        let mut matcher = Matcher::<Receive, Message>::new();
        let any = spec(None, None);
        for number in [MULTI, 1] {
            assert!(matcher.post(ListBox::new(Receive(number, any))?).is_none());
        }
        for _ in 0..3 {
            let result = matcher.match_msg(&key(None, 1));
            assert!(matches!(result, Some(MatchResult::Multi(MULTI))));
        }
        assert!(matcher
            .cancel(false, |receive| receive.0 == MULTI)
            .is_some());
        assert_eq!(one(matcher.match_msg(&key(None, 1))), Some(1));
        assert!(matcher.match_msg(&key(None, 1)).is_none());
        // The buffer takes as many queued messages as it can.
        for number in 0..4 {
            matcher.queue_unexp(ListBox::new(Message(number, key(None, number.into())))?);
        }
        let mut left = 2;
        let taken = matcher.claim_multi(&spec(None, None), |message| {
            let takes = message.0 != 1 && left > 0;
            left -= i32::from(takes);
            takes
        });
        assert!(taken.iter().map(|seen| seen.0).eq([0, 2]));
        assert!(matcher.claim(&any).is_some_and(|message| message.0 == 1));
        assert!(matcher.claim(&any).is_some_and(|message| message.0 == 3));
        Ok(())
    }

    /// Naive model of the matcher: one list of receives, with the number of messages that each takes, and one of
    /// messages.
    struct Model {
        receives: KVec<(Receive, u32)>,
        messages: KVec<Message>,
    }

    impl Model {
        /// Returns the messages that a posted receive takes at once.
        fn post(&mut self, receive: Receive, most: u32) -> kernel::error::Result<KVec<u32>> {
            let mut taken = KVec::new();
            let matches = |message: &Message| receive.1.matches(&message.1);
            while (taken.len() as u32) < most {
                let Some(at) = self.messages.iter().position(matches) else {
                    let left = most - taken.len() as u32;
                    self.receives.push((receive, left), GFP_KERNEL)?;
                    break;
                };
                let message = self.messages.remove(at).map_err(|_| EINVAL)?;
                taken.push(message.0, GFP_KERNEL)?;
            }
            Ok(taken)
        }

        /// Returns the receive of a message.
        fn arrive(&mut self, message: Message) -> kernel::error::Result<Option<u32>> {
            let matches = |(receive, _): &(Receive, u32)| receive.1.matches(&message.1);
            let Some(at) = self.receives.iter().position(matches) else {
                self.messages.push(message, GFP_KERNEL)?;
                return Ok(None);
            };
            let (receive, left) = self.receives.get_mut(at).ok_or(EINVAL)?;
            let number = receive.0;
            *left -= 1;
            if *left == 0 {
                self.receives.remove(at).map_err(|_| EINVAL)?;
            }
            Ok(Some(number))
        }
    }

    #[test]
    fn as_a_naive_model_does() -> kernel::error::Result {
        const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
            true => 2_000,
            false => 50_000,
        };
        let mut matcher = Matcher::<Receive, Message>::new();
        let mut model = Model {
            receives: KVec::new(),
            messages: KVec::new(),
        };
        let mut random = SeededRandom::new(1);
        let mut slots_left = KVec::from_elem(0, ROUNDS as usize, GFP_KERNEL)?;
        let mut met = 0;
        for number in 0..ROUNDS {
            let is_tagged = random.next_below(2) == 0;
            let tag = random.next_below(4);
            let from = random.next_below(3);
            // Alternate between more receives and more messages.
            let receives = if number >> 6 & 1 == 0 { 3 } else { 5 };
            if random.next_below(8) < receives {
                let ignore = [0, 1, 3, u64::MAX][random.next_below(4) as usize & 3];
                let spec = spec(
                    is_tagged.then_some((tag, ignore)),
                    (random.next_below(2) == 0).then_some(from),
                );
                let most = [1, 1, 1, 4][random.next_below(4) as usize & 3];
                let receive = match most {
                    1 => Receive(number, spec),
                    _ => Receive(number | MULTI, spec),
                };
                let left = slots_left.get_mut(number as usize).ok_or(EINVAL)?;
                *left = most;
                let mut taken = KVec::new();
                if most == 1 {
                    if let Some((_, message)) = matcher.post(ListBox::new(receive)?) {
                        taken.push(message.0, GFP_KERNEL)?;
                    }
                } else {
                    let all = matcher.claim_multi(&spec, |_| {
                        let takes = *left > 0;
                        *left -= u32::from(takes);
                        takes
                    });
                    for message in all.iter() {
                        taken.push(message.0, GFP_KERNEL)?;
                    }
                    if *left > 0 {
                        matcher.queue_receive(ListBox::new(receive)?);
                    }
                }
                met += taken.len() as u32;
                assert!(*taken == *model.post(receive, most)?);
            } else {
                let message = Message(number, key(is_tagged.then_some(tag), from));
                let taken = match matcher.match_msg(&message.1) {
                    None => {
                        matcher.queue_unexp(ListBox::new(message)?);
                        None
                    }
                    Some(MatchResult::One(receive)) => Some(receive.0),
                    Some(MatchResult::Multi(buffer)) => {
                        let at = (buffer & !MULTI) as usize;
                        let left = slots_left.get_mut(at).ok_or(EINVAL)?;
                        *left -= 1;
                        if *left == 0 {
                            let spent = matcher.cancel(is_tagged, |receive| receive.0 == buffer);
                            assert!(spent.is_some());
                        }
                        Some(buffer)
                    }
                };
                met += u32::from(taken.is_some());
                assert!(taken == model.arrive(message)?);
            }
        }
        assert!(met > ROUNDS / 4);
        Ok(())
    }
}
