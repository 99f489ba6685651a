// SPDX-License-Identifier: GPL-2.0

//! Shared address vectors.

use super::{
    super::{
        object::{
            self,
            address,
            new_fid,
            UninitObject, //
        },
        ops::fi_ops, //
    },
    checked_struct, //
};
use crate::{
    abi::{
        fi_av_attr,
        fi_ops_av_owner,
        fi_peer_av_context,
        fid_peer_av,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::{
            AddressVector,
            Type, //
        },
        prelude::*, //
    },
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
    impl Object for SharedVectorObject: FI_CLASS_PEER_AV {
        close: fn fi_close(_object) {
            Ok(())
        }
    }
}

/// Calls that peers make on the vector.
static OWNER_OPS: fi_ops_av_owner = fi_ops_av_owner {
    size: size_of::<fi_ops_av_owner>(),
    query: Some(query),
    ep_addr: Some(ep_addr),
};

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
    arg: *mut c_void,
) -> Result {
    // SAFETY: By the contract of `super::export`.
    unsafe { super::export(arg, |fid| new_export(av, addr_format, fid)) }
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
    let slot = UninitObject::<SharedVectorObject>::new()?;
    let made = new_export(
        av,
        addr_format,
        new_fid::<SharedVectorObject>(ptr::null_mut()),
    )?;
    Ok(slot.init(made).cast())
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
        object::from_fid::<SharedVectorObject>(context.av.cast())?
    };
    Ok(owner.av.arc())
}

fi_ops! {
    /// A call of `struct fi_ops_av_owner`.
    fn query(av: *mut fid_peer_av as &SharedVectorObject, attr: *mut fi_av_attr) -> Result {
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

    /// A call of `struct fi_ops_av_owner`. Returns FI_ADDR_NOTAVAIL for an endpoint that is not in the vector.
    fn ep_addr(av: *mut fid_peer_av as *mut fid, ep: *mut fid_ep) -> fi_addr_t {
        let find = || {
            // SAFETY: `av` is NULL or valid.
            let object = unsafe { object::from_fid::<SharedVectorObject>(av)? };
            // SAFETY: `ep` is NULL or valid, and its name has the vector's format.
            let name = unsafe { ep_name(ep, object.addr_format)? };
            Result::Ok(object.av.find(&name))
        };
        find().ok().flatten().unwrap_or(FI_ADDR_NOTAVAIL)
    }
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
        if getname(ep.cast(), name.as_mut_ptr().cast(), &mut len) != 0 {
            return Err(Errno::EINVAL);
        }
        address(addr_format, name.as_ptr().cast(), len)
    }
}
