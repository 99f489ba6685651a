// SPDX-License-Identifier: GPL-2.0

//! Arguments of C callers that insert addresses: the addresses, and the arrays for the results.

use super::super::prelude::*;
use crate::{
    abi::addr,
    fi::av::{
        AddressVector,
        InsertObserver,
        Insertion,
        Type, //
    },
};

/// Iterator over an array of addresses of one format. FI_SOCKADDR arrays are packed: each address is as long
/// as its family implies.
pub(super) struct Addresses {
    addr_format: u32,
    next: *const c_void,
    remaining: usize,
    /// True after an address of unknown length: the rest of the array cannot be read.
    is_unreadable: bool,
}

impl Addresses {
    /// # Safety
    ///
    /// `first` points to `count` addresses of the format, which stay as long as the iterator is used.
    pub(super) unsafe fn new(addr_format: u32, first: *const c_void, count: usize) -> Self {
        Self {
            addr_format,
            next: first,
            remaining: count,
            is_unreadable: false,
        }
    }

    fn next_string(&mut self) -> Result<SocketAddr> {
        let at = self.next.cast::<*const c_char>();
        self.next = at.wrapping_add(1).cast();
        // SAFETY: By the contract of `new` there is one more pointer.
        let text = unsafe { at.read_unaligned() };
        ensure(!text.is_null(), Errno::EINVAL)?;
        // SAFETY: By the contract of `new` it points to a string.
        let text = unsafe { CStr::from_char_ptr(text) };
        addr::from_addr_str(text.to_bytes()).ok_or(Errno::EINVAL)
    }

    fn next_sockaddr(&mut self) -> Result<SocketAddr> {
        let at = self.next.cast::<u8>();
        // SAFETY: By the contract of `new` there is one more address, which begins with its family.
        let family = unsafe { slice::from_raw_parts(at, size_of::<u16>()) };
        let Some(len) = addr::sockaddr_len(self.addr_format, family) else {
            self.is_unreadable = true;
            return Err(Errno::EINVAL);
        };
        self.next = at.wrapping_add(len).cast();
        // SAFETY: By the contract of `new`, the address is `len` bytes long.
        let bytes = unsafe { slice::from_raw_parts(at, len) };
        addr::from_bytes(self.addr_format, bytes).ok_or(Errno::EINVAL)
    }
}

impl Iterator for Addresses {
    type Item = Result<SocketAddr>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        Some(match self.addr_format {
            _ if self.is_unreadable => Err(Errno::ECANCELED),
            abi::FI_ADDR_STR => self.next_string(),
            _ => self.next_sockaddr(),
        })
    }
}

/// The caller's arrays for the result of each insertion, and the flags of the call.
#[derive(Clone, Copy)]
pub(super) struct InsertResults {
    addrs: *mut fi_addr_t,
    errnos: *mut c_int,
    flags: u64,
}

// SAFETY: The caller's arrays may be written by any thread, by the contract of `new`.
unsafe impl Send for InsertResults {}

impl InsertResults {
    /// Takes the arguments of an insertion into `vector`. With FI_SYNC_ERR the context is an array of errnos, unless
    /// the vector reports insertions as events.
    ///
    /// # Safety
    ///
    /// The arrays are NULL or have space for each address, as long as this is used.
    pub(super) unsafe fn new(
        av: &AddressVector,
        addrs: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> Self {
        Self {
            addrs,
            errnos: match flags & abi::FI_SYNC_ERR != 0 && !av.is_async() {
                true => context.cast(),
                false => ptr::null_mut(),
            },
            flags,
        }
    }

    /// Checks the arguments of an insertion of `count` addresses into `vector`.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS, also for identifiers in a shared vector; -FI_EINVAL for NULL where an array is needed, and for
    /// FI_SYNC_ERR on a vector that reports insertions as events.
    pub(super) fn check_args(&self, av: &AddressVector, count: usize) -> Result {
        let known = abi::FI_MORE | abi::FI_SYNC_ERR | abi::FI_AV_USER_ID;
        ensure(self.flags & !known == 0, Errno::EBADFLAGS)?;
        ensure(!self.uses_user_ids() || !av.is_shared(), Errno::EBADFLAGS)?;
        let needs_addrs = count > 0 && (self.uses_user_ids() || av.kind() == Type::Map);
        let needs_errnos = self.flags & abi::FI_SYNC_ERR != 0;
        ensure(!needs_addrs || !self.addrs.is_null(), Errno::EINVAL)?;
        ensure(!needs_errnos || !self.errnos.is_null(), Errno::EINVAL)
    }

    /// Reports that none of `count` addresses has been inserted. The caller's identifiers stay as they are.
    pub(super) fn fail_all(&mut self, count: usize, errno: Errno) {
        if self.uses_user_ids() {
            self.addrs = ptr::null_mut();
        }
        if self.addrs.is_null() && self.errnos.is_null() {
            return;
        }
        for number in 0..count {
            self.report(number, Err(errno));
        }
    }

    fn uses_user_ids(&self) -> bool {
        self.flags & abi::FI_AV_USER_ID != 0
    }

    /// Returns the insertions of these addresses, with the caller's identifiers for FI_AV_USER_ID.
    pub(super) fn insertions(
        &self,
        addresses: impl Iterator<Item = Result<SocketAddr>>,
    ) -> impl Iterator<Item = Insertion> {
        let ids = self.uses_user_ids().then_some(self.addrs);
        addresses.enumerate().map(move |(number, address)| {
            // SAFETY: By the contract of `new`; `check_args` has refused NULL with FI_AV_USER_ID.
            let user_id = ids.map(|ids| unsafe { ids.add(number).read() });
            Insertion { address, user_id }
        })
    }
}

impl InsertObserver for InsertResults {
    fn report(&mut self, number: usize, result: Result<fi_addr_t>) {
        if !self.addrs.is_null() {
            let addr = result.unwrap_or(abi::FI_ADDR_NOTAVAIL);
            // SAFETY: By the contract of `new`, `addrs` has space for each address.
            unsafe { self.addrs.add(number).write(addr) };
        }
        if !self.errnos.is_null() {
            let errno = result.map_or_else(|errno| errno.code(), |_| 0);
            // SAFETY: By the contract of `new`, `errnos` has space for each address.
            unsafe { self.errnos.add(number).write(errno) };
        }
    }
}
