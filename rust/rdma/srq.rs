// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: what is posted here takes the messages of any queue pair that was made with it.
//!
//! A message takes the oldest request, and its queue pair completes that into its own completion queue.
//! What no message has taken belongs to no queue pair, and is not flushed when one of them breaks. What a
//! broken one has taken and not filled comes back flushed, before
//! [`QpEvent::Drained`](super::qp::QpEvent::Drained): not so on rxe, which forgets it
//! (`flush_recv_queue()`). siw tells of no such event; there it is back when the change of state is over
//! (`siw_rq_flush()`).

use super::{
    pd::Pd,
    qp::post_result,
    wr::RecvWr, //
};
use crate::{
    bindings,
    compat::EOPNOTSUPP, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

type PostSrqRecvFn = unsafe extern "C" fn(
    *mut bindings::ib_srq,
    *const bindings::ib_recv_wr,
    *mut *const bindings::ib_recv_wr,
) -> c_int;

/// A shared receive queue.
///
/// # Invariants
///
/// - `raw` is a shared receive queue in `pd`; queue pairs that take from it hold an `Arc` of this object.
/// - `post` is its device's operation.
#[repr(C)]
pub(crate) struct Srq {
    raw: NonNull<bindings::ib_srq>,
    post: PostSrqRecvFn,
    local_dma_lkey: u32,
    pd: Arc<Pd>,
}

// SAFETY: A shared receive queue may be used and destroyed by any thread.
unsafe impl Send for Srq {}

// SAFETY: Drivers lock what posting and taking at the same time touch.
unsafe impl Sync for Srq {}

impl Srq {
    /// Makes a queue for `depth` requests of at most `sges` pieces each.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` on a device that has none, `EINVAL` for more than it takes, `ENOMEM`, and the
    /// driver's.
    pub(crate) fn new(pd: Arc<Pd>, depth: u32, sges: u32) -> Result<Arc<Self>> {
        let attributes = pd.device().attributes();
        // Drivers count on somebody having looked.
        if depth == 0 || depth > attributes.max_srq_wr || sges > attributes.max_srq_sge {
            return Err(EINVAL);
        }
        // SAFETY: The device is registered as long as it is used.
        let ops = unsafe { &(*pd.device().raw()).ops };
        let (Some(_), Some(post)) = (ops.create_srq, ops.post_srq_recv) else {
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
        // SAFETY: The protection domain is valid, and outlives the queue; a kernel's owner has neither
        // object nor data of user space.
        let raw = unsafe {
            bindings::ib_create_srq_user(pd.raw(), &mut attr, ptr::null_mut(), ptr::null_mut())
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: By construction. If this allocation fails, dropping the object destroys `raw`.
        let srq = Self {
            raw,
            post,
            local_dma_lkey: pd.local_dma_lkey(),
            pd,
        };
        Ok(Arc::new(srq, GFP_KERNEL)?)
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_srq {
        self.raw.as_ptr()
    }

    /// The protection domain that this is in.
    #[inline]
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// That of [`Self::pd`].
    #[inline]
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        self.local_dma_lkey
    }

    /// Posts room for a message. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` for more pieces than it takes, and the driver's. Nothing
    /// has been posted then.
    ///
    /// # Safety
    ///
    /// As of [`Qp::post_recv`](super::qp::Qp::post_recv); the memory belongs to the operation until it
    /// completes or the queue is dropped.
    #[inline]
    pub(crate) unsafe fn post(&self, wr: &RecvWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: By the invariant `raw` is valid and `post` its device's; `wr` is a single request, and
        // the caller answers for its memory.
        let err = unsafe { (self.post)(self.raw(), wr.as_ptr(), &mut bad) };
        post_result(err)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid, and no queue pair uses it any more. When this returns no
        // memory of what is posted is accessed.
        let err = unsafe { bindings::ib_destroy_srq_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}
