// SPDX-License-Identifier: GPL-2.0

//! `fi_cq_err_entry::err_data`: the error data of a failed operation, as C callers read and write it.
//!
//! [`Readers`] owns the memory that is returned to readers without a buffer of their own. Its lock is a leaf,
//! held with interrupts off.

use super::prelude::*;
use crate::{
    abi::addr::{
        self,
        MAX_ADDR_LEN, //
    },
    fi::cq::{
        ErrData,
        Failure, //
    },
};

/// Calls `f` with the error data as bytes. Addresses are converted to the given format.
pub(super) fn with_bytes<R>(addr_format: u32, data: &ErrData, f: impl FnOnce(&[u8]) -> R) -> R {
    match data {
        ErrData::None => f(&[]),
        ErrData::Source(source) => addr::with_bytes(addr_format, source, f),
        ErrData::Bytes(bytes) => f(bytes),
    }
}

/// Writes a failure to an entry, without its error data.
pub(super) fn fill_entry(entry: &mut fi_cq_err_entry, failure: &Failure) {
    let done = &failure.completion;
    entry.op_context = done.context.as_ptr();
    entry.flags = done.flags;
    entry.len = done.len;
    entry.buf = ptr::without_provenance_mut(done.buf);
    entry.data = done.data;
    entry.tag = done.tag;
    entry.olen = failure.olen;
    entry.err = failure.errno.code();
    entry.prov_errno = failure.prov_errno;
    entry.src_addr = done.source;
}

/// Copies the error data of an entry that a peer has written. Any context.
///
/// # Errors
///
/// -FI_ENOMEM.
///
/// # Safety
///
/// `entry.err_data` is NULL, or valid for reading `entry.err_data_size` bytes.
pub(super) unsafe fn copy_from_entry(entry: &fi_cq_err_entry) -> Result<ErrData> {
    if entry.err_data.is_null() || entry.err_data_size == 0 {
        return Ok(ErrData::None);
    }
    // SAFETY: By the caller's contract, `err_data` is valid for `err_data_size` bytes.
    let there = unsafe { slice::from_raw_parts(entry.err_data.cast::<u8>(), entry.err_data_size) };
    let mut bytes = KVec::with_capacity(there.len(), GFP_NOWAIT)?;
    bytes.extend_from_slice(there, GFP_NOWAIT)?;
    Ok(ErrData::Bytes(bytes))
}

/// Error data returned by the last read without a buffer, valid until the next read.
struct Last {
    address: [u8; MAX_ADDR_LEN],
    bytes: KVec<u8>,
}

/// Copies the error data of a queue's failures to its readers.
pub(super) struct Readers {
    /// Address format that readers get.
    addr_format: u32,
    last: Pin<KBox<FastLockIrq<Last>>>,
}

impl Readers {
    /// Makes an object whose readers get addresses in `addr_format`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(addr_format: u32) -> Result<Self> {
        let last = Last {
            address: [0; MAX_ADDR_LEN],
            bytes: KVec::new(),
        };
        let last = FastLockIrq::new(last, c"kofi::capi::err_data::Readers", static_lock_class!());
        Ok(Self {
            addr_format,
            last: KBox::pin_init(last, GFP_KERNEL)?,
        })
    }

    /// Writes `data` into the buffer of `entry`, truncated if it does not fit. If the entry's size is 0, points
    /// it to memory of the queue. Any context.
    ///
    /// # Safety
    ///
    /// `entry.err_data` is NULL, or valid for writing `entry.err_data_size` bytes.
    pub(super) unsafe fn write(&self, data: ErrData, entry: &mut fi_cq_err_entry) {
        if entry.err_data_size == 0 {
            (entry.err_data, entry.err_data_size) = self.store(data);
            return;
        }
        let space = match entry.err_data.is_null() {
            true => 0,
            false => entry.err_data_size,
        };
        entry.err_data_size = with_bytes(self.addr_format, &data, |bytes| {
            let len = bytes.len().min(space);
            // SAFETY: By the caller's contract, `err_data` is valid for `err_data_size` bytes.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), entry.err_data.cast(), len) };
            len
        });
    }

    /// Stores `data` until the next call, and returns its address and length.
    fn store(&self, data: ErrData) -> (*mut c_void, usize) {
        let mut last = self.last.lock();
        let stored: &mut [u8] = match data {
            ErrData::None => return (ptr::null_mut(), 0),
            ErrData::Source(source) => addr::with_bytes(self.addr_format, &source, |bytes| {
                let stored = last.address.get_mut(..bytes.len())?;
                stored.copy_from_slice(bytes);
                Some(stored)
            })
            .unwrap_or(&mut []),
            ErrData::Bytes(bytes) => {
                last.bytes = bytes;
                &mut last.bytes
            }
        };
        (stored.as_mut_ptr().cast(), stored.len())
    }
}
