// SPDX-License-Identifier: GPL-2.0

//! Hash indices of posted receives and of unexpected messages. Guarded by the lock of the matcher.
//!
//! A receive belongs to a *class*: whether it names a source, and the bits of the tag that it ignores. Within a class,
//! receives with the same source and the same other bits are a group in posting order. An arriving message finds one
//! group in each class that has receives, and takes the oldest of their first receives.
//!
//! Messages are in groups likewise, in one table for each class that receives search: that of all messages of a
//! source, those of exact tags, and those of the two ignore masks that were used last. The first search with another
//! mask builds the table of its class, [`SEARCH_STEP`] messages in each call; each message is examined once.
//!
//! Hashes are keyed, so a peer cannot choose tags that collide.

mod messages;
mod receives;

pub(in super::super) use self::{
    messages::MSG_TABLES,
    receives::{
        RxBuckets,
        RX_TABLES, //
    },
};
pub(super) use self::{
    messages::{
        ClaimedBy,
        MsgIndex, //
    },
    receives::RxIndex, //
};

use super::MatchSpec;
use crate::{
    prelude::*,
    util::hash::HashSeed, //
};

/// Number of messages that one call of a search examines at most, besides those that the tables find.
pub(in super::super) const SEARCH_STEP: usize = 64;

/// Result of a search.
pub(in super::super) enum Search<T> {
    /// The oldest matching message, or what was done with it.
    Found(T),
    /// No message matches.
    NotFound,
    /// The search is not complete, and has to be called again; the lock can be released meanwhile.
    Again,
}

/// Class of receives.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    has_source: bool,
    /// Ignored bits of the tag; all for untagged receives.
    ignore: u64,
}

impl Class {
    const ALL: Self = Self::new(false, u64::MAX);

    const fn new(has_source: bool, ignore: u64) -> Self {
        Self { has_source, ignore }
    }

    fn of(spec: &MatchSpec) -> Self {
        Self {
            has_source: spec.from.is_some(),
            ignore: spec.tag.map_or(u64::MAX, |(_, ignore)| ignore),
        }
    }
}

/// Hashes the key of a group, in which the ignored bits of `tag` are 0.
#[inline]
fn hash(seed: &HashSeed, class: Class, tag: u64, from: Option<&SocketAddr>) -> u32 {
    match from {
        None if class.ignore == u64::MAX => 0,
        None => seed.hash_1(tag),
        Some(from) => seed.hash_addr(tag, from),
    }
}
