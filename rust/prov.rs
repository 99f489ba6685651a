// SPDX-License-Identifier: GPL-2.0

//! Providers: each implements the traits of [`fi::provider`](crate::fi::provider).

mod common;
pub(crate) mod r#loop;
pub(crate) mod rxm;
pub(crate) mod verbs;
