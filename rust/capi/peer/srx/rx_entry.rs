// SPDX-License-Identifier: GPL-2.0

//! Entries of exported receives: a peer (another module's provider) holds a matched receive or a queued
//! message with each.
//!
//! An entry is owned by the peer, or is queued with the owner of the receives. The thread that takes an entry
//! from the owner's queue passes it to the peer; the peer may free it during that call, and the later of the
//! two frees the memory. A receive that is posted while its message is being queued is passed by an
//! interrupt, because the peer may hold a lock that its start call takes.

mod queued_entries;

use super::{
    super::super::prelude::*,
    checked_struct, //
};
use crate::{
    abi::errno::from_int,
    fi::srx::{
        MatchedReceive,
        MAX_SEGMENTS, //
    },
};
use core::cell::UnsafeCell;

pub(super) use queued_entries::QueuedEntries;

/// State of an entry that the peer owns.
const OWNED_BY_PEER: u32 = 0;
/// State of an entry that is queued, or has a receive that has not been passed to the peer yet.
const QUEUED: u32 = 1;
/// State of an entry that is being passed to the peer.
const STARTING: u32 = 2;
/// State of an entry that the peer has freed before it was passed, or in the meantime.
const FREED: u32 = 3;

/// Calls of a peer for a queued message.
#[derive(Clone, Copy)]
struct Calls {
    start: unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int,
    discard: unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int,
}

/// An entry, as peers and this module see it; see the module's documentation for its ownership.
///
/// # Invariants
///
/// A thread that changes `state` from [`OWNED_BY_PEER`] or [`QUEUED`], or that has taken the entry from the owner's
/// queue, has exclusive access to the cells until it changes `state` again. In [`OWNED_BY_PEER`], the peer has
/// exclusive access.
#[repr(C)]
pub(super) struct Entry {
    cells: UnsafeCell<Cells>,
    tag: Option<u64>,
    state: Atomic<u32>,
    queued_entries: Arc<QueuedEntries>,
}

/// The changeable part of an entry.
#[repr(C)]
struct Cells {
    raw: fi_peer_rx_entry,
    iov: [kvec; MAX_SEGMENTS],
    desc: [*mut c_void; MAX_SEGMENTS],
    receive: Option<MatchedReceive>,
    calls: Option<Calls>,
}

/// List of entries with a receive, linked through `raw.next`.
///
/// # Invariants
///
/// Each entry is [`QUEUED`] or [`FREED`], has a receive, and is in no other list.
struct EntryList {
    first: *mut Entry,
    last: *mut Entry,
}

// SAFETY: Any thread may pass the entries to the peer.
unsafe impl Send for EntryList {}

impl EntryList {
    const fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    /// Appends an entry.
    ///
    /// # Safety
    ///
    /// The entry fulfils the invariants of the list.
    unsafe fn push(&mut self, entry: *mut Entry) {
        // SAFETY: By the caller's contract, and by the invariant, both entries are valid.
        unsafe {
            (*(*entry).cells.get()).raw.next = ptr::null_mut();
            match self.first.is_null() {
                true => self.first = entry,
                false => (*(*self.last).cells.get()).raw.next = entry.cast(),
            }
        }
        self.last = entry;
    }

    fn pop(&mut self) -> Option<*mut Entry> {
        let first = self.first;
        if first.is_null() {
            return None;
        }
        // SAFETY: By the invariant, the entry is valid.
        self.first = unsafe { (*(*first).cells.get()).raw.next.cast() };
        Some(first)
    }
}

impl Entry {
    /// Writes a receive to the fields that the peer reads.
    ///
    /// # Safety
    ///
    /// The caller has exclusive access to the cells.
    unsafe fn set_receive(entry: *mut Self, receive: MatchedReceive) {
        // SAFETY: By the caller's contract, the access is exclusive.
        let cells = unsafe { &mut *(*entry).cells.get() };
        let (raw, iov, desc) = (&mut cells.raw, &mut cells.iov, &mut cells.desc);
        for (slot, part) in iov.iter_mut().zip(&receive.segments) {
            slot.iov_base = ptr::with_exposed_provenance_mut(part.addr());
            slot.iov_len = part.len();
        }
        raw.iov = iov.as_mut_ptr();
        *desc = receive.descriptors.map(|descriptor| descriptor.as_ptr());
        raw.desc = match desc.iter().all(|descriptor| descriptor.is_null()) {
            true => ptr::null_mut(),
            false => desc.as_mut_ptr(),
        };
        let segments = receive.segments.iter();
        raw.count = segments.clone().filter(|part| !part.is_empty()).count();
        raw.size = segments.map(|part| part.len()).sum();
        raw.context = receive.context.as_ptr();
        if receive.reports_success {
            raw.flags |= FI_COMPLETION;
        }
        cells.receive = Some(receive);
    }

    /// Posts the entry's receive again, if it has one.
    ///
    /// # Safety
    ///
    /// The caller has exclusive access to the cells.
    unsafe fn repost_receive(entry: *mut Self) {
        // SAFETY: By the caller's contract, the access is exclusive.
        let (receive, this) = unsafe { ((*(*entry).cells.get()).receive.take(), &*entry) };
        let exported = this.queued_entries.exported_receives();
        if let Some((receive, exported)) = receive.zip(exported) {
            exported.repost(receive);
        }
    }

    /// Frees an entry; a receive that it has is complete.
    ///
    /// # Safety
    ///
    /// The caller owns the entry.
    unsafe fn destroy(entry: *mut Self) {
        // SAFETY: By the caller's contract, the entry is the caller's; it was allocated as a box.
        let mut entry = unsafe { KBox::from_raw(entry) };
        let receive = entry.cells.get_mut().receive.take();
        if let Some((_, exported)) = receive.zip(entry.queued_entries.exported_receives()) {
            exported.complete();
        }
    }

    /// Queues the message of an entry, for `fi_ops_srx_owner::queue_msg` and `queue_tag`. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for NULL, for an entry of the other kind, that is queued already, or that has a receive,
    /// and for a peer without calls; -FI_ENOMEM. The peer still owns the entry.
    ///
    /// # Safety
    ///
    /// `raw` is NULL, or came from [`QueuedEntries::new_entry`] and is owned by the peer.
    pub(super) unsafe fn queue_message(raw: *mut fi_peer_rx_entry, is_tagged: bool) -> Result {
        let entry = raw.cast::<Self>();
        // SAFETY: By the caller's contract, `raw` is NULL or an entry.
        let this = unsafe { entry.as_ref() }.ok_or(Errno::EINVAL)?;
        // SAFETY: By the caller's contract, the peer owns the entry, and its cells.
        let has_receive = unsafe { (*this.cells.get()).receive.is_some() };
        let is_owned = this.state.load(Relaxed) == OWNED_BY_PEER;
        ensure(
            this.tag.is_some() == is_tagged && !has_receive && is_owned,
            Errno::EINVAL,
        )?;
        // SAFETY: By the caller's contract, `raw` is valid; the peer's struct begins with its size.
        unsafe {
            let srx = (*raw).srx.as_ref().ok_or(Errno::EINVAL)?;
            let ops = checked_struct::<fi_ops_srx_peer>(srx.peer_ops.cast())?;
            let (start, discard) = match is_tagged {
                false => (ops.start_msg, ops.discard_msg),
                true => (ops.start_tag, ops.discard_tag),
            };
            let calls = Calls {
                start: start.ok_or(Errno::EINVAL)?,
                discard: discard.ok_or(Errno::EINVAL)?,
            };
            this.queued_entries.set_calls(calls, is_tagged);
            (*this.cells.get()).calls = Some(calls);
        }
        let queued_entries = this.queued_entries.clone();
        let exported = queued_entries.exported_receives().ok_or(Errno::EINVAL)?;
        this.state.store(QUEUED, Relaxed);
        let _ = queued_entries.peer_owned.fetch_sub(1usize, Relaxed);
        match exported.queue(this.tag, entry.expose_provenance()) {
            // Another thread may have freed the entry by now.
            Ok(None) => {}
            Ok(Some(receive)) => {
                // SAFETY: The entry is not in the owner's queue, and is in no other list.
                unsafe {
                    (*this.cells.get()).receive = Some(receive);
                    queued_entries.pool.entries.lock().push(entry);
                }
                queued_entries.work.queue();
            }
            Err(errno) => {
                let _ = queued_entries.peer_owned.fetch_add(1usize, Relaxed);
                this.state.store(OWNED_BY_PEER, Relaxed);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Passes the entry to the peer with the receive `receive`, or with the one that it has.
    ///
    /// # Safety
    ///
    /// The entry has been taken from the owner's queue or from a list.
    unsafe fn start_message(entry: *mut Self, receive: Option<MatchedReceive>) {
        // SAFETY: By the caller's contract, the entry is this thread's until it is passed to the peer.
        unsafe {
            if let Some(receive) = receive.or_else(|| (*(*entry).cells.get()).receive.take()) {
                Self::set_receive(entry, receive);
            }
            let is_refused = |ret| from_int(ret).is_err();
            Self::pass_to_peer(entry, |raw, calls| {
                if is_refused((calls.start)(raw)) {
                    Self::repost_receive(entry);
                }
            });
        }
    }

    /// Has the peer discard the message of an entry.
    ///
    /// # Safety
    ///
    /// The entry has been taken from the owner's queue or from a list, and has no receive.
    unsafe fn discard_message(entry: *mut Self) {
        // SAFETY: By the caller's contract, the entry is this thread's until it is passed to the peer.
        unsafe {
            Self::pass_to_peer(entry, |raw, calls| {
                let _ = (calls.discard)(raw);
            });
        }
    }

    /// Passes an entry to the peer by `call`. Frees the entry if the peer has freed it before or during the
    /// call, or if the peer's module has been unloaded.
    ///
    /// # Safety
    ///
    /// The entry has been taken from the owner's queue or from a list.
    unsafe fn pass_to_peer(entry: *mut Self, call: impl FnOnce(*mut fi_peer_rx_entry, Calls)) {
        // SAFETY: By the caller's contract, the entry is valid until this thread changes its state to `OWNED_BY_PEER`.
        let this = unsafe { &*entry };
        let queued_entries = this.queued_entries.clone();
        let pass = queued_entries.rundown.begin_call();
        if pass.is_none() || this.state.cmpxchg(QUEUED, STARTING, Full).is_err() {
            // A failed cmpxchg orders nothing: an acquire makes the peer's writes to the entry visible.
            let _ = this.state.load(Acquire);
            // SAFETY: The peer has freed the entry, or its module is unloaded.
            unsafe {
                Self::repost_receive(entry);
                Self::destroy(entry);
            }
            return;
        }
        let _ = queued_entries.peer_owned.fetch_add(1usize, Relaxed);
        // SAFETY: This thread has exclusive access, as it has changed the state to `STARTING`.
        if let Some(calls) = unsafe { (*this.cells.get()).calls } {
            call(entry.cast(), calls);
        }
        if this.state.xchg(OWNED_BY_PEER, Full) == FREED {
            // SAFETY: The peer has freed the entry during the call.
            unsafe { Self::destroy(entry) };
            let _ = queued_entries.peer_owned.fetch_sub(1usize, Full);
        }
    }

    /// Frees an entry of a peer, for `fi_ops_srx_owner::free_entry`. Any context.
    ///
    /// # Safety
    ///
    /// `raw` is NULL, or came from [`QueuedEntries::new_entry`] and has not been freed.
    pub(super) unsafe fn free_by_peer(raw: *mut fi_peer_rx_entry) {
        let entry = raw.cast::<Self>();
        // SAFETY: By the caller's contract, `raw` is NULL or an entry.
        let Some(this) = (unsafe { entry.as_ref() }) else {
            return;
        };
        let queued_entries = this.queued_entries.clone();
        loop {
            let state = this.state.load(Acquire);
            match state {
                OWNED_BY_PEER => {
                    // SAFETY: The peer owns the entry, and gives it up.
                    unsafe { Self::destroy(entry) };
                    let _ = queued_entries.peer_owned.fetch_sub(1usize, Full);
                    return;
                }
                QUEUED => {
                    let number = entry.expose_provenance();
                    let exported = queued_entries.exported_receives();
                    if exported.is_some_and(|exported| exported.cancel(number)) {
                        // SAFETY: The entry has left the owner's queue, so no other thread takes it.
                        unsafe { Self::destroy(entry) };
                        return;
                    }
                }
                _ => {}
            }
            // The thread that passes the entry to the peer frees it.
            if this.state.cmpxchg(state, FREED, Full).is_ok() {
                return;
            }
        }
    }
}
