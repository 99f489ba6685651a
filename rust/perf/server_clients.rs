// SPDX-License-Identifier: GPL-2.0

//! The client threads of a server: each serves one client, and none waits for another.
//!
//! The server's thread alone starts the threads, reuses the slots of those that have ended, and stops the rest. The
//! number of clients is limited, and so are the bytes of posted receives and exposed memory for all of them.

use super::{
    bindings,
    prelude::*,
    stats::ThreadStats, //
};
use kernel::sync::atomic::{
    Acquire,
    AtomicFlag,
    Release, //
};
use kofi::util::thread::Thread;

/// Limit of the bytes for all clients.
const MAX_BYTES: usize = bindings::KOFI_TEST_MAX_SERVED as usize;

/// The thread of a client.
struct ClientThread {
    /// Bytes of posted receives and exposed memory for the client.
    bytes: usize,
    /// Set when the client has left, and its resources have been freed.
    done: Arc<AtomicFlag>,
    /// Stops the thread and waits for it when dropped.
    _thread: Thread,
}

/// The client threads of a server. The drop ends their connections.
pub(crate) struct ClientSet<'a> {
    stats: &'a Stats,
    /// A slot for each [`ThreadStats`] of the statistics.
    slots: KVec<Option<ClientThread>>,
}

impl<'a> ClientSet<'a> {
    /// Creates a set without clients.
    pub(crate) fn new(stats: &'a Stats) -> Result<Self> {
        let count = stats.threads.len();
        let mut slots = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { stats, slots })
    }

    /// Returns a free slot for a client with `bytes` bytes of buffers. Returns `None`, and counts a rejection, if the
    /// server is at one of its limits.
    pub(crate) fn slot(&mut self, bytes: usize) -> Option<ClientSlot<'_>> {
        let mut total = bytes;
        for slot in &mut self.slots {
            match slot {
                Some(client) if !client.done.load(Acquire) => {
                    total = total.saturating_add(client.bytes);
                }
                _ => *slot = None,
            }
        }
        let slots = self.slots.iter_mut().zip(&self.stats.threads);
        let free = slots.enumerate().find(|(_, (slot, _))| slot.is_none());
        match free {
            Some((index, (slot, thread_stats))) if total <= MAX_BYTES => Some(ClientSlot {
                stats: self.stats,
                index,
                slot,
                thread_stats,
                bytes,
            }),
            _ => {
                self.stats.add_rejected();
                None
            }
        }
    }
}

/// A free slot of a [`ClientSet`].
pub(crate) struct ClientSlot<'a> {
    stats: &'a Stats,
    index: usize,
    slot: &'a mut Option<ClientThread>,
    thread_stats: &'a Arc<ThreadStats>,
    bytes: usize,
}

impl ClientSlot<'_> {
    /// Runs `serve` in a new thread, until the client leaves or the thread should stop. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM: `serve` is dropped, and the slot stays free.
    pub(crate) fn start<F>(self, here: ProcessContext, serve: F) -> Result
    where
        F: FnOnce(ProcessContext, &ThreadStats) -> Result + Send + 'static,
    {
        let done = Arc::new(AtomicFlag::new(false), GFP_KERNEL_ACCOUNT)?;
        // The counters continue from those of the slot's last client, but the time starts again at 0.
        self.thread_stats.set_time(Delta::ZERO);
        let (thread_stats, set_done) = (self.thread_stats.clone(), done.clone());
        let thread = Thread::spawn(here, c"kofi_client", move |here| {
            // The errors of one client do not concern the others.
            let _ = serve(here, &thread_stats);
            set_done.store(true, Release);
        })?;
        self.stats.add_client(self.index);
        *self.slot = Some(ClientThread {
            bytes: self.bytes,
            done,
            _thread: thread,
        });
        Ok(())
    }
}

#[kunit_tests(kofi_perf_server_clients)]
mod tests {
    use super::{
        super::bindings::kofi_watch,
        *, //
    };
    use kernel::time::delay::fsleep;
    use kofi::{
        abi::Errno,
        util::context::{
            in_process,
            kthread_should_stop, //
        },
    };

    type TestResult = kernel::error::Result;

    /// Limit of the time in which all threads begin, in milliseconds.
    const WAIT_MS: u32 = 10_000;

    /// Returns the numbers of messages and of damaged messages so far.
    fn message_counts(stats: &Stats) -> kernel::error::Result<(u64, u64)> {
        let mut watch: KBox<kofi_watch> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
        stats.report(&mut watch)?;
        Ok((watch.messages, watch.damaged))
    }

    fn pause() {
        fsleep(Delta::from_millis(1));
    }

    /// Counts a damaged message, serves until the thread is stopped, and counts an intact one.
    fn serve_until_stopped(_here: ProcessContext, thread_stats: &ThreadStats) -> Result {
        thread_stats.count_message(1, false);
        while !kthread_should_stop() {
            pause();
        }
        thread_stats.count_message(1, true);
        Err(Errno::EINTR)
    }

    /// Counts a damaged message, and returns.
    fn serve_one(_here: ProcessContext, thread_stats: &ThreadStats) -> Result {
        thread_stats.count_message(1, false);
        Ok(())
    }

    /// Starts a client with buffers of `bytes` bytes; returns false if no slot is free.
    fn start_client(clients: &mut ClientSet<'_>, bytes: usize) -> kernel::error::Result<bool> {
        let here = in_process()?;
        Ok(clients
            .slot(bytes)
            .is_some_and(|slot| slot.start(here, serve_until_stopped).is_ok()))
    }

    #[test]
    fn client_count_is_limited_and_drop_stops_all_clients() -> TestResult {
        let stats = Stats::of_server()?;
        let count = stats.threads.len();
        let mut clients = ClientSet::new(&stats)?;
        let mut started = 0;
        for _ in 0..count + 2 {
            started += usize::from(start_client(&mut clients, 1)?);
        }
        assert_eq!(started, count);
        let count = count as u64;
        // A thread that is stopped before it has begun does not run its function.
        for _ in 0..WAIT_MS {
            if message_counts(&stats)? == (count, count) {
                break;
            }
            pause();
        }
        assert_eq!(message_counts(&stats)?, (count, count));
        drop(clients);
        assert_eq!(message_counts(&stats)?, (2 * count, count));
        Ok(())
    }

    #[test]
    fn slots_of_finished_clients_are_reused() -> TestResult {
        let here = in_process()?;
        let stats = Stats::of_server()?;
        let count = stats.threads.len() as u64;
        let mut clients = ClientSet::new(&stats)?;
        let mut started = 0;
        for _ in 0..1000 {
            match clients.slot(MAX_BYTES) {
                Some(slot) => {
                    assert!(slot.start(here, serve_one).is_ok());
                    started += 1;
                }
                None => pause(),
            }
            if started == 3 * count {
                break;
            }
        }
        assert_eq!(started, 3 * count);
        while clients.slot(MAX_BYTES).is_none() {
            pause();
        }
        assert_eq!(message_counts(&stats)?, (started, started));
        Ok(())
    }

    #[test]
    fn total_buffer_size_of_clients_is_limited() -> TestResult {
        let stats = Stats::of_server()?;
        let mut clients = ClientSet::new(&stats)?;
        assert!(clients.slot(MAX_BYTES + 1).is_none());
        assert!(start_client(&mut clients, MAX_BYTES / 2)?);
        assert!(start_client(&mut clients, MAX_BYTES / 2 - 1)?);
        assert!(clients.slot(2).is_none());
        assert!(clients.slot(usize::MAX).is_none());
        assert!(start_client(&mut clients, 1)?);
        assert!(clients.slot(1).is_none());
        Ok(())
    }
}
