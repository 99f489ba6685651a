// SPDX-License-Identifier: GPL-2.0

//! Work completions: status, operation and received data.

use crate::rdma::prelude::*;

/// A work completion.
///
/// # Invariants
///
/// `wr_id`, `status`, `vendor_err` and `qp` are initialised; after a success also the other fields
/// of its operation.
#[repr(transparent)]
pub(crate) struct Wc(MaybeUninit<bindings::ib_wc>);

// SAFETY: A completion is plain data; the addresses in it are only compared.
unsafe impl Send for Wc {}

impl Wc {
    /// Returns the `wr_id` of the work request.
    #[inline]
    pub(crate) fn wr_id(&self) -> u64 {
        // SAFETY: By the invariant it is initialised; work requests of this module use the number,
        // not the pointer.
        unsafe { (*self.0.as_ptr()).__bindgen_anon_1.wr_id }
    }

    /// Returns the upper and the lower half of `wr_id`, for callers that test them separately.
    #[inline]
    pub(crate) fn wr_id_halves(&self) -> (u32, u32) {
        // SAFETY: As above; two halves have the size of the number, and its alignment is
        // sufficient.
        let halves = unsafe { self.0.as_ptr().cast::<[u32; 2]>().read() };
        match cfg!(target_endian = "little") {
            true => (halves[1], halves[0]),
            false => (halves[0], halves[1]),
        }
    }

    /// Returns whether the work request succeeded.
    #[inline]
    pub(crate) fn is_success(&self) -> bool {
        self.status() == WcStatus::SUCCESS
    }

    /// Returns the status of the work request.
    #[inline]
    pub(crate) fn status(&self) -> WcStatus {
        // SAFETY: By the invariant it is initialised.
        WcStatus(unsafe { (*self.0.as_ptr()).status })
    }

    /// Returns the address of its queue pair, as [`Qp::raw_addr`](crate::rdma::qp::Qp::raw_addr). The
    /// queue pair may already be destroyed.
    #[inline]
    pub(crate) fn qp(&self) -> usize {
        // SAFETY: By the invariant it is initialised.
        unsafe { (*self.0.as_ptr()).qp as usize }
    }

    /// Returns the vendor-specific error code of the driver.
    #[inline]
    pub(crate) fn vendor_err(&self) -> u32 {
        // SAFETY: By the invariant it is initialised.
        unsafe { (*self.0.as_ptr()).vendor_err }
    }

    /// Returns the bytes that a successful receive, read or atomic transferred; 0 for an error.
    #[inline]
    pub(crate) fn byte_len(&self) -> u32 {
        if !self.is_success() {
            return 0;
        }
        // SAFETY: By the invariant it is initialised after a success; each driver sets it for all
        // operations.
        unsafe { (*self.0.as_ptr()).byte_len }
    }

    /// Returns whether there is immediate data or an invalidated key; valid only for a successful receive.
    #[inline]
    pub(crate) fn has_imm(&self) -> bool {
        self.has_flag(
            bindings::ib_wc_flags_IB_WC_WITH_IMM | bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE,
        )
    }

    /// Returns whether one of the flags is set; valid only for a successful receive.
    #[inline]
    fn has_flag(&self, flags: bindings::ib_wc_flags) -> bool {
        // SAFETY: By the invariant a successful receive has its flags; in other completions any
        // value is possible.
        unsafe { (*self.0.as_ptr()).wc_flags & flags as c_int != 0 }
    }

    /// Returns the immediate data of a successful receive, in host byte order, or the key that its message has
    /// invalidated.
    #[inline]
    pub(crate) fn imm_data(&self) -> ImmData {
        if !self.is_success() {
            return ImmData::None;
        }
        // SAFETY: By the invariant it is initialised after a success.
        let is_write = match unsafe { (*self.0.as_ptr()).opcode } {
            bindings::ib_wc_opcode_IB_WC_RECV => false,
            bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => true,
            _ => return ImmData::None,
        };
        if !self.has_imm() {
            return ImmData::None;
        }
        if self.has_flag(bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE) {
            // SAFETY: As below.
            return ImmData::Invalidated(unsafe { (*self.0.as_ptr()).ex.invalidate_rkey });
        }
        // SAFETY: By the invariant a successful receive has the fields that its flags name.
        let data = u32::from_be(unsafe { (*self.0.as_ptr()).ex.imm_data });
        match is_write {
            false => ImmData::Send(data),
            true => ImmData::Write(data),
        }
    }
}

/// Immediate data of a work completion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImmData {
    /// No immediate data.
    None,
    /// Immediate data of a message.
    Send(u32),
    /// Immediate data of a write, which has not touched the receive's memory.
    Write(u32),
    /// Key that a message has invalidated, in place of immediate data.
    Invalidated(u32),
}

/// Status of a work request: an `enum ib_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WcStatus(bindings::ib_wc_status);

impl WcStatus {
    /// The work request succeeded.
    pub(crate) const SUCCESS: Self = Self(bindings::ib_wc_status_IB_WC_SUCCESS);

    /// A message was longer than its receive, or than the limit of a message.
    pub(crate) const LOC_LEN_ERR: Self = Self(bindings::ib_wc_status_IB_WC_LOC_LEN_ERR);

    /// A local memory key does not cover the memory or the access.
    pub(crate) const LOC_PROT_ERR: Self = Self(bindings::ib_wc_status_IB_WC_LOC_PROT_ERR);

    /// The queue pair entered the error state before the request was executed.
    pub(crate) const WR_FLUSH_ERR: Self = Self(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR);

    /// A memory window could not be bound.
    pub(crate) const MW_BIND_ERR: Self = Self(bindings::ib_wc_status_IB_WC_MW_BIND_ERR);

    /// A local protection error occurred for incoming data.
    pub(crate) const LOC_ACCESS_ERR: Self = Self(bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR);

    /// The peer found the request invalid: an unsupported operation, or too long for its receive.
    pub(crate) const REM_INV_REQ_ERR: Self = Self(bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR);

    /// The peer's memory does not permit the access.
    pub(crate) const REM_ACCESS_ERR: Self = Self(bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR);

    /// The peer failed to process the request.
    pub(crate) const REM_OP_ERR: Self = Self(bindings::ib_wc_status_IB_WC_REM_OP_ERR);

    /// The peer did not respond within the retries.
    pub(crate) const RETRY_EXC_ERR: Self = Self(bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR);

    /// The peer posted no receive within the RNR retries.
    pub(crate) const RNR_RETRY_EXC_ERR: Self = Self(bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR);

    /// Reliable datagram error; the specification no longer has reliable datagrams.
    pub(crate) const REM_INV_RD_REQ_ERR: Self =
        Self(bindings::ib_wc_status_IB_WC_REM_INV_RD_REQ_ERR);

    /// The peer aborted the request.
    pub(crate) const REM_ABORT_ERR: Self = Self(bindings::ib_wc_status_IB_WC_REM_ABORT_ERR);

    /// The peer did not respond in time.
    pub(crate) const RESP_TIMEOUT_ERR: Self = Self(bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR);

    /// An error without a status of its own.
    pub(crate) const GENERAL_ERR: Self = Self(bindings::ib_wc_status_IB_WC_GENERAL_ERR);

    /// Returns the `enum ib_wc_status` value.
    pub(crate) fn code(self) -> u32 {
        self.0
    }

    /// Returns the status of an `enum ib_wc_status` value.
    pub(crate) const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// Returns a short description.
    pub(crate) fn text(self) -> &'static CStr {
        // SAFETY: The function takes any number, and its text is static in the RDMA core.
        unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(self.0)) }
    }
}
