// SPDX-License-Identifier: GPL-2.0

//! Shared address sets.

use super::{
    super::prelude::*,
    check_class,
    checked_struct, //
};
use crate::{
    abi::errno::from_int,
    fi::{
        av_set::{
            AddressSet,
            SetOwner, //
        },
        rundown::Rundown, //
    },
    util::callback::{
        Caller,
        Functions,
        Registered, //
    },
};
use kernel::alloc::{
    flags::__GFP_NOWARN,
    KVVec, //
};

/// Number of members that the first call to another module's set has space for.
const INITIAL_CAPACITY: usize = 64;

/// Maximum number of calls, each with space for the count that the previous one returned.
const MAX_ATTEMPTS: usize = 16;

/// An exported address set, which begins with its `struct fid_peer_av_set`.
#[repr(C)]
struct SharedSetObject {
    fid: fid_peer_av_set,
    set: ChildRef<AddressSet>,
}

fi_ops! {
    impl Object for SharedSetObject: FI_CLASS_PEER_AV_SET {}
}

fi_ops! {
    /// Calls that peers make on the set.
    static OWNER_OPS: fi_ops_av_set_owner {
        members: fn members(av_set: &SharedSetObject, addr, count) -> Result {
            // SAFETY: `count` is NULL or valid.
            let count = unsafe { count.as_mut() }.ok_or(Errno::EINVAL)?;
            av_set.set.with_members(in_process()?, |members| {
                let space = mem::replace(count, members.len());
                ensure(space >= members.len(), Errno::ETOOSMALL)?;
                ensure(!addr.is_null() || members.is_empty(), Errno::EINVAL)?;
                if !members.is_empty() {
                    // SAFETY: `addr` has space for `space` addresses, which are not fewer than the members.
                    unsafe { ptr::copy_nonoverlapping(members.as_ptr(), addr, members.len()) };
                }
                Ok(())
            })?
        }
    }
}

/// Exports a set (`fi_export_fid()`). May sleep.
///
/// # Errors
///
/// The errors of [`super::export`].
///
/// # Safety
///
/// The requirements of [`super::export`].
pub(in super::super) unsafe fn export_av_set(
    set: &Arc<AddressSet>,
    command: c_int,
    arg: *mut c_void,
) -> Result {
    let make = |fid| {
        Ok(SharedSetObject {
            fid: fid_peer_av_set {
                fid,
                owner_ops: ptr::from_ref(&OWNER_OPS).cast_mut(),
            },
            set: ChildRef::new(set)?,
        })
    };
    // SAFETY: By the contract of `super::export`.
    unsafe { super::export(command, arg, make) }
}

/// A set that another module's provider owns.
///
/// # Invariants
///
/// The set and its call are valid as long as `rundown` admits calls: until the owner's module is unloaded.
#[pin_data]
struct ImportedSet {
    #[pin]
    rundown: Rundown,
    set: *mut fid_peer_av_set,
    members: unsafe extern "C" fn(*mut fid_peer_av_set, *mut fi_addr_t, *mut usize) -> c_int,
}

// SAFETY: The owner's call is legal in any thread.
unsafe impl Send for ImportedSet {}

// SAFETY: As above.
unsafe impl Sync for ImportedSet {}

impl Caller for ImportedSet {
    fn stop_calls(&self) {
        self.rundown.run_down();
    }
}

/// A set of another module's provider, and the registration of its call.
struct Calls {
    imported: Arc<ImportedSet>,
    _registered: Registered,
}

impl SetOwner for Calls {
    fn members(&self) -> Result<KVVec<fi_addr_t>> {
        let imported = &*self.imported;
        let _pass = imported.rundown.begin_call().ok_or(Errno::EOPBADSTATE)?;
        let mut space = INITIAL_CAPACITY;
        for _ in 0..MAX_ATTEMPTS {
            let mut members = KVVec::from_elem(FI_ADDR_NOTAVAIL, space, GFP_KERNEL | __GFP_NOWARN)?;
            let mut count = space;
            // SAFETY: By the invariant; `members` has space for `count` addresses.
            let ret = unsafe { (imported.members)(imported.set, members.as_mut_ptr(), &mut count) };
            match from_int(ret) {
                Ok(_) if count <= space => {
                    members.truncate(count);
                    return Ok(members);
                }
                // The set may grow between calls.
                Err(Errno::ETOOSMALL) if count > space => space = count,
                Err(errno) if errno != Errno::ETOOSMALL => return Err(errno),
                _ => return Err(Errno::EINVAL),
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// Returns the owner's set in the context of `fi_av_set()` with FI_PEER_AV.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for a missing call; -FI_ENOMEM.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_av_set_context` whose set is valid until the peer's is closed.
pub(in super::super) unsafe fn owner_av_set(context: *mut c_void) -> Result<KBox<dyn SetOwner>> {
    // SAFETY: By the caller's contract, `context` is valid; nothing beyond a struct's size is read.
    let (set, ops) = unsafe {
        let set = checked_struct::<fi_peer_av_set_context>(context)?.av_set;
        if let Ok(ours) = from_fid::<SharedSetObject>(set.cast()) {
            return Ok(KBox::new(ChildRef::new(ours.set.arc())?, GFP_KERNEL)?);
        }
        check_class(set.cast(), abi::FI_CLASS_PEER_AV_SET)?;
        let ops = (*set).owner_ops.cast();
        (set, checked_struct::<fi_ops_av_set_owner>(ops)?)
    };
    // INVARIANT: By the caller's contract, the set is valid, and `checked_struct` has checked its table of calls.
    let members = ops.members.ok_or(Errno::EINVAL)?;
    let imported = Arc::pin_init(
        pin_init!(ImportedSet {
            rundown <- Rundown::new(),
            set,
            members,
        }),
        GFP_KERNEL,
    )?;
    let functions = Functions::single(members as *const ());
    let registered = Registered::new(functions, fmt!("peer av_set"), imported.clone())?;
    let calls = Calls {
        imported,
        _registered: registered,
    };
    Ok(KBox::new(calls, GFP_KERNEL)?)
}
