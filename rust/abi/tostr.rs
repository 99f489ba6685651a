// SPDX-License-Identifier: GPL-2.0

//! `fi_tostr()`: converts values and attributes to text.
//!
//! Enumerations and flags are displayed as their C names, structs as a tree of `key: value` lines. Kernel
//! addresses are never displayed, as text ends up in logs.

mod attr;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

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
        // INVARIANT: `fits` leaves space for the NUL, which was written just now.
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
