// SPDX-License-Identifier: GPL-2.0

//! A provider without a device for the tests of `fi`, and tests that concern objects of all kinds.

mod drop_in_interrupt;
pub(super) mod dummy_provider;
