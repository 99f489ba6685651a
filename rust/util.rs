// SPDX-License-Identifier: GPL-2.0

//! General helpers: contexts, locks, lists, deferred drops, threads and logging. They depend on no
//! object of the fabric interfaces.

pub(crate) mod bh_work;
pub(crate) mod biased_lock;
pub(crate) mod callback;
pub(crate) mod cold;
pub mod context;
pub(crate) mod deferred_drop;
pub(crate) mod downcast;
pub(crate) mod hash;
pub(crate) mod indexed_fifo;
pub(crate) mod irq_work;
pub(crate) mod lock;
pub(crate) mod log;
pub mod namespace;
pub(crate) mod noio;
pub(crate) mod once;
pub(crate) mod owned_list;
pub(crate) mod paged_vec;
pub(crate) mod pages;
pub(crate) mod random;
pub(crate) mod rcu_box;
pub(crate) mod registry;
pub(crate) mod sequence_wait;
pub(crate) mod sort;
pub(crate) mod stat_counter;
mod stoppable_handler;
pub mod thread;
pub(crate) mod trace;
