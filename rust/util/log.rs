// SPDX-License-Identifier: GPL-2.0

//! Log messages about faults that no return value or event reports.
//!
//! A message begins with the name of the device, or of the provider if there is no device. In a message about an
//! endpoint of `verbs` the number of its queue pair follows. A peer or a broken device can cause any number of
//! messages, so their rate is limited (`log_ratelimit.c`): messages that a peer causes by the peer's address, all
//! other messages together.

use crate::prelude::*;
use core::net::IpAddr;
use kernel::fmt::{
    self,
    Display, //
};

extern "C" {
    fn kofi_may_log() -> bool;
    fn kofi_may_log_peer(address: *const u8, len: usize) -> bool;
}

/// Logs a fault of a device. Any context.
#[cold]
#[inline(never)]
pub(crate) fn warn(device: &dyn Display, msg: fmt::Arguments<'_>) {
    // SAFETY: Counts under a lock of its own, in any context.
    if unsafe { kofi_may_log() } {
        pr_warn!("{device}: {msg}\n");
    }
}

/// Logs a violation by a peer; `device` is the device or provider of the object that the peer reached. The rate
/// limit is that of the peer's address. Any context.
#[cold]
#[inline(never)]
pub(crate) fn warn_of_peer(device: &dyn Display, peer: &SocketAddr, msg: fmt::Arguments<'_>) {
    if may_log_peer(peer.ip()) {
        pr_warn!("{device}: peer {peer:?}: {msg}\n");
    }
}

/// Counts a message about a host, and returns whether it may be logged.
fn may_log_peer(host: IpAddr) -> bool {
    let octets = match host {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    // SAFETY: The bytes are valid during the call, which takes its own lock and works in any context.
    unsafe { kofi_may_log_peer(octets.as_ptr(), octets.len()) }
}

#[kunit_tests(kofi_log)]
mod tests {
    use super::*;

    #[test]
    fn rdm_10_log_rate_limit_is_per_peer() {
        let host = |last| IpAddr::from([192, 0, 2, last]);
        let count = (0..1000).filter(|_| may_log_peer(host(1))).count();
        assert!(count >= 10);
        // Some hosts share a slot of the rate limit.
        let others = (2..=200).filter(|&last| may_log_peer(host(last))).count();
        assert!(others > 100);
    }
}
