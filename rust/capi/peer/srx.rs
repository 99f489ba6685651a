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
        prelude::*, //
    },
    check_class,
    checked_struct, //
};
use crate::{
    abi::errno::into_int,
    fi::srx::SharedReceive,
    util::callback::{
        Caller,
        Functions,
        Registered, //
    },
};
use kernel::types::Opaque;

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

fi_ops! {
    impl Object for SharedReceiveObject: FI_CLASS_PEER_SRX {}
    close(srx) {
        srx.queued_entries.close()
    }
}

fi_ops! {
    /// Calls that peers make on the context.
    static OWNER_OPS: fi_ops_srx_owner {
        get_msg: fn get_msg(srx: &SharedReceiveObject, addr, size, entry) -> Result {
            // SAFETY: `entry` is NULL or valid.
            unsafe { srx.get_entry(addr, size, None, entry) }
        }

        get_tag: fn get_tag(srx: &SharedReceiveObject, addr, tag, entry) -> Result {
            // SAFETY: `entry` is NULL or valid.
            unsafe { srx.get_entry(addr, 0, Some(tag), entry) }
        }
    }
    with {
        queue_msg: queue_message::<false>,
        queue_tag: queue_message::<true>,
        free_entry: free_entry,
    }
}

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
pub(in super::super) unsafe fn export_srx(
    srx: &Arc<SharedReceive>,
    command: c_int,
    arg: *mut c_void,
) -> Result {
    let make = |fid| {
        let srx = ChildRef::new(srx)?;
        let peer_ops = fi_ops_srx_peer {
            size: size_of::<fi_ops_srx_peer>(),
            ..pin_init::zeroed()
        };
        let peer_ops = KBox::new(Opaque::new(peer_ops), GFP_KERNEL)?;
        let queued_entries = QueuedEntries::open(srx.core())?;
        // The peer's calls become known when it queues its first message.
        let registered = Registered::new(
            Functions::EMPTY,
            fmt!("peer of srx {}", srx.arc().number()),
            queued_entries.clone(),
        );
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
    };
    // SAFETY: By the contract of `super::export`.
    unsafe { super::export(command, arg, make) }
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
        let ours = from_fid::<SharedReceiveObject>(context.srx.cast());
        Ok(ours.map(|ours| ours.srx.arc()).map_err(|_| context.srx))
    }
}

impl SharedReceiveObject {
    /// Makes an entry for a message. Without a matching receive, returns -FI_ENOENT and an entry to queue the
    /// message with.
    ///
    /// # Safety
    ///
    /// `out` is NULL or valid for writing.
    unsafe fn get_entry(
        &self,
        addr: fi_addr_t,
        size: usize,
        tag: Option<u64>,
        out: *mut *mut fi_peer_rx_entry,
    ) -> Result {
        // SAFETY: By the caller's contract, `out` is NULL or valid.
        let out = unsafe { out.as_mut() }.ok_or(Errno::EINVAL)?;
        let srx = ptr::from_ref(self).cast_mut().cast();
        let (entry, has_receive) = self.queued_entries.new_entry(srx, addr, size, tag)?;
        *out = entry;
        ensure(has_receive, Errno::ENOENT)
    }
}

/// Implements `fi_ops_srx_owner::queue_msg` and `queue_tag`.
///
/// # Safety
///
/// `entry` is NULL or an entry of this module that the peer owns.
unsafe extern "C" fn queue_message<const IS_TAGGED: bool>(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: By this function's contract, the peer owns the entry.
    into_int(unsafe { Entry::queue_message(entry, IS_TAGGED) })
}

/// Implements `fi_ops_srx_owner::free_entry`.
///
/// # Safety
///
/// `entry` is NULL or an entry of this module, which the caller does not use any more.
unsafe extern "C" fn free_entry(entry: *mut fi_peer_rx_entry) {
    // SAFETY: By this function's contract, the entry has not been freed.
    unsafe { Entry::free_by_peer(entry) };
}
