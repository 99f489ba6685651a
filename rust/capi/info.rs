// SPDX-License-Identifier: GPL-2.0

//! Exported functions of `rdma/fabric.h` and `rdma/fi_errno.h`.

use super::{
    fabric::{
        self,
        opt_cstr, //
    },
    opened::{
        self,
        Named,
        Objects, //
    },
    prelude::*,
    prov_registry::{
        self,
        InfoRequest, //
    },
};
use crate::{
    abi::{
        errno::{
            self,
            into_int, //
        },
        info::{
            free_raw_list,
            into_raw_list,
            InfoList, //
        },
        tostr, //
    },
    fi::{
        info::{
            getinfo,
            Query, //
        },
        introspect::Owner, //
    },
};

/// Implements `fi_version()`.
#[no_mangle]
pub(crate) extern "C" fn fi_version() -> u32 {
    VERSION
}

/// Implements `fi_getinfo_by()`.
///
/// # Safety
///
/// The contract of `fi_getinfo_by()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_getinfo_by(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
    owner: *const c_char,
) -> c_int {
    // SAFETY: By the contract of `fi_getinfo_by()`.
    let hints = (!hints.is_null()).then(|| unsafe { Info::from_ptr(hints) });
    let request = InfoRequest {
        version,
        node,
        service,
        flags,
        hints,
    };
    // SAFETY: By the contract of `fi_getinfo_by()`.
    into_int(unsafe { try_getinfo(&request, info, owner) })
}

/// # Safety
///
/// The pointers in `request` are NULL or valid, `out` is NULL or valid for writing, and `owner` is NULL or a string.
unsafe fn try_getinfo(
    request: &InfoRequest<'_>,
    out: *mut *mut fi_info,
    owner: *const c_char,
) -> Result {
    ensure(!out.is_null(), Errno::EINVAL)?;
    // SAFETY: By the contract of `fi_getinfo_by()` the arguments are valid, `out` is not NULL, and the
    // namespace of the hints outlives the call.
    let (query, owner) = unsafe {
        *out = ptr::null_mut();
        let hints = request.hints;
        let query = Query {
            node: opt_cstr(request.node),
            service: opt_cstr(request.service),
            source: request.flags & abi::FI_SOURCE != 0,
            hints,
            net: hints.filter(|it| it.has_net()).map(|it| it.net()),
        };
        (query, Owner::module(opt_cstr(owner).unwrap_or(c"")))
    };
    in_process()?;
    let opened = opened::List::snapshot()?;
    let named = opened.find_named(query.hints)?;
    let (providers, within): (&[_], _) = match &named {
        Named::Unrestricted => (&crate::PROVIDERS, None),
        Named::Own(objects) => (&crate::PROVIDERS, Some(objects)),
        Named::Foreign => (&[], None),
    };
    let restricted = within.map(Objects::as_open_objects);
    let (version, flags) = (request.version, request.flags);
    let mut found = match getinfo(providers, version, flags, &query, restricted) {
        Err(Errno::ENODATA) => InfoList::new(),
        found => found?,
    };
    opened.set_names(&mut found, within, &owner);
    if within.is_none() {
        // SAFETY: By the contract of `fi_getinfo_by()`.
        unsafe { prov_registry::getinfo(request, &mut found)? };
    }
    ensure(!found.is_empty(), Errno::ENODATA)?;
    // SAFETY: `out` is not NULL, and valid by the contract of `fi_getinfo_by()`.
    unsafe { *out = into_raw_list(found) };
    Ok(())
}

/// Implements `fi_freeinfo()`.
///
/// # Safety
///
/// The contract of `fi_freeinfo()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_freeinfo(info: *mut fi_info) {
    // SAFETY: By the contract of `fi_freeinfo()`.
    unsafe { free_raw_list(info) };
}

/// Implements `fi_dupinfo()`.
///
/// # Safety
///
/// The contract of `fi_dupinfo()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_dupinfo(info: *const fi_info) -> *mut fi_info {
    let copy = if info.is_null() {
        Info::new()
    } else {
        // SAFETY: By the contract of `fi_dupinfo()`.
        unsafe { Info::from_ptr(info) }.duplicate()
    };
    copy.map_or(ptr::null_mut(), Info::into_raw)
}

/// Implements `fi_fabric_by()`.
///
/// # Safety
///
/// The contract of `fi_fabric_by()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_fabric_by(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
    owner: *const c_char,
) -> c_int {
    // SAFETY: By the contract of `fi_fabric_by()`.
    into_int(unsafe { fabric::open(attr, fabric, context, owner) })
}

/// Implements `fi_strerror()`.
#[no_mangle]
pub(crate) extern "C" fn fi_strerror(errnum: c_int) -> *const c_char {
    errno::strerror(errnum).as_char_ptr()
}

/// Implements `fi_tostr()`.
///
/// # Safety
///
/// The contract of `fi_tostr()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_tostr(data: *const c_void, datatype: fi_type) -> *mut c_char {
    // SAFETY: By the contract of `fi_tostr()`.
    unsafe { tostr::tostr_static(data, datatype) }
}

/// Implements `fi_tostr_r()`.
///
/// # Safety
///
/// The contract of `fi_tostr_r()` in `rdma/fabric.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_tostr_r(
    buf: *mut c_char,
    len: usize,
    data: *const c_void,
    datatype: fi_type,
) -> *mut c_char {
    if buf.is_null() || data.is_null() || len == 0 {
        return ptr::null_mut();
    }
    // SAFETY: By the contract of `fi_tostr_r()`; the buffer is initialised before it is made a slice.
    let known = unsafe {
        buf.write_bytes(0, len);
        let space = slice::from_raw_parts_mut(buf.cast(), len);
        tostr::write_value(data, datatype, &mut tostr::Text::new(space))
    };
    match known {
        true => buf,
        false => ptr::null_mut(),
    }
}
