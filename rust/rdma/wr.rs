// SPDX-License-Identifier: GPL-2.0

//! Work requests for the queues of a queue pair.
//!
//! A request borrows its scatter/gather list only until it is posted, because drivers copy the list.
//! The memory that the entries name is used until the operation completes. No lifetime expresses
//! that, so posting is unsafe.

use super::{
    mr::FastMr,
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::impl_flags;

/// Operation of a driver that posts requests of type `W` to a queue of type `Q`.
pub(super) type PostFn<Q, W> = unsafe extern "C" fn(*mut Q, *const W, *mut *const W) -> c_int;

/// A scatter/gather entry: a range of local memory and its key.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Sge(bindings::ib_sge);

impl Sge {
    /// Creates an entry. `addr` is a DMA address, or a kernel address if the request is
    /// [`SendFlag::Inline`].
    #[inline]
    pub(crate) const fn new(addr: u64, length: u32, lkey: u32) -> Self {
        Self(bindings::ib_sge { addr, length, lkey })
    }

    /// Returns the length in bytes.
    pub(super) const fn len(&self) -> u32 {
        self.0.length
    }

    /// Sets the range to `length` bytes at `addr`; the key remains.
    #[inline(always)]
    pub(super) fn set_range(&mut self, addr: u64, length: u32) {
        self.0.addr = addr;
        self.0.length = length;
    }
}

impl_flags!(
    /// Flags of a send request.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub(crate) struct SendFlags(u32);

    /// A flag of a send request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum SendFlag {
        /// Starts after the reads and atomics that were posted before have completed.
        Fence = bindings::ib_send_flags_IB_SEND_FENCE as u32,
        /// Writes a completion for a success too, not only for an error.
        Signaled = bindings::ib_send_flags_IB_SEND_SIGNALED as u32,
        /// Raises a solicited event at the peer.
        Solicited = bindings::ib_send_flags_IB_SEND_SOLICITED as u32,
        /// Copies the data from kernel addresses while posting.
        Inline = bindings::ib_send_flags_IB_SEND_INLINE as u32,
    }
);

/// An address in a peer's memory, and the key of the region that it is in.
#[derive(Clone, Copy)]
pub(crate) struct RemoteAddr {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
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

/// Work request of any kind: each member begins with `send`, whose opcode selects the member.
#[repr(C)]
pub(super) union RawSendWr {
    pub(super) send: bindings::ib_send_wr,
    rdma: bindings::ib_rdma_wr,
    /// The largest member.
    pub(super) atomic: bindings::ib_atomic_wr,
    reg: bindings::ib_reg_wr,
}

impl RawSendWr {
    /// Sets the fields that follow `send` to those of `op`, except for the masks of `atomic`, and
    /// returns the opcode of `op`.
    #[inline(always)]
    pub(super) fn set_op(&mut self, op: WrOp) -> bindings::ib_wr_opcode {
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

/// A request for the send queue.
///
/// # Invariants
///
/// The member of `raw` that belongs to its opcode is initialised.
pub(crate) struct SendWr<'a> {
    raw: RawSendWr,
    _sges: PhantomData<&'a [Sge]>,
}

impl<'a> SendWr<'a> {
    /// Creates a request for `op`. Its local memory is that of the entries `sges`, one after the
    /// other; for an atomic operation, one entry of 8 bytes, which gets the old value.
    #[inline(always)]
    pub(crate) fn new(wr_id: u64, sges: &'a [Sge], op: WrOp, flags: SendFlags) -> Self {
        let mut raw = RawSendWr {
            send: bindings::ib_send_wr {
                next: ptr::null_mut(),
                __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 { wr_id },
                // Drivers only read the list.
                sg_list: sges.as_ptr().cast_mut().cast(),
                num_sge: sges.len() as c_int,
                opcode: bindings::ib_wr_opcode_IB_WR_SEND,
                send_flags: u32::from(flags) as c_int,
                ex: bindings::ib_send_wr__bindgen_ty_2 { imm_data: 0 },
            },
        };
        raw.send.opcode = raw.set_op(op);
        if let WrOp::FetchAdd(..) | WrOp::CmpSwap(..) = op {
            raw.atomic.compare_add_mask = 0;
            raw.atomic.swap_mask = 0;
        }
        // INVARIANT: All fields of the member have been set above.
        Self {
            raw,
            _sges: PhantomData,
        }
    }

    /// Adds immediate data `imm`, in host byte order, to a send or write. `opcode` is that of the
    /// operation with immediate data.
    #[inline(always)]
    fn with_imm(mut self, opcode: bindings::ib_wr_opcode, imm: u32) -> Self {
        self.raw.send.opcode = opcode;
        self.raw.send.ex.imm_data = imm.to_be();
        self
    }

    /// Creates a send of a message with immediate data `imm`, in host byte order.
    #[inline(always)]
    pub(crate) fn send_with_imm(wr_id: u64, sges: &'a [Sge], imm: u32, flags: SendFlags) -> Self {
        Self::new(wr_id, sges, WrOp::Send, flags)
            .with_imm(bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM, imm)
    }

    /// Creates an RDMA write that also completes a receive of the peer with `imm`, in host byte
    /// order.
    #[inline(always)]
    pub(crate) fn write_with_imm(
        wr_id: u64,
        sges: &'a [Sge],
        remote: RemoteAddr,
        imm: u32,
        flags: SendFlags,
    ) -> Self {
        Self::new(wr_id, sges, WrOp::Write(remote), flags)
            .with_imm(bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM, imm)
    }

    /// Creates a send that also invalidates the peer's key `rkey`.
    pub(crate) fn send_with_inv(wr_id: u64, sges: &'a [Sge], rkey: u32, flags: SendFlags) -> Self {
        let mut wr = Self::new(wr_id, sges, WrOp::Send, flags);
        // INVARIANT: `send` is the member of the opcode.
        wr.raw.send.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
        wr.raw.send.ex.invalidate_rkey = rkey;
        wr
    }

    /// Creates a fast registration of `mr` under its current key and with its access rights.
    pub(crate) fn reg_mr(wr_id: u64, mr: &'a FastMr, flags: SendFlags) -> Self {
        let mut wr = Self::new(wr_id, &[], WrOp::Send, flags);
        // INVARIANT: `reg` is the member of the opcode.
        wr.raw.send.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        wr.raw.reg.mr = mr.raw();
        wr.raw.reg.key = mr.rkey();
        wr.raw.reg.access = u32::from(mr.access) as c_int;
        wr
    }

    /// Creates a local invalidation of the key `rkey` of one of this side's regions.
    pub(crate) fn local_inv(wr_id: u64, rkey: u32, flags: SendFlags) -> Self {
        let mut wr = Self::new(wr_id, &[], WrOp::Send, flags);
        // INVARIANT: `send` is the member of the opcode.
        wr.raw.send.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.raw.send.ex.invalidate_rkey = rkey;
        wr
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *const bindings::ib_send_wr {
        ptr::from_ref(&self.raw).cast()
    }
}

/// A request for the receive queue.
#[repr(transparent)]
pub(crate) struct RecvWr<'a> {
    raw: bindings::ib_recv_wr,
    _sges: PhantomData<&'a [Sge]>,
}

impl<'a> RecvWr<'a> {
    /// Creates a receive of one message.
    #[inline]
    pub(crate) fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self {
            raw: bindings::ib_recv_wr {
                next: ptr::null_mut(),
                __bindgen_anon_1: bindings::ib_recv_wr__bindgen_ty_1 { wr_id },
                // Drivers only read the list.
                sg_list: sges.as_ptr().cast_mut().cast(),
                num_sge: sges.len() as c_int,
            },
            _sges: PhantomData,
        }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *const bindings::ib_recv_wr {
        &self.raw
    }
}
