// SPDX-License-Identifier: GPL-2.0

//! Preallocated work requests of one scatter/gather entry: a post writes only the fields that
//! change.
//!
//! A driver has copied a request when the call that posts it returns, so one template of each kind
//! serves a queue whose posters are serialised.

use super::{
    prelude::*,
    qp::{
        post_result,
        Qp, //
    },
    wr::{
        PostFn,
        RawSendWr,
        SendFlags,
        Sge,
        WrOp, //
    },
};

/// Prepared request of type `R`, which begins with the `W` that the driver takes.
///
/// # Invariants
///
/// - `raw` is the queue pair of `_qp`, and `ib_post` the operation of its device that posts a `W`.
/// - `wr` has no successor, and its scatter/gather list is `sge`.
#[repr(C)]
struct Template<W, R> {
    raw: NonNull<bindings::ib_qp>,
    ib_post: PostFn<bindings::ib_qp, W>,
    wr: R,
    sge: Sge,
    bad_wr: *const W,
    _qp: Arc<Qp>,
}

impl<W, R> Template<W, R> {
    /// Allocates a template for requests that `ib_post` posts to `qp`. The caller sets the scatter/gather
    /// list of `wr`.
    fn new(qp: Arc<Qp>, ib_post: PostFn<bindings::ib_qp, W>, wr: R) -> Result<KBox<Self>> {
        let template = Self {
            raw: qp.raw,
            ib_post,
            wr,
            sge: Sge::new(0, 0, qp.pd().local_dma_lkey()),
            bad_wr: ptr::null(),
            _qp: qp,
        };
        Ok(KBox::new(template, GFP_KERNEL)?)
    }
}

/// Template of a send queue. Its local memory is under the `local_dma_lkey` of the protection domain.
pub(crate) struct SendTemplate(KBox<Template<bindings::ib_send_wr, RawSendWr>>);

// SAFETY: The pointers are to this allocation and to a queue pair that any thread may use.
unsafe impl Send for SendTemplate {}

// SAFETY: A shared reference only reads a length.
unsafe impl Sync for SendTemplate {}

impl SendTemplate {
    /// Allocates the template of `qp`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp: Arc<Qp>) -> Result<Self> {
        let (ib_post, atomic) = (qp.ib_post_send, pin_init::zeroed());
        let mut inner = Template::new(qp, ib_post, RawSendWr { atomic })?;
        // INVARIANT: The box keeps `sge` at one address.
        inner.wr.send.sg_list = (&raw mut inner.sge).cast();
        inner.wr.send.num_sge = 1;
        Ok(Self(inner))
    }

    /// Returns the length in bytes of the request that was posted last.
    pub(crate) fn len(&self) -> u32 {
        self.0.sge.len()
    }

    /// Posts a request for the `len` bytes at `addr`. Any context; errors as for [`Qp::post_send`].
    ///
    /// # Safety
    ///
    /// As for [`Qp::post_send`].
    #[inline(always)]
    pub(crate) unsafe fn post(
        &mut self,
        wr_id: u64,
        (addr, len): (u64, u32),
        op: WrOp,
        flags: SendFlags,
    ) -> Result {
        let inner = &mut *self.0;
        let opcode = inner.wr.set_op(op);
        // SAFETY: All bytes are initialised, and each member begins with `send`.
        let wr = unsafe { &mut inner.wr.send };
        wr.__bindgen_anon_1.wr_id = wr_id;
        wr.opcode = opcode;
        wr.send_flags = u32::from(flags) as c_int;
        inner.sge.set_range(addr, len);
        // SAFETY: By the invariant the queue pair exists, `ib_post` is its device's operation and this
        // is a single request; the caller guarantees its memory.
        post_result(unsafe { (inner.ib_post)(inner.raw.as_ptr(), wr, &mut inner.bad_wr) })
    }
}

/// Template of a receive queue. Its local memory is that of [`SendTemplate`].
pub(crate) struct RecvTemplate(KBox<Template<bindings::ib_recv_wr, bindings::ib_recv_wr>>);

// SAFETY: As for `SendTemplate`.
unsafe impl Send for RecvTemplate {}

// SAFETY: As for `SendTemplate`.
unsafe impl Sync for RecvTemplate {}

impl RecvTemplate {
    /// Allocates the template of `qp`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp: Arc<Qp>) -> Result<Self> {
        let ib_post = qp.ib_post_recv;
        let mut inner = Template::new(qp, ib_post, pin_init::zeroed::<bindings::ib_recv_wr>())?;
        // INVARIANT: The box keeps `sge` at one address.
        inner.wr.sg_list = (&raw mut inner.sge).cast();
        inner.wr.num_sge = 1;
        Ok(Self(inner))
    }

    /// Posts a receive of `len` bytes at `addr`. Any context; errors as for [`Qp::post_recv`].
    ///
    /// # Safety
    ///
    /// As for [`Qp::post_recv`].
    #[inline(always)]
    pub(crate) unsafe fn post(&mut self, wr_id: u64, (addr, len): (u64, u32)) -> Result {
        let inner = &mut *self.0;
        inner.wr.__bindgen_anon_1.wr_id = wr_id;
        inner.sge.set_range(addr, len);
        // SAFETY: As in `SendTemplate::post`.
        post_result(unsafe { (inner.ib_post)(inner.raw.as_ptr(), &inner.wr, &mut inner.bad_wr) })
    }
}
