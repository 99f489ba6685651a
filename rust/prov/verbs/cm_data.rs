// SPDX-License-Identifier: GPL-2.0

//! Private data of connection requests, in the format of libfabric's verbs provider: a length byte,
//! then the data.
//!
//! InfiniBand's connection manager pads private data to a fixed length, so only the length byte
//! tells the length of the peer's data.

use super::{
    super::common::connreq::MAX_PRIVATE_DATA,
    prelude::*, //
};

/// Private data with its length byte.
#[derive(Clone, Copy)]
pub(super) struct CmData {
    bytes: [u8; MAX_PRIVATE_DATA + 1],
    len: usize,
}

impl CmData {
    /// Formats `data`; -FI_EINVAL if it is too long.
    pub(super) fn new(data: &[u8]) -> Result<Self> {
        let mut frame = Self {
            bytes: [0; MAX_PRIVATE_DATA + 1],
            len: data.len() + 1,
        };
        frame.bytes[0] = u8::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let room = frame.bytes.get_mut(1..frame.len).ok_or(Errno::EINVAL)?;
        room.copy_from_slice(data);
        Ok(frame)
    }

    /// Returns the bytes that are sent.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the data in bytes from a peer, which may be malformed: the length is clamped.
pub(super) fn parse_cm_data(wire: &[u8]) -> &[u8] {
    match wire.split_first() {
        Some((count, rest)) => &rest[..rest.len().min(usize::from(*count))],
        None => &[],
    }
}

#[kunit_tests(kofi_verbs_wire)]
mod tests {
    use super::*;

    #[test]
    fn cm_03_private_data_up_to_the_limit_is_framed() {
        for len in 0..=MAX_PRIVATE_DATA {
            let data = [7u8; MAX_PRIVATE_DATA];
            let framed = CmData::new(&data[..len]);
            assert!(framed.is_ok_and(|frame| parse_cm_data(frame.as_bytes()) == &data[..len]));
        }
        assert!(CmData::new(&[0; MAX_PRIVATE_DATA + 1]).is_err());
        assert!(CmData::new(&[0; 300]).is_err());
    }

    #[test]
    fn cm_01_padding_and_invalid_lengths_are_tolerated() {
        assert_eq!(parse_cm_data(&[]), &[] as &[u8]);
        assert_eq!(parse_cm_data(&[0, 1, 2]), &[] as &[u8]);
        assert_eq!(parse_cm_data(&[2, 1, 2, 0, 0]), &[1u8, 2]);
        assert_eq!(parse_cm_data(&[255, 1, 2]), &[1u8, 2]);
    }
}
