// SPDX-License-Identifier: GPL-2.0

//! Storage of any size for buffers.

use crate::{
    fi::prelude::*,
    util::pages::Pages, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    page::PAGE_SIZE, //
};

/// Maximum size of a `kmalloc` allocation, in bytes.
const MAX_SMALL: usize = 2 * PAGE_SIZE;

/// Maximum size of a physically contiguous allocation, in bytes.
const MAX_LINEAR: usize = PAGE_SIZE << 10;

/// Bytes of a buffer. Up to [`MAX_LINEAR`] bytes the storage is physically contiguous, which every device
/// accepts for a message.
pub(super) enum Storage {
    Small(KVec<u8>),
    Linear(Pages),
    Paged(VVec<u8>),
}

impl Storage {
    /// Allocates zeroed storage. Up to [`MAX_LINEAR`] bytes it is physically contiguous, beyond that it
    /// consists of pages. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, without a kernel log message.
    pub(super) fn new(len: usize) -> Result<Self> {
        Ok(if len <= MAX_SMALL {
            Self::Small(KVec::from_elem(0, len, GFP_KERNEL | __GFP_NOWARN)?)
        } else if len <= MAX_LINEAR {
            Self::Linear(Pages::new(len)?)
        } else {
            Self::Paged(VVec::from_elem(0, len, GFP_KERNEL | __GFP_NOWARN)?)
        })
    }
}

impl Deref for Storage {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Linear(bytes) => bytes,
            Self::Paged(bytes) => bytes,
        }
    }
}

impl DerefMut for Storage {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Linear(bytes) => bytes,
            Self::Paged(bytes) => bytes,
        }
    }
}

#[kunit_tests(kofi_fi_memory_storage)]
mod tests {
    use super::*;
    use crate::abi::Errno;

    #[test]
    fn storage_of_any_size_is_zeroed() {
        for len in [
            0,
            1,
            MAX_SMALL,
            MAX_SMALL + 1,
            MAX_LINEAR,
            MAX_LINEAR + 1,
            5 * MAX_LINEAR,
        ] {
            let bytes = Storage::new(len);
            assert!(bytes.as_ref().is_ok_and(|bytes| bytes.len() == len));
            assert!(bytes.is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0)));
        }
    }

    #[test]
    fn excessive_size_fails_with_enomem() {
        for len in [1 << 45, isize::MAX as usize, usize::MAX] {
            assert_eq!(Storage::new(len).err(), Some(Errno::ENOMEM));
        }
    }
}
