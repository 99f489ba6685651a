// SPDX-License-Identifier: GPL-2.0

//! Private data of connection requests on the wire. Either in the format of libfabric's verbs
//! provider, a length byte before the data, or as it is.
//!
//! InfiniBand's connection manager pads private data to a fixed length, so only the length byte
//! tells the length of the peer's data.

use super::{
    super::common::cm_data::{
        CmDataLimits,
        MAX_PRIVATE_DATA, //
    },
    prelude::*, //
};
use crate::rdma::device_attr::Protocol;

/// Limits of unframed data on iWARP. MPA counts 4 bytes of its own with the data, and siw adds them
/// in a byte (`siw_send_mpareqrep()`): more than 251 bytes wrap around.
const IWARP_LIMITS: CmDataLimits = CmDataLimits {
    connect: 251,
    accept: 251,
    reject: 251,
};

/// The format of private data on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CmFormat {
    /// A length byte, then the data.
    Framed,
    /// The data alone.
    Raw,
}

impl CmFormat {
    /// Returns the format that FI_OPT_KOFI_CM_DATA_RAW selects.
    pub(super) fn new(is_raw: bool) -> Self {
        match is_raw {
            true => Self::Raw,
            false => Self::Framed,
        }
    }

    /// Returns the maximum numbers of bytes on devices of this kind.
    pub(super) fn limits(self, protocol: Protocol) -> CmDataLimits {
        match (self, protocol) {
            (Self::Raw, Protocol::Iwarp) => IWARP_LIMITS,
            _ => CmDataLimits::new(self == Self::Raw),
        }
    }

    /// Returns the bytes to send for `data`, which `frame` may store; -FI_EINVAL if they do not fit
    /// into a frame.
    pub(super) fn encode<'a>(self, data: &'a [u8], frame: &'a mut CmFrame) -> Result<&'a [u8]> {
        if self == Self::Raw {
            return Ok(data);
        }
        let (len, space) = frame.split_first_mut().ok_or(Errno::EINVAL)?;
        *len = u8::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let space = space.get_mut(..data.len()).ok_or(Errno::EINVAL)?;
        space.copy_from_slice(data);
        Ok(&frame[..=data.len()])
    }

    /// Returns the data in bytes from a peer. The length byte of a malformed frame is clamped.
    pub(super) fn decode(self, wire: &[u8]) -> &[u8] {
        if self == Self::Raw {
            return wire;
        }
        match wire.split_first() {
            Some((count, rest)) => &rest[..rest.len().min(usize::from(*count))],
            None => &[],
        }
    }
}

/// Memory for framed data.
pub(super) type CmFrame = [u8; MAX_PRIVATE_DATA + 1];

/// Returns an empty frame.
pub(super) const fn new_frame() -> CmFrame {
    [0; MAX_PRIVATE_DATA + 1]
}

#[kunit_tests(kofi_verbs_cm_data)]
mod tests {
    use super::*;

    fn encoded(format: CmFormat, data: &[u8], check: impl FnOnce(&[u8]) -> bool) -> bool {
        format.encode(data, &mut new_frame()).is_ok_and(check)
    }

    #[test]
    fn cm_03_private_data_up_to_the_limit_is_framed() {
        let data = [7u8; 300];
        for len in 0..=MAX_PRIVATE_DATA {
            let data = &data[..len];
            assert!(encoded(CmFormat::Framed, data, |wire| wire.len()
                == len + 1
                && CmFormat::Framed.decode(wire) == data));
        }
        for len in [MAX_PRIVATE_DATA + 1, 255, 256, 300] {
            assert!(!encoded(CmFormat::Framed, &data[..len], |_| true));
        }
    }

    #[test]
    fn raw_private_data_is_unchanged() {
        let data = [7u8; 255];
        for len in [0, 1, 55, 56, 196, 255] {
            let data = &data[..len];
            assert!(encoded(CmFormat::Raw, data, |wire| wire == data));
            assert!(CmFormat::Raw.decode(data) == data);
        }
    }

    #[test]
    fn cm_01_padding_and_invalid_lengths_are_tolerated() {
        let framed = CmFormat::Framed;
        assert_eq!(framed.decode(&[]), &[] as &[u8]);
        assert_eq!(framed.decode(&[0, 1, 2]), &[] as &[u8]);
        assert_eq!(framed.decode(&[2, 1, 2, 0, 0]), &[1u8, 2]);
        assert_eq!(framed.decode(&[255, 1, 2]), &[1u8, 2]);
    }
}
