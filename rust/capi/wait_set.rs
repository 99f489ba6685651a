// SPDX-License-Identifier: GPL-2.0

//! Wait sets for C callers, and `fi_trywait()`.

use super::{
    cntr, cq, eq,
    fabric::FabricObject,
    object::uninit_slice,
    prelude::*,
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::fi::{
    wait::Deadline,
    wait_set::WaitSet, //
};

/// A wait set, as C callers hold it.
#[repr(C)]
pub(super) struct WaitObject {
    fid: fid_wait,
    pub(super) set: Arc<WaitSet>,
    wait: WaitMethod,
}

fi_ops! {
    impl Object for WaitObject: FI_CLASS_WAIT {
        control: fn fi_control(waitset: &WaitObject, command, arg) -> Result {
            // SAFETY: `arg` is NULL or as the command requires.
            unsafe { waitset.wait.control(waitset.set.wait_queue(), command, arg) }
        }
    }
    close(waitset) {
        waitset.set.close()
    }
}

fi_ops! {
    static OPS: fi_ops_wait {
        wait: fn fi_wait(waitset: &WaitObject, timeout) -> Result {
            let deadline = Deadline::from_millis(timeout);
            let ready = waitset.set.wait(in_process()?, &deadline, 1, |_| {});
            ready.map(drop)
        }

        waitfrom: fn fi_waitfrom(waitset: &WaitObject, fids, count, timeout) -> Result<c_int> {
            // SAFETY: `fids` is NULL or has space for `count` pointers.
            let space = unsafe { uninit_slice(fids, count)? };
            ensure(!space.is_empty(), Errno::EINVAL)?;
            let deadline = Deadline::from_millis(timeout);
            let max = space.len();
            let mut slots = space.iter_mut();
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
    /// `fi_wait_open()` and `fi_trywait()`.
    pub(super) const FABRIC_OPS: fi_ops_fabric {
        wait_open: fn fi_wait_open(fabric: InProcess<&FabricObject>, attr, out) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            ensure(attr.flags == 0, Errno::EINVAL)?;
            slot.open(WaitObject {
                fid: fid_wait {
                    fid: new_fid::<WaitObject>(ptr::null_mut()),
                    ops: ptr::from_ref(&OPS).cast_mut(),
                },
                wait: WaitAttr::for_wait_set(attr.wait_obj)?,
                set: fabric.fabric.wait_set(fabric.ctx)?,
            })
        }

        trywait: fn fi_trywait(_fabric: &FabricObject, fids, count) -> Result {
            let fids = match usize::try_from(count) {
                Ok(0) => &[],
                // SAFETY: `fids` is not NULL, and has `count` entries.
                Ok(count) if !fids.is_null() => unsafe { slice::from_raw_parts(fids, count) },
                _ => return Err(Errno::EINVAL),
            };
            let mut kind = None;
            for &fid in fids {
                // SAFETY: Each entry is NULL or valid.
                let (wait, _) = unsafe { native_wait(fid)? };
                let object = wait.object;
                ensure(object != abi::FI_WAIT_NONE, Errno::EINVAL)?;
                ensure(*kind.get_or_insert(object) == object, Errno::EINVAL)?;
            }
            for &fid in fids {
                // SAFETY: As above.
                let (_, waited) = unsafe { native_wait(fid)? };
                ensure(!waited.is_ready(), Errno::EAGAIN)?;
            }
            Ok(())
        }
    }
}

/// An object whose wait queue a consumer can sleep on.
enum NativeWait<'a> {
    Cq(&'a cq::QueueObject),
    Eq(&'a eq::QueueObject),
    Counter(&'a cntr::CounterObject),
    Set(&'a WaitObject),
}

impl NativeWait<'_> {
    /// Returns true if the object may be ready; after false, its wait queue is woken when it is.
    fn is_ready(&self) -> bool {
        match self {
            Self::Cq(object) => object.queue.is_ready(),
            Self::Eq(object) => object.queue.is_ready(),
            Self::Counter(object) => object.counter.is_ready(),
            Self::Set(object) => object.set.is_ready(),
        }
    }
}

/// Returns an object's wait method, and the object; -FI_EINVAL for a class that has none.
///
/// # Safety
///
/// `fid` is NULL or valid for `'a`.
unsafe fn native_wait<'a>(fid: *mut fid) -> Result<(&'a WaitMethod, NativeWait<'a>)> {
    // SAFETY: By the caller's contract, `fid` is NULL or valid for `'a`.
    unsafe {
        from_fid::<cq::QueueObject>(fid)
            .map(|cq| (&cq.wait, NativeWait::Cq(cq)))
            .or_else(|_| from_fid(fid).map(|eq: &eq::QueueObject| (&eq.wait, NativeWait::Eq(eq))))
            .or_else(|_| {
                from_fid(fid)
                    .map(|cntr: &cntr::CounterObject| (&cntr.wait, NativeWait::Counter(cntr)))
            })
            .or_else(|_| from_fid(fid).map(|set: &WaitObject| (&set.wait, NativeWait::Set(set))))
    }
}
