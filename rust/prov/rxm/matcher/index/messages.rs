// SPDX-License-Identifier: GPL-2.0

//! Index of unexpected messages. Guarded by the lock of the matcher.

use super::{
    super::{
        HasMsgKey,
        MatchSpec,
        MsgKey, //
    },
    hash,
    Class,
    Search,
    SEARCH_STEP, //
};
use crate::{
    prelude::*,
    util::{
        hash::{
            hash_local,
            HashSeed, //
        },
        indexed_fifo::{
            Entry,
            GroupKey,
            IndexedFifo, //
        },
    },
};

/// Key of a group of messages.
struct MsgGroup<'a> {
    hash: u32,
    ignore: u64,
    tag: u64,
    from: Option<&'a SocketAddr>,
}

impl<'a> MsgGroup<'a> {
    #[inline]
    fn new(seed: &HashSeed, class: Class, tag: u64, from: Option<&'a SocketAddr>) -> Self {
        let tag = tag & !class.ignore;
        let from = from.filter(|_| class.has_source);
        Self {
            hash: hash(seed, class, tag, from),
            ignore: class.ignore,
            tag,
            from,
        }
    }

    fn of_message(seed: &HashSeed, class: Class, key: &'a MsgKey) -> Self {
        Self::new(seed, class, key.tag.unwrap_or(0), Some(&key.from))
    }
}

impl<M: HasMsgKey> GroupKey<M> for MsgGroup<'_> {
    #[inline(always)]
    fn hash(&self) -> u32 {
        self.hash
    }

    #[inline]
    fn is_of(&self, message: &M) -> bool {
        let key = message.key();
        key.tag.unwrap_or(0) & !self.ignore == self.tag
            && self.from.is_none_or(|from| *from == key.from)
    }
}

/// Key of the messages of one endpoint, their owner, in a matcher that several endpoints share.
struct Owner {
    hash: u32,
    owner: u32,
}

impl Owner {
    fn new(seed: &HashSeed, owner: u32) -> Self {
        Self {
            hash: seed.hash_1(owner.into()),
            owner,
        }
    }
}

impl<M: HasMsgKey> GroupKey<M> for Owner {
    fn hash(&self) -> u32 {
        self.hash
    }

    fn is_of(&self, message: &M) -> bool {
        message.owner() == self.owner
    }
}

/// Number of tables of messages.
pub(in super::super::super) const MSG_TABLES: usize = 5;

/// Table of the messages of a source.
const SOURCE: usize = 0;

/// Table of the messages of each owner, in a matcher that several endpoints share, where no receive names a source. In
/// the matcher of one endpoint it is the table of exact tags and sources.
const OWNER: usize = 1;

/// Tables of the masks that were used last.
const MASKS: [usize; 2] = [3, 4];

/// Number of searches with other masks during which the table of an incomplete search is kept.
const KEPT_CALLS: u8 = 8;

/// Unexpected messages, tagged or untagged ones.
///
/// # Invariants
///
/// A table with a class has the messages before its cursor. A table without a class has none, except [`OWNER`] if the
/// messages have owners, which has all.
pub(in super::super) struct MsgIndex<M: HasMsgKey> {
    fifo: IndexedFifo<M, MSG_TABLES>,
    classes: [Option<Class>; MSG_TABLES],
    has_owners: bool,
    /// Table of the mask that was used last.
    last_mask: usize,
    /// For each table of a mask, the number of searches with other masks during which it is kept.
    kept: [u8; MSG_TABLES],
}

impl<M: HasMsgKey> MsgIndex<M> {
    /// Initialises an empty index. Messages have owners in a matcher that several endpoints share.
    pub(in super::super) fn init(is_tagged: bool, has_owners: bool) -> impl Init<Self> {
        let exact = match is_tagged {
            true => Some(Class::new(false, 0)),
            false => None,
        };
        let exact_source = match is_tagged && !has_owners {
            true => Some(Class::new(true, 0)),
            false => None,
        };
        init!(Self {
            fifo: IndexedFifo::new(),
            classes: [
                Some(Class::new(true, u64::MAX)),
                exact_source,
                exact,
                None,
                None,
            ],
            has_owners,
            last_mask: MASKS[0],
            kept: [0; MSG_TABLES],
        })
    }

    /// Returns the number of entries that searches have looked at.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(in super::super) fn probes(&self) -> usize {
        self.fifo.probes()
    }

    /// Returns whether no message is queued.
    #[inline(always)]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Queues a message behind the others.
    pub(in super::super) fn push_back(&mut self, seed: &HashSeed, message: ListBox<M>) {
        let key = *message.key();
        let owner = message.owner();
        let complete: [bool; MSG_TABLES] = core::array::from_fn(|k| self.fifo.is_complete(k));
        let mut entry = self.fifo.push_back(message);
        for (k, is_complete) in complete.into_iter().enumerate() {
            if let (Some(class), true) = (self.classes[k], is_complete) {
                entry.index_back(k, &MsgGroup::of_message(seed, class, &key));
            }
        }
        if self.has_owners {
            entry.index_back(OWNER, &Owner::new(seed, owner));
        }
    }

    /// Queues a message in front of the others.
    pub(in super::super) fn push_front(&mut self, seed: &HashSeed, message: ListBox<M>) {
        let key = *message.key();
        let owner = message.owner();
        let mut entry = self.fifo.push_front(message);
        for k in 0..MSG_TABLES {
            if let Some(class) = self.classes[k] {
                entry.index_front(k, &MsgGroup::of_message(seed, class, &key));
            }
        }
        if self.has_owners {
            entry.index_front(OWNER, &Owner::new(seed, owner));
        }
    }

    pub(in super::super) fn pop_front(&mut self) -> Option<ListBox<M>> {
        self.fifo.pop_front()
    }

    /// Removes the messages of a source that `selects` accepts; examines all messages of the source.
    pub(in super::super) fn remove_source(
        &mut self,
        seed: &HashSeed,
        from: &SocketAddr,
        selects: impl FnMut(&M) -> bool,
    ) -> BoxList<M> {
        let class = Class::new(true, u64::MAX);
        let group = MsgGroup::new(seed, class, 0, Some(from));
        self.fifo.remove_where(SOURCE, &group, selects)
    }

    /// Removes the oldest message of an owner.
    pub(in super::super) fn pop_owner(
        &mut self,
        seed: &HashSeed,
        owner: u32,
    ) -> Option<ListBox<M>> {
        let entry = self.fifo.find(OWNER, &Owner::new(seed, owner))?;
        Some(entry.take())
    }

    /// Calls `act` for the oldest message that a receive with this `spec` matches.
    #[inline]
    pub(in super::super) fn search<T>(
        &mut self,
        seed: &HashSeed,
        spec: &MatchSpec,
        act: impl FnOnce(Entry<'_, M, MSG_TABLES>) -> T,
    ) -> Search<T> {
        if self.is_empty() {
            return Search::NotFound;
        }
        let class = Class::of(spec);
        let found = match class {
            Class::ALL => self.fifo.front(),
            _ => {
                let tag = spec.tag.map_or(0, |(tag, _)| tag);
                let group = MsgGroup::new(seed, class, tag, spec.from.as_ref());
                match self.classes[..MASKS[0]]
                    .iter()
                    .position(|of| *of == Some(class))
                {
                    Some(k) => self.fifo.find(k, &group),
                    None => return self.search_mask(seed, class, spec, &group, act),
                }
            }
        };
        match found {
            Some(entry) => Search::Found(act(entry)),
            None => Search::NotFound,
        }
    }

    /// Searches with the table of a mask, and completes it as far as needed.
    #[inline(never)]
    fn search_mask<T>(
        &mut self,
        seed: &HashSeed,
        class: Class,
        spec: &MatchSpec,
        group: &MsgGroup<'_>,
        act: impl FnOnce(Entry<'_, M, MSG_TABLES>) -> T,
    ) -> Search<T> {
        let Some(k) = self.table_of_mask(class) else {
            return Search::Again;
        };
        self.last_mask = k;
        self.kept[k] = 0;
        if let Some(entry) = self.fifo.find(k, group) {
            return Search::Found(act(entry));
        }
        for _ in 0..SEARCH_STEP {
            let Some(mut entry) = self.fifo.advance(k) else {
                return Search::NotFound;
            };
            let key = *entry.get().key();
            entry.index_back(k, &MsgGroup::of_message(seed, class, &key));
            if spec.matches(&key) {
                return Search::Found(act(entry));
            }
        }
        self.kept[k] = KEPT_CALLS;
        Search::Again
    }

    /// Returns the table of a mask. A new mask gets the table of the mask that was not used last, which is emptied in
    /// steps: returns `None` until it is empty.
    fn table_of_mask(&mut self, class: Class) -> Option<usize> {
        let is = |k: &usize| self.classes[*k] == Some(class);
        if let Some(k) = MASKS.into_iter().find(is) {
            return Some(k);
        }
        let is_free = |k: &usize| self.classes[*k].is_none();
        let is_older = |k: &usize| *k != self.last_mask;
        let k = MASKS.into_iter().find(is_free);
        let k = k.or_else(|| MASKS.into_iter().find(is_older))?;
        if self.classes[k].is_some() {
            // Two searches that take the table from each other would never end.
            if let Some(kept) = self.kept[k].checked_sub(1) {
                self.kept[k] = kept;
                return None;
            }
            for _ in 0..SEARCH_STEP {
                if !self.fifo.retreat(k) {
                    self.classes[k] = None;
                    break;
                }
            }
            if self.classes[k].is_some() {
                return None;
            }
        }
        // INVARIANT: The table is empty, and begins at the first message.
        self.fifo.restart(k);
        self.classes[k] = Some(class);
        Some(k)
    }
}

/// Key of the messages that a context has claimed.
pub(in super::super) struct ClaimedBy(pub(in super::super) usize);

impl<M: HasMsgKey> GroupKey<M> for ClaimedBy {
    fn hash(&self) -> u32 {
        hash_local(self.0)
    }

    fn is_of(&self, message: &M) -> bool {
        message.claimed_by() == Some(self.0)
    }
}
