// SPDX-License-Identifier: GPL-2.0

//! Options of active, passive and scalable endpoints: `fi_getopt()` and `fi_setopt()`. Every option is a `size_t`.

use super::prelude::*;
use crate::fi::provider::EpOption;

/// Implements `fi_getopt()`: `get` returns the values of endpoint options. `data_size` is the value of
/// FI_OPT_CM_DATA_SIZE, if the endpoint has that option.
///
/// # Errors
///
/// -FI_ENOPROTOOPT for an unknown option, -FI_EINVAL for a NULL `len`, -FI_ETOOSMALL for a NULL or short
/// buffer.
///
/// # Safety
///
/// `len` is NULL or valid; `value` is NULL or valid for `*len` bytes.
pub(super) unsafe fn getopt(
    get: impl FnOnce(EpOption) -> Result<usize>,
    data_size: Option<usize>,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> Result {
    let known = match (level as u32, name as u32) {
        (abi::FI_OPT_ENDPOINT, abi::FI_OPT_CM_DATA_SIZE) => data_size,
        _ => ep_option(level, name).and_then(|option| get(option).ok()),
    };
    let found = known.ok_or(Errno::ENOPROTOOPT)?;
    // SAFETY: By the caller's contract, `len` is NULL or valid.
    let len = unsafe { len.as_mut() }.ok_or(Errno::EINVAL)?;
    if value.is_null() || *len < size_of::<usize>() {
        *len = size_of::<usize>();
        return Err(Errno::ETOOSMALL);
    }
    *len = size_of::<usize>();
    // SAFETY: `value` has space for a `usize`.
    unsafe { ptr::write_unaligned(value.cast::<usize>(), found) };
    Ok(())
}

/// Reads the option and the value of an `fi_setopt()` call.
///
/// # Errors
///
/// -FI_ENOPROTOOPT for an unknown option, -FI_EINVAL for NULL and for a length other than that of a `usize`.
///
/// # Safety
///
/// `value` is NULL or valid for `len` bytes.
pub(super) unsafe fn read_option(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> Result<(EpOption, usize)> {
    let option = ep_option(level, name).ok_or(Errno::ENOPROTOOPT)?;
    ensure(!value.is_null() && len == size_of::<usize>(), Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `value` is valid for `len` bytes.
    Ok((option, unsafe { ptr::read_unaligned(value.cast()) }))
}

/// Returns the option with this level and number, if there is one.
fn ep_option(level: c_int, name: c_int) -> Option<EpOption> {
    const CONNECTIONS: u32 = abi::FI_OPT_KOFI_CONNECTIONS as u32;
    const IDLE: u32 = abi::FI_OPT_KOFI_IDLE_MS as u32;
    const CONNECTED: u32 = abi::FI_OPT_KOFI_CONNECTED as u32;
    const CM_DATA_RAW: u32 = abi::FI_OPT_KOFI_CM_DATA_RAW as u32;
    const RETRY_COUNT: u32 = abi::FI_OPT_KOFI_RETRY_COUNT as u32;
    const RNR_RETRY_COUNT: u32 = abi::FI_OPT_KOFI_RNR_RETRY_COUNT as u32;
    const ACK_TIMEOUT: u32 = abi::FI_OPT_KOFI_ACK_TIMEOUT as u32;
    const SOURCE_BYTES: u32 = abi::FI_OPT_KOFI_SOURCE_BYTES as u32;
    const MR_POOL: u32 = abi::FI_OPT_KOFI_MR_POOL as u32;
    const MR_PAGES: u32 = abi::FI_OPT_KOFI_MR_PAGES as u32;
    if level as u32 != abi::FI_OPT_ENDPOINT {
        return None;
    }
    match name as u32 {
        abi::FI_OPT_MIN_MULTI_RECV => Some(EpOption::MinMultiRecv),
        CONNECTIONS => Some(EpOption::MaxConnections),
        IDLE => Some(EpOption::IdleTimeout),
        CONNECTED => Some(EpOption::ConnectionCount),
        SOURCE_BYTES => Some(EpOption::SourceBytes),
        CM_DATA_RAW => Some(EpOption::CmDataRaw),
        RETRY_COUNT => Some(EpOption::RetryCount),
        RNR_RETRY_COUNT => Some(EpOption::RnrRetryCount),
        ACK_TIMEOUT => Some(EpOption::AckTimeout),
        MR_POOL => Some(EpOption::RegionCount),
        MR_PAGES => Some(EpOption::RegionPages),
        _ => None,
    }
}
