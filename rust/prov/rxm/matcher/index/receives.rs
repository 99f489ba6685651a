// SPDX-License-Identifier: GPL-2.0

//! Index of posted receives. The lock that guards the matcher guards the index; no function here takes a lock.

use super::{
    super::{
        HasMatchSpec,
        MatchResult,
        MsgKey, //
    },
    hash,
    Class,
    Search, //
};
use crate::{
    prelude::*,
    util::{
        hash::{
            hash_local,
            HashSeed, //
        },
        indexed_fifo::{
            Buckets,
            Entry,
            GroupKey,
            IndexedFifo, //
        },
    },
};

/// Number of tables of posted receives.
pub(in super::super::super) const RX_TABLES: usize = 2;

/// Index of the table that groups receives by class, tag and source.
const CLASSES: usize = 0;

/// Index of the table that groups receives by the consumer's context. Cancels add the receives to it.
const CONTEXTS: usize = 1;

/// Maximum number of receives that one call of a cancel adds to the table of contexts.
const CANCEL_STEP: usize = 16;

/// Maximum number of classes, including those that always exist.
const MAX_CLASSES: usize = 64;

/// Class number of receives that have no class: they were forced into the index when there were too many classes.
const UNCLASSED: u8 = u8::MAX;

/// Class of receives, in the sense of [`index`](super).
struct RxClass {
    is_tagged: bool,
    class: Class,
    /// Number of posted receives.
    posted: usize,
}

impl RxClass {
    const fn new(is_tagged: bool, class: Class) -> Self {
        Self {
            is_tagged,
            class,
            posted: 0,
        }
    }

    /// Classes that always exist: untagged receives, exact tags and all tags, each without and with a source.
    const FIXED: [Self; 6] = [
        Self::new(false, Class::ALL),
        Self::new(false, Class::new(true, u64::MAX)),
        Self::new(true, Class::new(false, 0)),
        Self::new(true, Class::new(true, 0)),
        Self::new(true, Class::ALL),
        Self::new(true, Class::new(true, u64::MAX)),
    ];
}

/// Key of a group of receives.
struct RxGroup<'a> {
    hash: u32,
    number: u8,
    class: Class,
    tag: u64,
    from: Option<&'a SocketAddr>,
}

impl<'a> RxGroup<'a> {
    #[inline]
    fn new(
        seed: &HashSeed,
        number: u8,
        class: Class,
        tag: u64,
        from: Option<&'a SocketAddr>,
    ) -> Self {
        let tag = tag & !class.ignore;
        let from = from.filter(|_| class.has_source);
        let spread = u32::from(number).wrapping_mul(0x9e37_79b9);
        Self {
            hash: hash(seed, class, tag, from).wrapping_add(spread),
            number,
            class,
            tag,
            from,
        }
    }
}

/// Returns the groups that a message matches, in all classes that have receives.
#[inline]
fn groups<'a>(
    fixed: &'a [RxClass],
    masks: &'a [RxClass],
    seed: &'a HashSeed,
    key: &'a MsgKey,
) -> impl Iterator<Item = RxGroup<'a>> {
    let tag = key.tag.unwrap_or(0);
    Iterator::chain(fixed.iter(), masks)
        .enumerate()
        .filter(|(_, of)| of.posted > 0 && of.is_tagged == key.tag.is_some())
        .map(move |(at, of)| RxGroup::new(seed, at as u8, of.class, tag, Some(&key.from)))
}

/// Returns the number of the class from the rank of a receive.
fn number_of(rank: u64) -> u8 {
    rank as u8
}

impl<R: HasMatchSpec> GroupKey<R> for RxGroup<'_> {
    #[inline(always)]
    fn hash(&self) -> u32 {
        self.hash
    }

    #[inline]
    fn is_of(&self, receive: &R) -> bool {
        let tag = receive.tag().map_or(0, |(tag, _)| tag) & !self.class.ignore;
        number_of(receive.rank()) == self.number && tag == self.tag && self.from == receive.source()
    }
}

/// Key of the group of all receives that have no class.
struct Unclassed;

impl<R: HasMatchSpec> GroupKey<R> for Unclassed {
    fn hash(&self) -> u32 {
        0
    }

    fn is_of(&self, receive: &R) -> bool {
        number_of(receive.rank()) == UNCLASSED
    }
}

/// Key of the receives with a context of the consumer.
struct ContextKey(usize);

impl<R: HasMatchSpec> GroupKey<R> for ContextKey {
    // The hash need not be keyed: the consumer chooses its contexts, and peers have no influence on them.
    #[inline(always)]
    fn hash(&self) -> u32 {
        hash_local(self.0)
    }

    #[inline(always)]
    fn is_of(&self, receive: &R) -> bool {
        receive.context() == Some(self.0)
    }
}

/// Buckets of the tables of posted receives.
pub(in super::super::super) struct RxBuckets<R>([Buckets<R>; RX_TABLES]);

impl<R> RxBuckets<R> {
    /// Allocates the buckets: posting costs the same for up to `size` receives. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(in super::super::super) fn new(size: usize) -> Result<Self> {
        Ok(Self([Buckets::new(size)?, Buckets::new(size)?]))
    }
}

/// Posted receives, tagged and untagged ones.
///
/// # Invariants
///
/// The rank of a posted receive is its number in posting order, times 256, plus the number of its class. A class
/// counts its posted receives.
pub(in super::super) struct RxIndex<R: HasMatchSpec> {
    fifo: IndexedFifo<R, RX_TABLES>,
    fixed: [RxClass; RxClass::FIXED.len()],
    /// Other classes, all of them tagged; those without receives are free.
    masks: KVec<RxClass>,
    /// Number of receives without a class.
    unclassed: usize,
    /// Number of receives posted so far, from which the next rank is made.
    posted: u64,
}

impl<R: HasMatchSpec> RxIndex<R> {
    /// Empty index, which grows with the first receives.
    pub(in super::super) const EMPTY: Self = Self {
        fifo: IndexedFifo::new(),
        fixed: RxClass::FIXED,
        masks: KVec::new(),
        unclassed: 0,
        posted: 0,
    };

    /// Sets the buckets for the posted receives, of which there are none yet.
    pub(in super::super) fn set_buckets(&mut self, buckets: RxBuckets<R>) {
        self.fifo.set_buckets(buckets.0);
    }

    /// Returns the number of entries that searches have looked at.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(in super::super) fn probes(&self) -> usize {
        self.fifo.probes()
    }

    fn class(&mut self, number: u8) -> Option<&mut RxClass> {
        let at = usize::from(number);
        match at.checked_sub(self.fixed.len()) {
            None => self.fixed.get_mut(at),
            Some(at) => self.masks.get_mut(at),
        }
    }

    /// Returns the number of the class of a receive; `None` if no class can be added for it.
    #[inline]
    fn number(&mut self, receive: &R) -> Option<u8> {
        let has_source = receive.source().is_some();
        // The order of `RxClass::FIXED`.
        let first = match receive.tag() {
            None => 0,
            Some((_, 0)) => 2,
            Some((_, u64::MAX)) => 4,
            Some((_, ignore)) => return self.masked_number(Class::new(has_source, ignore)),
        };
        Some(first + u8::from(has_source))
    }

    /// Returns the number of the class of a tagged receive that ignores some bits. Adds the class if there is none.
    #[cold]
    fn masked_number(&mut self, class: Class) -> Option<u8> {
        let at = match self.masks.iter().position(|of| of.class == class) {
            Some(at) => at,
            None => self.add_mask(RxClass::new(true, class))?,
        };
        Some((self.fixed.len() + at) as u8)
    }

    /// Adds a class, and returns its index in `masks`; `None` if there are too many classes, or no memory.
    fn add_mask(&mut self, class: RxClass) -> Option<usize> {
        if let Some(at) = self.masks.iter().position(|class| class.posted == 0) {
            self.masks[at] = class;
            return Some(at);
        }
        let at = self.masks.len();
        if at < MAX_CLASSES - self.fixed.len() {
            self.masks.push(class, GFP_NOWAIT).ok()?;
            return Some(at);
        }
        None
    }

    /// Adds a receive behind the others. A receive for which no class can be added is returned, or, if `is_forced` is
    /// set, added without a class: each arriving message examines such receives one by one.
    pub(in super::super) fn push(
        &mut self,
        seed: &HashSeed,
        mut receive: ListBox<R>,
        is_forced: bool,
    ) -> core::result::Result<(), ListBox<R>> {
        let number = match self.number(&receive) {
            Some(number) => number,
            None if is_forced => UNCLASSED,
            None => return Err(receive),
        };
        self.posted += 1;
        receive.set_rank(self.posted << 8 | u64::from(number));
        let tag = receive.tag().map_or(0, |(tag, _)| tag);
        let source = receive.source().copied();
        let class = self.class(number).map(|class| {
            class.posted += 1;
            class.class
        });
        self.unclassed += usize::from(class.is_none());
        let mut entry = self.fifo.push_back(receive);
        match class {
            Some(class) => {
                let group = RxGroup::new(seed, number, class, tag, source.as_ref());
                entry.index_back(CLASSES, &group);
            }
            None => entry.index_back(CLASSES, &Unclassed),
        }
        entry.index_later(CONTEXTS);
        Ok(())
    }

    /// Adjusts the counts to the removal of a receive.
    fn removed(&mut self, receive: ListBox<R>) -> ListBox<R> {
        match self.class(number_of(receive.rank())) {
            Some(class) => class.posted -= 1,
            None => self.unclassed -= 1,
        }
        receive
    }

    /// Finds the oldest receive that a message matches. Examines the first receive of one group in each class.
    #[inline]
    fn find(&mut self, seed: &HashSeed, key: &MsgKey) -> Option<Entry<'_, R, RX_TABLES>> {
        if self.unclassed > 0 {
            let groups = groups(&self.fixed, &self.masks, seed, key);
            let oldest = self.fifo.lowest(CLASSES, groups, R::rank);
            let oldest = oldest.map_or(u64::MAX, |entry| entry.get().rank());
            let is = |receive: &R| receive.spec().matches(key) && receive.rank() < oldest;
            if self.fifo.find_where(CLASSES, &Unclassed, is).is_some() {
                return self.fifo.find_where(CLASSES, &Unclassed, is);
            }
        }
        let groups = groups(&self.fixed, &self.masks, seed, key);
        self.fifo.lowest(CLASSES, groups, R::rank)
    }

    /// Takes the oldest receive that a message matches, unless it is a multi-receive buffer and `takes_buffers` is
    /// not set.
    #[inline]
    pub(in super::super) fn match_msg(
        &mut self,
        seed: &HashSeed,
        key: &MsgKey,
        takes_buffers: bool,
    ) -> Option<MatchResult<R>> {
        let entry = self.find(seed, key)?;
        match entry.get().buffer() {
            Some(buffer) if !takes_buffers => Some(MatchResult::Multi(buffer)),
            _ => {
                let receive = entry.take();
                Some(MatchResult::One(self.removed(receive)))
            }
        }
    }

    /// Adds the next receive to the table of contexts, and returns its context. Returns `None` if the table has all.
    fn index_context(&mut self) -> Option<Option<usize>> {
        let mut entry = self.fifo.advance(CONTEXTS)?;
        let context = entry.get().context();
        if let Some(context) = context {
            entry.index_back(CONTEXTS, &ContextKey(context));
        }
        Some(context)
    }

    /// Takes the oldest receive with a context, if `accepts` returns true for it. Until the table of contexts has such
    /// a receive, adds to the table receives that it does not have yet, at most [`CANCEL_STEP`] in one call.
    pub(in super::super) fn cancel(
        &mut self,
        context: usize,
        accepts: impl FnOnce(&R) -> bool,
    ) -> Search<ListBox<R>> {
        if self.fifo.is_complete(CONTEXTS)
            || self.fifo.find(CONTEXTS, &ContextKey(context)).is_some()
        {
            return self.take_indexed(context, accepts);
        }
        for _ in 0..CANCEL_STEP {
            match self.index_context() {
                None => return Search::NotFound,
                Some(found) if found == Some(context) => {
                    return self.take_indexed(context, accepts)
                }
                Some(_) => {}
            }
        }
        Search::Again
    }

    /// Takes the first receive with a context in the table of contexts, if `accepts` returns true for it.
    fn take_indexed(
        &mut self,
        context: usize,
        accepts: impl FnOnce(&R) -> bool,
    ) -> Search<ListBox<R>> {
        match self.fifo.find(CONTEXTS, &ContextKey(context)) {
            Some(entry) if accepts(entry.get()) => {
                let receive = entry.take();
                Search::Found(self.removed(receive))
            }
            _ => Search::NotFound,
        }
    }

    /// Takes the oldest receive.
    pub(in super::super) fn pop_front(&mut self) -> Option<ListBox<R>> {
        let receive = self.fifo.pop_front()?;
        Some(self.removed(receive))
    }
}
