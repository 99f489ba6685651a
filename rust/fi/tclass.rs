// SPDX-License-Identifier: GPL-2.0

//! Traffic classes: `tclass` of transmit and domain attributes.

use crate::{
    abi::{
        FI_TC_BEST_EFFORT,
        FI_TC_BULK_DATA,
        FI_TC_DEDICATED_ACCESS,
        FI_TC_DSCP,
        FI_TC_LOW_LATENCY,
        FI_TC_NETWORK_CTRL,
        FI_TC_SCAVENGER,
        FI_TC_UNSPEC, //
    },
    fi::prelude::*, //
};

/// Maximum code point of differentiated services, a field of 6 bits.
const MAX_DSCP: u32 = 63;

/// Code point of each label: those of RFC 4594 for such traffic.
const LABELS: [(u32, u32); 6] = [
    (FI_TC_BEST_EFFORT, 0),
    // Expedited forwarding.
    (FI_TC_LOW_LATENCY, 46),
    // AF41.
    (FI_TC_DEDICATED_ACCESS, 34),
    // AF11.
    (FI_TC_BULK_DATA, 10),
    // CS1.
    (FI_TC_SCAVENGER, 8),
    // CS6.
    (FI_TC_NETWORK_CTRL, 48),
];

/// Returns the type of service in an IP header for a traffic class; `None` for the default.
///
/// # Errors
///
/// -FI_EINVAL for a class that does not exist.
pub(crate) fn type_of_service(tclass: u32) -> Result<Option<u8>> {
    let dscp = match tclass {
        FI_TC_UNSPEC => return Ok(None),
        _ if tclass & !MAX_DSCP == FI_TC_DSCP => tclass & MAX_DSCP,
        _ => {
            let label = LABELS.iter().find(|(label, _)| *label == tclass);
            label.ok_or(Errno::EINVAL)?.1
        }
    };
    // The upper 6 of 8 bits.
    Ok(Some((dscp << 2) as u8))
}

/// Returns the traffic class of an endpoint with this info: its own, or the default of the domain.
pub(crate) fn of_endpoint(info: &Info) -> u32 {
    match info.tx().map_or(0, |tx| tx.tclass) {
        0 => info.domain().map_or(0, |domain| domain.tclass),
        own => own,
    }
}

#[kunit_tests(kofi_fi_tclass)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_shifted_and_bounded() {
        assert_eq!(type_of_service(0), Ok(None));
        for dscp in 0..=MAX_DSCP {
            let tos = type_of_service(FI_TC_DSCP | dscp);
            assert_eq!(tos, Ok(Some((dscp * 4) as u8)));
        }
        for bad in [
            1,
            63,
            255,
            FI_TC_DSCP | 64,
            FI_TC_DSCP | 255,
            FI_TC_NETWORK_CTRL + 1,
        ] {
            assert_eq!(type_of_service(bad), Err(Errno::EINVAL));
        }
        assert_eq!(type_of_service(FI_TC_DSCP | 0x200), Err(Errno::EINVAL));
        assert_eq!(type_of_service(u32::MAX), Err(Errno::EINVAL));
    }

    #[test]
    fn every_label_has_a_code_point() {
        for label in FI_TC_BEST_EFFORT..=FI_TC_NETWORK_CTRL {
            assert!(type_of_service(label).is_ok_and(|tos| tos.is_some()));
        }
        assert_eq!(type_of_service(FI_TC_LOW_LATENCY), Ok(Some(0xb8)));
    }
}
