// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: a receive that is posted here is used for a message of any attached queue
//! pair.
//!
//! A message consumes the oldest receive, which completes into the completion queue of the
//! message's queue pair. A receive that no message has consumed belongs to no queue pair, and is
//! not flushed when a queue pair enters the error state. Receives that the failed queue pair had
//! taken and not filled complete as flushed before
//! [`QpEvent::LastWqeReached`](super::qp::QpEvent::LastWqeReached); rxe loses them instead
//! (`flush_recv_queue()`). siw raises no such event; there they have completed when the change of
//! state returns (`siw_rq_flush()`).

use super::{
    pd::Pd,
    prelude::*,
    qp::post_result,
    wr::{
        PostFn,
        RecvWr, //
    },
};
use crate::compat::EOPNOTSUPP;

/// A shared receive queue.
///
/// # Invariants
///
/// - `raw` is a shared receive queue in `pd`; queue pairs attached to it hold an `Arc` of this
///   object.
/// - `ib_post_srq_recv` is the operation of its device that the kernel's function of this name
///   calls.
#[repr(C)]
pub(crate) struct Srq {
    raw: NonNull<bindings::ib_srq>,
    ib_post_srq_recv: PostFn<bindings::ib_srq, bindings::ib_recv_wr>,
    pd: Arc<Pd>,
}

// SAFETY: Any thread may use and destroy a shared receive queue.
unsafe impl Send for Srq {}

// SAFETY: Drivers serialise concurrent posting and consuming.
unsafe impl Sync for Srq {}

impl Srq {
    /// Creates a queue for `depth` receives of at most `sges` scatter/gather entries each.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` on a device without shared receive queues, `EINVAL` above the limits of the
    /// device, `ENOMEM`, and the driver's errors.
    pub(crate) fn new(pd: Arc<Pd>, depth: u32, sges: u32) -> Result<Arc<Self>> {
        let attributes = &pd.device().attributes;
        // Drivers rely on the caller to check the limits.
        if depth == 0 || depth > attributes.max_srq_wr || sges > attributes.max_srq_sge {
            return Err(EINVAL);
        }
        // SAFETY: A `DeviceRef` keeps the device registered.
        let ops = unsafe { &(*pd.device().raw()).ops };
        let (Some(_), Some(ib_post_srq_recv)) = (ops.create_srq, ops.post_srq_recv) else {
            return Err(EOPNOTSUPP);
        };
        let mut attr = bindings::ib_srq_init_attr {
            attr: bindings::ib_srq_attr {
                max_wr: depth,
                max_sge: sges,
                srq_limit: 0,
            },
            srq_type: bindings::ib_srq_type_IB_SRQT_BASIC,
            ..pin_init::zeroed()
        };
        // SAFETY: The protection domain is valid and outlives the queue; a kernel consumer has no
        // user object and no user data.
        let raw = unsafe {
            bindings::ib_create_srq_user(pd.raw(), &mut attr, ptr::null_mut(), ptr::null_mut())
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: By construction. If this allocation fails, dropping the object destroys `raw`.
        let srq = Self {
            raw,
            ib_post_srq_recv,
            pd,
        };
        Ok(Arc::new(srq, GFP_KERNEL)?)
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_srq {
        self.raw.as_ptr()
    }

    /// Returns the protection domain of the queue.
    #[inline]
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Posts a receive. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` for too many scatter/gather entries, and the
    /// driver's errors. After an error the receive is not posted.
    ///
    /// # Safety
    ///
    /// As for [`Qp::post_recv`](super::qp::Qp::post_recv); the memory belongs to the operation
    /// until it completes or the queue is dropped.
    #[inline]
    pub(crate) unsafe fn post(&self, wr: &RecvWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: By the invariant `raw` is valid and `ib_post_srq_recv` is its device's operation;
        // `wr` is a single request, and the caller guarantees its memory.
        let err = unsafe { (self.ib_post_srq_recv)(self.raw(), wr.as_ptr(), &mut bad) };
        post_result(err)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid, and no queue pair uses it any more. When this
        // returns, the memory of posted receives is not accessed.
        let err = unsafe { bindings::ib_destroy_srq_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}
