// SPDX-License-Identifier: GPL-2.0

//! Messages in the kernel's log: of what is wrong and no return value or event tells.
//!
//! Each begins with the device that it is about, and goes on with the endpoint, which has the number of
//! its queue pair. A peer, or a broken device, may be the reason of any number of them: the log has few, and few of
//! each peer.

use core::{
    net::{
        IpAddr,
        SocketAddr, //
    }, //
};
use kernel::{
    fmt::{
        self,
        Display, //
    },
    prelude::*, //
};

extern "C" {
    fn kofi_may_say() -> bool;
    fn kofi_may_say_of(address: *const u8, len: usize) -> bool;
}

/// Says what is wrong with, or about, a device. Any context.
#[cold]
#[inline(never)]
pub(crate) fn complain(device: &dyn Display, what: fmt::Arguments<'_>) {
    // SAFETY: Counts under a lock of its own, in any context.
    if unsafe { kofi_may_say() } {
        pr_warn!("{device}: {what}\n");
    }
}

/// Logs what a peer has done that it may not; `device` is what it was done to. Messages about one host are
/// limited apart from those about others. Any context.
#[cold]
#[inline(never)]
pub(crate) fn complain_of(device: &dyn Display, peer: &SocketAddr, what: fmt::Arguments<'_>) {
    if may_say_of(peer.ip()) {
        pr_warn!("{device}: peer {peer:?}: {what}\n");
    }
}

/// Counts a message about a host, and returns whether it may be logged.
fn may_say_of(host: IpAddr) -> bool {
    let octets = match host {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    // SAFETY: The bytes are there for the call, which counts under a lock of its own, in any context.
    unsafe { kofi_may_say_of(octets.as_ptr(), octets.len()) }
}

#[kunit_tests(kofi_say)]
mod tests {
    use super::*;

    #[test]
    fn rdm_10_one_peer_hides_no_other_in_the_log() {
        let host = |last| IpAddr::from([192, 0, 2, last]);
        let count = (0..1000).filter(|_| may_say_of(host(1))).count();
        assert!(count >= 10);
        // Some share its limit.
        let others = (2..=200).filter(|&last| may_say_of(host(last))).count();
        assert!(others > 100);
    }
}
