// SPDX-License-Identifier: GPL-2.0

//! Which receive takes which message.
//!
//! A message goes to the receive that was posted first of those that it fits, and a receive takes the
//! message that arrived first of those that fit it. A receive that takes several messages keeps its place
//! among the others until it takes no more. Messages with a tag and receives that want one are among
//! themselves.

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
pub(super) struct Wish {
    /// A tag, and the bits of it that do not matter; none: messages without one.
    pub(super) tag: Option<(u64, u64)>,
    /// Whom it is from; none: anybody.
    pub(super) from: Option<SocketAddr>,
}

/// What decides who takes a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Title {
    /// Which receive context it is for.
    pub(super) context: u8,
    /// Its tag, if it has one.
    pub(super) tag: Option<u64>,
    /// Whom it is from.
    pub(super) from: SocketAddr,
}

impl Title {
    /// That of what is no message: nobody is there.
    pub(super) const NONE: Self = Self {
        context: 0,
        tag: None,
        from: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    };
}

impl Wish {
    /// Whether a message of this title is meant.
    #[inline]
    fn fits(&self, title: &Title) -> bool {
        let is_tag = match (self.tag, title.tag) {
            (Some((tag, ignore)), Some(given)) => (tag ^ given) & !ignore == 0,
            (None, None) => true,
            _ => false,
        };
        is_tag && self.from.is_none_or(|from| from == title.from)
    }
}

/// A receive that waits for a message.
pub(super) trait Wishing {
    /// What it takes.
    fn wish(&self) -> &Wish;

    /// If it takes several messages, the number of its buffer.
    fn buffer(&self) -> Option<u32>;
}

/// Who takes a message.
pub(super) enum Taker<R> {
    /// A receive, which waits no more.
    One(ListBox<R>),
    /// One that takes several, into the buffer of that number, and waits on.
    Several(u32),
}

/// A message that waits for a receive.
pub(super) trait Titled {
    /// What decides who takes it.
    fn title(&self) -> &Title;
}

struct Side<R, M> {
    receives: BoxList<R>,
    messages: BoxList<M>,
}

impl<R, M> Side<R, M> {
    const fn new() -> Self {
        Self {
            receives: BoxList::new(),
            messages: BoxList::new(),
        }
    }
}

/// Where receives and messages wait for each other. None waits that fits another.
pub(super) struct Desk<R, M> {
    plain: Side<R, M>,
    tagged: Side<R, M>,
}

impl<R: Wishing, M: Titled> Desk<R, M> {
    /// Nobody waits.
    pub(super) const fn new() -> Self {
        Self {
            plain: Side::new(),
            tagged: Side::new(),
        }
    }

    #[inline]
    fn side(&mut self, is_tagged: bool) -> &mut Side<R, M> {
        match is_tagged {
            true => &mut self.tagged,
            false => &mut self.plain,
        }
    }

    /// Has a receive wait, unless there is a message for it: then both come back.
    #[inline]
    pub(super) fn post(&mut self, receive: ListBox<R>) -> Option<(ListBox<R>, ListBox<M>)> {
        match self.claim(receive.wish()) {
            Some(message) => Some((receive, message)),
            None => {
                let side = self.side(receive.wish().tag.is_some());
                side.receives.push(receive);
                None
            }
        }
    }

    /// The messages that wait for a receive which takes several: `takes` says of each that fits whether it
    /// takes that too. If it takes more, it is to [`wait`](Self::wait_on).
    pub(super) fn claim_several(
        &mut self,
        wish: &Wish,
        mut takes: impl FnMut(&mut M) -> bool,
    ) -> BoxList<M> {
        let side = self.side(wish.tag.is_some());
        side.messages
            .drain_where_mut(|message| wish.fits(message.title()) && takes(message))
    }

    /// Who takes a message that arrives; if there is nobody, it is to [`wait`](Self::wait) before the next
    /// one arrives. A receive that takes no more with it is to be [`cancelled`](Self::cancel).
    #[inline]
    pub(super) fn arrive(&mut self, title: &Title) -> Option<Taker<R>> {
        let side = self.side(title.tag.is_some());
        let look = |receive: &R| match (receive.wish().fits(title), receive.buffer()) {
            (false, _) => ScanAction::Continue,
            (true, None) => ScanAction::Take,
            (true, Some(buffer)) => ScanAction::Keep(buffer),
        };
        Some(match side.receives.scan(look)? {
            Ok(receive) => Taker::One(receive),
            Err(buffer) => Taker::Several(buffer),
        })
    }

    /// Has a message wait for its receive.
    #[inline]
    pub(super) fn wait(&mut self, message: ListBox<M>) {
        let side = self.side(message.title().tag.is_some());
        side.messages.push(message);
    }

    /// Has a message wait, unless there is a receive for it, none of which takes several: then both come
    /// back.
    pub(super) fn offer(&mut self, message: ListBox<M>) -> Option<(ListBox<R>, ListBox<M>)> {
        match self.arrive(message.title()) {
            Some(Taker::One(receive)) => Some((receive, message)),
            _ => {
                self.wait(message);
                None
            }
        }
    }

    /// Has messages wait that came before those that do.
    pub(super) fn wait_first(&mut self, mut messages: BoxList<M>) {
        let tagged = messages.drain_where(|message| message.title().tag.is_some());
        for (mut first, side) in [(messages, &mut self.plain), (tagged, &mut self.tagged)] {
            first.append(&mut side.messages);
            side.messages = first;
        }
    }

    /// The message that a receive with this wish would take.
    pub(super) fn look(&mut self, wish: &Wish) -> Option<&M> {
        let side = self.side(wish.tag.is_some());
        side.messages
            .iter()
            .find(|message| wish.fits(message.title()))
    }

    /// Takes that message.
    #[inline]
    pub(super) fn claim(&mut self, wish: &Wish) -> Option<ListBox<M>> {
        let side = self.side(wish.tag.is_some());
        side.messages
            .remove_first_where(|message| wish.fits(message.title()))
    }

    /// Takes the first receive that `is` the one, of those that want a tag or of the others.
    pub(super) fn cancel(
        &mut self,
        is_tagged: bool,
        is: impl FnMut(&R) -> bool,
    ) -> Option<ListBox<R>> {
        self.side(is_tagged).receives.remove_first_where(is)
    }

    /// Takes every message that `goes`, as those of a peer that is no more.
    pub(super) fn forget(&mut self, mut goes: impl FnMut(&M) -> bool) -> [BoxList<M>; 2] {
        [
            self.plain.messages.drain_where(&mut goes),
            self.tagged.messages.drain_where(goes),
        ]
    }

    /// Has a receive wait for which there is no message, as the endpoint comes to its end, or as it takes
    /// more than there was.
    pub(super) fn wait_on(&mut self, receive: ListBox<R>) {
        let side = self.side(receive.wish().tag.is_some());
        side.receives.push(receive);
    }

    /// Takes all receives.
    pub(super) fn take_receives(&mut self) -> [BoxList<R>; 2] {
        [
            core::mem::take(&mut self.plain.receives),
            core::mem::take(&mut self.tagged.receives),
        ]
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_matching)]
mod tests {
    use super::*;
    use crate::{
        abi::Result,
        util::random::SeededRandom, //
    };
    use kernel::{
        alloc::KVec,
        prelude::*, //
    };

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Receive(u32, Wish);

    /// A receive of such a number takes several messages.
    const SEVERAL: u32 = 1 << 31;

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Message(u32, Title);

    impl Wishing for Receive {
        fn wish(&self) -> &Wish {
            &self.1
        }

        fn buffer(&self) -> Option<u32> {
            (self.0 & SEVERAL != 0).then_some(self.0)
        }
    }

    /// The number of the one receive that takes a message.
    fn one(taker: Option<Taker<Receive>>) -> Option<u32> {
        match taker? {
            Taker::One(receive) => Some(receive.0),
            Taker::Several(_) => None,
        }
    }

    impl Titled for Message {
        fn title(&self) -> &Title {
            &self.1
        }
    }

    fn peer(last: u64) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last as u8], 7471))
    }

    fn title(tag: Option<u64>, from: u64) -> Title {
        Title {
            context: 0,
            tag,
            from: peer(from),
        }
    }

    fn wish(tag: Option<(u64, u64)>, from: Option<u64>) -> Wish {
        Wish {
            tag,
            from: from.map(peer),
        }
    }

    #[test]
    fn tags_fit_but_for_the_bits_that_do_not_matter() {
        for (wanted, ignore, given, fits) in [
            (5, 0, 5, true),
            (5, 0, 4, false),
            (5, 1, 4, true),
            (5, 1, 7, false),
            (0, u64::MAX, 7, true),
            (1 << 63, 0, 0, false),
            (1 << 63, 1 << 63, 0, true),
        ] {
            let wish = wish(Some((wanted, ignore)), None);
            assert_eq!(wish.fits(&title(Some(given), 1)), fits);
        }
    }

    #[test]
    fn tagged_and_others_are_among_themselves() {
        assert!(!wish(Some((0, u64::MAX)), None).fits(&title(None, 1)));
        assert!(!wish(None, None).fits(&title(Some(0), 1)));
        assert!(wish(None, None).fits(&title(None, 1)));
    }

    #[test]
    fn a_directed_receive_takes_from_one_only() {
        assert!(wish(None, Some(1)).fits(&title(None, 1)));
        assert!(!wish(None, Some(1)).fits(&title(None, 2)));
        assert!(wish(None, None).fits(&title(None, 2)));
        let same_host = Title {
            context: 0,
            tag: None,
            from: SocketAddr::from(([10, 0, 0, 1], 7472)),
        };
        assert!(!wish(None, Some(1)).fits(&same_host));
    }

    #[test]
    fn who_looks_takes_nothing_and_who_claims_takes_it() -> Result {
        let mut desk = Desk::<Receive, Message>::new();
        let any = wish(Some((0, u64::MAX)), None);
        assert!(desk.look(&any).is_none());
        for number in 0..3 {
            desk.wait(ListBox::new(Message(
                number,
                title(Some(number.into()), 1),
            ))?);
        }
        let second = wish(Some((1, 0)), None);
        assert!(desk.look(&second).is_some_and(|seen| seen.0 == 1));
        assert!(desk.look(&second).is_some_and(|seen| seen.0 == 1));
        assert!(desk.claim(&second).is_some_and(|own| own.0 == 1));
        assert!(desk.look(&second).is_none());
        assert!(desk.claim(&any).is_some_and(|own| own.0 == 0));
        let [plain, tagged] = desk.forget(|message| message.1.from == peer(1));
        assert!(plain.is_empty() && tagged.len() == 1);
        Ok(())
    }

    #[test]
    fn what_is_offered_waits_or_comes_back_with_its_receive() -> Result {
        let mut desk = Desk::<Receive, Message>::new();
        let any = wish(None, None);
        let offer = |desk: &mut Desk<Receive, Message>, number, tag| {
            let met = desk.offer(ListBox::new(Message(number, title(tag, 1)))?);
            Result::Ok(met.map(|(receive, message)| (receive.0, message.0)))
        };
        assert!(desk.post(ListBox::new(Receive(1, any))?).is_none());
        assert!(offer(&mut desk, 2, Some(7))?.is_none());
        assert_eq!(offer(&mut desk, 3, None)?, Some((1, 3)));
        assert!(offer(&mut desk, 4, None)?.is_none());
        let met = desk.post(ListBox::new(Receive(5, any))?);
        assert!(met.is_some_and(|(receive, message)| (receive.0, message.0) == (5, 4)));
        Ok(())
    }

    #[test]
    fn a_cancelled_receive_takes_nothing() -> Result {
        let mut desk = Desk::<Receive, Message>::new();
        for number in 0..3 {
            let posted = desk.post(ListBox::new(Receive(number, wish(None, None)))?);
            assert!(posted.is_none());
        }
        assert!(desk.cancel(true, |receive| receive.0 == 1).is_none());
        assert!(desk.cancel(false, |receive| receive.0 == 1).is_some());
        assert!(desk.cancel(false, |receive| receive.0 == 1).is_none());
        for number in [0, 2] {
            assert_eq!(one(desk.arrive(&title(None, 1))), Some(number));
        }
        assert!(desk.arrive(&title(None, 1)).is_none());
        let _ = desk.post(ListBox::new(Receive(7, wish(None, None)))?);
        let [plain, tagged] = desk.take_receives();
        assert_eq!((plain.len(), tagged.len()), (1, 0));
        Ok(())
    }

    #[test]
    fn ep_11_a_receive_for_several_messages_keeps_its_place() -> Result {
        let mut desk = Desk::<Receive, Message>::new();
        let any = wish(None, None);
        for number in [SEVERAL, 1] {
            assert!(desk.post(ListBox::new(Receive(number, any))?).is_none());
        }
        for _ in 0..3 {
            let taker = desk.arrive(&title(None, 1));
            assert!(matches!(taker, Some(Taker::Several(SEVERAL))));
        }
        assert!(desk.cancel(false, |receive| receive.0 == SEVERAL).is_some());
        assert_eq!(one(desk.arrive(&title(None, 1))), Some(1));
        assert!(desk.arrive(&title(None, 1)).is_none());
        // Of what waits it takes as much as it can.
        for number in 0..4 {
            desk.wait(ListBox::new(Message(number, title(None, number.into())))?);
        }
        let mut left = 2;
        let taken = desk.claim_several(&wish(None, None), |message| {
            let takes = message.0 != 1 && left > 0;
            left -= i32::from(takes);
            takes
        });
        assert!(taken.iter().map(|seen| seen.0).eq([0, 2]));
        assert!(desk.claim(&any).is_some_and(|message| message.0 == 1));
        assert!(desk.claim(&any).is_some_and(|message| message.0 == 3));
        Ok(())
    }

    /// The same, as slowly as it is simple: one list of each. A receive is there with how many messages it
    /// takes.
    struct Model {
        receives: KVec<(Receive, u32)>,
        messages: KVec<Message>,
    }

    impl Model {
        /// The messages that a receive takes at once.
        fn post(&mut self, receive: Receive, most: u32) -> kernel::error::Result<KVec<u32>> {
            let mut taken = KVec::new();
            let fits = |message: &Message| receive.1.fits(&message.1);
            while (taken.len() as u32) < most {
                let Some(at) = self.messages.iter().position(fits) else {
                    let left = most - taken.len() as u32;
                    self.receives.push((receive, left), GFP_KERNEL)?;
                    break;
                };
                let message = self.messages.remove(at).map_err(|_| EINVAL)?;
                taken.push(message.0, GFP_KERNEL)?;
            }
            Ok(taken)
        }

        /// The receive of a message.
        fn arrive(&mut self, message: Message) -> kernel::error::Result<Option<u32>> {
            let fits = |(receive, _): &(Receive, u32)| receive.1.fits(&message.1);
            let Some(at) = self.receives.iter().position(fits) else {
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
        let mut desk = Desk::<Receive, Message>::new();
        let mut model = Model {
            receives: KVec::new(),
            messages: KVec::new(),
        };
        let mut random = SeededRandom::new(1);
        let mut lefts = KVec::from_elem(0, ROUNDS as usize, GFP_KERNEL)?;
        let mut met = 0;
        for number in 0..ROUNDS {
            let is_tagged = random.next_below(2) == 0;
            let tag = random.next_below(4);
            let from = random.next_below(3);
            // Now there are more of these, now of those.
            let receives = if number >> 6 & 1 == 0 { 3 } else { 5 };
            if random.next_below(8) < receives {
                let ignore = [0, 1, 3, u64::MAX][random.next_below(4) as usize & 3];
                let wish = wish(
                    is_tagged.then_some((tag, ignore)),
                    (random.next_below(2) == 0).then_some(from),
                );
                let most = [1, 1, 1, 4][random.next_below(4) as usize & 3];
                let receive = match most {
                    1 => Receive(number, wish),
                    _ => Receive(number | SEVERAL, wish),
                };
                let left = lefts.get_mut(number as usize).ok_or(EINVAL)?;
                *left = most;
                let mut taken = KVec::new();
                if most == 1 {
                    if let Some((_, message)) = desk.post(ListBox::new(receive)?) {
                        taken.push(message.0, GFP_KERNEL)?;
                    }
                } else {
                    let all = desk.claim_several(&wish, |_| {
                        let takes = *left > 0;
                        *left -= u32::from(takes);
                        takes
                    });
                    for message in all.iter() {
                        taken.push(message.0, GFP_KERNEL)?;
                    }
                    if *left > 0 {
                        desk.wait_on(ListBox::new(receive)?);
                    }
                }
                met += taken.len() as u32;
                assert!(*taken == *model.post(receive, most)?);
            } else {
                let message = Message(number, title(is_tagged.then_some(tag), from));
                let taken = match desk.arrive(&message.1) {
                    None => {
                        desk.wait(ListBox::new(message)?);
                        None
                    }
                    Some(Taker::One(receive)) => Some(receive.0),
                    Some(Taker::Several(buffer)) => {
                        let at = (buffer & !SEVERAL) as usize;
                        let left = lefts.get_mut(at).ok_or(EINVAL)?;
                        *left -= 1;
                        if *left == 0 {
                            let spent = desk.cancel(is_tagged, |receive| receive.0 == buffer);
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
