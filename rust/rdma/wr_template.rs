// SPDX-License-Identifier: GPL-2.0

//! Preallocated work requests of one scatter/gather entry: a post writes only the fields that
//! change.
//!
//! A driver has copied a request when the call that posts it returns, so one template of each kind
//! serves a queue whose posters are serialised.

use super::{
    qp::{
        post_result,
        PostRecvFn,
        PostSendFn,
        Qp, //
    },
    wr::{
        RemoteAddr,
        SendFlags,
        Sge, //
    },
};
use crate::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Posts to a send queue, with local memory under the queue pair's `local_dma_lkey`.
///
/// # Invariants
///
/// As for [`SendTemplateInner`].
pub(crate) struct SendTemplate(KBox<SendTemplateInner>);

/// # Invariants
///
/// - `raw` and `ib_post_send` belong to `_qp`.
/// - `wr` has no successor, and its scatter/gather list is `sge`.
#[repr(C)]
struct SendTemplateInner {
    raw: NonNull<bindings::ib_qp>,
    ib_post_send: PostSendFn,
    wr: TemplateSendWr,
    sge: Sge,
    bad_wr: *const bindings::ib_send_wr,
    _qp: Arc<Qp>,
}

/// Work request of any kind: each member begins with `send`, and all bytes are initialised.
#[repr(C)]
union TemplateSendWr {
    send: bindings::ib_send_wr,
    rdma: bindings::ib_rdma_wr,
    atomic: bindings::ib_atomic_wr,
}

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
        let (raw, ib_post_send) = qp.post_send_op();
        let inner = SendTemplateInner {
            raw,
            ib_post_send,
            // `atomic` is the largest member.
            wr: TemplateSendWr {
                atomic: pin_init::zeroed(),
            },
            sge: Sge::new(0, 0, qp.local_dma_lkey()),
            bad_wr: ptr::null(),
            _qp: qp,
        };
        let mut inner = KBox::new(inner, GFP_KERNEL)?;
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
        // SAFETY: By the invariant the queue pair exists, `ib_post_send` is its device's operation and this
        // is a single request; the caller guarantees its memory.
        post_result(unsafe { (inner.ib_post_send)(inner.raw.as_ptr(), wr, &mut inner.bad_wr) })
    }
}

/// Operation of a work request, with its remote memory.
#[derive(Clone, Copy)]
pub(crate) enum WrOp {
    /// Sends a message.
    Send,
    /// Writes the peer's memory.
    Write(RemoteAddr),
    /// Reads the peer's memory.
    Read(RemoteAddr),
    /// Adds the second field to 8 bytes of the peer's memory and returns their old value.
    FetchAdd(RemoteAddr, u64),
    /// Replaces 8 bytes of the peer's memory by the third field if they equal the second, and
    /// returns their old value.
    CmpSwap(RemoteAddr, u64, u64),
}

impl TemplateSendWr {
    /// Sets the fields of `op` and returns its opcode.
    #[inline(always)]
    fn set_op(&mut self, op: WrOp) -> bindings::ib_wr_opcode {
        match op {
            WrOp::Send => bindings::ib_wr_opcode_IB_WR_SEND,
            WrOp::Write(remote) => {
                self.set_remote(remote);
                bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
            }
            WrOp::Read(remote) => {
                self.set_remote(remote);
                bindings::ib_wr_opcode_IB_WR_RDMA_READ
            }
            WrOp::FetchAdd(remote, add) => {
                self.set_atomic(remote, add, 0);
                bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
            }
            WrOp::CmpSwap(remote, compare, swap) => {
                self.set_atomic(remote, compare, swap);
                bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            }
        }
    }

    #[inline(always)]
    fn set_remote(&mut self, remote: RemoteAddr) {
        self.rdma.remote_addr = remote.addr;
        self.rdma.rkey = remote.rkey;
    }

    #[inline(always)]
    fn set_atomic(&mut self, remote: RemoteAddr, compare_add: u64, swap: u64) {
        self.atomic.remote_addr = remote.addr;
        self.atomic.compare_add = compare_add;
        self.atomic.swap = swap;
        self.atomic.rkey = remote.rkey;
    }
}

/// Posts to a receive queue; otherwise as [`SendTemplate`].
///
/// # Invariants
///
/// As for [`RecvTemplateInner`].
pub(crate) struct RecvTemplate(KBox<RecvTemplateInner>);

/// # Invariants
///
/// As for [`SendTemplateInner`], with `ib_post_recv`.
#[repr(C)]
struct RecvTemplateInner {
    raw: NonNull<bindings::ib_qp>,
    ib_post_recv: PostRecvFn,
    wr: bindings::ib_recv_wr,
    sge: Sge,
    bad_wr: *const bindings::ib_recv_wr,
    _qp: Arc<Qp>,
}

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
        let (raw, ib_post_recv) = qp.post_recv_op();
        let inner = RecvTemplateInner {
            raw,
            ib_post_recv,
            wr: pin_init::zeroed(),
            sge: Sge::new(0, 0, qp.local_dma_lkey()),
            bad_wr: ptr::null(),
            _qp: qp,
        };
        let mut inner = KBox::new(inner, GFP_KERNEL)?;
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
        post_result(unsafe {
            (inner.ib_post_recv)(inner.raw.as_ptr(), &inner.wr, &mut inner.bad_wr)
        })
    }
}
