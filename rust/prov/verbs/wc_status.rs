// SPDX-License-Identifier: GPL-2.0

//! Mapping of completion statuses and post errors to fabric errnos.

use super::prelude::*;

/// Status of an atomic operation of several work requests that found the word changed each time. No
/// device has this code.
pub(super) const CAS_CONTENDED: WcStatus = WcStatus::from_code(0x100);

/// Returns a short description of a status.
pub(super) fn status_text(status: WcStatus) -> &'static CStr {
    match status {
        CAS_CONTENDED => c"others changed the word each time",
        status => status.text(),
    }
}

/// Returns the fabric errno of a completion status.
pub(super) fn status_errno(status: WcStatus, direction: WqDirection) -> Errno {
    match status {
        WcStatus::WR_FLUSH_ERR => Errno::ECANCELED,
        CAS_CONTENDED => Errno::EBUSY,
        WcStatus::LOC_LEN_ERR if direction == WqDirection::Receive => Errno::ETRUNC,
        WcStatus::LOC_LEN_ERR => Errno::EMSGSIZE,
        WcStatus::LOC_PROT_ERR
        | WcStatus::LOC_ACCESS_ERR
        | WcStatus::REM_ACCESS_ERR
        | WcStatus::MW_BIND_ERR => Errno::EACCES,
        WcStatus::RNR_RETRY_EXC_ERR => Errno::ENORX,
        WcStatus::RETRY_EXC_ERR | WcStatus::RESP_TIMEOUT_ERR => Errno::ETIMEDOUT,
        // The peer found the request malformed or too long, and both queue pairs are in error now.
        WcStatus::REM_INV_REQ_ERR
        | WcStatus::REM_INV_RD_REQ_ERR
        | WcStatus::REM_OP_ERR
        | WcStatus::REM_ABORT_ERR => Errno::ECONNRESET,
        _ => Errno::EIO,
    }
}

#[kunit_tests(kofi_verbs_status)]
mod tests {
    use super::*;

    #[test]
    fn cq_20_statuses_map_to_distinct_errnos() {
        let receive = WqDirection::Receive;
        let distinct = [
            (WcStatus::LOC_LEN_ERR, Errno::ETRUNC),
            (WcStatus::REM_ACCESS_ERR, Errno::EACCES),
            (WcStatus::RNR_RETRY_EXC_ERR, Errno::ENORX),
            (WcStatus::RETRY_EXC_ERR, Errno::ETIMEDOUT),
            (WcStatus::WR_FLUSH_ERR, Errno::ECANCELED),
            (WcStatus::REM_OP_ERR, Errno::ECONNRESET),
            (CAS_CONTENDED, Errno::EBUSY),
            (WcStatus::GENERAL_ERR, Errno::EIO),
        ];
        for (status, expected) in distinct {
            assert!(status_errno(status, receive) == expected);
        }
    }
}

/// Returns the fabric errno of a post that the device refused. A driver's queue is never smaller
/// than ours, so -ENOMEM means a shortage that passes: -FI_EAGAIN.
#[cold]
pub(super) fn post_errno(error: Error) -> Errno {
    if error == ENOMEM {
        Errno::EAGAIN
    } else {
        error.into()
    }
}
