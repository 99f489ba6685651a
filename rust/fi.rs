// SPDX-License-Identifier: GPL-2.0

//! The object model of the fabric interfaces, its rules, and what a provider implements.
//!
//! ```text
//! Fabric ── EventQueue
//!   ├────── WaitSet
//!   ├────── PassiveEndpoint
//!   └── Domain ── CompletionQueue
//!         ├────── Counter
//!         ├────── PollSet
//!         ├────── AddressVector ── AddressSet
//!         ├────── MemoryRegion
//!         ├────── SharedReceive
//!         ├────── SharedTransmit
//!         ├────── ScalableEndpoint ── Endpoint
//!         └────── Endpoint
//! ```
//!
//! Children keep their parents alive. Everything here is safe code but [`memory`].

pub(crate) mod alarm;
pub mod atomic;
pub mod av;
pub mod av_set;
pub(crate) mod card;
pub mod cntr;
pub mod cq;
pub mod domain;
#[cfg(CONFIG_KUNIT = "y")]
mod dropped;
pub mod ep;
pub mod eq;
pub mod fabric;
pub mod gate;
mod group;
mod handler;
pub mod info;
pub mod memory;
pub mod mr;
pub mod msg;
#[cfg(CONFIG_KUNIT = "y")]
mod nothing;
pub mod object;
pub mod pep;
pub mod poll;
mod posting;
pub mod provider;
pub mod rdm;
mod roll;
pub mod sep;
pub mod srx;
pub mod stx;
pub mod wait;
pub mod wait_set;
