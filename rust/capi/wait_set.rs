// SPDX-License-Identifier: GPL-2.0

//! Wait sets for C callers, and `fi_trywait()`.

use super::{
    cntr::CounterObject,
    cq,
    eq,
    fabric::FabricObject,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    wait::{
        WaitAttr,
        WaitMethod, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_ops,
        fi_ops_wait,
        fi_wait_attr,
        fi_wait_obj,
        fid,
        fid_fabric,
        fid_wait,
        Errno,
        Result, //
    },
    fi::{
        wait::Deadline,
        wait_set::WaitSet, //
    },
    util::context::{
        in_process,
        ProcessContext, //
    },
};
use core::{
    ptr,
    slice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A wait set, as C callers hold it.
#[repr(C)]
pub(super) struct WaitObject {
    fid: fid_wait,
    set: Arc<WaitSet>,
    wait: WaitMethod,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_wait`, and is the only type with this table.
unsafe impl Object for WaitObject {
    const CLASS: u32 = abi::FI_CLASS_WAIT;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl WaitObject {
    /// Returns the Rust object.
    pub(super) fn set(&self) -> &Arc<WaitSet> {
        &self.set
    }
}

static OPS: fi_ops_wait = fi_ops_wait {
    size: size_of::<fi_ops_wait>(),
    wait: Some(wait),
    waitfrom: Some(waitfrom),
};

/// Implements `fi_wait_open()`.
pub(super) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_wait_attr,
    out: *mut *mut fid_wait,
) -> c_int {
    // SAFETY: By the contract of `fi_wait_open()`, arguments are valid or NULL.
    into_int(unsafe { object::open_with(fabric.cast(), attr, out, try_open) })
}

fn try_open(
    ctx: ProcessContext,
    fabric: &FabricObject,
    attr: &mut fi_wait_attr,
    slot: UninitObject<WaitObject>,
) -> Result<*mut WaitObject> {
    if attr.flags != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(slot.init(WaitObject {
        fid: fid_wait {
            fid: new_fid::<WaitObject>(ptr::null_mut()),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        wait: WaitAttr::for_wait_set(attr.wait_obj)?,
        set: fabric.fabric().wait_set(ctx)?,
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<WaitObject>(fid, |object| object.set.close()) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<WaitObject>(fid)
            .and_then(|object| object.wait.control(object.set.wait_queue(), command, arg))
    })
}

unsafe extern "C" fn wait(waitset: *mut fid_wait, timeout: c_int) -> c_int {
    // SAFETY: By the contract of `fi_wait()`.
    let object = unsafe { object::from_fid::<WaitObject>(waitset.cast()) };
    into_int(object.and_then(|object| {
        let deadline = Deadline::from_millis(timeout);
        object
            .set
            .wait(in_process()?, &deadline, 1, |_| {})
            .map(drop)
    }))
}

unsafe extern "C" fn waitfrom(
    waitset: *mut fid_wait,
    fids: *mut *mut fid,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: By the contract of `fi_waitfrom()`.
    match unsafe { try_waitfrom(waitset, fids, count, timeout) } {
        // `found` is at most `count`, which is an int.
        Ok(found) => found as c_int,
        Err(errno) => errno.to_int(),
    }
}

unsafe fn try_waitfrom(
    waitset: *mut fid_wait,
    fids: *mut *mut fid,
    count: c_int,
    timeout: c_int,
) -> Result<usize> {
    // SAFETY: By the contract of `fi_waitfrom()`.
    let (object, room) = unsafe {
        (
            object::from_fid::<WaitObject>(waitset.cast())?,
            object::uninit_slice(fids, count)?,
        )
    };
    if room.is_empty() {
        return Err(Errno::EINVAL);
    }
    let deadline = Deadline::from_millis(timeout);
    let max = room.len();
    let mut slots = room.iter_mut();
    object.set.wait(in_process()?, &deadline, max, |token| {
        if let Some(slot) = slots.next() {
            slot.write(ptr::with_exposed_provenance_mut(token));
        }
    })
}

/// Implements `fi_trywait()`.
pub(super) unsafe extern "C" fn trywait(
    fabric: *mut fid_fabric,
    fids: *mut *mut fid,
    count: c_int,
) -> c_int {
    // SAFETY: By the contract of `fi_trywait()`.
    into_int(unsafe { try_trywait(fabric, fids, count) })
}

unsafe fn try_trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> Result {
    // SAFETY: By the contract of `fi_trywait()`.
    let _ = unsafe { object::from_fid::<FabricObject>(fabric.cast())? };
    let fids = match usize::try_from(count) {
        Ok(0) => &[],
        // SAFETY: By the contract of `fi_trywait()`, `fids` has `count` entries.
        Ok(count) if !fids.is_null() => unsafe { slice::from_raw_parts(fids, count) },
        _ => return Err(Errno::EINVAL),
    };
    let mut kind = None;
    for &fid in fids {
        // SAFETY: By the contract of `fi_trywait()`.
        let (object, _) = unsafe { native_wait(fid)? };
        if object == abi::FI_WAIT_NONE || *kind.get_or_insert(object) != object {
            return Err(Errno::EINVAL);
        }
    }
    for &fid in fids {
        // SAFETY: By the contract of `fi_trywait()`.
        let (_, waited) = unsafe { native_wait(fid)? };
        if waited.is_ready() {
            return Err(Errno::EAGAIN);
        }
    }
    Ok(())
}

/// An object whose wait queue a consumer can sleep on.
enum NativeWait<'a> {
    Cq(&'a cq::QueueObject),
    Eq(&'a eq::QueueObject),
    Counter(&'a CounterObject),
    Set(&'a WaitObject),
}

impl NativeWait<'_> {
    /// Returns true if the object may be ready; after false, its wait queue is woken when it is.
    fn is_ready(&self) -> bool {
        match self {
            Self::Cq(object) => object.queue().is_ready(),
            Self::Eq(object) => object.queue().is_ready(),
            Self::Counter(object) => object.counter().is_ready(),
            Self::Set(object) => object.set.is_ready(),
        }
    }
}

/// Returns the type of an object's wait object, and the object; -FI_EINVAL for a class that has none.
///
/// # Safety
///
/// `fid` is NULL or valid for `'a`.
unsafe fn native_wait<'a>(fid: *mut fid) -> Result<(fi_wait_obj, NativeWait<'a>)> {
    // SAFETY: By the caller's contract, `fid` is NULL or valid for `'a`.
    let class = unsafe { fid.as_ref() }.ok_or(Errno::EINVAL)?.fclass as u32;
    // SAFETY: By the caller's contract, as above; `object` checks the class again, with the table of calls.
    unsafe {
        Ok(match class {
            abi::FI_CLASS_CQ => {
                let object = object::from_fid::<cq::QueueObject>(fid)?;
                (object.wait().object(), NativeWait::Cq(object))
            }
            abi::FI_CLASS_EQ => {
                let object = object::from_fid::<eq::QueueObject>(fid)?;
                (object.wait().object(), NativeWait::Eq(object))
            }
            abi::FI_CLASS_CNTR => {
                let object = object::from_fid::<CounterObject>(fid)?;
                (object.wait().object(), NativeWait::Counter(object))
            }
            abi::FI_CLASS_WAIT => {
                let object = object::from_fid::<WaitObject>(fid)?;
                (object.wait.object(), NativeWait::Set(object))
            }
            _ => return Err(Errno::EINVAL),
        })
    }
}
