// SPDX-License-Identifier: GPL-2.0

//! Wait objects and event handlers of queues, counters and wait sets.

use super::{
    prelude::*,
    wait_set::WaitObject, //
};
use crate::{
    fi::wait_set::{
        Member,
        WaitSet, //
    },
    util::{
        callback::Functions,
        sequence_wait::WaitQueue, //
    },
};

/// A C consumer's event handler of a queue whose `struct fid` is an `F`, and the handler's arguments.
pub(super) struct Callback<F> {
    pub(super) function: unsafe extern "C" fn(*mut F, *mut c_void),
    pub(super) object: usize,
    pub(super) context: usize,
}

impl<F> Callback<F> {
    /// Calls the handler.
    pub(super) fn invoke(&self) {
        let object = ptr::with_exposed_provenance_mut(self.object);
        let context = ptr::with_exposed_provenance_mut(self.context);
        // SAFETY: The queue's object is initialised before the queue is armed, and `close` waits for this
        // call before the object is freed.
        unsafe { (self.function)(object, context) };
    }

    /// Returns the function that is called.
    pub(super) fn functions(&self) -> Functions {
        Functions::single(self.function as *const ())
    }
}

/// Wait attributes that an object is opened with.
pub(super) struct WaitAttr<'a> {
    object: fi_wait_obj,
    set: Option<&'a Arc<WaitSet>>,
}

/// Wait method of an object: the way to wait for its events.
pub(super) struct WaitMethod {
    /// Type of the wait object: FI_WAIT_NONE, FI_WAIT_QUEUE, ...
    pub(super) object: fi_wait_obj,
    _member: Option<Member>,
}

impl<'a> WaitAttr<'a> {
    /// Reads the attributes of a queue or counter.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for wait objects that only user space has; -FI_EINVAL for unknown ones, and for FI_WAIT_SET
    /// without a set.
    ///
    /// # Safety
    ///
    /// With FI_WAIT_SET, `set` is NULL or valid for `'a`.
    pub(super) unsafe fn new(object: fi_wait_obj, set: *mut fid_wait) -> Result<Self> {
        let set = match object {
            abi::FI_WAIT_SET => {
                // SAFETY: By the caller's contract, a wait set is NULL or valid for `'a`.
                let found = unsafe { from_fid::<WaitObject>(set.cast())? };
                Some(&found.set)
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

    /// Makes the wait method of a wait set.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new`], and -FI_EINVAL for a wait object that a set cannot have.
    pub(super) fn for_wait_set(object: fi_wait_obj) -> Result<WaitMethod> {
        if let abi::FI_WAIT_NONE | abi::FI_WAIT_SET = object {
            return Err(Errno::EINVAL);
        }
        // SAFETY: The object is not FI_WAIT_SET.
        unsafe { WaitAttr::new(object, ptr::null_mut())? }.into_method(|_| Err(Errno::EINVAL))
    }

    /// Returns true if the consumer may wait for the object.
    pub(super) fn is_waitable(&self) -> bool {
        self.object != abi::FI_WAIT_NONE
    }

    /// Returns true if the consumer sleeps on the object's wait queue itself, not in calls of this API.
    pub(super) fn has_wait_queue(&self) -> bool {
        self.object == abi::FI_WAIT_QUEUE
    }

    /// Makes the wait method; `join` adds the object to the requested wait set, if any.
    pub(super) fn into_method(
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
    /// No wait method: the object is not waitable.
    pub(super) const NONE: Self = Self {
        object: abi::FI_WAIT_NONE,
        _member: None,
    };

    /// Implements `fi_control()` of an object with the wait queue `queue`.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for FI_GETWAIT unless the object has FI_WAIT_QUEUE, -FI_ENOSYS for other commands,
    /// -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// `arg` is NULL or as `command` requires.
    pub(super) unsafe fn control(
        &self,
        queue: *mut WaitQueue,
        command: c_int,
        arg: *mut c_void,
    ) -> Result {
        match command as u32 {
            abi::FI_GETWAIT if self.object != abi::FI_WAIT_QUEUE => Err(Errno::ENODATA),
            // SAFETY: By the caller's contract, `arg` is NULL or valid for writing a pointer.
            abi::FI_GETWAIT => unsafe { write_value(arg, queue) },
            // SAFETY: By the caller's contract, `arg` is NULL or valid for writing an `fi_wait_obj`.
            abi::FI_GETWAITOBJ => unsafe { write_value(arg, self.object) },
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// Writes `value` to `to`; -FI_EINVAL for NULL.
///
/// # Safety
///
/// `to` is NULL or valid for writing a `T`.
unsafe fn write_value<T>(to: *mut c_void, value: T) -> Result {
    // SAFETY: By the caller's contract, `to` is NULL or valid for writing a `T`.
    let to = unsafe { to.cast::<T>().as_mut() };
    *to.ok_or(Errno::EINVAL)? = value;
    Ok(())
}
