// SPDX-License-Identifier: GPL-2.0

//! Entries: what another module's provider has of a receive, or of a message of its that waits for one.
//!
//! An entry is its peer's, or waits at the desk of the owner. Who takes it from there hands it to the peer; and
//! as the peer may give it back while that is under way, the last of the two frees it. What a message gets just
//! when it is queued is handed over by an interrupt: the peer may hold a lock that its own call takes.

use super::sized;
use crate::{
    abi::{
        callback::{
            Caller,
            Functions, //
        },
        context::InterruptContext,
        errno::from_int,
        fi_addr_t,
        fi_ops_srx_peer,
        fi_peer_rx_entry,
        fid_peer_srx,
        flags::*,
        irq_work::{
            InterruptHandler,
            IrqWork, //
        },
        kvec,
        lock::FastLockIrq,
        Errno,
        Result, //
    },
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
};
use core::{
    cell::UnsafeCell,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        static_lock_class,
        Arc,
        SetOnce, //
    },
};

/// The peer's.
const OUT: u32 = 0;
/// It waits, or has got something that is not handed over yet.
const QUEUED: u32 = 1;
/// It is being handed to the peer.
const STARTING: u32 = 2;
/// The peer has given it back before that was over.
const FREED: u32 = 3;

/// What a peer is told of an entry with.
#[derive(Clone, Copy)]
struct Calls {
    start: unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int,
    discard: unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int,
}

/// See the module.
///
/// # Invariants
///
/// Whoever brings `state` from [`OUT`] or [`QUEUED`] to another value, or has taken the entry from the desk, has
/// the cells alone until it has brought it further; of one that is [`OUT`], the peer.
#[repr(C)]
pub(super) struct Entry {
    raw: UnsafeCell<fi_peer_rx_entry>,
    iov: UnsafeCell<[kvec; MAX_SEGMENTS]>,
    desc: UnsafeCell<[*mut c_void; MAX_SEGMENTS]>,
    tag: Option<u64>,
    state: Atomic<u32>,
    taken: UnsafeCell<Option<MatchedReceive>>,
    calls: UnsafeCell<Option<Calls>>,
    lobby: Arc<QueuedEntries>,
}

/// Entries that have got something, in a row: each has the next one's address.
///
/// # Invariants
///
/// Each is [`QUEUED`] or [`FREED`], has got something, and is in no other row.
struct EntryList {
    first: *mut Entry,
    last: *mut Entry,
}

// SAFETY: Its entries may be handed over by anybody.
unsafe impl Send for EntryList {}

impl EntryList {
    const fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    /// # Safety
    ///
    /// The entry is as those of a row are.
    unsafe fn push(&mut self, entry: *mut Entry) {
        // SAFETY: By this function's safety requirement and the invariant.
        unsafe {
            (*(*entry).raw.get()).next = ptr::null_mut();
            match self.first.is_null() {
                true => self.first = entry,
                false => (*(*self.last).raw.get()).next = entry.cast(),
            }
        }
        self.last = entry;
    }

    fn pop(&mut self) -> Option<*mut Entry> {
        let first = self.first;
        if first.is_null() {
            return None;
        }
        // SAFETY: By the invariant.
        self.first = unsafe { (*(*first).raw.get()).next.cast() };
        Some(first)
    }
}

/// What is handed over by an interrupt.
#[pin_data]
struct EntryPool {
    #[pin]
    row: FastLockIrq<EntryList>,
}

impl EntryPool {
    fn next(&self) -> Option<*mut Entry> {
        self.row.lock().pop()
    }
}

impl InterruptHandler for Arc<EntryPool> {
    fn ready(&self, _here: &InterruptContext) {
        while let Some(entry) = self.next() {
            // SAFETY: It was in the row.
            unsafe { Entry::start(entry, None) };
        }
    }
}

/// Where the messages of one peer are with their owner.
///
/// The peer is called within the gate only, which is shut when its module has been unloaded.
#[pin_data]
pub(super) struct QueuedEntries {
    #[pin]
    gate: Rundown,
    /// Addresses of the peer's calls: start and discard of messages, and of tagged ones. 0 before it queued any.
    calls: [Atomic<usize>; 4],
    host: SetOnce<Arc<dyn ExportedReceives>>,
    tray: Arc<EntryPool>,
    work: Pin<KBox<IrqWork>>,
    /// How many entries peers have.
    out: Atomic<usize>,
    /// True once it has left its host.
    has_left: AtomicFlag,
}

impl PeerEndpoint for QueuedEntries {
    fn start(&self, number: usize, taken: MatchedReceive) {
        // SAFETY: The number is an entry's, which has been taken from the desk.
        unsafe { Entry::start(ptr::with_exposed_provenance_mut(number), Some(taken)) };
    }
}

impl QueuedEntries {
    /// Opens one with the receives of a context. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`provider::SharedReceive::host`].
    pub(super) fn open(shared: &Arc<dyn provider::SharedReceive>) -> Result<Arc<Self>> {
        let tray = Arc::pin_init(
            pin_init!(EntryPool {
                row <- FastLockIrq::new(EntryList::new(), c"kofi::Tray", static_lock_class!()),
            }),
            GFP_KERNEL,
        )?;
        let work = IrqWork::new(KBox::new(tray.clone(), GFP_KERNEL)?)?;
        let lobby = Arc::pin_init(
            pin_init!(Self {
                gate <- Rundown::new(),
                calls: [const { Atomic::new(0) }; 4],
                host: SetOnce::new(),
                work,
                tray,
                out: Atomic::new(0),
                has_left: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )?;
        let host = shared.clone().export(lobby.clone())?;
        // It has none.
        let _ = lobby.host.populate(host);
        Ok(lobby)
    }

    fn host(&self) -> Option<&dyn ExportedReceives> {
        self.host.as_ref().map(|host| &**host)
    }

    /// An entry for a message, and whether it has a receive. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn get(
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
        let entry = KBox::new(
            Entry {
                raw: UnsafeCell::new(raw),
                iov: UnsafeCell::new(pin_init::zeroed()),
                desc: UnsafeCell::new([ptr::null_mut(); MAX_SEGMENTS]),
                tag,
                state: Atomic::new(OUT),
                taken: UnsafeCell::new(None),
                calls: UnsafeCell::new(None),
                lobby: self.clone(),
            },
            GFP_NOWAIT,
        )?;
        let _ = self.out.fetch_add(1usize, Relaxed);
        let taken = self.host().and_then(|host| host.get(tag));
        let has_receive = taken.is_some();
        let entry = KBox::into_raw(entry);
        if let Some(taken) = taken {
            // SAFETY: Nobody else has it yet.
            unsafe { Entry::fill(entry, taken) };
        }
        Ok((entry.cast(), has_receive))
    }

    /// Tells the peer to drop what waits, and ends it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY while the peer has entries, unless its module has been unloaded: nothing has been done.
    pub(super) fn close(&self) -> Result {
        if self.out.load(Acquire) > 0 && !self.gate.has_started() {
            return Err(Errno::EBUSY);
        }
        self.leave();
        Ok(())
    }

    /// Drops what waits, once, as [`Self::close`] does.
    fn leave(&self) {
        if self.has_left.xchg(true, Full) {
            return;
        }
        if let Some(host) = self.host() {
            host.detach(&mut |number| {
                // SAFETY: The number is an entry's, which has been taken from the desk.
                unsafe { Entry::discard(ptr::with_exposed_provenance_mut(number)) };
            });
        }
        self.work.stop();
        while let Some(entry) = self.tray.next() {
            // SAFETY: It was in the row: nobody else takes what it has got.
            unsafe {
                Entry::give_back(entry);
                Entry::discard(entry);
            }
        }
    }

    /// Stores the calls that the peer has now.
    fn learn(&self, calls: Calls, is_tagged: bool) {
        let [start, discard, start_tagged, discard_tagged] = &self.calls;
        let (start_at, discard_at) = match is_tagged {
            false => (start, discard),
            true => (start_tagged, discard_tagged),
        };
        start_at.store((calls.start as *const ()).addr(), Relaxed);
        discard_at.store((calls.discard as *const ()).addr(), Relaxed);
    }
}

impl Caller for QueuedEntries {
    fn end(&self) {
        self.gate.run_down();
        self.leave();
    }

    fn later_functions(&self) -> Functions {
        let call = |at: &Atomic<usize>| ptr::without_provenance::<()>(at.load(Relaxed));
        Functions::of(self.calls.each_ref().map(call))
    }
}

impl Entry {
    /// Writes what it has got to where the peer reads it.
    ///
    /// # Safety
    ///
    /// The caller has the cells alone.
    unsafe fn fill(entry: *mut Self, taken: MatchedReceive) {
        // SAFETY: By this function's safety requirement.
        let (raw, iov, desc) = unsafe {
            (
                &mut *(*entry).raw.get(),
                &mut *(*entry).iov.get(),
                &mut *(*entry).desc.get(),
            )
        };
        for (place, part) in iov.iter_mut().zip(&taken.segments) {
            place.iov_base = ptr::with_exposed_provenance_mut(part.addr());
            place.iov_len = part.len();
        }
        raw.iov = iov.as_mut_ptr();
        *desc = taken.descriptors.map(|descriptor| descriptor.as_ptr());
        raw.desc = match desc.iter().all(|descriptor| descriptor.is_null()) {
            true => ptr::null_mut(),
            false => desc.as_mut_ptr(),
        };
        raw.count = taken
            .segments
            .iter()
            .filter(|part| !part.is_empty())
            .count();
        raw.size = taken.segments.iter().map(|part| part.len()).sum();
        raw.context = taken.context.as_ptr();
        if taken.reports_success {
            raw.flags |= FI_COMPLETION;
        }
        // SAFETY: By this function's safety requirement.
        unsafe { *(*entry).taken.get() = Some(taken) };
    }

    /// Posts again what it has got, if there is something.
    ///
    /// # Safety
    ///
    /// The caller has the cells alone.
    unsafe fn give_back(entry: *mut Self) {
        // SAFETY: By this function's safety requirement.
        let (taken, lobby) = unsafe { ((*(*entry).taken.get()).take(), &(*entry).lobby) };
        if let (Some(taken), Some(host)) = (taken, lobby.host()) {
            host.repost(taken);
        }
    }

    /// Frees it. What it has got is over.
    ///
    /// # Safety
    ///
    /// It is nobody else's.
    unsafe fn drop(entry: *mut Self) {
        // SAFETY: By this function's safety requirement; it came from a box.
        let mut entry = unsafe { KBox::from_raw(entry) };
        if let (Some(_), Some(host)) = (entry.taken.get_mut().take(), entry.lobby.host()) {
            host.complete();
        }
    }

    /// `fi_ops_srx_owner::queue_msg` and its like. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for NULL, for one of the other kind, that is queued, or has a receive, and for a peer without
    /// calls; -FI_ENOMEM. The entry is the peer's still.
    ///
    /// # Safety
    ///
    /// `raw` is NULL, or came from [`QueuedEntries::get`] and is the peer's.
    pub(super) unsafe fn queue(raw: *mut fi_peer_rx_entry, is_tagged: bool) -> Result {
        let entry = raw.cast::<Self>();
        // SAFETY: By this function's safety requirement.
        let this = unsafe { entry.as_ref() }.ok_or(Errno::EINVAL)?;
        // SAFETY: The peer's cells are the caller's.
        let has_taken = unsafe { (*this.taken.get()).is_some() };
        if this.tag.is_some() != is_tagged || has_taken || this.state.load(Relaxed) != OUT {
            return Err(Errno::EINVAL);
        }
        // SAFETY: As above; the peer's struct says how large it is.
        unsafe {
            let srx = (*raw).srx.as_ref().ok_or(Errno::EINVAL)?;
            let ops = sized::<fi_ops_srx_peer>(srx.peer_ops.cast())?;
            let (start, discard) = match is_tagged {
                false => (ops.start_msg, ops.discard_msg),
                true => (ops.start_tag, ops.discard_tag),
            };
            let calls = Calls {
                start: start.ok_or(Errno::EINVAL)?,
                discard: discard.ok_or(Errno::EINVAL)?,
            };
            this.lobby.learn(calls, is_tagged);
            *this.calls.get() = Some(calls);
        }
        let lobby = this.lobby.clone();
        let host = lobby.host().ok_or(Errno::EINVAL)?;
        this.state.store(QUEUED, Relaxed);
        let _ = lobby.out.fetch_sub(1usize, Relaxed);
        match host.queue(this.tag, entry.expose_provenance()) {
            // It may be gone by now.
            Ok(None) => {}
            Ok(Some(taken)) => {
                // SAFETY: It is in no desk, and in no row but this one.
                unsafe {
                    *this.taken.get() = Some(taken);
                    lobby.tray.row.lock().push(entry);
                }
                lobby.work.raise();
            }
            Err(errno) => {
                let _ = lobby.out.fetch_add(1usize, Relaxed);
                this.state.store(OUT, Relaxed);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Hands it to the peer with what it has got, or has got before.
    ///
    /// # Safety
    ///
    /// It has been taken from the desk or a row.
    unsafe fn start(entry: *mut Self, taken: Option<MatchedReceive>) {
        // SAFETY: By this function's safety requirement, and as it is not handed over yet.
        unsafe {
            if let Some(taken) = taken.or_else(|| (*(*entry).taken.get()).take()) {
                Self::fill(entry, taken);
            }
            let is_refused = |answer| from_int(answer).is_err();
            Self::hand_over(entry, |raw, calls| {
                if is_refused((calls.start)(raw)) {
                    Self::give_back(entry);
                }
            });
        }
    }

    /// Has the peer drop it.
    ///
    /// # Safety
    ///
    /// It has been taken from the desk or a row, and has got nothing.
    unsafe fn discard(entry: *mut Self) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            Self::hand_over(entry, |raw, calls| {
                let _ = (calls.discard)(raw);
            });
        }
    }

    /// Makes it the peer's by a call of its. Frees it if the peer has given it back, before or meanwhile, or if the
    /// peer's module has been unloaded.
    ///
    /// # Safety
    ///
    /// It has been taken from the desk or a row.
    unsafe fn hand_over(entry: *mut Self, call: impl FnOnce(*mut fi_peer_rx_entry, Calls)) {
        // SAFETY: By this function's safety requirement: it is there until this has brought it to `OUT`.
        let this = unsafe { &*entry };
        let lobby = this.lobby.clone();
        let pass = lobby.gate.begin_call();
        if pass.is_none() || this.state.cmpxchg(QUEUED, STARTING, Full).is_err() {
            // A failed cmpxchg orders nothing: an acquire makes the peer's writes to the entry visible.
            let _ = this.state.load(Acquire);
            // SAFETY: The peer has given it back, or has gone.
            unsafe {
                Self::give_back(entry);
                Self::drop(entry);
            }
            return;
        }
        let _ = lobby.out.fetch_add(1usize, Relaxed);
        // SAFETY: It is this caller's, who hands it over.
        if let Some(calls) = unsafe { *this.calls.get() } {
            call(entry.cast(), calls);
        }
        if this.state.xchg(OUT, Full) == FREED {
            // SAFETY: The peer has given it back.
            unsafe { Self::drop(entry) };
            let _ = lobby.out.fetch_sub(1usize, Full);
        }
    }

    /// `fi_ops_srx_owner::free_entry`. Any context.
    ///
    /// # Safety
    ///
    /// `raw` is NULL, or came from [`QueuedEntries::get`] and has not been given back.
    pub(super) unsafe fn free(raw: *mut fi_peer_rx_entry) {
        let entry = raw.cast::<Self>();
        // SAFETY: By this function's safety requirement.
        let Some(this) = (unsafe { entry.as_ref() }) else {
            return;
        };
        let lobby = this.lobby.clone();
        loop {
            let state = this.state.load(Acquire);
            match state {
                OUT => {
                    // SAFETY: It is the peer's alone, who gives it up.
                    unsafe { Self::drop(entry) };
                    let _ = lobby.out.fetch_sub(1usize, Full);
                    return;
                }
                QUEUED => {
                    let number = entry.expose_provenance();
                    if lobby.host().is_some_and(|host| host.cancel(number)) {
                        // SAFETY: Nobody else takes it any more.
                        unsafe { Self::drop(entry) };
                        return;
                    }
                }
                _ => {}
            }
            // Whoever hands it over frees it.
            if this.state.cmpxchg(state, FREED, Full).is_ok() {
                return;
            }
        }
    }
}
