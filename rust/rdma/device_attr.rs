// SPDX-License-Identifier: GPL-2.0

//! Attributes of a device, copied from the kernel's structures.

use super::prelude::*;
use crate::compat::limit;
use kernel::{
    ffi::c_char,
    fmt, //
};

/// Defines [`DeviceAttr`] with the given limits of `struct ib_device_attr`, and how they are read:
/// those behind the semicolon have the same type in each series of Linux.
macro_rules! device_attr {
    ($($limit:ident)*; $($field:ident: $type:ty)*) => {
        /// Limits of a device.
        ///
        /// The fields have the names and meanings of `struct ib_device_attr`.
        #[derive(Clone, Copy)]
        pub(crate) struct DeviceAttr {
            $(pub(crate) $limit: u32,)*
            $(pub(crate) $field: $type,)*
            /// Set if the device has atomic operations.
            pub(crate) has_atomics: bool,
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
                    $($limit: limit(attr.$limit),)*
                    $($field: attr.$field,)*
                    has_atomics: matches!(
                        attr.atomic_cap,
                        bindings::ib_atomic_cap_IB_ATOMIC_HCA
                            | bindings::ib_atomic_cap_IB_ATOMIC_GLOB
                    ),
                    num_comp_vectors: u32::try_from(vectors).unwrap_or(1).max(1),
                }
            }
        }
    };
}

device_attr! {
    max_qp max_qp_wr max_cq max_cqe max_mr max_send_sge max_recv_sge max_sge_rd
    max_srq max_srq_wr max_srq_sge max_qp_rd_atom max_qp_init_rd_atom;
    max_fast_reg_page_list_len: u32
    page_size_cap: u64
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
        let (is_iwarp, is_roce, is_ib) = unsafe {
            (
                bindings::rdma_protocol_iwarp(raw, port),
                bindings::rdma_protocol_roce(raw, port),
                bindings::rdma_protocol_ib(raw, port),
            )
        };
        match (is_iwarp, is_roce, is_ib) {
            (true, ..) => Self::Iwarp,
            (_, true, _) => Self::RoCE,
            (.., true) => Self::InfiniBand,
            _ => Self::Other,
        }
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
        Self::truncated(from)
    }

    /// Copies up to the first NUL, truncated to fit.
    pub(super) fn truncated(from: &[c_char]) -> Self {
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
}

impl<const N: usize> fmt::Display for CStrBuf<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Empty if it is not UTF-8.
        fmt::Display::fmt(self.as_c_str().to_str().unwrap_or(""), f)
    }
}

#[kunit_tests(kofi_rdma_attributes)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_the_first_nul_and_is_terminated() {
        let text = CStrBuf::new(&[b'a', b'b', 0, b'c']);
        assert_eq!(text.as_c_str().to_bytes(), b"ab");
        let full = CStrBuf::new(&[b'a'; 4]);
        assert_eq!(full.as_c_str().to_bytes(), b"aaa");
        assert_eq!(full.as_c_str().to_bytes_with_nul().len(), 4);
    }

    #[test]
    fn name_that_is_no_text_is_shown_as_empty() -> Result {
        for (bytes, shown) in [([b'a', 0], &b"a"[..]), ([0xff, 0], b"")] {
            let text = kernel::str::CString::try_from_fmt(fmt!("{}", CStrBuf::new(&bytes)))?;
            assert_eq!(text.to_bytes(), shown);
        }
        Ok(())
    }
}
