// SPDX-License-Identifier: GPL-2.0

//! `fi_tostr()`: converts values and attributes to text.
//!
//! Enumerations and flags are displayed as their C names, structs as a tree of `key: value` lines. Kernel
//! addresses are never displayed, as text ends up in logs.

mod attr;

use super::*;
use crate::prelude::*;
use core::cell::UnsafeCell;
use kernel::fmt::{
    self,
    Write, //
};

/// A text in a buffer of fixed size, which truncates what does not fit and keeps the text NUL-terminated.
///
/// # Invariants
///
/// `len` is less than the size of `buf`, and `buf[len]` is 0; or `buf` is empty and `len` is 0.
pub(crate) struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    /// Makes an empty text in `buf`. With a buffer of 0 bytes, writes are discarded.
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        if let Some(first) = buf.first_mut() {
            *first = 0;
        }
        // INVARIANT: The first byte is 0, or there is none.
        Self { buf, len: 0 }
    }

    /// Returns the text without the NUL.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(free) = self.buf.len().checked_sub(self.len + 1) else {
            return Ok(());
        };
        let fits = text.len().min(free);
        let end = self.len + fits;
        self.buf[self.len..end].copy_from_slice(&text.as_bytes()[..fits]);
        self.buf[end] = 0;
        // INVARIANT: `fits` leaves room for the NUL, which was written just now.
        self.len = end;
        Ok(())
    }
}

/// Displays a version as FI_VERSION() forms it.
#[derive(Clone, Copy)]
pub(crate) struct Version(pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// Displays the description of a fabric errno, positive or negative.
#[derive(Clone, Copy)]
pub(crate) struct Error(pub c_int);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(errno::strerror(self.0), f)
    }
}

/// Writes the value at `data` into `text`. Returns false if `datatype` is unknown.
///
/// # Safety
///
/// `data` is valid for reads of the type that `datatype` names in `enum fi_type`, and so is all memory that
/// the value points to: names are NUL-terminated, addresses have the length in the field beside them.
pub(crate) unsafe fn write_value(
    data: *const c_void,
    datatype: fi_type,
    text: &mut Text<'_>,
) -> bool {
    // SAFETY: The arm below that calls this is reached for datatypes of 32 bits only; by this function's safety
    // requirements `data` is then valid for reading one.
    let int = || unsafe { data.cast::<u32>().read() };
    // SAFETY: As above, for 64 bits.
    let bits = || unsafe { data.cast::<u64>().read() };

    macro_rules! attr {
        ($type:ty) => {{
            // SAFETY: By this function's safety requirements.
            let attr = unsafe { &*data.cast::<$type>() };
            // SAFETY: As above, for the memory that the attributes point to.
            unsafe { attr::AttrText::write_to(attr, &mut attr::Tree::new(text)) }
        }};
    }

    let written = match datatype {
        super::FI_TYPE_INFO => attr!(fi_info),
        super::FI_TYPE_TX_ATTR => attr!(fi_tx_attr),
        super::FI_TYPE_RX_ATTR => attr!(fi_rx_attr),
        super::FI_TYPE_EP_ATTR => attr!(fi_ep_attr),
        super::FI_TYPE_DOMAIN_ATTR => attr!(fi_domain_attr),
        super::FI_TYPE_FABRIC_ATTR => attr!(fi_fabric_attr),
        super::FI_TYPE_FID => attr!(fid),
        super::FI_TYPE_CQ_ERR_ENTRY => attr!(fi_cq_err_entry),
        super::FI_TYPE_EQ_ERR_ENTRY => attr!(fi_eq_err_entry),
        super::FI_TYPE_CQ_ATTR => attr!(fi_cq_attr),
        super::FI_TYPE_EQ_ATTR => attr!(fi_eq_attr),
        super::FI_TYPE_CNTR_ATTR => attr!(fi_cntr_attr),
        super::FI_TYPE_AV_ATTR => attr!(fi_av_attr),
        super::FI_TYPE_VERSION => text.write_fmt(fmt!("{}", Version(VERSION))),
        _ if flag_set(datatype).is_some() => return write_number(datatype, bits(), text),
        _ if is_int(datatype) => return write_number(datatype, int().into(), text),
        _ => return false,
    };
    // Always true: `Text::write_str` returns no error, and neither does any formatter used here.
    written.is_ok()
}

/// Writes a description of a device into `text`.
///
/// # Safety
///
/// `nic` is valid for reads, with all memory that it points to.
pub(super) unsafe fn write_nic(nic: &fid_nic, text: &mut Text<'_>) {
    // Returns no error, as in `write_value`. SAFETY: By this function's safety requirements.
    let _ = unsafe { attr::AttrText::write_to(nic, &mut attr::Tree::new(text)) };
}

/// Returns whether values of this type have 32 bits: an enumeration, or `mr_mode`.
fn is_int(datatype: fi_type) -> bool {
    datatype == super::FI_TYPE_MR_MODE || enumeration(datatype).is_some()
}

/// Writes the value of an enumeration, a set of flags, or `mr_mode` into `text`. Returns false for another type.
pub(crate) fn write_number(datatype: fi_type, value: u64, text: &mut Text<'_>) -> bool {
    let written = if let Some(set) = flag_set(datatype) {
        text.write_fmt(fmt!("{}", set.display(value)))
    } else if datatype == super::FI_TYPE_MR_MODE {
        text.write_fmt(fmt!("{}", flags::MR_MODE.display(value)))
    } else if let Some(names) = enumeration(datatype) {
        text.write_fmt(fmt!("{}", names.display(value)))
    } else {
        return false;
    };
    written.is_ok()
}

fn flag_set(datatype: fi_type) -> Option<&'static flags::FlagSet> {
    Some(match datatype {
        super::FI_TYPE_CAPS => &flags::CAPS,
        super::FI_TYPE_OP_FLAGS => &flags::OP_FLAGS,
        super::FI_TYPE_MSG_ORDER => &flags::ORDER,
        super::FI_TYPE_MODE => &flags::MODE,
        super::FI_TYPE_CQ_EVENT_FLAGS => &flags::COMPLETION_FLAGS,
        _ => return None,
    })
}

fn enumeration(datatype: fi_type) -> Option<&'static enum_names::EnumNames> {
    Some(match datatype {
        super::FI_TYPE_EP_TYPE => &enum_names::EP_TYPE,
        super::FI_TYPE_ADDR_FORMAT => &enum_names::ADDR_FORMAT,
        super::FI_TYPE_THREADING => &enum_names::THREADING,
        super::FI_TYPE_PROGRESS => &enum_names::PROGRESS,
        super::FI_TYPE_PROTOCOL => &enum_names::PROTOCOL,
        super::FI_TYPE_AV_TYPE => &enum_names::AV_TYPE,
        super::FI_TYPE_ATOMIC_TYPE => &enum_names::DATATYPE,
        super::FI_TYPE_ATOMIC_OP => &enum_names::ATOMIC_OP,
        super::FI_TYPE_EQ_EVENT => &enum_names::EQ_EVENT,
        super::FI_TYPE_OP_TYPE => &enum_names::OP_TYPE,
        super::FI_TYPE_COLLECTIVE_OP => &enum_names::COLLECTIVE_OP,
        super::FI_TYPE_HMEM_IFACE => &enum_names::HMEM_IFACE,
        super::FI_TYPE_CQ_FORMAT => &enum_names::CQ_FORMAT,
        super::FI_TYPE_LOG_LEVEL => &enum_names::LOG_LEVEL,
        super::FI_TYPE_LOG_SUBSYS => &enum_names::LOG_SUBSYS,
        _ => return None,
    })
}

/// Bytes of a static buffer: enough for an info with every flag set.
const BUFFER_SIZE: usize = 8192;

/// Number of static buffers; a power of two, so that the turn may wrap around.
const BUFFER_COUNT: u32 = 8;

/// A static buffer that `fi_tostr()` returns, as its C callers expect a string that they need not free. Two callers
/// never write one buffer at the same time; by the C API's rule a caller copies its text before the buffer is used
/// again.
struct Buffer {
    /// Set while a caller writes.
    in_use: AtomicFlag,
    bytes: UnsafeCell<[u8; BUFFER_SIZE]>,
}

// SAFETY: `bytes` is written only by the caller that has set `in_use`.
unsafe impl Sync for Buffer {}

/// The buffers are used in turn.
static BUFFERS: [Buffer; BUFFER_COUNT as usize] = [const {
    Buffer {
        in_use: AtomicFlag::new(false),
        bytes: UnsafeCell::new([0; BUFFER_SIZE]),
    }
}; BUFFER_COUNT as usize];

static NEXT_BUFFER: Atomic<u32> = Atomic::new(0);

/// Implements `fi_tostr()`. Any context.
///
/// Returns null if `data` is null, if `datatype` is unknown, or if other callers are writing all buffers.
///
/// # Safety
///
/// `data` is null, or as [`write_value`] requires.
pub(crate) unsafe fn tostr_static(data: *const c_void, datatype: fi_type) -> *mut c_char {
    if data.is_null() {
        return ptr::null_mut();
    }
    for _ in 0..BUFFER_COUNT {
        let turn = NEXT_BUFFER.fetch_add(1, Relaxed) % BUFFER_COUNT;
        let buffer = &BUFFERS[turn as usize];
        // Waiting could deadlock: this may be an interrupt of the caller that writes.
        if buffer.in_use.xchg(true, Acquire) {
            continue;
        }
        // SAFETY: The caller that has set `in_use` has exclusive access to the buffer.
        let buf = unsafe { &mut *buffer.bytes.get() };
        // SAFETY: By this function's safety requirement.
        let known = unsafe { write_value(data, datatype, &mut Text::new(buf)) };
        buffer.in_use.store(false, Release);
        return if known {
            buffer.bytes.get().cast()
        } else {
            ptr::null_mut()
        };
    }
    ptr::null_mut()
}

#[kunit_tests(kofi_abi_tostr)]
mod tests {
    use super::*;
    use kernel::error::Result;
    use pin_init::zeroed;

    // Returns a result instead of asserting: outside of a test function, `assert!` panics the kernel.
    fn formats_as<T>(value: &T, datatype: fi_type, expected: &str) -> bool {
        let mut buf = [0; 256];
        let mut text = Text::new(&mut buf);
        // SAFETY: `datatype` stands for the type of `value`, which has no pointers.
        let known = unsafe { write_value(ptr::from_ref(value).cast(), datatype, &mut text) };
        known && text.as_bytes() == expected.as_bytes()
    }

    fn contains(text: &Text<'_>, part: &str) -> bool {
        let mut windows = text.as_bytes().windows(part.len());
        windows.any(|window| window == part.as_bytes())
    }

    #[test]
    fn enum_values_print_their_names() {
        for (value, datatype, name) in [
            (abi::FI_EP_MSG, abi::FI_TYPE_EP_TYPE, "FI_EP_MSG"),
            (
                abi::FI_SOCKADDR_IN6,
                abi::FI_TYPE_ADDR_FORMAT,
                "FI_SOCKADDR_IN6",
            ),
            (
                abi::FI_THREAD_SAFE,
                abi::FI_TYPE_THREADING,
                "FI_THREAD_SAFE",
            ),
            (
                abi::FI_PROGRESS_AUTO,
                abi::FI_TYPE_PROGRESS,
                "FI_PROGRESS_AUTO",
            ),
            (abi::FI_PROTO_RXM, abi::FI_TYPE_PROTOCOL, "FI_PROTO_RXM"),
            (abi::FI_AV_TABLE, abi::FI_TYPE_AV_TYPE, "FI_AV_TABLE"),
            (abi::FI_UINT128, abi::FI_TYPE_ATOMIC_TYPE, "FI_UINT128"),
            (abi::FI_VOID, abi::FI_TYPE_ATOMIC_TYPE, "FI_VOID"),
            (abi::FI_MSWAP, abi::FI_TYPE_ATOMIC_OP, "FI_MSWAP"),
            (abi::FI_CONNREQ, abi::FI_TYPE_EQ_EVENT, "FI_CONNREQ"),
            (abi::FI_OP_CNTR_ADD, abi::FI_TYPE_OP_TYPE, "FI_OP_CNTR_ADD"),
            (abi::FI_GATHER, abi::FI_TYPE_COLLECTIVE_OP, "FI_GATHER"),
            (
                abi::FI_HMEM_SYSTEM,
                abi::FI_TYPE_HMEM_IFACE,
                "FI_HMEM_SYSTEM",
            ),
            (
                abi::FI_CQ_FORMAT_DATA,
                abi::FI_TYPE_CQ_FORMAT,
                "FI_CQ_FORMAT_DATA",
            ),
            (abi::FI_LOG_WARN, abi::FI_TYPE_LOG_LEVEL, "FI_LOG_WARN"),
            (abi::FI_LOG_CNTR, abi::FI_TYPE_LOG_SUBSYS, "FI_LOG_CNTR"),
        ] {
            assert!(formats_as(&value, datatype, name));
        }
    }

    #[test]
    fn unknown_values_print_their_number() {
        assert!(formats_as(
            &0x99_u32,
            abi::FI_TYPE_EP_TYPE,
            "unknown (0x99)"
        ));
        let flags = abi::FI_MSG | 1 << 63;
        assert!(formats_as(
            &flags,
            abi::FI_TYPE_CAPS,
            "FI_MSG, 0x8000000000000000"
        ));
    }

    #[test]
    fn flag_name_depends_on_the_field() {
        let bit = 1_u64 << 59;
        assert!(formats_as(&bit, abi::FI_TYPE_CAPS, "FI_DIRECTED_RECV"));
        assert!(formats_as(&bit, abi::FI_TYPE_MODE, "FI_CONTEXT"));
        assert!(formats_as(&bit, abi::FI_TYPE_OP_FLAGS, "FI_CLAIM"));
        assert!(formats_as(&0_u64, abi::FI_TYPE_CAPS, ""));
        let order = abi::FI_ORDER_SAS | abi::FI_ORDER_RMA_WAW;
        assert!(formats_as(
            &order,
            abi::FI_TYPE_MSG_ORDER,
            "FI_ORDER_SAS, FI_ORDER_RMA_WAW",
        ));
        let flags = abi::FI_MSG | abi::FI_RECV | abi::FI_REMOTE_CQ_DATA;
        assert!(formats_as(
            &flags,
            abi::FI_TYPE_CQ_EVENT_FLAGS,
            "FI_MSG, FI_RECV, FI_REMOTE_CQ_DATA",
        ));
        let mode = abi::FI_MR_LOCAL | abi::FI_MR_PROV_KEY;
        assert!(formats_as(
            &mode,
            abi::FI_TYPE_MR_MODE,
            "FI_MR_LOCAL, FI_MR_PROV_KEY"
        ));
    }

    #[test]
    fn unknown_types_print_nothing() {
        for datatype in [
            abi::FI_TYPE_LOG_SUBSYS + 1,
            abi::FI_TYPE_CQ_ERR_ENTRY - 1,
            abi::FI_TYPE_AV_ATTR + 1,
            u32::MAX,
        ] {
            let mut buf = [1; 8];
            let mut text = Text::new(&mut buf);
            let value = 0_u64;
            // SAFETY: An unknown type is not read at all.
            let known = unsafe { write_value(ptr::from_ref(&value).cast(), datatype, &mut text) };
            assert!(!known && text.as_bytes().is_empty() && buf[0] == 0);
        }
    }

    #[test]
    fn text_is_truncated_and_terminated() {
        let whole = b"FI_MSG, FI_RMA";
        let flags = abi::FI_MSG | abi::FI_RMA;
        for size in 0..=whole.len() + 1 {
            let mut buf = [b'x'; 17];
            let mut text = Text::new(&mut buf[..size]);
            // SAFETY: `flags` is the u64 that the type stands for.
            let known =
                unsafe { write_value(ptr::from_ref(&flags).cast(), abi::FI_TYPE_CAPS, &mut text) };
            assert!(known);
            let fits = size.saturating_sub(1);
            assert!(text.as_bytes() == &whole[..fits]);
            assert!(size == 0 || buf[fits] == 0);
            assert!(buf[size..].iter().all(|&byte| byte == b'x'));
        }
    }

    #[test]
    fn info_without_attributes_prints_null() -> Result<(), kernel::alloc::AllocError> {
        let info: fi_info = zeroed();
        let mut buf = KVVec::from_elem(0, 4096, GFP_KERNEL)?;
        let mut text = Text::new(&mut buf);
        // SAFETY: A zeroed info has no pointers.
        assert!(unsafe { write_value(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO, &mut text) });
        assert!(text
            .as_bytes()
            .starts_with(b"fi_info:\n    caps: [  ]\n    mode: [  ]\n"));
        assert!(contains(&text, "\n    src_addr: (null)\n"));
        assert!(text
            .as_bytes()
            .ends_with(b"\n    fi_fabric_attr: (null)\n    nic: (null)\n"));
        Ok(())
    }

    #[test]
    fn info_prints_its_attributes() -> Result<(), kernel::alloc::AllocError> {
        let mut name = *b"rxe0\0";
        let mut provider = *b"verbs\0";
        let mut addr = [0_u8; 16];
        addr[2..8].copy_from_slice(&[0x1d, 0x4c, 10, 0, 0, 1]);
        let mut domain: fi_domain_attr = zeroed();
        domain.name = name.as_mut_ptr();
        domain.mr_mode = abi::FI_MR_PROV_KEY;
        let mut fabric: fi_fabric_attr = zeroed();
        fabric.prov_name = provider.as_mut_ptr();
        fabric.api_version = VERSION;
        let mut info: fi_info = zeroed();
        info.caps = abi::FI_MSG | abi::FI_SEND;
        info.addr_format = abi::FI_SOCKADDR_IN;
        info.src_addr = addr.as_mut_ptr().cast();
        info.src_addrlen = addr.len();
        info.domain_attr = &mut domain;
        info.fabric_attr = &mut fabric;

        let mut buf = KVVec::from_elem(0, 4096, GFP_KERNEL)?;
        let mut text = Text::new(&mut buf);
        // SAFETY: The info points to live variables of this function.
        assert!(unsafe { write_value(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO, &mut text) });
        for line in [
            "    caps: [ FI_MSG, FI_SEND ]\n",
            "    addr_format: FI_SOCKADDR_IN\n",
            "    src_addr: fi_sockaddr_in://10.0.0.1:7500\n",
            "    fi_domain_attr:\n        domain: (null)\n        name: rxe0\n",
            "        mr_mode: [ FI_MR_PROV_KEY ]\n",
            "        prov_name: verbs\n",
            "        api_version: 1.17\n",
            "        net: (null)\n",
        ] {
            assert!(contains(&text, line));
        }
        Ok(())
    }

    #[test]
    fn static_buffers_are_used_in_turn() {
        let (first, second) = (abi::FI_EP_MSG, abi::FI_EP_RDM);
        // SAFETY: Both are the u32 that the type stands for.
        let texts = unsafe {
            [
                tostr_static(ptr::from_ref(&first).cast(), abi::FI_TYPE_EP_TYPE),
                tostr_static(ptr::from_ref(&second).cast(), abi::FI_TYPE_EP_TYPE),
            ]
        };
        for (text, expected) in texts.into_iter().zip([c"FI_EP_MSG", c"FI_EP_RDM"]) {
            assert!(!text.is_null());
            // SAFETY: The text is in a static buffer, and ends in a NUL.
            assert!(unsafe { CStr::from_char_ptr(text) } == expected);
        }
        // SAFETY: Null and unknown types are allowed.
        unsafe {
            assert!(tostr_static(ptr::null(), abi::FI_TYPE_EP_TYPE).is_null());
            assert!(tostr_static(ptr::from_ref(&first).cast(), u32::MAX).is_null());
        }
    }

    #[test]
    fn static_buffer_fits_an_info_with_every_flag() {
        let (caps, mode, order) = (u64::MAX, u64::MAX, u64::MAX);
        let mut tx = fi_tx_attr {
            caps,
            mode,
            op_flags: u64::MAX,
            msg_order: order,
            comp_order: order,
            ..zeroed()
        };
        let mut rx = fi_rx_attr {
            caps,
            mode,
            op_flags: u64::MAX,
            msg_order: order,
            comp_order: order,
            ..zeroed()
        };
        let mut ep: fi_ep_attr = zeroed();
        let mut domain = fi_domain_attr {
            caps,
            mode,
            mr_mode: -1,
            ..zeroed()
        };
        let mut fabric: fi_fabric_attr = zeroed();
        let info = fi_info {
            caps,
            mode,
            tx_attr: &mut tx,
            rx_attr: &mut rx,
            ep_attr: &mut ep,
            domain_attr: &mut domain,
            fabric_attr: &mut fabric,
            ..zeroed()
        };
        // SAFETY: The info points to live variables of this function.
        let text = unsafe { tostr_static(ptr::from_ref(&info).cast(), abi::FI_TYPE_INFO) };
        assert!(!text.is_null());
        // SAFETY: The text is in a static buffer, and ends in a NUL.
        let text = unsafe { CStr::from_char_ptr(text) };
        assert!(text.to_bytes().ends_with(b"    nic: (null)\n"));
    }

    #[test]
    fn errors_and_versions_are_formatted() {
        let mut buf = [0; 64];
        let mut text = Text::new(&mut buf);
        let parts = fmt!("{} {}", Version(abi::version(1, 17)), Error(-259));
        assert!(text.write_fmt(parts).is_ok());
        assert!(text.as_bytes() == b"1.17 An error entry is available");
    }
}
