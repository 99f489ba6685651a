// SPDX-License-Identifier: GPL-2.0

//! Statistics of transmit and receive contexts, for introspection.
//!
//! Each counter has one writer at a time: the caller holds the lock of the context's data path. [`Violations`]
//! takes no lock.

use crate::{
    abi::flags::*,
    fi::prelude::*,
    util::{
        log::{
            warn,
            warn_of_peer, //
        },
        stat_counter::StatCounter, //
    },
};
use kernel::fmt::{
    self,
    Display, //
};

/// Counts violations by the peer of a connected endpoint: accesses without permission, each of which ends
/// the connection, and invalidations of keys of others. Takes no lock.
pub(crate) struct Violations {
    count: Atomic<u64>,
    /// Address of the peer, once connected.
    peer: SetOnce<SocketAddr>,
}

impl Violations {
    /// Makes a counter for an endpoint without a peer.
    pub(crate) const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            peer: SetOnce::new(),
        }
    }

    /// Sets the peer's address. Any context.
    pub(crate) fn set_peer(&self, peer: SocketAddr) {
        let _ = self.peer.populate(peer);
    }

    /// Counts a violation, and logs it. Any context.
    #[cold]
    pub(crate) fn record(&self, device: &dyn Display, what: fmt::Arguments<'_>) {
        let _ = self.count.fetch_add(1, Relaxed);
        match self.peer.as_ref() {
            Some(peer) => warn_of_peer(device, peer, what),
            None => warn(device, what),
        }
    }

    /// Adds the number of violations to `info`. Any context.
    pub(crate) fn report(&self, info: &mut ObjectInfo<'_>) {
        info.add_value(abi::KOFI_VALUE_VIOLATIONS, self.count.load(Relaxed));
    }
}

/// Values of a transmit context, for introspection.
pub(crate) struct TxReport {
    pub(crate) depth: u64,
    /// Numbers of sends, writes, reads and atomics.
    pub(crate) started: [u64; 4],
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) eagain: u64,
}

impl TxReport {
    /// Adds the values to `info`.
    pub(crate) fn add_to(&self, info: &mut ObjectInfo<'_>) {
        let [sends, writes, reads, atomics] = self.started;
        info.add_value(abi::KOFI_VALUE_TX_DEPTH, self.depth);
        info.add_value(abi::KOFI_VALUE_SENDS, sends);
        info.add_value(abi::KOFI_VALUE_WRITES, writes);
        info.add_value(abi::KOFI_VALUE_READS, reads);
        info.add_value(abi::KOFI_VALUE_ATOMICS, atomics);
        info.add_value(abi::KOFI_VALUE_TX_DONE, self.done);
        info.add_value(abi::KOFI_VALUE_TX_BYTES, self.bytes);
        info.add_value(abi::KOFI_VALUE_TX_ERRORS, self.errors);
        info.add_value(abi::KOFI_VALUE_TX_AGAIN, self.eagain);
    }
}

/// Values of a receive context, for introspection.
pub(crate) struct RxReport {
    pub(crate) depth: u64,
    pub(crate) posted: u64,
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) eagain: u64,
}

impl RxReport {
    /// Adds the values to `info`.
    pub(crate) fn add_to(&self, info: &mut ObjectInfo<'_>) {
        info.add_value(abi::KOFI_VALUE_RX_DEPTH, self.depth);
        info.add_value(abi::KOFI_VALUE_RECEIVES, self.posted);
        info.add_value(abi::KOFI_VALUE_RX_DONE, self.done);
        info.add_value(abi::KOFI_VALUE_RX_BYTES, self.bytes);
        info.add_value(abi::KOFI_VALUE_RX_ERRORS, self.errors);
        info.add_value(abi::KOFI_VALUE_RX_AGAIN, self.eagain);
    }
}

/// Statistics of a transmit context.
#[derive(Default)]
pub(crate) struct TxStats {
    sends: StatCounter,
    writes: StatCounter,
    reads: StatCounter,
    atomics: StatCounter,
    bytes: StatCounter,
    completed: StatCounter,
    errors: StatCounter,
    eagain: StatCounter,
}

impl TxStats {
    /// Returns counters at zero.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Counts the start of an operation of `len` bytes, whose completion will have `flags`.
    #[inline]
    pub(crate) fn record_start(&self, flags: u64, len: usize) {
        let kind = match flags {
            flags if flags & FI_ATOMIC != 0 => &self.atomics,
            flags if flags & FI_WRITE != 0 => &self.writes,
            flags if flags & FI_READ != 0 => &self.reads,
            _ => &self.sends,
        };
        kind.add(1);
        self.bytes.add(len as u64);
    }

    /// Counts a post that was refused with -FI_EAGAIN.
    #[cold]
    pub(crate) fn record_eagain(&self) {
        self.eagain.add(1);
    }

    /// Counts a completion.
    #[inline]
    pub(crate) fn record_completion(&self, result: Result) {
        self.completed.add(1);
        self.errors.add(u64::from(result.is_err()));
    }

    /// Adds the counters to `info`.
    pub(crate) fn report(&self, info: &mut ObjectInfo<'_>) {
        let started = [&self.sends, &self.writes, &self.reads, &self.atomics].map(StatCounter::get);
        let done = self.completed.get();
        TxReport {
            depth: started.iter().sum::<u64>().saturating_sub(done),
            started,
            done,
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            eagain: self.eagain.get(),
        }
        .add_to(info);
    }
}

/// Statistics of a receive context.
#[derive(Default)]
pub(crate) struct RxStats {
    posted: StatCounter,
    bytes: StatCounter,
    completed: StatCounter,
    errors: StatCounter,
    eagain: StatCounter,
}

impl RxStats {
    /// Returns counters at zero.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Counts a posted receive, or a message placed in a multi-receive buffer.
    #[inline]
    pub(crate) fn record_post(&self) {
        self.posted.add(1);
    }

    /// Counts a post that was refused with -FI_EAGAIN.
    #[cold]
    pub(crate) fn record_eagain(&self) {
        self.eagain.add(1);
    }

    /// Counts the completion of a receive, with the number of bytes received.
    #[inline]
    pub(crate) fn record_completion(&self, result: Result<usize>) {
        self.completed.add(1);
        match result {
            Ok(len) => self.bytes.add(len as u64),
            Err(_) => self.errors.add(1),
        }
    }

    /// Adds the counters to `info`; `waiting` receives are posted.
    pub(crate) fn report(&self, waiting: usize, info: &mut ObjectInfo<'_>) {
        RxReport {
            depth: waiting as u64,
            posted: self.posted.get(),
            done: self.completed.get(),
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            eagain: self.eagain.get(),
        }
        .add_to(info);
    }
}
