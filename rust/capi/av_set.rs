// SPDX-License-Identifier: GPL-2.0

//! Address sets for C callers.

use super::{
    av::AvObject,
    peer,
    prelude::*, //
};
use crate::fi::av_set::{
    AddressSet,
    InitialMembers, //
};

/// An address set, as C callers hold it.
#[repr(C)]
pub(super) struct SetObject {
    fid: fid_av_set,
    /// Collectives that the set was opened for: FI_BARRIER_SET, ...
    pub(super) collectives: u64,
    pub(super) set: Arc<AddressSet>,
}

fi_ops! {
    impl Object for SetObject: FI_CLASS_AV_SET {
        control: fn fi_control(set: &SetObject, command, arg) -> Result {
            // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
            unsafe { peer::export_av_set(&set.set, command, arg) }
        }
    }
    close(set) {
        set.set.close()
    }
}

fi_ops! {
    static OPS: fi_ops_av_set {
        set_union: fn fi_av_set_union(dst: &SetObject, src) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { from_fid::<SetObject>(src.cast_mut().cast())? };
            dst.set.unite(in_process()?, &src.set)
        }

        intersect: fn fi_av_set_intersect(dst: &SetObject, src) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { from_fid::<SetObject>(src.cast_mut().cast())? };
            dst.set.intersect(in_process()?, &src.set)
        }

        diff: fn fi_av_set_diff(dst: &SetObject, src) -> Result {
            // SAFETY: `src` is NULL or valid.
            let src = unsafe { from_fid::<SetObject>(src.cast_mut().cast())? };
            dst.set.subtract(in_process()?, &src.set)
        }

        insert: fn fi_av_set_insert(set: &SetObject, addr) -> Result {
            set.set.insert(in_process()?, addr)
        }

        remove: fn fi_av_set_remove(set: &SetObject, addr) -> Result {
            set.set.remove(in_process()?, addr)
        }
    }
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
    /// `fi_av_set()`.
    pub(super) const AV_OPS: fi_ops_av {
        av_set: fn fi_av_set(av: InProcess<&AvObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let initial = initial_members(attr)?;
            let collectives = attr.flags & COLLECTIVES;
            // These flags need an offload provider.
            ensure(collectives == 0 || av.av.has_offload(), Errno::EOPNOTSUPP)?;
            let set = match attr.flags & abi::FI_PEER_AV {
                0 => AddressSet::new(av.ctx, &av.av, attr.count, initial)?,
                _ => {
                    // SAFETY: With FI_PEER_AV, `context` is NULL or a `struct fi_peer_av_set_context` whose set
                    // outlives the new one.
                    let owner = unsafe { peer::owner_av_set(context)? };
                    AddressSet::peer(av.ctx, &av.av, owner)?
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
}

fn initial_members(attr: &fi_av_set_attr) -> Result<InitialMembers> {
    let known = abi::FI_UNIVERSE | abi::FI_PEER_AV | COLLECTIVES;
    ensure(attr.flags & !known == 0, Errno::EBADFLAGS)?;
    ensure(attr.comm_key_size == 0, Errno::EOPNOTSUPP)?;
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
