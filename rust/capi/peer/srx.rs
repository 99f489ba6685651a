// SPDX-License-Identifier: GPL-2.0

//! Shared receives: exported contexts, from which another module's messages take receives, and imported
//! contexts of another module, from which kOFI's messages take receives.

mod import;
mod rx_entry;

pub(in super::super) use self::import::import_srx;

use self::rx_entry::{
    Entry,
    QueuedEntries, //
};
use super::{
    super::{
        nosys,
        object::{
            self,
            Object, //
        },
    },
    checked_struct, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_addr_t,
        fi_ops,
        fi_ops_srx_owner,
        fi_ops_srx_peer,
        fi_peer_rx_entry,
        fi_peer_srx_context,
        fid,
        fid_peer_srx,
        Errno,
        Result, //
    },
    fi::{
        object::ChildRef,
        srx::SharedReceive, //
    },
    util::callback::{
        Caller,
        Functions,
        Registered, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Object behind a context's `struct fid_peer_srx`, which is its first field.
///
/// `fid.peer_ops` points to `peer_ops`, where the peer writes its calls, or to a struct of the peer.
#[repr(C)]
struct SharedReceiveObject {
    fid: fid_peer_srx,
    _peer_ops: KBox<Opaque<fi_ops_srx_peer>>,
    /// Registration of the peer's calls.
    _registered: Registered,
    queued_entries: Arc<QueuedEntries>,
    srx: ChildRef<SharedReceive>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_peer_srx`, and is the only type with this table.
unsafe impl Object for SharedReceiveObject {
    const CLASS: u32 = abi::FI_CLASS_PEER_SRX;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, None);
        &OPS
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<SharedReceiveObject>(fid, |object| object.queued_entries.close())
    })
}

/// Calls that peers make on the context.
static OWNER_OPS: fi_ops_srx_owner = fi_ops_srx_owner {
    size: size_of::<fi_ops_srx_owner>(),
    get_msg: Some(get_msg),
    get_tag: Some(get_tag),
    queue_msg: Some(queue_msg),
    queue_tag: Some(queue_tag),
    free_entry: Some(free_entry),
};

/// Exports a context (`fi_export_fid()`). May sleep.
///
/// # Errors
///
/// The errors of [`super::export`] and of
/// [`provider::SharedReceive::export`](crate::fi::provider::SharedReceive::export): -FI_ENOSYS if the device
/// holds posted receives, -FI_EINVAL if the context is imported.
///
/// # Safety
///
/// The requirements of [`super::export`].
pub(in super::super) unsafe fn export_srx(srx: &Arc<SharedReceive>, arg: *mut c_void) -> Result {
    // SAFETY: By the contract of `super::export`.
    unsafe {
        super::export(arg, |fid| {
            let srx = ChildRef::new(srx)?;
            let peer_ops = fi_ops_srx_peer {
                size: size_of::<fi_ops_srx_peer>(),
                start_msg: None,
                start_tag: None,
                discard_msg: None,
                discard_tag: None,
            };
            let peer_ops = KBox::new(Opaque::new(peer_ops), GFP_KERNEL)?;
            let queued_entries = QueuedEntries::open(srx.core())?;
            // The peer's calls become known when it queues its first message.
            let title = fmt!("peer of srx {}", srx.arc().number());
            let registered = Registered::new(Functions::EMPTY, title, queued_entries.clone());
            let registered = registered.inspect_err(|_| queued_entries.stop_calls())?;
            Ok(SharedReceiveObject {
                fid: fid_peer_srx {
                    ep_fid: nosys::endpoint(fid),
                    owner_ops: ptr::from_ref(&OWNER_OPS).cast_mut(),
                    peer_ops: peer_ops.get(),
                },
                _peer_ops: peer_ops,
                _registered: registered,
                queued_entries,
                srx,
            })
        })
    }
}

/// Returns the owner's receives in the context of `fi_srx_context()` with FI_PEER: a kOFI context, or the
/// exported object of another module.
///
/// # Errors
///
/// -FI_EINVAL for NULL, and for a struct that is too small.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_srx_context`, with a valid `struct fid_peer_srx` or NULL.
pub(in super::super) unsafe fn owner_srx<'a>(
    context: *mut c_void,
) -> Result<core::result::Result<&'a Arc<SharedReceive>, *mut fid_peer_srx>> {
    // SAFETY: By the caller's contract, `context` is valid; nothing beyond a struct's size is read.
    unsafe {
        let context = checked_struct::<fi_peer_srx_context>(context)?;
        let ours = object::from_fid::<SharedReceiveObject>(context.srx.cast());
        Ok(ours.map(|ours| ours.srx.arc()).map_err(|_| context.srx))
    }
}

/// Implements `fi_ops_srx_owner::get_msg`.
unsafe extern "C" fn get_msg(
    srx: *mut fid_peer_srx,
    addr: fi_addr_t,
    size: usize,
    entry: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: By the contract of `fi_ops_srx_owner::get_msg`.
    into_int(unsafe { get_entry(srx, addr, size, None, entry) })
}

/// Implements `fi_ops_srx_owner::get_tag`.
unsafe extern "C" fn get_tag(
    srx: *mut fid_peer_srx,
    addr: fi_addr_t,
    tag: u64,
    entry: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: By the contract of `fi_ops_srx_owner::get_tag`.
    into_int(unsafe { get_entry(srx, addr, 0, Some(tag), entry) })
}

/// Makes an entry for a message. Without a matching receive, returns -FI_ENOENT and an entry to queue the
/// message with.
///
/// # Safety
///
/// `srx` is NULL or valid, and `out` is NULL or valid for writing.
unsafe fn get_entry(
    srx: *mut fid_peer_srx,
    addr: fi_addr_t,
    size: usize,
    tag: Option<u64>,
    out: *mut *mut fi_peer_rx_entry,
) -> Result {
    // SAFETY: By the caller's contract, `srx` and `out` are NULL or valid.
    let (object, out) = unsafe {
        (
            object::from_fid::<SharedReceiveObject>(srx.cast())?,
            out.as_mut().ok_or(Errno::EINVAL)?,
        )
    };
    let (entry, has_receive) = object.queued_entries.new_entry(srx, addr, size, tag)?;
    *out = entry;
    match has_receive {
        true => Ok(()),
        false => Err(Errno::ENOENT),
    }
}

/// Implements `fi_ops_srx_owner::queue_msg`.
unsafe extern "C" fn queue_msg(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: By the contract of `fi_ops_srx_owner::queue_msg`.
    into_int(unsafe { Entry::queue_message(entry, false) })
}

/// Implements `fi_ops_srx_owner::queue_tag`.
unsafe extern "C" fn queue_tag(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: By the contract of `fi_ops_srx_owner::queue_tag`.
    into_int(unsafe { Entry::queue_message(entry, true) })
}

/// Implements `fi_ops_srx_owner::free_entry`.
unsafe extern "C" fn free_entry(entry: *mut fi_peer_rx_entry) {
    // SAFETY: By the contract of `fi_ops_srx_owner::free_entry`.
    unsafe { Entry::free_by_peer(entry) };
}
