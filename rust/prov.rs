// SPDX-License-Identifier: GPL-2.0

//! Providers: each implements the traits of [`fi::provider`](crate::fi::provider).

/// Nothing is offered of it before there is an endpoint: these are its parts, with their tests.
#[cfg(CONFIG_KUNIT = "y")]
mod rdm;
pub(crate) mod verbs;
