// SPDX-License-Identifier: GPL-2.0

//! Address sets for C callers.

use super::{
    av::AvObject,
    nosys,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    peer, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_addr_t,
        fi_av_set_attr,
        fi_ops,
        fi_ops_av_set,
        fid,
        fid_av,
        fid_av_set,
        Errno,
        Result, //
    },
    fi::av_set::{
        AddressSet,
        InitialMembers, //
    },
    util::context::{
        in_process,
        ProcessContext, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An address set, as C callers hold it.
#[repr(C)]
pub(super) struct SetObject {
    fid: fid_av_set,
    /// Collectives that the set was opened for: FI_BARRIER_SET, ...
    collectives: u64,
    set: Arc<AddressSet>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_av_set`, and is the only type with this table.
unsafe impl Object for SetObject {
    const CLASS: u32 = abi::FI_CLASS_AV_SET;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl SetObject {
    /// Returns the Rust object.
    pub(super) fn set(&self) -> &AddressSet {
        &self.set
    }

    /// Returns the collectives that the set was opened for: FI_BARRIER_SET, ...
    pub(super) fn collectives(&self) -> u64 {
        self.collectives
    }
}

static OPS: fi_ops_av_set = fi_ops_av_set {
    set_union: Some(set_union),
    intersect: Some(intersect),
    diff: Some(diff),
    insert: Some(insert),
    remove: Some(remove),
    ..nosys::AV_SET
};

/// Flags for the collectives that a set can be asked to support.
const COLLECTIVES: u64 = abi::FI_BARRIER_SET
    | abi::FI_BROADCAST_SET
    | abi::FI_ALLTOALL_SET
    | abi::FI_ALLREDUCE_SET
    | abi::FI_ALLGATHER_SET
    | abi::FI_REDUCE_SCATTER_SET
    | abi::FI_REDUCE_SET
    | abi::FI_SCATTER_SET
    | abi::FI_GATHER_SET;

/// Implements `fi_av_set()`.
pub(super) unsafe extern "C" fn open(
    av: *mut fid_av,
    attr: *mut fi_av_set_attr,
    out: *mut *mut fid_av_set,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_av_set()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(av.cast(), attr, out, |ctx, av, attr, slot| {
            try_open(ctx, av, attr, slot, context)
        })
    })
}

/// # Safety
///
/// The contract of `fi_av_set()`.
unsafe fn try_open(
    ctx: ProcessContext,
    av: &AvObject,
    attr: &mut fi_av_set_attr,
    slot: UninitObject<SetObject>,
    context: *mut c_void,
) -> Result<*mut SetObject> {
    let initial = initial_members(attr)?;
    let collectives = attr.flags & COLLECTIVES;
    // These flags need an offload provider.
    if collectives != 0 && !av.av().has_offload() {
        return Err(Errno::EOPNOTSUPP);
    }
    let set = match attr.flags & abi::FI_PEER_AV {
        0 => AddressSet::new(ctx, av.av(), attr.count, initial)?,
        _ => {
            // SAFETY: By the contract of `fi_av_set()`.
            let owner = unsafe { peer::owner_av_set(context)? };
            AddressSet::peer(ctx, av.av(), owner)?
        }
    };
    Ok(slot.init(SetObject {
        fid: fid_av_set {
            fid: new_fid::<SetObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        collectives,
        set,
    }))
}

fn initial_members(attr: &fi_av_set_attr) -> Result<InitialMembers> {
    if attr.flags & !(abi::FI_UNIVERSE | abi::FI_PEER_AV | COLLECTIVES) != 0 {
        return Err(Errno::EBADFLAGS);
    }
    if attr.comm_key_size > 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let is_universe = attr.flags & abi::FI_UNIVERSE != 0;
    let is_peer = attr.flags & abi::FI_PEER_AV != 0;
    match (attr.start_addr, attr.end_addr) {
        // The owner's set determines the members.
        _ if is_peer && is_universe => Err(Errno::EINVAL),
        _ if is_peer => Ok(InitialMembers::Empty),
        (abi::FI_ADDR_NOTAVAIL, abi::FI_ADDR_NOTAVAIL) if is_universe => {
            Ok(InitialMembers::Universe)
        }
        (abi::FI_ADDR_NOTAVAIL, abi::FI_ADDR_NOTAVAIL) => Ok(InitialMembers::Empty),
        (abi::FI_ADDR_NOTAVAIL, _) | (_, abi::FI_ADDR_NOTAVAIL) => Err(Errno::EINVAL),
        _ if is_universe => Err(Errno::EINVAL),
        (start, end) => Ok(InitialMembers::Range {
            start,
            end,
            stride: attr.stride,
        }),
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<SetObject>(fid, |object| object.set.close()) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<SetObject>(fid).and_then(|object| {
            peer::check_export(command)?;
            peer::export_av_set(&object.set, arg)
        })
    })
}

/// # Safety
///
/// `set` is NULL or valid for `'a`.
unsafe fn set_from_fid<'a>(set: *const fid_av_set) -> Result<&'a AddressSet> {
    // SAFETY: By the caller's contract, `set` is NULL or valid for `'a`.
    unsafe { object::from_fid::<SetObject>(set.cast_mut().cast()) }.map(|object| &*object.set)
}

/// Calls `f` with the sets `dst` and `src`. -FI_EOPBADSTATE in atomic context.
///
/// # Safety
///
/// `dst` and `src` are NULL or valid.
unsafe fn with_both(
    dst: *mut fid_av_set,
    src: *const fid_av_set,
    f: impl FnOnce(&AddressSet, ProcessContext, &AddressSet) -> Result,
) -> c_int {
    // SAFETY: By the caller's contract, `dst` and `src` are NULL or valid.
    let both = unsafe { set_from_fid(dst).and_then(|dst| Ok((dst, set_from_fid(src)?))) };
    into_int(both.and_then(|(dst, src)| f(dst, in_process()?, src)))
}

unsafe extern "C" fn set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: By the contract of `fi_av_set_union()`.
    unsafe { with_both(dst, src, AddressSet::unite) }
}

unsafe extern "C" fn intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: By the contract of `fi_av_set_intersect()`.
    unsafe { with_both(dst, src, AddressSet::intersect) }
}

unsafe extern "C" fn diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: By the contract of `fi_av_set_diff()`.
    unsafe { with_both(dst, src, AddressSet::subtract) }
}

unsafe extern "C" fn insert(this: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: By the contract of `fi_av_set_insert()`.
    into_int(unsafe { set_from_fid(this) }.and_then(|set| set.insert(in_process()?, addr)))
}

unsafe extern "C" fn remove(this: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: By the contract of `fi_av_set_remove()`.
    into_int(unsafe { set_from_fid(this) }.and_then(|set| set.remove(in_process()?, addr)))
}
