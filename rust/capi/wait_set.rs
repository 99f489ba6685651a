// SPDX-License-Identifier: GPL-2.0

//! Wait sets for C callers, and `fi_trywait()`.

use super::{
    cntr::CounterObject,
    cq, eq,
    fabric::FabricObject,
    object::{
        self,
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::{
    abi::{
        fi_ops_wait,
        fi_wait_attr,
        fi_wait_obj,
        fid_fabric,
        fid_wait, //
    },
    fi::{
        prelude::*,
        wait::Deadline,
        wait_set::WaitSet, //
    },
};

/// A wait set, as C callers hold it.
#[repr(C)]
pub(super) struct WaitObject {
    fid: fid_wait,
    set: Arc<WaitSet>,
    wait: WaitMethod,
}

fi_ops! {
    impl Object for WaitObject: FI_CLASS_WAIT {
        close: fn fi_close(waitset) {
            waitset.set.close()
        }

        control: fn fi_control(
            waitset: *mut fid as &WaitObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            // SAFETY: `arg` is NULL or as the command requires.
            unsafe { waitset.wait.control(waitset.set.wait_queue(), command, arg) }
        }
    }
}

impl WaitObject {
    /// Returns the Rust object.
    pub(super) fn set(&self) -> &Arc<WaitSet> {
        &self.set
    }
}

fi_ops! {
    static OPS: fi_ops_wait {
        wait: fn fi_wait(waitset: *mut fid_wait as &WaitObject, timeout: c_int) -> Result {
            let deadline = Deadline::from_millis(timeout);
            let ready = waitset.set.wait(in_process()?, &deadline, 1, |_| {});
            ready.map(drop)
        }

        waitfrom: fn fi_waitfrom(
            waitset: *mut fid_wait as &WaitObject,
            fids: *mut *mut fid,
            count: c_int,
            timeout: c_int,
        ) -> Result<c_int> {
            // SAFETY: `fids` is NULL or has room for `count` pointers.
            let room = unsafe { object::uninit_slice(fids, count)? };
            if room.is_empty() {
                return Err(Errno::EINVAL);
            }
            let deadline = Deadline::from_millis(timeout);
            let max = room.len();
            let mut slots = room.iter_mut();
            let found = waitset.set.wait(in_process()?, &deadline, max, |token| {
                if let Some(slot) = slots.next() {
                    slot.write(ptr::with_exposed_provenance_mut(token));
                }
            })?;
            // `found` is at most `count`, which is an int.
            Ok(found as c_int)
        }
    }
}

fi_ops! {
    pub(super) fn fi_wait_open(
        fabric: *mut fid_fabric as InProcess<&FabricObject>,
        attr: *mut fi_wait_attr,
        out: *mut *mut fid_wait,
    ) -> Result {
        // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
        let (attr, slot) = unsafe { open_args::<_, WaitObject, _>(attr, out)? };
        if attr.flags != 0 {
            return Err(Errno::EINVAL);
        }
        slot.open(WaitObject {
            fid: fid_wait {
                fid: new_fid::<WaitObject>(ptr::null_mut()),
                ops: ptr::from_ref(&OPS).cast_mut(),
            },
            wait: WaitAttr::for_wait_set(attr.wait_obj)?,
            set: fabric.fabric().wait_set(fabric.ctx)?,
        })
    }

    pub(super) fn fi_trywait(
        _fabric: *mut fid_fabric as &FabricObject,
        fids: *mut *mut fid,
        count: c_int,
    ) -> Result {
        let fids = match usize::try_from(count) {
            Ok(0) => &[],
            // SAFETY: `fids` is not NULL, and has `count` entries.
            Ok(count) if !fids.is_null() => unsafe { slice::from_raw_parts(fids, count) },
            _ => return Err(Errno::EINVAL),
        };
        let mut kind = None;
        for &fid in fids {
            // SAFETY: Each entry is NULL or valid.
            let (object, _) = unsafe { native_wait(fid)? };
            if object == abi::FI_WAIT_NONE || *kind.get_or_insert(object) != object {
                return Err(Errno::EINVAL);
            }
        }
        for &fid in fids {
            // SAFETY: As above.
            let (_, waited) = unsafe { native_wait(fid)? };
            if waited.is_ready() {
                return Err(Errno::EAGAIN);
            }
        }
        Ok(())
    }
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
