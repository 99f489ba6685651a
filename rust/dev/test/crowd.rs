// SPDX-License-Identifier: GPL-2.0

//! The clients that a server has at once: each has a thread of its own, and none waits for another.
//!
//! The server's thread alone lets them in, finds out who has left, and sends them home in the end. How
//! many there are is bounded, and so is what the server posts or lends for all of them.

use super::tally::{
    Score,
    Tally, //
};
use crate::abi::{
    self,
    context::ProcessContext,
    thread::Thread,
    Result, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        Arc, //
    },
    time::Delta, //
};

/// Bytes that they may take together.
const MOST_BYTES: usize = abi::KOFI_TEST_MAX_SERVED as usize;

/// A client that is served, or was.
struct Guest {
    /// Bytes that the server posts or lends for it.
    bytes: usize,
    /// Set when it has left, and all that it took has been freed.
    has_left: Arc<AtomicFlag>,
    /// Dropped, it is told to stop, and waited for.
    _thread: Thread,
}

/// All of them. Dropping it ends their connections.
pub(super) struct Crowd<'a> {
    tally: &'a Tally,
    /// For each score of the tally, who counts there.
    guests: KVec<Option<Guest>>,
}

impl<'a> Crowd<'a> {
    /// Nobody yet, but for each score of `tally` a place.
    pub(super) fn new(tally: &'a Tally) -> Result<Self> {
        let count = tally.guests().len();
        let mut guests = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            guests.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { tally, guests })
    }

    /// A place for a client that takes so many bytes; none, which is counted, where others have too many
    /// of either.
    pub(super) fn room(&mut self, bytes: usize) -> Option<Room<'_>> {
        let mut all = bytes;
        for guest in &mut self.guests {
            match guest {
                Some(here) if !here.has_left.load(Acquire) => all = all.saturating_add(here.bytes),
                _ => *guest = None,
            }
        }
        let places = self.guests.iter_mut().zip(self.tally.guests());
        let free = places.enumerate().find(|(_, (guest, _))| guest.is_none());
        match free {
            Some((number, (guest, score))) if all <= MOST_BYTES => Some(Room {
                tally: self.tally,
                number,
                guest,
                score,
                bytes,
            }),
            _ => {
                self.tally.turn_away();
                None
            }
        }
    }
}

/// A place for one client.
pub(super) struct Room<'a> {
    tally: &'a Tally,
    number: usize,
    guest: &'a mut Option<Guest>,
    score: &'a Arc<Score>,
    bytes: usize,
}

impl Room<'_> {
    /// Has a thread of its own serve the client, until it leaves or the thread is told to stop.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM: `serve` is dropped, and the place is free.
    pub(super) fn take<F>(self, here: ProcessContext, serve: F) -> Result
    where
        F: FnOnce(ProcessContext, &Score) -> Result + Send + 'static,
    {
        let has_left = Arc::new(AtomicFlag::new(false), GFP_KERNEL_ACCOUNT)?;
        // What the last one has left there.
        self.score.took(Delta::ZERO);
        let (score, leaves) = (self.score.clone(), has_left.clone());
        let thread = Thread::run(here, c"kofi_client", move |here| {
            // What a client does wrong is no matter of the others.
            let _ = serve(here, &score);
            leaves.store(true, Release);
        })?;
        self.tally.client(self.number);
        *self.guest = Some(Guest {
            bytes: self.bytes,
            has_left,
            _thread: thread,
        });
        Ok(())
    }
}

#[kunit_tests(kofi_dev_test_crowd)]
mod tests {
    use super::*;
    use crate::abi::{
        context::kthread_should_stop,
        kofi_watch,
        Errno, //
    };
    use kernel::time::delay::fsleep;

    const HERE: ProcessContext = ProcessContext::assume();

    type Done = kernel::error::Result;

    /// Messages so far, of which so many were damaged.
    fn counted(tally: &Tally) -> kernel::error::Result<(u64, u64)> {
        let mut watch: KBox<kofi_watch> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
        tally.tell(&mut watch)?;
        Ok((watch.messages, watch.damaged))
    }

    fn pause() {
        fsleep(Delta::from_millis(1));
    }

    /// Stays until it is sent home, and is counted then.
    fn stay(_here: ProcessContext, score: &Score) -> Result {
        while !kthread_should_stop() {
            pause();
        }
        score.message(1, true);
        Err(Errno::EINTR)
    }

    /// Counts, and leaves.
    fn pass(_here: ProcessContext, score: &Score) -> Result {
        score.message(1, false);
        Ok(())
    }

    /// Lets one in that takes so many bytes, when there is room.
    fn let_in(crowd: &mut Crowd<'_>, bytes: usize) -> bool {
        crowd
            .room(bytes)
            .is_some_and(|room| room.take(HERE, stay).is_ok())
    }

    #[test]
    fn as_many_as_there_are_places_are_there_at_once_and_sent_home() -> Done {
        let tally = Tally::of_server()?;
        let count = tally.guests().len();
        let mut crowd = Crowd::new(&tally)?;
        let came = (0..count + 2).filter(|_| let_in(&mut crowd, 1)).count();
        assert_eq!(came, count);
        assert_eq!(counted(&tally)?, (0, 0));
        drop(crowd);
        // A thread that is stopped before it has begun does nothing.
        assert!(counted(&tally)?.0 <= count as u64);
        Ok(())
    }

    #[test]
    fn who_leaves_makes_room_for_the_next() -> Done {
        let tally = Tally::of_server()?;
        let count = tally.guests().len() as u64;
        let mut crowd = Crowd::new(&tally)?;
        let mut came = 0;
        for _ in 0..1000 {
            match crowd.room(MOST_BYTES) {
                Some(room) => {
                    assert!(room.take(HERE, pass).is_ok());
                    came += 1;
                }
                None => pause(),
            }
            if came == 3 * count {
                break;
            }
        }
        assert_eq!(came, 3 * count);
        while crowd.room(MOST_BYTES).is_none() {
            pause();
        }
        assert_eq!(counted(&tally)?, (came, came));
        Ok(())
    }

    #[test]
    fn the_bytes_of_all_are_bounded() -> Done {
        let tally = Tally::of_server()?;
        let mut crowd = Crowd::new(&tally)?;
        assert!(crowd.room(MOST_BYTES + 1).is_none());
        assert!(let_in(&mut crowd, MOST_BYTES / 2));
        assert!(let_in(&mut crowd, MOST_BYTES / 2 - 1));
        assert!(crowd.room(2).is_none());
        assert!(crowd.room(usize::MAX).is_none());
        assert!(let_in(&mut crowd, 1));
        assert!(crowd.room(1).is_none());
        Ok(())
    }
}
