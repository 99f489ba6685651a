// SPDX-License-Identifier: GPL-2.0

//! FI_OPT_MIN_MULTI_RECV, an option of endpoints. Takes no lock.

use crate::fi::{
    prelude::*,
    provider::EpOption, //
};

/// Size in bytes of the pieces in which a multi-receive buffer is posted; not 0.
pub(crate) struct MinMultiRecv(Atomic<usize>);

impl MinMultiRecv {
    /// Returns the default size.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(4096))
    }

    /// Returns the size. Any context.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Implements `fi_getopt()`: -FI_ENOPROTOOPT for another option.
    pub(crate) fn getopt(&self, option: EpOption) -> Result<usize> {
        match option {
            EpOption::MinMultiRecv => Ok(self.get()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Implements `fi_setopt()`, for buffers posted later.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for another option, -FI_EINVAL for 0.
    pub(crate) fn setopt(&self, option: EpOption, value: usize) -> Result {
        self.getopt(option)?;
        if value == 0 {
            return Err(Errno::EINVAL);
        }
        self.0.store(value, Relaxed);
        Ok(())
    }
}
