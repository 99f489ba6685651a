// SPDX-License-Identifier: GPL-2.0

//! Imported receives, which another module's provider owns.

use super::{
    super::super::prelude::*,
    check_class,
    checked_struct, //
};
use crate::{
    abi::errno::{
        from_int,
        into_int, //
    },
    fi::{
        rundown::Rundown,
        srx::{
            GetResult,
            MatchedReceive,
            MessageInfo,
            MessageStarter,
            ReceiveOwner,
            MAX_SEGMENTS, //
        },
    },
    util::callback::{
        Caller,
        Functions,
        Registered, //
    },
};

/// A `struct fi_peer_rx_entry` of another module.
type Raw = *mut fi_peer_rx_entry;

/// Receives that another module's provider owns.
///
/// `rundown` admits calls until the owner's module is unloaded. The exported object, its calls and its entries
/// are used only within admitted calls.
///
/// # Invariants
///
/// As long as `rundown` admits calls, `srx` is valid and has all of its calls, and a struct for the peer's calls
/// unless that is NULL.
#[pin_data]
struct ImportedSrx {
    #[pin]
    rundown: Rundown,
    srx: *mut fid_peer_srx,
    /// The owner's struct for the peer's calls, or NULL.
    peer_ops: *mut fi_ops_srx_peer,
    get_msg: unsafe extern "C" fn(*mut fid_peer_srx, fi_addr_t, usize, *mut Raw) -> c_int,
    get_tag: unsafe extern "C" fn(*mut fid_peer_srx, fi_addr_t, u64, *mut Raw) -> c_int,
    queue_msg: unsafe extern "C" fn(Raw) -> c_int,
    queue_tag: unsafe extern "C" fn(Raw) -> c_int,
    free_entry: unsafe extern "C" fn(Raw),
    /// Starter of the messages that are queued with the owner. The lock is a leaf.
    #[pin]
    starter: FastLockIrq<Option<Arc<dyn MessageStarter>>>,
}

// SAFETY: The owner's calls are legal in any context, and take their own locks.
unsafe impl Send for ImportedSrx {}

// SAFETY: As above.
unsafe impl Sync for ImportedSrx {}

impl Caller for ImportedSrx {
    fn stop_calls(&self) {
        self.rundown.run_down();
    }
}

/// Receives of another module's provider, and the registration of its calls.
struct Calls {
    imported: Arc<ImportedSrx>,
    _registered: Registered,
}

/// The calls of kOFI as a peer.
static PEER_OPS: fi_ops_srx_peer = fi_ops_srx_peer {
    size: size_of::<fi_ops_srx_peer>(),
    start_msg: Some(start::<false>),
    start_tag: Some(start::<true>),
    discard_msg: Some(discard),
    discard_tag: Some(discard),
};

/// Imports the receives of a `struct fid_peer_srx` of another module, from the context of `fi_srx_context()`
/// with FI_PEER.
///
/// # Errors
///
/// -FI_EINVAL for NULL, an object of another class, a struct that is too small, or a missing call;
/// -FI_ENOMEM.
///
/// # Safety
///
/// `srx` is NULL, or valid until the peer's context has no operation in progress.
pub(in super::super::super) unsafe fn import_srx(
    srx: *mut fid_peer_srx,
) -> Result<KBox<dyn ReceiveOwner>> {
    // SAFETY: By the caller's contract, `srx` is NULL or valid; nothing beyond a struct's size is read.
    let (ops, peer_ops) = unsafe {
        check_class(srx.cast(), abi::FI_CLASS_PEER_SRX)?;
        let (owner_ops, peer_ops) = ((*srx).owner_ops, (*srx).peer_ops);
        if !peer_ops.is_null() {
            checked_struct::<fi_ops_srx_peer>(peer_ops.cast())?;
        }
        (
            checked_struct::<fi_ops_srx_owner>(owner_ops.cast())?,
            peer_ops,
        )
    };
    let (get_msg, get_tag) = ops.get_msg.zip(ops.get_tag).ok_or(Errno::EINVAL)?;
    let (queue_msg, queue_tag) = ops.queue_msg.zip(ops.queue_tag).ok_or(Errno::EINVAL)?;
    let free_entry = ops.free_entry.ok_or(Errno::EINVAL)?;
    // INVARIANT: By the caller's contract, `srx` is valid, and `checked_struct` has checked its structs.
    let imported = Arc::pin_init(
        pin_init!(ImportedSrx {
            rundown <- Rundown::new(),
            srx,
            peer_ops,
            get_msg,
            get_tag,
            queue_msg,
            queue_tag,
            free_entry,
            starter <- FastLockIrq::new(None, c"kofi::capi::ImportedSrx", static_lock_class!()),
        }),
        GFP_KERNEL,
    )?;
    let functions = Functions::from_array([
        get_msg as *const (),
        get_tag as *const (),
        queue_msg as *const (),
        queue_tag as *const (),
        free_entry as *const (),
    ]);
    let registered = Registered::new(functions, fmt!("peer srx"), imported.clone())?;
    let calls = Calls {
        imported,
        _registered: registered,
    };
    Ok(KBox::new(calls, GFP_KERNEL)?)
}

impl ImportedSrx {
    /// Writes kOFI's calls to the exported object, or removes them.
    fn set_peer_ops(&self, is_attached: bool) {
        let Some(_pass) = self.rundown.begin_call() else {
            return;
        };
        let calls = match is_attached {
            true => PEER_OPS,
            false => pin_init::zeroed(),
        };
        // SAFETY: By the invariant, `srx` is valid; a peer may write its calls.
        unsafe {
            match self.peer_ops.as_mut() {
                Some(ops) => {
                    let size = ops.size;
                    *ops = fi_ops_srx_peer { size, ..calls };
                }
                None if is_attached => (*self.srx).peer_ops = ptr::from_ref(&PEER_OPS).cast_mut(),
                None => (*self.srx).peer_ops = ptr::null_mut(),
            }
        }
    }
}

/// Calls return -FI_EOPBADSTATE after the owner's module has been unloaded.
impl ReceiveOwner for Calls {
    fn set_starter(&self, starter: Option<Arc<dyn MessageStarter>>) {
        self.imported.set_peer_ops(starter.is_some());
        let before = mem::replace(&mut *self.imported.starter.lock(), starter);
        drop(before);
    }

    fn get(&self, arrived: &MessageInfo) -> Result<GetResult> {
        let imported = &*self.imported;
        let _pass = imported.rundown.begin_call().ok_or(Errno::EOPBADSTATE)?;
        let mut entry = ptr::null_mut();
        // SAFETY: By the invariant, the owner's calls are valid.
        let ret = from_int(unsafe {
            match arrived.tag {
                None => (imported.get_msg)(imported.srx, arrived.source, arrived.len, &mut entry),
                Some(tag) => (imported.get_tag)(imported.srx, arrived.source, tag, &mut entry),
            }
        });
        match ret {
            Ok(_) if !entry.is_null() => {
                // SAFETY: The owner guarantees that an entry which it returns is valid.
                let receive = unsafe { matched_receive(entry, arrived.tag) };
                Ok(GetResult::Matched(receive))
            }
            Err(Errno::ENOENT) if !entry.is_null() => {
                Ok(GetResult::Unmatched(entry.expose_provenance()))
            }
            Err(errno) => Err(errno),
            Ok(_) => Err(Errno::EINVAL),
        }
    }

    fn queue(&self, arrived: &MessageInfo, ticket: usize) -> Result {
        let imported = &*self.imported;
        let _pass = imported.rundown.begin_call().ok_or(Errno::EOPBADSTATE)?;
        let entry: Raw = ptr::with_exposed_provenance_mut(ticket);
        // SAFETY: By the invariant; the peer owns the entry, and may write `peer_context`.
        let ret = unsafe {
            (*entry).peer_context = ptr::from_ref(imported).cast_mut().cast();
            match arrived.tag {
                None => (imported.queue_msg)(entry),
                Some(_) => (imported.queue_tag)(entry),
            }
        };
        from_int(ret).map(|_| ())
    }

    fn free(&self, ticket: usize) {
        if let Some(_pass) = self.imported.rundown.begin_call() {
            // SAFETY: By the invariant; a ticket is the address of an entry that the peer owns.
            unsafe { (self.imported.free_entry)(ptr::with_exposed_provenance_mut(ticket)) };
        }
    }

    fn set_next(&self, ticket: usize, next: usize) {
        let entry: Raw = ptr::with_exposed_provenance_mut(ticket);
        if let Some(_pass) = self.imported.rundown.begin_call() {
            // SAFETY: A ticket points to an entry that the peer owns, and the peer may write that field.
            unsafe { (*entry).next = ptr::with_exposed_provenance_mut(next) };
        }
    }

    fn next(&self, ticket: usize) -> usize {
        let entry: Raw = ptr::with_exposed_provenance_mut(ticket);
        match self.imported.rundown.begin_call() {
            // SAFETY: A ticket points to an entry that the peer owns.
            Some(_pass) => unsafe { (*entry).next }.expose_provenance(),
            None => 0,
        }
    }
}

/// Returns the receive of an entry, for a message with the given tag. A receive of more than [`MAX_SEGMENTS`]
/// segments is treated as one without memory: the message is truncated.
///
/// # Safety
///
/// `entry` is valid, and its memory is valid until the peer frees the entry.
unsafe fn matched_receive(entry: Raw, tag: Option<u64>) -> MatchedReceive {
    // SAFETY: By the caller's contract, `entry` is valid.
    let entry = unsafe { &*entry };
    let iov: &[kvec] = match entry.iov.is_null() || entry.count > MAX_SEGMENTS {
        true => &[],
        // SAFETY: By the caller's contract, `iov` has `count` entries.
        false => unsafe { slice::from_raw_parts(entry.iov, entry.count) },
    };
    let mut given = iov.iter();
    let parts = [(); MAX_SEGMENTS].map(|()| {
        let (base, len) = given
            .next()
            .map_or((ptr::null_mut(), 0), |part| (part.iov_base, part.iov_len));
        // SAFETY: By the caller's contract, the memory is valid.
        unsafe { Segment::new(base, len) }
    });
    MatchedReceive {
        entry: ptr::from_ref(entry).expose_provenance(),
        segments: parts,
        // Descriptors are of regions of the owner's domain, and are not valid for another device.
        descriptors: [Descriptor::NONE; MAX_SEGMENTS],
        context: Context::new(entry.context),
        tag: tag.map(|tag| (tag, 0)),
        reports_success: entry.flags & FI_COMPLETION != 0,
    }
}

/// Returns the starter of the message that an entry was queued for.
///
/// # Errors
///
/// -FI_EINVAL for NULL, and after the peer's context has been closed.
///
/// # Safety
///
/// `entry` is NULL, or has been queued through [`ImportedSrx`].
unsafe fn message_starter(entry: Raw) -> Result<Arc<dyn MessageStarter>> {
    // SAFETY: By the caller's contract; `peer_context` is the `ImportedSrx` that queued the entry.
    let imported = unsafe {
        entry
            .as_ref()
            .and_then(|entry| entry.peer_context.cast::<ImportedSrx>().as_ref())
    };
    let starter = imported.and_then(|imported| imported.starter.lock().clone());
    starter.ok_or(Errno::EINVAL)
}

/// Implements `fi_ops_srx_peer::start_msg` and `start_tag`: passes a receive that the owner has matched to the
/// message of a queued entry.
///
/// # Safety
///
/// `entry` is NULL or valid, and was queued by this module.
unsafe extern "C" fn start<const IS_TAGGED: bool>(entry: Raw) -> c_int {
    // SAFETY: By this function's contract, the owner passes an entry that this module has queued.
    into_int(unsafe {
        message_starter(entry).and_then(|starter| {
            let tag = IS_TAGGED.then(|| (*entry).tag);
            starter.start(matched_receive(entry, tag))
        })
    })
}

/// Implements `fi_ops_srx_peer::discard_msg` and `discard_tag`.
///
/// # Safety
///
/// `entry` is NULL or valid, and was queued by this module.
unsafe extern "C" fn discard(entry: Raw) -> c_int {
    // SAFETY: By this function's contract, the entry is NULL or queued.
    into_int(unsafe {
        message_starter(entry).and_then(|starter| starter.discard(entry.expose_provenance()))
    })
}
