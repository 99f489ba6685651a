// SPDX-License-Identifier: GPL-2.0

//! Receives that endpoints share, and the messages of all of them that wait for one.
//!
//! Both are at one desk, so that a receive takes the message that came first, whichever endpoint it came
//! to, and a message the receive that was posted first. The desk's lock is taken under that of a member's
//! traffic, and none of a member's under it: who finds a message there goes to its endpoint when it has let
//! go.
//!
//! An endpoint [gets](Srx::get) what has been posted for a message, or else has it [queued](Srx::queue);
//! whoever posts what that takes has the endpoint [start](Member::start). What an endpoint cannot have wait
//! here it looks at again when something has been posted: it is hungry, as it has got nothing.
//!
//! Those of another module's provider are [`Abroad`]: of them only the seats are here.

use super::{
    abroad::Abroad,
    endpoint::LOOK_FLAGS,
    hosting::Hosting,
    iov::{
        collect_descriptors,
        DstBuf,
        MAX_IOV, //
    },
    matching::{
        Desk,
        Taker,
        Title,
        Wish, //
    },
    offer,
    receive::{
        Letter,
        Posted, //
    },
};
use crate::{
    abi::{
        flags::*,
        KOFI_VALUE_RECEIVES,
        KOFI_VALUE_RX_AGAIN,
        KOFI_VALUE_RX_DEPTH,
        KOFI_VALUE_RX_DONE,
        KOFI_VALUE_RX_SIZE, //
    },
    fi::{
        prelude::*,
        provider::{
            self,
            Message, //
        },
        rundown::{
            Rundown,
            RundownRef, //
        },
        srx::{
            Attr,
            ExportedReceives,
            MatchedReceive,
            MessageStarter,
            PeerEndpoint,
            ReceiveOwner, //
        },
    },
    util::{
        lock::FastLockIrqGuard,
        log::warn,
        owned_list::{
            BoxList,
            ListBox, //
        },
        stat_counter::StatCounter, //
    },
};
use core::any::Any;

/// Receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// Flags that a receive may have.
const FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// An endpoint whose messages take receives from here.
pub(super) trait Member: Send + Sync {
    /// A message of its that has waited here has got what has been posted. Any context.
    fn start(&self, posted: Posted, letter: ListBox<Letter>);

    /// Something has been posted for what it could not have wait here. Any context.
    fn go_on(&self);

    /// A message of its that has waited is dropped, and nobody told. Any context.
    fn discard(&self, letter: ListBox<Letter>);
}

/// A member's place.
struct Seat {
    who: Arc<dyn Member>,
    /// Whoever has posted something is inside while it is with the member.
    gate: Arc<Rundown>,
    /// It has something that it could not have wait here.
    is_hungry: bool,
}

struct Pool {
    desk: Desk<Posted, Letter>,
    /// Nodes of the desk that are not posted.
    idle: BoxList<Posted>,
    seats: KVec<Option<Seat>>,
    /// How many of those are hungry.
    hungry: usize,
    is_closed: bool,
}

impl Pool {
    fn seat(&mut self, at: usize) -> Option<&mut Seat> {
        self.seats.get_mut(at)?.as_mut()
    }

    fn visit(&mut self, at: usize) -> Option<RundownRef<dyn Member>> {
        let seat = self.seat(at)?;
        Some(RundownRef {
            object: seat.who.clone(),
            _guard: seat.gate.begin_owned_call()?,
        })
    }

    fn set_hungry(&mut self, at: usize, is_hungry: bool) {
        let seat = self.seat(at).filter(|seat| seat.is_hungry != is_hungry);
        if let Some(seat) = seat {
            seat.is_hungry = is_hungry;
            match is_hungry {
                true => self.hungry += 1,
                false => self.hungry -= 1,
            }
        }
    }
}

/// Receives that endpoints share.
#[pin_data]
pub(crate) struct Srx {
    #[pin]
    pool: FastLockIrq<Pool>,
    size: usize,
    /// Most parts that the memory of one has.
    parts: usize,
    has_tags: bool,
    /// Where they are, if that is not here.
    abroad: Option<Pin<KBox<Abroad>>>,
    /// How many have been posted, and nobody has been told of. More only under the lock.
    used: Atomic<usize>,
    /// What is counted under the lock: those that have been posted, and who found no room.
    posted: StatCounter,
    again: StatCounter,
}

impl Srx {
    /// Opens some. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than there is, and for capabilities that receives to share do not have;
    /// -FI_ENOMEM.
    pub(super) fn new(attr: &Attr) -> Result<Arc<Self>> {
        let size = attr.size_within(DEFAULT_SIZE, offer::RECEIVES)?;
        let parts = attr.segments_within(MAX_IOV)?;
        if attr.caps & !offer::SHARED_CAPS != 0 {
            return Err(Errno::EINVAL);
        }
        let has_tags = attr.caps == 0 || attr.caps & FI_TAGGED != 0;
        Self::make(size, parts, has_tags, None)
    }

    /// Those of another module's provider. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn of_others(owner: KBox<dyn ReceiveOwner>) -> Result<Arc<Self>> {
        let srx = Self::make(0, 0, true, Some(Abroad::new(owner)?))?;
        if let Some(abroad) = srx.abroad() {
            abroad.owner().set_starter(Some(srx.clone()));
        }
        Ok(srx)
    }

    fn make(
        size: usize,
        parts: usize,
        has_tags: bool,
        abroad: Option<Pin<KBox<Abroad>>>,
    ) -> Result<Arc<Self>> {
        let mut idle = BoxList::new();
        for _ in 0..size {
            idle.push(ListBox::new(Posted::NOTHING)?);
        }
        let pool = Pool {
            desk: Desk::new(),
            idle,
            seats: KVec::new(),
            hungry: 0,
            is_closed: false,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                pool <- FastLockIrq::new(pool, c"kofi::rdm::Srx", static_lock_class!()),
                size,
                parts,
                has_tags,
                abroad,
                used: Atomic::new(0),
                posted: StatCounter::new(),
                again: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Where they are, if that is not here.
    pub(super) fn abroad(&self) -> Option<&Abroad> {
        self.abroad.as_deref()
    }

    /// Has the messages of `who` take what is posted here: its seat. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn admit(&self, who: Arc<dyn Member>) -> Result<usize> {
        let seat = Seat {
            who,
            gate: Arc::pin_init(Rundown::new(), GFP_KERNEL)?,
            is_hungry: false,
        };
        let mut spare = KVec::new();
        loop {
            let mut pool = self.pool.lock();
            let seats = &mut pool.seats;
            let at = seats.iter().position(Option::is_none);
            let at = at.unwrap_or(seats.len());
            if let Some(free) = seats.get_mut(at) {
                *free = Some(seat);
                return Ok(at);
            }
            if spare.capacity() > at {
                // Moved under the lock into memory that was allocated outside of it.
                for taken in seats.drain_all() {
                    let _ = spare.push_within_capacity(taken);
                }
                let _ = spare.push_within_capacity(Some(seat));
                while spare.push_within_capacity(None).is_ok() {}
                mem::swap(seats, &mut spare);
                drop(pool);
                return Ok(at);
            }
            drop(pool);
            spare = KVec::with_capacity(2 * at + 1, GFP_KERNEL)?;
        }
    }

    /// The member that has a seat takes no more: its messages that wait here are dropped, and nobody is with
    /// it any more when this returns. May sleep.
    pub(super) fn dismiss(&self, seat: usize) {
        let mut pool = self.pool.lock();
        pool.set_hungry(seat, false);
        let gone = pool.seats.get_mut(seat).and_then(Option::take);
        let letters = pool.desk.forget(|letter| letter.seat == seat);
        drop(pool);
        drop(letters);
        if let Some(abroad) = self.abroad() {
            drop(abroad.forget(|letter| letter.seat == seat));
        }
        if let Some(gone) = gone {
            gone.gate.run_down();
        }
    }

    /// What has been posted for a member's message that has come, if there is something. Any context.
    #[inline]
    pub(super) fn get(&self, seat: usize, title: &Title) -> Option<Posted> {
        let mut pool = self.pool.lock();
        let Some(Taker::One(mut own)) = pool.desk.arrive(title) else {
            pool.set_hungry(seat, true);
            return None;
        };
        let posted = own.take();
        pool.idle.push_front(own);
        Some(posted)
    }

    /// Has a member's message wait here, unless something has been posted for it by now: then both come back.
    /// The member `is_hungry` if it has others. Any context.
    pub(super) fn queue(
        &self,
        seat: usize,
        mut letter: ListBox<Letter>,
        is_hungry: bool,
    ) -> Option<(Posted, ListBox<Letter>)> {
        letter.seat = seat;
        let mut pool = self.pool.lock();
        pool.set_hungry(seat, is_hungry);
        let (mut own, letter) = pool.desk.offer(letter)?;
        let posted = own.take();
        pool.idle.push_front(own);
        Some((posted, letter))
    }

    /// Takes all messages of a member that wait here and that `goes`. Any context.
    pub(super) fn forget(
        &self,
        seat: usize,
        mut goes: impl FnMut(&Letter) -> bool,
    ) -> [BoxList<Letter>; 2] {
        let goes = |letter: &Letter| letter.seat == seat && goes(letter);
        match self.abroad() {
            None => self.pool.lock().desk.forget(goes),
            Some(abroad) => [abroad.forget(goes), BoxList::new()],
        }
    }

    /// Has messages that its owner has not heard of take what has been posted there, or wait there. Any context.
    pub(super) fn try_again(&self) {
        let Some(abroad) = self.abroad() else {
            return;
        };
        while let Some((posted, letter)) = abroad.tell_next() {
            let ticket = posted.ticket;
            match self.visit(letter.seat) {
                Some(visit) => visit.object.start(posted, letter),
                None => abroad.owner().free(ticket),
            }
        }
    }

    fn visit(&self, seat: usize) -> Option<RundownRef<dyn Member>> {
        self.pool.lock().visit(seat)
    }

    /// A message is over that has got something with that ticket: its owner, who may not have been told yet, can
    /// post another one. Any context.
    #[inline]
    pub(super) fn over(&self, ticket: usize) {
        if let Some(abroad) = self.abroad() {
            abroad.owner().free(ticket);
            return;
        }
        // What has been done to its memory is seen by whoever posts the next.
        let _ = self.used.fetch_sub(1usize, Release);
    }

    /// Posts something again that a message has got, and of which nobody will be told. No lock of a member's
    /// is held. Another module's provider takes nothing back: nothing comes of it. Any context.
    pub(super) fn post_again(&self, posted: Posted) {
        if self.abroad().is_some() {
            warn(
                &c"peer",
                fmt!("a receive is lost, with the endpoint that had it"),
            );
            return self.over(posted.ticket);
        }
        let mut pool = self.pool.lock();
        match pool.idle.pop() {
            Some(mut own) => {
                *own = posted;
                self.put(pool, own);
            }
            // There are nodes for all that is used.
            None => self.over(posted.ticket),
        }
    }

    /// Has what a node says posted.
    fn put(&self, mut pool: FastLockIrqGuard<'_, Pool>, own: ListBox<Posted>) {
        let Some((mut own, letter)) = pool.desk.post(own) else {
            let are_hungry = pool.hungry > 0;
            drop(pool);
            if are_hungry {
                self.feed();
            }
            return;
        };
        let posted = own.take();
        pool.idle.push_front(own);
        // There is one: who leaves takes its messages with it.
        let visit = pool.visit(letter.seat);
        drop(pool);
        if let Some(visit) = visit {
            visit.object.start(posted, letter);
        }
    }

    /// Has each member look once at what it could not have wait here.
    fn feed(&self) {
        let mut from = 0;
        while let Some((seat, visit)) = self.next_hungry(from) {
            visit.object.go_on();
            from = seat + 1;
        }
    }

    /// The first that is hungry from a seat on: it is not, until it says so again.
    fn next_hungry(&self, from: usize) -> Option<(usize, RundownRef<dyn Member>)> {
        let mut pool = self.pool.lock();
        let mut seats = from..pool.seats.len();
        let seat = seats.find(|&at| pool.seat(at).is_some_and(|seat| seat.is_hungry))?;
        pool.set_hungry(seat, false);
        Some((seat, pool.visit(seat)?))
    }

    /// Whether a receive may have those flags.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for what only an endpoint's own receives do: who takes the rest of a buffer, or where is
    /// told that a message is not there, nobody could say. -FI_EBADFLAGS for what none does.
    fn check(message: &Message<'_>) -> Result {
        let own = message.tag.map_or(FI_MULTI_RECV, |_| LOOK_FLAGS);
        match message.flags & !FLAGS {
            0 => Ok(()),
            others if others & !own == 0 => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EBADFLAGS),
        }
    }
}

impl provider::SharedReceive for Srx {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn has_tags(&self) -> bool {
        self.has_tags
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        Self::check(message)?;
        if message.memory.count() > self.parts {
            return Err(Errno::EINVAL);
        }
        let posted = Posted {
            // Members have different peers, and names for them: it takes from all.
            wish: Wish {
                tag: message.tag.map(|tag| (tag.tag, tag.ignore)),
                from: None,
            },
            // SAFETY: It is dropped with the receive, before the poster's completion is written.
            into: unsafe { DstBuf::new(message.memory) }?,
            descriptors: collect_descriptors(message.memory, message.descriptors)?,
            context: message.context,
            is_wanted: message.flags & FI_COMPLETION != 0,
            ticket: 0,
        };
        let mut pool = self.pool.lock();
        if pool.is_closed {
            return Err(Errno::EOPBADSTATE);
        }
        // Pairs with the release of whoever is over.
        let node = match self.used.load(Acquire) < self.size {
            true => pool.idle.pop(),
            false => None,
        };
        let Some(mut own) = node else {
            self.again.add(1);
            return Err(Errno::EAGAIN);
        };
        *own = posted;
        let _ = self.used.fetch_add(1usize, Relaxed);
        self.posted.add(1);
        self.put(pool, own);
        Ok(())
    }

    fn export(self: Arc<Self>, guest: Arc<dyn PeerEndpoint>) -> Result<Arc<dyn ExportedReceives>> {
        if self.abroad().is_some() {
            return Err(Errno::EINVAL);
        }
        let host: Arc<dyn ExportedReceives> = Arc::new(Hosting::new(self, guest)?, GFP_KERNEL)?;
        Ok(host)
    }

    fn receives_left(&self) -> usize {
        self.size.saturating_sub(self.used.load(Acquire))
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        let (used, posted) = (self.used.load(Relaxed) as u64, self.posted.get());
        out.add_value(KOFI_VALUE_RX_SIZE, self.size as u64);
        out.add_value(KOFI_VALUE_RX_DEPTH, used);
        out.add_value(KOFI_VALUE_RECEIVES, posted);
        out.add_value(KOFI_VALUE_RX_DONE, posted.saturating_sub(used));
        out.add_value(KOFI_VALUE_RX_AGAIN, self.again.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut pool = self.pool.lock();
        pool.is_closed = true;
        let posted = pool.desk.take_receives();
        drop(pool);
        if let Some(abroad) = self.abroad() {
            abroad.owner().set_starter(None);
        }
        for posted in posted.iter().flat_map(BoxList::iter) {
            reclaim(posted.context);
        }
    }
}

impl MessageStarter for Srx {
    fn start(&self, taken: MatchedReceive) -> Result {
        let abroad = self.abroad().ok_or(Errno::ENOENT)?;
        let ticket = taken.entry;
        let letter = abroad.take(ticket)?;
        let Some(visit) = self.visit(letter.seat) else {
            abroad.owner().free(ticket);
            return Err(Errno::ENOENT);
        };
        visit.object.start(taken.into(), letter);
        Ok(())
    }

    fn discard(&self, ticket: usize) -> Result {
        let abroad = self.abroad().ok_or(Errno::ENOENT)?;
        let letter = abroad.take(ticket)?;
        if let Some(visit) = self.visit(letter.seat) {
            visit.object.discard(letter);
        }
        abroad.owner().free(ticket);
        Ok(())
    }
}

#[kunit_tests(kofi_rdm_pool)]
mod tests {
    use super::{
        super::{
            receive::Body,
            wire, //
        },
        *, //
    };
    use crate::fi::{
        memory::Memory,
        provider::{
            SharedReceive,
            Tag, //
        },
    };
    use core::net::SocketAddr;
    use kernel::sync::atomic::Full;

    /// What it has been asked to do.
    struct Asked {
        started: Atomic<u32>,
        gone_on: Atomic<u32>,
    }

    impl Member for Asked {
        fn start(&self, _posted: Posted, _letter: ListBox<Letter>) {
            let _ = self.started.fetch_add(1u32, Full);
        }

        fn go_on(&self) {
            let _ = self.gone_on.fetch_add(1u32, Full);
        }

        fn discard(&self, _letter: ListBox<Letter>) {}
    }

    impl Asked {
        fn new() -> Result<Arc<Self>> {
            let asked = Self {
                started: Atomic::new(0),
                gone_on: Atomic::new(0),
            };
            Ok(Arc::new(asked, GFP_KERNEL)?)
        }

        /// How often it was to start something, and to go on.
        fn times(&self) -> (u32, u32) {
            (self.started.load(Acquire), self.gone_on.load(Acquire))
        }
    }

    fn open(size: usize) -> Result<Arc<Srx>> {
        Srx::new(&Attr {
            size,
            ..Attr::default()
        })
    }

    fn title(tag: Option<u64>) -> Title {
        Title {
            context: 0,
            tag,
            from: SocketAddr::from(([10, 0, 0, 1], 7471)),
        }
    }

    fn letter(tag: Option<u64>) -> Result<ListBox<Letter>> {
        let message = wire::Message {
            context: 0,
            tag,
            len: 0,
            data: None,
        };
        ListBox::new(Letter::new(title(tag), message, 0, Body::Parts(0)))
    }

    fn post(srx: &Srx, tag: Option<u64>) -> Result {
        srx.receive(&Message {
            memory: Memory::Segments(&[]),
            descriptors: &[],
            context: Context::NULL,
            flags: 0,
            errors_only: false,
            data: 0,
            peer: 0,
            tag: tag.map(|tag| Tag { tag, ignore: 0 }),
        })
    }

    #[test]
    fn srx_a_member_is_asked_for_what_it_has_queued() -> Result {
        let srx = open(4)?;
        let (first, second) = (Asked::new()?, Asked::new()?);
        let seats = [srx.admit(first.clone())?, srx.admit(second.clone())?];
        assert!(seats[0] != seats[1]);
        assert!(srx.get(seats[1], &title(None)).is_none());
        assert!(srx.queue(seats[1], letter(None)?, false).is_none());
        assert!(srx.queue(seats[0], letter(None)?, false).is_none());
        // In the order in which they came, and not of what does not fit.
        post(&srx, Some(7))?;
        assert_eq!((first.times(), second.times()), ((0, 0), (0, 0)));
        post(&srx, None)?;
        assert_eq!((first.times(), second.times()), ((0, 0), (1, 0)));
        post(&srx, None)?;
        assert_eq!((first.times(), second.times()), ((1, 0), (1, 0)));
        assert!(srx.get(seats[0], &title(Some(7))).is_some());
        assert_eq!(srx.receives_left(), 1);
        for left in 2..=4 {
            srx.over(0);
            assert_eq!(srx.receives_left(), left);
        }
        for seat in seats {
            srx.dismiss(seat);
        }
        Ok(())
    }

    #[test]
    fn srx_what_came_meanwhile_is_given_to_who_queues() -> Result {
        let srx = open(1)?;
        let who = Asked::new()?;
        let seat = srx.admit(who.clone())?;
        assert!(srx.get(seat, &title(None)).is_none());
        post(&srx, None)?;
        // It was hungry.
        assert_eq!(who.times(), (0, 1));
        assert!(srx.queue(seat, letter(None)?, false).is_some());
        assert_eq!(post(&srx, None), Err(Errno::EAGAIN));
        srx.over(0);
        post(&srx, None)?;
        assert_eq!(who.times(), (0, 1));
        srx.dismiss(seat);
        Ok(())
    }

    #[test]
    fn srx_the_hungry_are_asked_once() -> Result {
        let srx = open(8)?;
        let mut members = KVec::new();
        for _ in 0..5 {
            let who = Asked::new()?;
            let seat = srx.admit(who.clone())?;
            members.push((seat, who), GFP_KERNEL)?;
        }
        let hungry = |at: &usize| at % 2 == 0;
        for (seat, _) in members.iter().filter(|(seat, _)| hungry(seat)) {
            assert!(srx.get(*seat, &title(None)).is_none());
            // One of its packets waits, and others do in the packets.
            assert!(srx.queue(*seat, letter(Some(1))?, true).is_none());
        }
        for _ in 0..2 {
            post(&srx, None)?;
            for (seat, who) in members.iter() {
                assert_eq!(who.times(), (0, u32::from(hungry(seat))));
            }
        }
        for (seat, _) in members.iter() {
            srx.dismiss(*seat);
        }
        Ok(())
    }

    #[test]
    fn srx_who_leaves_takes_its_messages_along() -> Result {
        let srx = open(4)?;
        let (gone, next) = (Asked::new()?, Asked::new()?);
        let seat = srx.admit(gone.clone())?;
        for _ in 0..2 {
            assert!(srx.queue(seat, letter(None)?, true).is_none());
        }
        srx.dismiss(seat);
        // The next one has its seat, and nothing of its.
        assert_eq!(srx.admit(next.clone())?, seat);
        post(&srx, None)?;
        assert_eq!((gone.times(), next.times()), ((0, 0), (0, 0)));
        let posted = srx.get(seat, &title(None));
        assert_eq!(srx.receives_left(), 3);
        assert!(srx.get(seat, &title(None)).is_none());
        assert!(srx.queue(seat, letter(None)?, false).is_none());
        srx.post_again(posted.ok_or(Errno::EOTHER)?);
        assert_eq!((next.times(), srx.receives_left()), ((1, 0), 3));
        srx.dismiss(seat);
        Ok(())
    }
}
