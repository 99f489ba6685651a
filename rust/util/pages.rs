// SPDX-License-Identifier: GPL-2.0

//! Physically contiguous pages, exactly as many as needed: `kmalloc()` of more than two rounds up to a power
//! of two.

use crate::prelude::*;

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_alloc_pages(len: usize) -> *mut c_void;
        pub(super) fn kofi_free_pages(start: *mut c_void, len: usize);
        pub(super) fn kofi_address_of_page(page: *const c_void) -> *mut c_void;
        pub(super) fn kofi_total_ram() -> usize;
    }
}

/// Returns the memory of the machine in bytes. Any context.
pub(crate) fn total_ram() -> usize {
    // SAFETY: It may be called at any time.
    unsafe { ffi::kofi_total_ram() }
}

/// Returns the kernel address of a page; null for null, and if the page has none.
///
/// # Safety
///
/// `page` is null, or a page that exists.
pub(crate) unsafe fn address_of(page: *const kernel::bindings::page) -> *mut c_void {
    match page.is_null() {
        true => ptr::null_mut(),
        // SAFETY: By this function's safety requirement.
        false => unsafe { ffi::kofi_address_of_page(page.cast()) },
    }
}

/// Physically contiguous memory of `len` bytes.
///
/// # Invariants
///
/// `start` points to `len` initialised bytes, at least one, which came from `kofi_alloc_pages()`.
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: A `Pages` owns its memory, which any thread may use and free.
unsafe impl Send for Pages {}

// SAFETY: A shared reference only allows reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates `len` zeroed bytes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, without a warning in the log; -FI_EINVAL for 0 bytes.
    pub(crate) fn new(len: usize) -> Result<Self> {
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: Any length but 0 is allowed.
        let start = unsafe { ffi::kofi_alloc_pages(len) };
        // INVARIANT: `kofi_alloc_pages()` returns null or `len` bytes of zeroes.
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?,
            len,
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, and the memory is not used any more.
        unsafe { ffi::kofi_free_pages(self.start.as_ptr().cast(), self.len) };
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: By the type invariant; the result borrows `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the type invariant; the result borrows `self` exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
