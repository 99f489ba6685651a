// SPDX-License-Identifier: GPL-2.0

//! The entries of one peer of exported receives: how many it owns, and those that an interrupt passes to it.

use super::{
    super::super::super::prelude::*,
    Calls,
    Cells,
    Entry,
    EntryList,
    OWNED_BY_PEER, //
};
use crate::{
    fi::{
        provider,
        rundown::Rundown,
        srx::{
            ExportedReceives,
            MatchedReceive,
            PeerEndpoint,
            MAX_SEGMENTS, //
        },
    },
    util::{
        callback::{
            Caller,
            Functions, //
        },
        context::InterruptContext,
        irq_work::{
            InterruptHandler,
            IrqWork, //
        },
    },
};
use core::cell::UnsafeCell;

/// Entries that an interrupt passes to the peer.
#[pin_data]
pub(super) struct EntryPool {
    #[pin]
    pub(super) entries: FastLockIrq<EntryList>,
}

impl EntryPool {
    fn pop(&self) -> Option<*mut Entry> {
        self.entries.lock().pop()
    }
}

impl InterruptHandler for Arc<EntryPool> {
    fn handle(&self, _ctx: &InterruptContext) {
        while let Some(entry) = self.pop() {
            // SAFETY: The entry was in the list.
            unsafe { Entry::start_message(entry, None) };
        }
    }
}

/// A peer of exported receives, with its entries.
///
/// The peer is called within `rundown` only, which is run down when the peer's module is unloaded.
#[pin_data]
pub(in crate::capi::peer::srx) struct QueuedEntries {
    #[pin]
    pub(super) rundown: Rundown,
    /// Addresses of the peer's calls: start and discard of messages, then of tagged messages. 0 before the
    /// first is queued.
    calls: [[Atomic<usize>; 2]; 2],
    exported_receives: SetOnce<Arc<dyn ExportedReceives>>,
    pub(super) pool: Arc<EntryPool>,
    pub(super) work: Pin<KBox<IrqWork>>,
    /// Number of entries that the peer owns.
    pub(super) peer_owned: Atomic<usize>,
    /// True once the peer is detached from the receives.
    is_detached: AtomicFlag,
}

impl PeerEndpoint for QueuedEntries {
    fn start(&self, number: usize, receive: MatchedReceive) {
        // SAFETY: `number` is the address of an entry that has been taken from the owner's queue.
        unsafe { Entry::start_message(ptr::with_exposed_provenance_mut(number), Some(receive)) };
    }
}

impl QueuedEntries {
    /// Attaches a peer to the receives of a context. May sleep.
    ///
    /// # Errors
    ///
    /// The errors of [`provider::SharedReceive::export`], and -FI_ENOMEM.
    pub(in crate::capi::peer::srx) fn open(
        shared: &Arc<dyn provider::SharedReceive>,
    ) -> Result<Arc<Self>> {
        let pool = Arc::pin_init(
            pin_init!(EntryPool {
                entries <- FastLockIrq::new(
                    EntryList::new(),
                    c"kofi::capi::EntryPool",
                    static_lock_class!()
                ),
            }),
            GFP_KERNEL,
        )?;
        let work = IrqWork::new(KBox::new(pool.clone(), GFP_KERNEL)?)?;
        let queued_entries = Arc::pin_init(
            pin_init!(Self {
                rundown <- Rundown::new(),
                calls: [const { [const { Atomic::new(0) }; 2] }; 2],
                exported_receives: SetOnce::new(),
                work,
                pool,
                peer_owned: Atomic::new(0),
                is_detached: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )?;
        let exported = shared.clone().export(queued_entries.clone())?;
        // The cell is empty: this is its only initialisation.
        let _ = queued_entries.exported_receives.populate(exported);
        Ok(queued_entries)
    }

    pub(super) fn exported_receives(&self) -> Option<&dyn ExportedReceives> {
        self.exported_receives.as_ref().map(|exported| &**exported)
    }

    /// Makes an entry for a message that arrived. Also returns true if the entry has a matching receive. Any
    /// context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::capi::peer::srx) fn new_entry(
        self: &Arc<Self>,
        srx: *mut fid_peer_srx,
        addr: fi_addr_t,
        size: usize,
        tag: Option<u64>,
    ) -> Result<(*mut fi_peer_rx_entry, bool)> {
        let raw = fi_peer_rx_entry {
            srx,
            addr,
            size,
            tag: tag.unwrap_or(0),
            flags: FI_RECV | tag.map_or(FI_MSG, |_| FI_TAGGED),
            ..pin_init::zeroed()
        };
        let cells = Cells {
            raw,
            iov: pin_init::zeroed(),
            desc: [ptr::null_mut(); MAX_SEGMENTS],
            receive: None,
            calls: None,
        };
        let entry = Entry {
            cells: UnsafeCell::new(cells),
            tag,
            state: Atomic::new(OWNED_BY_PEER),
            queued_entries: self.clone(),
        };
        let entry = KBox::new(entry, GFP_NOWAIT)?;
        let _ = self.peer_owned.fetch_add(1usize, Relaxed);
        let exported = self.exported_receives();
        let receive = exported.and_then(|exported| exported.get(tag));
        let has_receive = receive.is_some();
        let entry = KBox::into_raw(entry);
        if let Some(receive) = receive {
            // SAFETY: No other thread has the entry yet.
            unsafe { Entry::set_receive(entry, receive) };
        }
        Ok((entry.cast(), has_receive))
    }

    /// Has the peer discard its queued messages, and detaches it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY, without any effect, while the peer owns entries, unless its module is being unloaded.
    pub(in crate::capi::peer::srx) fn close(&self) -> Result {
        ensure(
            self.peer_owned.load(Acquire) == 0 || self.rundown.has_started(),
            Errno::EBUSY,
        )?;
        self.detach();
        Ok(())
    }

    /// Discards queued messages and detaches the peer, at most once.
    fn detach(&self) {
        if self.is_detached.xchg(true, Full) {
            return;
        }
        if let Some(exported) = self.exported_receives() {
            exported.detach(&mut |number| {
                // SAFETY: `number` is the address of an entry that has been taken from the owner's queue.
                unsafe { Entry::discard_message(ptr::with_exposed_provenance_mut(number)) };
            });
        }
        self.work.stop();
        while let Some(entry) = self.pool.pop() {
            // SAFETY: The entry was in the list, so no other thread takes its receive.
            unsafe {
                Entry::repost_receive(entry);
                Entry::discard_message(entry);
            }
        }
    }

    /// Stores the peer's current calls.
    pub(super) fn set_calls(&self, calls: Calls, is_tagged: bool) {
        let [start, discard] = &self.calls[usize::from(is_tagged)];
        start.store((calls.start as *const ()).addr(), Relaxed);
        discard.store((calls.discard as *const ()).addr(), Relaxed);
    }
}

impl Caller for QueuedEntries {
    fn stop_calls(&self) {
        self.rundown.run_down();
        self.detach();
    }

    fn added_functions(&self) -> Functions {
        let call = |at: &Atomic<usize>| ptr::without_provenance::<()>(at.load(Relaxed));
        let [[start, discard], [start_tagged, discard_tagged]] = &self.calls;
        Functions::from_array([start, discard, start_tagged, discard_tagged].map(call))
    }
}
