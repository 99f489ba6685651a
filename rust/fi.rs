// SPDX-License-Identifier: GPL-2.0

//! The object model of the fabric interfaces, and the traits that a provider implements.
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
//! A child holds a reference to its parent. Only [`memory`] contains unsafe code.

pub mod atomic;
pub mod av;
pub mod av_set;
pub mod cntr;
pub mod cq;
pub mod domain;
pub mod ep;
pub mod eq;
pub mod fabric;
mod handler;
pub mod info;
pub(crate) mod introspect;
mod locked_list;
pub mod memory;
pub mod mr;
pub mod msg;
pub mod object;
pub mod pep;
pub mod poll;
mod post;
pub(crate) mod prelude;
pub mod provider;
pub mod rdm;
mod ready_set;
pub mod rundown;
pub mod sep;
pub mod srx;
pub mod stx;
pub(crate) mod tclass;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
pub(crate) mod timer;
pub mod wait;
pub mod wait_set;

pub use introspect::Owner;
