// SPDX-License-Identifier: GPL-2.0

//! Address sets for C callers.

use super::{
    av::AvObject,
    object::{
        self,
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
    peer, //
};
use crate::{
    abi::{
        fi_av_set_attr,
        fi_ops_av_set,
        fid_av,
        fid_av_set, //
    },
    fi::{
        av_set::{
            AddressSet,
            InitialMembers, //
        },
        prelude::*, //
    },
};

/// An address set, as C callers hold it.
#[repr(C)]
pub(super) struct SetObject {
    fid: fid_av_set,
    /// Collectives that the set was opened for: FI_BARRIER_SET, ...
    collectives: u64,
    set: Arc<AddressSet>,
}

fi_ops! {
    impl Object for SetObject: FI_CLASS_AV_SET {
        close: fn fi_close(set) {
            set.set.close()
        }

        control: fn fi_control(
            set: *mut fid as &SetObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            peer::check_export(command)?;
            // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
            unsafe { peer::export_av_set(&set.set, arg) }
        }
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

fi_ops! {
    static OPS: fi_ops_av_set {
        set_union: fn fi_av_set_union(
            dst: *mut fid_av_set as &SetObject,
            src: *const fid_av_set,
        ) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { set_from_fid(src)? };
            dst.set.unite(in_process()?, src)
        }

        intersect: fn fi_av_set_intersect(
            dst: *mut fid_av_set as &SetObject,
            src: *const fid_av_set,
        ) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { set_from_fid(src)? };
            dst.set.intersect(in_process()?, src)
        }

        diff: fn fi_av_set_diff(
            dst: *mut fid_av_set as &SetObject,
            src: *const fid_av_set,
        ) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { set_from_fid(src)? };
            dst.set.subtract(in_process()?, src)
        }

        insert: fn fi_av_set_insert(set: *mut fid_av_set as &SetObject, addr: fi_addr_t) -> Result {
            set.set.insert(in_process()?, addr)
        }

        remove: fn fi_av_set_remove(set: *mut fid_av_set as &SetObject, addr: fi_addr_t) -> Result {
            set.set.remove(in_process()?, addr)
        }
    }
}

/// # Safety
///
/// `set` is NULL or valid for `'a`.
unsafe fn set_from_fid<'a>(set: *const fid_av_set) -> Result<&'a AddressSet> {
    // SAFETY: By the caller's contract, `set` is NULL or valid for `'a`.
    unsafe { object::from_fid::<SetObject>(set.cast_mut().cast()) }.map(|object| &*object.set)
}

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

fi_ops! {
    pub(super) fn fi_av_set(
        av: *mut fid_av as InProcess<&AvObject>,
        attr: *mut fi_av_set_attr,
        out: *mut *mut fid_av_set,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
        let (attr, slot) = unsafe { open_args::<_, SetObject, _>(attr, out)? };
        let initial = initial_members(attr)?;
        let collectives = attr.flags & COLLECTIVES;
        // These flags need an offload provider.
        if collectives != 0 && !av.av().has_offload() {
            return Err(Errno::EOPNOTSUPP);
        }
        let set = match attr.flags & abi::FI_PEER_AV {
            0 => AddressSet::new(av.ctx, av.av(), attr.count, initial)?,
            _ => {
                // SAFETY: With FI_PEER_AV, `context` is NULL or a `struct fi_peer_av_set_context` whose set
                // outlives the new one.
                let owner = unsafe { peer::owner_av_set(context)? };
                AddressSet::peer(av.ctx, av.av(), owner)?
            }
        };
        slot.open(SetObject {
            fid: fid_av_set {
                fid: new_fid::<SetObject>(context),
                ops: ptr::from_ref(&OPS).cast_mut(),
            },
            collectives,
            set,
        })
    }
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
