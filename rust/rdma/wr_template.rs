// SPDX-License-Identifier: GPL-2.0

//! Requests of a single piece, which nearly all are: what is the same for all of them is written once.
//!
//! A driver has read a request when the call that posts it returns, so that one of each kind will do
//! for a queue whose posters take turns.

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

/// Posts to a send queue, with local memory that the queue pair's `local_dma_lkey` is for.
///
/// # Invariants
///
/// Those of [`SendTemplateInner`].
pub(crate) struct SendTemplate(KBox<SendTemplateInner>);

/// # Invariants
///
/// - `raw` and `post` are those of `_qp`.
/// - `request` has no other behind it, and its list is `piece`.
#[repr(C)]
struct SendTemplateInner {
    raw: NonNull<bindings::ib_qp>,
    post: PostSendFn,
    wr: TemplateSendWr,
    sge: Sge,
    bad_wr: *const bindings::ib_send_wr,
    _qp: Arc<Qp>,
}

/// Each begins with the first, and all their bytes are initialised.
#[repr(C)]
union TemplateSendWr {
    send: bindings::ib_send_wr,
    rdma: bindings::ib_rdma_wr,
    atomic: bindings::ib_atomic_wr,
}

// SAFETY: The pointers are to what is here, and to a queue pair that any thread may use.
unsafe impl Send for SendTemplate {}

// SAFETY: Nothing can be done with a reference.
unsafe impl Sync for SendTemplate {}

impl SendTemplate {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp: Arc<Qp>) -> Result<Self> {
        let (raw, post) = qp.post_send_op();
        let sending = SendTemplateInner {
            raw,
            post,
            // The largest of them.
            wr: TemplateSendWr {
                atomic: pin_init::zeroed(),
            },
            sge: Sge::new(0, 0, qp.local_dma_lkey()),
            bad_wr: ptr::null(),
            _qp: qp,
        };
        let mut sending = KBox::new(sending, GFP_KERNEL)?;
        // INVARIANT: Nobody moves what is in the box.
        sending.wr.send.sg_list = (&raw mut sending.sge).cast();
        sending.wr.send.num_sge = 1;
        Ok(Self(sending))
    }

    /// Bytes of the request that was posted last.
    pub(crate) fn len(&self) -> u32 {
        self.0.sge.len()
    }

    /// Posts a request, with memory at the address and of the length of `piece`. Any context; errors
    /// as of [`Qp::post_send`].
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn post(
        &mut self,
        wr_id: u64,
        (addr, len): (u64, u32),
        op: WrOp,
        flags: SendFlags,
    ) -> Result {
        let sending = &mut *self.0;
        let opcode = sending.wr.set_op(op);
        // SAFETY: All bytes are initialised, and each of them begins with this one.
        let any = unsafe { &mut sending.wr.send };
        any.__bindgen_anon_1.wr_id = wr_id;
        any.opcode = opcode;
        any.send_flags = u32::from(flags) as c_int;
        sending.sge.set_range(addr, len);
        // SAFETY: By the invariant the queue pair is there, `post` its device's, and this a single
        // request; the caller answers for its memory.
        post_result(unsafe { (sending.post)(sending.raw.as_ptr(), any, &mut sending.bad_wr) })
    }
}

/// What a request is for.
#[derive(Clone, Copy)]
pub(crate) enum WrOp {
    /// A message.
    Send,
    /// The peer's memory is written.
    Write(RemoteAddr),
    /// It is read.
    Read(RemoteAddr),
    /// That much is added to 8 bytes of it, which come as they were before.
    FetchAdd(RemoteAddr, u64),
    /// The same 8 bytes are replaced by the second, if they equal the first.
    CmpSwap(RemoteAddr, u64, u64),
}

impl TemplateSendWr {
    /// Notes what the rest of a request says, and tells its opcode.
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

/// Posts to a receive queue, as [`SendTemplate`] does to the other.
///
/// # Invariants
///
/// Those of [`RecvTemplateInner`].
pub(crate) struct RecvTemplate(KBox<RecvTemplateInner>);

/// # Invariants
///
/// As of [`SendTemplateInner`].
#[repr(C)]
struct RecvTemplateInner {
    raw: NonNull<bindings::ib_qp>,
    post: PostRecvFn,
    wr: bindings::ib_recv_wr,
    sge: Sge,
    bad_wr: *const bindings::ib_recv_wr,
    _qp: Arc<Qp>,
}

// SAFETY: As of `SendTemplate`.
unsafe impl Send for RecvTemplate {}

// SAFETY: As of `SendTemplate`.
unsafe impl Sync for RecvTemplate {}

impl RecvTemplate {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp: Arc<Qp>) -> Result<Self> {
        let (raw, post) = qp.post_recv_op();
        let receiving = RecvTemplateInner {
            raw,
            post,
            wr: pin_init::zeroed(),
            sge: Sge::new(0, 0, qp.local_dma_lkey()),
            bad_wr: ptr::null(),
            _qp: qp,
        };
        let mut receiving = KBox::new(receiving, GFP_KERNEL)?;
        // INVARIANT: Nobody moves what is in the box.
        receiving.wr.sg_list = (&raw mut receiving.sge).cast();
        receiving.wr.num_sge = 1;
        Ok(Self(receiving))
    }

    /// Posts room for a message at an address and of a length. Any context; errors as of
    /// [`Qp::post_recv`].
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn post(&mut self, wr_id: u64, (addr, len): (u64, u32)) -> Result {
        let receiving = &mut *self.0;
        receiving.wr.__bindgen_anon_1.wr_id = wr_id;
        receiving.sge.set_range(addr, len);
        // SAFETY: As in `SendTemplate::post`.
        post_result(unsafe {
            (receiving.post)(receiving.raw.as_ptr(), &receiving.wr, &mut receiving.bad_wr)
        })
    }
}
