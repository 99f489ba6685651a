// SPDX-License-Identifier: GPL-2.0

//! Shared address vectors.

use super::{
    super::{
        object::address,
        prelude::*, //
    },
    checked_struct, //
};
use crate::fi::av::{
    AddressVector,
    Type, //
};

/// Maximum length of an endpoint's name.
const MAX_NAME_LEN: usize = 128;

/// An exported address vector, which begins with its `struct fid_peer_av`.
#[repr(C)]
struct SharedVectorObject {
    fid: fid_peer_av,
    av: ChildRef<AddressVector>,
    /// Format of the names of endpoints in the vector.
    addr_format: u32,
}

fi_ops! {
    impl Object for SharedVectorObject: FI_CLASS_PEER_AV {}
}

fi_ops! {
    /// Calls that peers make on the vector.
    static OWNER_OPS: fi_ops_av_owner {
        query: fn query(av: &SharedVectorObject, attr) -> Result {
            // SAFETY: `attr` is NULL or valid.
            *unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)? = fi_av_attr {
                type_: match av.av.kind() {
                    Type::Map => abi::FI_AV_MAP,
                    Type::Table => abi::FI_AV_TABLE,
                },
                rx_ctx_bits: av.av.rx_ctx_bits() as c_int,
                count: av.av.count(),
                ..pin_init::zeroed()
            };
            Ok(())
        }

        // Returns FI_ADDR_NOTAVAIL for an endpoint that is not in the vector.
        ep_addr: fn ep_addr(av: *mut fid, ep) -> fi_addr_t {
            // SAFETY: `av` is NULL or valid.
            let object = unsafe { from_fid::<SharedVectorObject>(av) };
            let found = object.and_then(|object| {
                // SAFETY: `ep` is NULL or valid, and its name has the vector's format.
                let name = unsafe { ep_name(ep, object.addr_format)? };
                Ok(object.av.find(&name))
            });
            found.ok().flatten().unwrap_or(FI_ADDR_NOTAVAIL)
        }
    }
}

/// Exports a vector whose addresses have the given format (`fi_export_fid()`). May sleep.
///
/// # Errors
///
/// The errors of [`super::export`].
///
/// # Safety
///
/// The requirements of [`super::export`].
pub(in super::super) unsafe fn export_av(
    av: &Arc<AddressVector>,
    addr_format: u32,
    command: c_int,
    arg: *mut c_void,
) -> Result {
    // SAFETY: By the contract of `super::export`.
    unsafe { super::export(command, arg, |fid| new_export(av, addr_format, fid)) }
}

/// Exports a vector for use by kOFI itself; the caller closes the returned object. May sleep.
///
/// # Errors
///
/// -FI_EINVAL if the vector has been closed, -FI_ENOMEM.
pub(in super::super) fn export_internal(
    av: &Arc<AddressVector>,
    addr_format: u32,
) -> Result<*mut fid> {
    let mut object = ptr::null_mut();
    // SAFETY: `object` is valid.
    let slot = unsafe { Opening::new(&mut object)? };
    slot.open(new_export(
        av,
        addr_format,
        new_fid::<SharedVectorObject>(ptr::null_mut()),
    )?)?;
    Ok(object)
}

fn new_export(av: &Arc<AddressVector>, addr_format: u32, fid: fid) -> Result<SharedVectorObject> {
    Ok(SharedVectorObject {
        fid: fid_peer_av {
            fid,
            owner_ops: ptr::from_ref(&OWNER_OPS).cast_mut(),
        },
        av: ChildRef::new(av)?,
        addr_format,
    })
}

/// Returns the owner's vector in the context of `fi_av_open()` with FI_PEER. The vector must be kOFI's: the
/// addresses in another module's vector cannot be read.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for a vector of another module.
///
/// # Safety
///
/// `context` is NULL or a valid `struct fi_peer_av_context`.
pub(in super::super) unsafe fn owner_av<'a>(
    context: *mut c_void,
) -> Result<&'a Arc<AddressVector>> {
    // SAFETY: By the caller's contract, `context` is NULL or valid; nothing beyond a struct's size is read.
    let owner = unsafe {
        let context = checked_struct::<fi_peer_av_context>(context)?;
        from_fid::<SharedVectorObject>(context.av.cast())?
    };
    Ok(owner.av.arc())
}

/// Returns the name of an endpoint of any provider.
///
/// # Safety
///
/// `ep` is NULL or valid, and its name has the given format.
unsafe fn ep_name(ep: *mut fid_ep, addr_format: u32) -> Result<SocketAddr> {
    let mut name = [0u8; MAX_NAME_LEN];
    let mut len = name.len();
    // SAFETY: By the caller's contract, `ep` is NULL or valid; `getname` writes an address of `addr_format`.
    unsafe {
        let cm = ep.as_ref().and_then(|ep| ep.cm.as_ref());
        let getname = cm.and_then(|cm| cm.getname).ok_or(Errno::EINVAL)?;
        ensure(
            getname(ep.cast(), name.as_mut_ptr().cast(), &mut len) == 0,
            Errno::EINVAL,
        )?;
        address(addr_format, name.as_ptr().cast(), len)
    }
}
