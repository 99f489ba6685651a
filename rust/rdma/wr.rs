// SPDX-License-Identifier: GPL-2.0

//! Work requests for the queues of a queue pair.
//!
//! A request borrows its scatter/gather list until it is posted, because drivers copy the list. The
//! memory that the entries name belongs to the operation until it completes; no lifetime expresses
//! that, so posting is unsafe.

use super::mr::{
    Access,
    FastMr, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    impl_flags,
    prelude::*, //
};

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
        /// Waits for the reads and atomics that were posted before.
        Fence = bindings::ib_send_flags_IB_SEND_FENCE as u32,
        /// Reports success too, not only errors.
        Signaled = bindings::ib_send_flags_IB_SEND_SIGNALED as u32,
        /// Raises a solicited event at the peer.
        Solicited = bindings::ib_send_flags_IB_SEND_SOLICITED as u32,
        /// Copies the data from kernel addresses while posting.
        Inline = bindings::ib_send_flags_IB_SEND_INLINE as u32,
    }
);

/// A remote address with its remote key.
#[derive(Clone, Copy)]
pub(crate) struct RemoteAddr {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
}

/// Work request of any kind: each member begins with an `ib_send_wr`, whose opcode selects the
/// member.
#[repr(C)]
union RawSendWr {
    send: bindings::ib_send_wr,
    rdma: bindings::ib_rdma_wr,
    atomic: bindings::ib_atomic_wr,
    reg: bindings::ib_reg_wr,
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

/// Returns the fields common to all requests of the send queue.
#[inline]
fn send_wr_base(
    wr_id: u64,
    sges: &[Sge],
    opcode: bindings::ib_wr_opcode,
    flags: SendFlags,
) -> bindings::ib_send_wr {
    bindings::ib_send_wr {
        next: ptr::null_mut(),
        __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 { wr_id },
        // Drivers only read the list.
        sg_list: sges.as_ptr().cast_mut().cast(),
        num_sge: sges.len() as c_int,
        opcode,
        send_flags: u32::from(flags) as c_int,
        ex: bindings::ib_send_wr__bindgen_ty_2 { imm_data: 0 },
    }
}

impl<'a> SendWr<'a> {
    #[inline]
    fn wrap(raw: RawSendWr) -> Self {
        Self {
            raw,
            _sges: PhantomData,
        }
    }

    #[inline]
    fn with_imm(mut self, imm: u32) -> Self {
        self.raw.send.ex.imm_data = imm.to_be();
        self
    }

    /// Creates a send of a message.
    #[inline]
    pub(crate) fn send(wr_id: u64, sges: &'a [Sge], flags: SendFlags) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        // INVARIANT: A send has only the common fields.
        Self::wrap(RawSendWr {
            send: send_wr_base(wr_id, sges, opcode, flags),
        })
    }

    /// Creates a send of a message with immediate data `imm`, in host byte order.
    #[inline]
    pub(crate) fn send_with_imm(wr_id: u64, sges: &'a [Sge], imm: u32, flags: SendFlags) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM;
        // INVARIANT: A send has only the common fields.
        Self::wrap(RawSendWr {
            send: send_wr_base(wr_id, sges, opcode, flags),
        })
        .with_imm(imm)
    }

    /// Makes a work request with the union member `rdma`.
    ///
    /// # Safety
    ///
    /// `opcode` is one that uses that member.
    #[inline]
    unsafe fn rdma(
        wr_id: u64,
        sges: &'a [Sge],
        remote: RemoteAddr,
        opcode: bindings::ib_wr_opcode,
        flags: SendFlags,
    ) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self::wrap(RawSendWr {
            rdma: bindings::ib_rdma_wr {
                wr: send_wr_base(wr_id, sges, opcode, flags),
                remote_addr: remote.addr,
                rkey: remote.rkey,
            },
        })
    }

    /// Creates an RDMA write of the concatenated `sges`.
    #[inline]
    pub(crate) fn write(wr_id: u64, sges: &'a [Sge], remote: RemoteAddr, flags: SendFlags) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        // SAFETY: The opcode uses that member.
        unsafe { Self::rdma(wr_id, sges, remote, opcode, flags) }
    }

    /// Creates an RDMA write that also completes a receive of the peer with `imm`, in host byte
    /// order.
    #[inline]
    pub(crate) fn write_with_imm(
        wr_id: u64,
        sges: &'a [Sge],
        remote: RemoteAddr,
        imm: u32,
        flags: SendFlags,
    ) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
        // SAFETY: The opcode uses that member.
        unsafe { Self::rdma(wr_id, sges, remote, opcode, flags) }.with_imm(imm)
    }

    /// Creates an RDMA read into the concatenated `pieces`.
    #[inline]
    pub(crate) fn read(
        wr_id: u64,
        pieces: &'a [Sge],
        remote: RemoteAddr,
        flags: SendFlags,
    ) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        // SAFETY: The opcode uses that member.
        unsafe { Self::rdma(wr_id, pieces, remote, opcode, flags) }
    }

    /// Makes a work request with the union member `atomic`.
    ///
    /// # Safety
    ///
    /// `opcode` is one that uses that member.
    #[inline]
    unsafe fn atomic(
        wr_id: u64,
        pieces: &'a [Sge],
        remote: RemoteAddr,
        opcode: bindings::ib_wr_opcode,
        (compare_add, swap): (u64, u64),
        flags: SendFlags,
    ) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self::wrap(RawSendWr {
            atomic: bindings::ib_atomic_wr {
                wr: send_wr_base(wr_id, pieces, opcode, flags),
                remote_addr: remote.addr,
                compare_add,
                swap,
                compare_add_mask: 0,
                swap_mask: 0,
                rkey: remote.rkey,
            },
        })
    }

    /// Creates an atomic addition to 8 bytes of the peer, whose old value is written to `sge`.
    #[inline]
    pub(crate) fn fetch_add(
        wr_id: u64,
        sge: &'a [Sge; 1],
        remote: RemoteAddr,
        add: u64,
        flags: SendFlags,
    ) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD;
        // SAFETY: The opcode uses that member.
        unsafe { Self::atomic(wr_id, sge, remote, opcode, (add, 0), flags) }
    }

    /// Creates an atomic compare and swap of 8 bytes of the peer, whose old value is written to
    /// `sge`.
    #[inline]
    pub(crate) fn cmp_swap(
        wr_id: u64,
        sge: &'a [Sge; 1],
        remote: RemoteAddr,
        compare: u64,
        swap: u64,
        flags: SendFlags,
    ) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP;
        // SAFETY: The opcode uses that member.
        unsafe { Self::atomic(wr_id, sge, remote, opcode, (compare, swap), flags) }
    }

    /// Creates a registration of `mr` with the given access.
    #[inline]
    pub(super) fn reg_mr(wr_id: u64, mr: &'a FastMr, access: Access, flags: SendFlags) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        // INVARIANT: `reg` is the member of the opcode.
        Self::wrap(RawSendWr {
            reg: bindings::ib_reg_wr {
                wr: send_wr_base(wr_id, &[], opcode, flags),
                mr: mr.raw(),
                key: mr.rkey(),
                access: u32::from(access) as c_int,
            },
        })
    }

    /// Creates a local invalidation of a remote key.
    #[inline]
    pub(super) fn local_inv(wr_id: u64, rkey: u32, flags: SendFlags) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        let mut send = send_wr_base(wr_id, &[], opcode, flags);
        send.ex.invalidate_rkey = rkey;
        // INVARIANT: `send` is the member of the opcode.
        Self::wrap(RawSendWr { send })
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
