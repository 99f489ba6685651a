// SPDX-License-Identifier: GPL-2.0

//! Wait objects, as queues, counters and wait sets are asked for them.

use super::{
    object,
    wait_set::WaitObject, //
};
use crate::{
    abi::{
        self,
        fi_wait_obj,
        fid_wait,
        sequence_wait::WaitQueue,
        Errno,
        Result, //
    },
    fi::wait_set::{
        Member,
        WaitSet, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What an object is opened with.
pub(super) struct WaitAttr<'a> {
    object: fi_wait_obj,
    set: Option<&'a Arc<WaitSet>>,
}

/// How whoever reads an object can wait for it.
pub(super) struct WaitMethod {
    object: fi_wait_obj,
    _member: Option<Member>,
}

impl<'a> WaitAttr<'a> {
    /// From the attributes of a queue or counter.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for wait objects that only processes have; -FI_EINVAL for others that there are not,
    /// and for FI_WAIT_SET without a set.
    ///
    /// # Safety
    ///
    /// With FI_WAIT_SET, `set` is NULL or valid for `'a`.
    pub(super) unsafe fn new(object: fi_wait_obj, set: *mut fid_wait) -> Result<Self> {
        let set = match object {
            abi::FI_WAIT_SET => {
                // SAFETY: By this function's safety requirement.
                let found = unsafe { object::object::<WaitObject>(set.cast())? };
                Some(found.set())
            }
            abi::FI_WAIT_NONE | abi::FI_WAIT_UNSPEC | abi::FI_WAIT_YIELD | abi::FI_WAIT_QUEUE => {
                None
            }
            abi::FI_WAIT_FD | abi::FI_WAIT_MUTEX_COND | abi::FI_WAIT_POLLFD => {
                return Err(Errno::ENOSYS)
            }
            _ => return Err(Errno::EINVAL),
        };
        Ok(Self { object, set })
    }

    /// From the attributes of a wait set.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`], and -FI_EINVAL for a wait object that a set cannot have.
    pub(super) fn of_set(object: fi_wait_obj) -> Result<WaitMethod> {
        if let abi::FI_WAIT_NONE | abi::FI_WAIT_SET = object {
            return Err(Errno::EINVAL);
        }
        // SAFETY: It is not FI_WAIT_SET.
        unsafe { WaitAttr::new(object, core::ptr::null_mut())? }.grant(|_| Err(Errno::EINVAL))
    }

    /// Whether the object may be waited for.
    pub(super) fn is_waitable(&self) -> bool {
        self.object != abi::FI_WAIT_NONE
    }

    /// Whether others than those in calls of this API sleep on its wait queue.
    pub(super) fn is_native(&self) -> bool {
        self.object == abi::FI_WAIT_QUEUE
    }

    /// `join` puts the object into the set that was asked for.
    pub(super) fn grant(
        self,
        join: impl FnOnce(&Arc<WaitSet>) -> Result<Member>,
    ) -> Result<WaitMethod> {
        Ok(WaitMethod {
            object: self.object,
            _member: self.set.map(join).transpose()?,
        })
    }
}

impl WaitMethod {
    /// Not at all.
    pub(super) const NONE: Self = Self {
        object: abi::FI_WAIT_NONE,
        _member: None,
    };

    /// FI_WAIT_NONE, FI_WAIT_QUEUE, ...
    pub(super) fn object(&self) -> fi_wait_obj {
        self.object
    }

    /// `fi_control()` of an object with that wait queue.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for the wait object of one that has none to give, -FI_ENOSYS for other commands,
    /// -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// `arg` is NULL or what `command` demands.
    pub(super) unsafe fn control(
        &self,
        queue: *mut WaitQueue,
        command: c_int,
        arg: *mut c_void,
    ) -> Result {
        match u32::try_from(command) {
            Ok(abi::FI_GETWAIT) if self.object != abi::FI_WAIT_QUEUE => Err(Errno::ENODATA),
            // SAFETY: By this function's safety requirement.
            Ok(abi::FI_GETWAIT) => unsafe { give(arg, queue) },
            // SAFETY: By this function's safety requirement.
            Ok(abi::FI_GETWAITOBJ) => unsafe { give(arg, self.object) },
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// # Safety
///
/// `to` is NULL or valid for writing a `T`.
unsafe fn give<T>(to: *mut c_void, value: T) -> Result {
    // SAFETY: By this function's safety requirement.
    let to = unsafe { to.cast::<T>().as_mut() };
    *to.ok_or(Errno::EINVAL)? = value;
    Ok(())
}
