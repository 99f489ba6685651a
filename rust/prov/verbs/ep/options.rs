// SPDX-License-Identifier: GPL-2.0

//! Options of an endpoint for `fi_setopt()` and `fi_getopt()`. Takes no lock.

use super::super::{
    super::common::{
        cm_data::RawCmData,
        conn_state::AtomicConnState,
        min_multi_recv::MinMultiRecv, //
    },
    cm_data::CmFormat, //
};
use crate::{
    fi::provider::EpOption,
    prov::verbs::prelude::*,
    rdma::cm::Retries, //
};

/// Default number of retransmissions without acknowledgement. One less than the maximum: rxe takes
/// the maximum as unlimited, and a connection over a dead link would never end.
const RETRY_COUNT: usize = 6;

/// Default number of retries of a message for which the peer has no receive posted: unlimited.
const RNR_RETRY_COUNT: usize = 7;

/// Maximum of both: fields of 3 bits.
const MAX_RETRY_COUNT: usize = 7;

/// Maximum acknowledgement timeout in its encoding, a field of 5 bits.
const MAX_ACK_TIMEOUT: usize = 31;

/// Value of FI_OPT_KOFI_ACK_TIMEOUT for a timeout that the connection manager chooses.
const AUTOMATIC: usize = usize::MAX;

/// Options of an endpoint.
pub(super) struct EpOptions {
    /// Size of the pieces in which a multi-receive buffer is posted.
    pub(super) min_multi_recv: MinMultiRecv,
    raw_cm_data: RawCmData,
    /// Numbers of retries; `None` on iWARP, whose TCP retransmits on its own.
    retries: Option<RetryOptions>,
}

struct RetryOptions {
    retry_count: Atomic<usize>,
    rnr_retry_count: Atomic<usize>,
    ack_timeout: Atomic<usize>,
}

impl RetryOptions {
    /// Returns the value of an option and its maximum; -FI_ENOPROTOOPT for another option.
    fn option(&self, option: EpOption) -> Result<(&Atomic<usize>, usize)> {
        match option {
            EpOption::RetryCount => Ok((&self.retry_count, MAX_RETRY_COUNT)),
            EpOption::RnrRetryCount => Ok((&self.rnr_retry_count, MAX_RETRY_COUNT)),
            EpOption::AckTimeout => Ok((&self.ack_timeout, MAX_ACK_TIMEOUT)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}

impl EpOptions {
    /// Returns the defaults.
    pub(super) fn new(is_iwarp: bool) -> Self {
        let retries = || RetryOptions {
            retry_count: Atomic::new(RETRY_COUNT),
            rnr_retry_count: Atomic::new(RNR_RETRY_COUNT),
            ack_timeout: Atomic::new(AUTOMATIC),
        };
        Self {
            min_multi_recv: MinMultiRecv::new(),
            raw_cm_data: RawCmData::new(false),
            retries: (!is_iwarp).then(retries),
        }
    }

    /// Returns the format of private data on the wire.
    pub(super) fn cm_format(&self) -> CmFormat {
        CmFormat::new(self.raw_cm_data.get())
    }

    /// Sets the format of private data on the wire.
    pub(super) fn set_cm_format(&self, format: CmFormat) -> Result {
        self.raw_cm_data.set((format == CmFormat::Raw).into())
    }

    /// Returns the retries and timeouts of the queue pair.
    pub(super) fn retries(&self) -> Retries {
        let value = |get: fn(&RetryOptions) -> &Atomic<usize>, default| {
            let set = self
                .retries
                .as_ref()
                .map(|retries| get(retries).load(Relaxed));
            set.unwrap_or(default)
        };
        // At most 7 and 31.
        Retries {
            retry_count: value(|it| &it.retry_count, RETRY_COUNT) as u8,
            rnr_retry_count: value(|it| &it.rnr_retry_count, RNR_RETRY_COUNT) as u8,
            ack_timeout: match value(|it| &it.ack_timeout, AUTOMATIC) {
                AUTOMATIC => None,
                timeout => Some(timeout as u8),
            },
        }
    }

    /// Implements `fi_getopt()`: -FI_ENOPROTOOPT for an option that the endpoint does not have.
    pub(super) fn getopt(&self, option: EpOption) -> Result<usize> {
        match (option, &self.retries) {
            (EpOption::CmDataRaw, _) => Ok(self.raw_cm_data.get().into()),
            (EpOption::MinMultiRecv, _) | (_, None) => self.min_multi_recv.getopt(option),
            (_, Some(retries)) => Ok(retries.option(option)?.0.load(Relaxed)),
        }
    }

    /// Implements `fi_setopt()` of an endpoint in this state.
    ///
    /// # Errors
    ///
    /// As [`Self::getopt`]; -FI_EINVAL for an invalid value; -FI_EOPBADSTATE for an option of the
    /// connection after `fi_connect()` or `fi_accept()`.
    pub(super) fn setopt(&self, option: EpOption, value: usize, state: &AtomicConnState) -> Result {
        self.getopt(option)?;
        if option == EpOption::MinMultiRecv {
            return self.min_multi_recv.setopt(option, value);
        }
        state.check_not_connecting()?;
        let Some(retries) = self
            .retries
            .as_ref()
            .filter(|_| option != EpOption::CmDataRaw)
        else {
            return self.raw_cm_data.set(value);
        };
        let (to, most) = retries.option(option)?;
        let is_automatic = option == EpOption::AckTimeout && value == AUTOMATIC;
        if value > most && !is_automatic {
            return Err(Errno::EINVAL);
        }
        to.store(value, Relaxed);
        Ok(())
    }
}

#[kunit_tests(kofi_verbs_options)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_within_their_fields() {
        let (options, state) = (EpOptions::new(false), AtomicConnState::new());
        for (option, default, most) in [
            (EpOption::RetryCount, RETRY_COUNT, 7),
            (EpOption::RnrRetryCount, RNR_RETRY_COUNT, 7),
            (EpOption::AckTimeout, AUTOMATIC, 31),
        ] {
            assert_eq!(options.getopt(option), Ok(default));
            for value in [most + 1, 256, AUTOMATIC - 1] {
                assert_eq!(options.setopt(option, value, &state), Err(Errno::EINVAL));
            }
            assert_eq!(options.getopt(option), Ok(default));
            for value in [0, most] {
                assert_eq!(options.setopt(option, value, &state), Ok(()));
                assert_eq!(options.getopt(option), Ok(value));
            }
        }
        let retries = options.retries();
        assert_eq!((retries.retry_count, retries.rnr_retry_count), (7, 7));
        assert_eq!(retries.ack_timeout, Some(31));
        assert_eq!(
            options.setopt(EpOption::AckTimeout, AUTOMATIC, &state),
            Ok(())
        );
        assert_eq!(options.retries().ack_timeout, None);
        let bad = options.setopt(EpOption::RetryCount, AUTOMATIC, &state);
        assert_eq!(bad, Err(Errno::EINVAL));
    }

    #[test]
    fn iwarp_has_no_retries() {
        let (options, state) = (EpOptions::new(true), AtomicConnState::new());
        for option in [
            EpOption::RetryCount,
            EpOption::RnrRetryCount,
            EpOption::AckTimeout,
            EpOption::MaxConnections,
        ] {
            assert_eq!(options.getopt(option), Err(Errno::ENOPROTOOPT));
            assert_eq!(options.setopt(option, 1, &state), Err(Errno::ENOPROTOOPT));
        }
        assert_eq!(options.setopt(EpOption::CmDataRaw, 1, &state), Ok(()));
        assert_eq!(options.getopt(EpOption::CmDataRaw), Ok(1));
    }
}
