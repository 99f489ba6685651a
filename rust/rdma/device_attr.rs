// SPDX-License-Identifier: GPL-2.0

//! Attributes of a device, copied from the kernel's structures.

use crate::{
    bindings,
    compat::limit, //
};
use core::ffi::CStr;
use kernel::{
    ffi::c_char,
    fmt,
    prelude::*, //
};

/// Limits of a device.
///
/// The fields have the names and meanings of `struct ib_device_attr`.
#[derive(Clone, Copy)]
pub(crate) struct DeviceAttr {
    pub(crate) max_qp: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) max_cq: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_mr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_sge_rd: u32,
    pub(crate) max_srq: u32,
    pub(crate) max_srq_wr: u32,
    pub(crate) max_srq_sge: u32,
    pub(crate) max_fast_reg_page_list_len: u32,
    pub(crate) page_size_cap: u64,
    /// Limit of RDMA reads and atomics that one QP answers concurrently.
    pub(crate) max_qp_rd_atom: u32,
    /// Limit of outstanding RDMA reads and atomics of one QP.
    pub(crate) max_qp_init_rd_atom: u32,
    pub(crate) atomic_cap: AtomicCap,
    pub(crate) num_comp_vectors: u32,
}

impl DeviceAttr {
    /// # Safety
    ///
    /// `raw` is a registered device.
    pub(super) unsafe fn query(raw: *mut bindings::ib_device) -> Self {
        // SAFETY: `raw` is valid, and the fields read here do not change after registration.
        let (attr, vectors) = unsafe { (&(*raw).attrs, (*raw).num_comp_vectors) };
        Self {
            max_qp: limit(attr.max_qp),
            max_qp_wr: limit(attr.max_qp_wr),
            max_cq: limit(attr.max_cq),
            max_cqe: limit(attr.max_cqe),
            max_mr: limit(attr.max_mr),
            max_send_sge: limit(attr.max_send_sge),
            max_recv_sge: limit(attr.max_recv_sge),
            max_sge_rd: limit(attr.max_sge_rd),
            max_srq: limit(attr.max_srq),
            max_srq_wr: limit(attr.max_srq_wr),
            max_srq_sge: limit(attr.max_srq_sge),
            max_fast_reg_page_list_len: attr.max_fast_reg_page_list_len,
            page_size_cap: attr.page_size_cap,
            max_qp_rd_atom: limit(attr.max_qp_rd_atom),
            max_qp_init_rd_atom: limit(attr.max_qp_init_rd_atom),
            atomic_cap: match attr.atomic_cap {
                bindings::ib_atomic_cap_IB_ATOMIC_HCA => AtomicCap::Hca,
                bindings::ib_atomic_cap_IB_ATOMIC_GLOB => AtomicCap::Global,
                _ => AtomicCap::None,
            },
            num_comp_vectors: u32::try_from(vectors).unwrap_or(1).max(1),
        }
    }
}

/// Scope of the atomicity of a device's atomic operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtomicCap {
    /// The device has no atomic operations.
    None,
    /// Atomic with respect to other operations of the same device.
    Hca,
    /// Atomic with respect to the whole system, including the CPU.
    Global,
}

/// Transport protocol of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// InfiniBand, or Omni-Path, which the verbs present as InfiniBand.
    InfiniBand,
    /// RDMA over Converged Ethernet: InfiniBand's transport over Ethernet.
    RoCE,
    /// RDMA over TCP.
    Iwarp,
    /// A protocol without reliable connections.
    Other,
}

impl Protocol {
    /// # Safety
    ///
    /// `raw` is a registered device, and `port` one of its ports.
    pub(super) unsafe fn of_port(raw: *const bindings::ib_device, port: u32) -> Self {
        // SAFETY: By this function's contract.
        if unsafe { bindings::rdma_protocol_iwarp(raw, port) } {
            return Self::Iwarp;
        }
        // SAFETY: By this function's contract.
        if unsafe { bindings::rdma_protocol_roce(raw, port) } {
            return Self::RoCE;
        }
        // SAFETY: By this function's contract.
        if unsafe { bindings::rdma_protocol_ib(raw, port) } {
            return Self::InfiniBand;
        }
        Self::Other
    }
}

/// A copy of a short string of the kernel, such as a name or a version.
///
/// # Invariants
///
/// The last byte is NUL.
#[derive(Clone, Copy)]
pub(crate) struct CStrBuf<const N: usize>([u8; N]);

impl<const N: usize> CStrBuf<N> {
    /// Copies up to the first NUL, at most all but the last byte.
    pub(crate) fn new(from: &[c_char; N]) -> Self {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().take(N.saturating_sub(1)).zip(from) {
            if *from == 0 {
                break;
            }
            *to = *from;
        }
        // INVARIANT: The last byte was not written and is 0.
        Self(bytes)
    }

    /// Returns the string with its terminating NUL.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }

    /// Returns the string without its NUL.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    /// Returns the string, or an empty one if it is not UTF-8.
    fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }
}

impl<const N: usize> fmt::Display for CStrBuf<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

#[kunit_tests(kofi_rdma_attributes)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_the_first_nul_and_is_terminated() {
        let text = CStrBuf::new(&[b'a', b'b', 0, b'c']);
        assert_eq!(text.as_str(), "ab");
        let full = CStrBuf::new(&[b'a'; 4]);
        assert_eq!(full.as_bytes(), b"aaa");
        assert_eq!(full.as_c_str().to_bytes_with_nul().len(), 4);
        assert_eq!(CStrBuf::new(&[0xff, 0]).as_str(), "");
    }
}
