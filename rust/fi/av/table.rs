// SPDX-License-Identifier: GPL-2.0

//! Hash table of addresses with small indices. Lookups by index and by address take no lock and are legal in
//! any context; the writer lock serializes changes.
//!
//! An entry has 32 bytes and never moves; an IPv6 address has a second part. The stamp of an entry is odd
//! while the entry is in use and increases with each change: fields that are read under one stamp belong to
//! one address. The low bits of an address's hash select its bucket. The head of the bucket's chain is in the
//! entry whose index is the number of the bucket, so there are as many buckets as allocated entries, rounded
//! down to a power of two: 2^level. When the allocated entries have doubled, the writer builds all chains
//! anew in the second set of links and heads, which readers use only when it is complete.
//!
//! A chain ends with a marker of its level and bucket. A reader can leave its chain if its current entry is
//! reused, or if the level after the next overwrites the set of links that it follows. It then ends at
//! another marker than the expected one, and starts again.

mod paged_array;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use self::paged_array::{
    PagedArray,
    LEAF_LEN,
    MAX_LEN, //
};
use super::free_indexes::FreeIndexes;
use crate::{
    abi::KOFI_VALUE_ADDRESSES,
    fi::{
        introspect::NamedValue,
        prelude::*, //
    },
    util::{
        once::{
            load_acquire,
            read_barrier,
            read_once,
            store_release,
            write_barrier, //
        },
        random::random, //
    },
};
use core::net::{
    Ipv4Addr,
    Ipv6Addr,
    SocketAddrV4,
    SocketAddrV6, //
};
use kernel::sync::MutexGuard;

/// Flag in a link: end marker of a chain instead of an index.
const END: u32 = 1 << 31;
/// Flag in `Entry::second`: IPv6 address, and `first` is its hash.
const IS_V6: u32 = 1 << 16;
/// Flag in `Entry::users`: the consumer gave the entry an identifier.
const HAS_ID: u32 = 1 << 31;
/// Level of a table with a single leaf.
const FIRST_LEVEL: u32 = LEAF_LEN.ilog2();

/// Maximum number of addresses; every index is below it.
pub(super) const MAX_ADDRESSES: u32 = MAX_LEN;

/// An index and its generation: the number of earlier uses of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// A slot for an address.
struct Entry {
    stamp: Atomic<u32>,
    /// Use count: insertions of the address that have not been removed. Written only under the writer lock.
    users: Atomic<u32>,
    /// IPv4 address, or the hash of an IPv6 address.
    first: Atomic<u32>,
    /// Port, and the flag for IPv6.
    second: Atomic<u32>,
    /// Next entry of the chain, for each of the two sets; the parity of the level selects the set.
    links: [Atomic<u32>; 2],
    /// Head of the chain of the bucket with this index, for each of the two sets.
    heads: [Atomic<u32>; 2],
}

impl Entry {
    fn new() -> Self {
        let zero = || Atomic::new(0);
        Self {
            stamp: zero(),
            users: zero(),
            first: zero(),
            second: zero(),
            links: [zero(), zero()],
            heads: [zero(), zero()],
        }
    }
}

/// The second part of an IPv6 address: address, scope and flow label.
type Ipv6Part = [Atomic<u32>; IPV6_WORDS];

const IPV6_WORDS: usize = 6;

/// Number of leading words that identify a peer; the flow label does not.
const IPV6_KEY_WORDS: usize = 5;

/// An address in the format of the entries.
struct AddrKey {
    first: u32,
    second: u32,
    ipv6: Option<[u32; IPV6_WORDS]>,
}

impl AddrKey {
    fn to_address(&self) -> SocketAddr {
        let port = self.second as u16;
        match self.ipv6 {
            None => SocketAddrV4::new(Ipv4Addr::from(self.first), port).into(),
            Some([a, b, c, d, scope, flow]) => {
                let [a, b, c, d] = [a, b, c, d].map(u128::from);
                let ip = Ipv6Addr::from(a << 96 | b << 64 | c << 32 | d);
                SocketAddrV6::new(ip, port, flow, scope).into()
            }
        }
    }
}

/// Returns a hash of `value`: each input bit affects all output bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 32
}

/// The address table. The writer lock serializes changes; it is taken in process context, and memory is
/// allocated under it.
#[pin_data]
pub(super) struct Table {
    /// Binary logarithm of the number of buckets; 0 before the first entry.
    level: Atomic<u32>,
    /// Number of addresses.
    count: NamedValue,
    entries: PagedArray<Entry>,
    ipv6_parts: PagedArray<Ipv6Part>,
    /// Identifiers that the consumer gave to entries. Written before HAS_ID is set, and read after it.
    user_ids: PagedArray<Atomic<u64>>,
    /// Random hash seed, so that a peer cannot choose addresses that share a bucket.
    seed: u64,
    /// Number of generations after which an index is not reused.
    max_generations: u32,
    #[pin]
    writer: Mutex<WriterState>,
}

/// The state that only the writer uses.
struct WriterState {
    /// Free indices below `top`.
    free_indexes: FreeIndexes,
    /// Lowest index that has never been used.
    top: u32,
    /// Number of indices whose entries have memory.
    allocated: u32,
}

/// Write access to a table. At most one guard exists at a time.
pub(super) struct WriteGuard<'a> {
    table: &'a Table,
    writer: MutexGuard<'a, WriterState>,
}

impl Table {
    /// Returns an empty table that uses each index for at most `max_generations` generations.
    pub(super) fn new(max_generations: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            level: Atomic::new(0),
            count: NamedValue::new_embedded(KOFI_VALUE_ADDRESSES, 0),
            entries: PagedArray::new(Entry::new),
            ipv6_parts: PagedArray::new(|| [const { Atomic::new(0) }; IPV6_WORDS]),
            user_ids: PagedArray::new(|| Atomic::new(0)),
            seed: random(),
            max_generations,
            writer <- new_mutex!(
                WriterState {
                    free_indexes: FreeIndexes::new(),
                    top: 0,
                    allocated: 0,
                },
                "kofi::av::Table"
            ),
        })
    }

    /// Takes the writer lock. May sleep.
    pub(super) fn write(&self) -> WriteGuard<'_> {
        WriteGuard {
            table: self,
            writer: self.writer.lock(),
        }
    }

    /// Returns the number of addresses.
    pub(super) fn count(&self) -> &NamedValue {
        &self.count
    }

    /// Returns the address at an index. Any context.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<(SocketAddr, SlotId)> {
        let entry = self.entries.get(index)?;
        loop {
            let stamp = load_acquire(&entry.stamp);
            if stamp % 2 == 0 {
                return None;
            }
            let key = self.read_key(entry, index);
            read_barrier();
            if read_once(&entry.stamp) == stamp {
                return Some((key?.to_address(), SlotId::from_stamp(index, stamp)));
            }
        }
    }

    /// Returns the IP address and port at an index on the fast path: `None` also for an IPv6 address and
    /// during a concurrent change. Any context.
    #[inline(always)]
    pub(super) fn get_v4(&self, index: u32) -> Option<((u32, u16), SlotId)> {
        let entry = self.entries.get(index)?;
        let stamp = load_acquire(&entry.stamp);
        let (first, second) = (read_once(&entry.first), read_once(&entry.second));
        read_barrier();
        if stamp % 2 == 0 || second & IS_V6 != 0 || read_once(&entry.stamp) != stamp {
            return None;
        }
        Some(((first, second as u16), SlotId::from_stamp(index, stamp)))
    }

    /// Returns the slot of an address. Any context.
    pub(super) fn find(&self, address: &SocketAddr) -> Option<SlotId> {
        self.find_key(&self.key(address))
    }

    /// Returns the consumer's identifier of the entry at `index`, if it has one and, where a generation is
    /// given, is of that generation. Any context.
    pub(super) fn user_id(&self, index: u32, generation: Option<u32>) -> Option<u64> {
        let entry = self.entries.get(index)?;
        loop {
            let stamp = load_acquire(&entry.stamp);
            let spot = SlotId::from_stamp(index, stamp);
            if stamp % 2 == 0 || generation.is_some_and(|wanted| wanted != spot.generation) {
                return None;
            }
            // Acquire: pairs with the release of `insert_again`, which sets an identifier without a new
            // stamp.
            let id = match load_acquire(&entry.users) & HAS_ID {
                0 => None,
                _ => Some(read_once(self.user_ids.get(index)?)),
            };
            read_barrier();
            if read_once(&entry.stamp) == stamp {
                return id;
            }
        }
    }

    /// Returns the use count of the entry at an index: 0 if no address is there, `None` if the entry has no
    /// memory. Any context.
    pub(super) fn use_count(&self, index: u32) -> Option<u32> {
        let entry = self.entries.get(index)?;
        Some(read_once(&entry.users) & !HAS_ID)
    }

    fn key(&self, address: &SocketAddr) -> AddrKey {
        let port = u32::from(address.port());
        match address {
            SocketAddr::V4(v4) => AddrKey {
                first: v4.ip().to_bits(),
                second: port,
                ipv6: None,
            },
            SocketAddr::V6(v6) => {
                let ip = v6.ip().to_bits();
                let wide = [
                    (ip >> 96) as u32,
                    (ip >> 64) as u32,
                    (ip >> 32) as u32,
                    ip as u32,
                    v6.scope_id(),
                    v6.flowinfo(),
                ];
                let fold = |hash, word: &u32| mix(hash ^ u64::from(*word));
                AddrKey {
                    first: wide.iter().take(IPV6_KEY_WORDS).fold(self.seed, fold) as u32,
                    second: port | IS_V6,
                    ipv6: Some(wide),
                }
            }
        }
    }

    /// Reads an entry, which may be changing; `None` if its second part is missing.
    #[inline]
    fn read_key(&self, entry: &Entry, index: u32) -> Option<AddrKey> {
        let second = read_once(&entry.second);
        let wide = match second & IS_V6 {
            0 => None,
            _ => {
                let wide = self.ipv6_parts.get(index)?;
                Some(wide.each_ref().map(read_once))
            }
        };
        Some(AddrKey {
            first: read_once(&entry.first),
            second,
            ipv6: wide,
        })
    }

    fn hash(&self, first: u32, second: u32) -> u32 {
        mix(self.seed ^ u64::from(first) << 32 ^ u64::from(second)) as u32
    }

    fn find_key(&self, key: &AddrKey) -> Option<SlotId> {
        let hash = self.hash(key.first, key.second);
        loop {
            let level = load_acquire(&self.level);
            if level == 0 {
                return None;
            }
            let side = link_set(level);
            let bucket = bucket(hash, level);
            let mut at = load_acquire(&self.entries.get(bucket)?.heads[side]);
            while at & END == 0 {
                let entry = self.entries.get(at)?;
                if let Some(stamp) = self.stamp_if_matching(entry, at, key) {
                    return Some(SlotId::from_stamp(at, stamp));
                }
                at = load_acquire(&entry.links[side]);
            }
            if at == end_marker(bucket, level) {
                return None;
            }
        }
    }

    /// Returns the stamp of an entry if the entry has this address.
    #[inline]
    fn stamp_if_matching(&self, entry: &Entry, index: u32, key: &AddrKey) -> Option<u32> {
        let stamp = load_acquire(&entry.stamp);
        let is_same = stamp % 2 == 1
            && read_once(&entry.first) == key.first
            && read_once(&entry.second) == key.second
            && match &key.ipv6 {
                None => true,
                Some(wide) => {
                    let have = self.ipv6_parts.get(index)?;
                    let mut words = have.iter().zip(wide).take(IPV6_KEY_WORDS);
                    words.all(|(have, want)| read_once(have) == *want)
                }
            };
        read_barrier();
        (is_same && read_once(&entry.stamp) == stamp).then_some(stamp)
    }

    /// Returns the memory use in bytes. May sleep.
    pub(super) fn size(&self) -> usize {
        let writer = self.writer.lock();
        size_of::<Self>()
            + self.entries.size(writer.allocated)
            + self.ipv6_parts.size(writer.allocated)
            + self.user_ids.size(writer.allocated)
            + writer.free_indexes.size()
    }
}

impl SlotId {
    fn from_stamp(index: u32, stamp: u32) -> Self {
        Self {
            index,
            generation: stamp / 2,
        }
    }
}

/// Returns the set of links and heads that a level uses.
fn link_set(level: u32) -> usize {
    (level % 2) as usize
}

fn bucket(hash: u32, level: u32) -> u32 {
    hash & ((1 << level) - 1)
}

/// Returns the end marker of a bucket's chain, unique to bucket and level.
fn end_marker(bucket: u32, level: u32) -> u32 {
    END | 1 << level | bucket
}

impl WriteGuard<'_> {
    /// Inserts an address at the lowest free index, or increments the use count of one that is present. `id`
    /// is the consumer's identifier. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; -FI_EOVERFLOW for an address with a use count of 2^31 - 1.
    pub(super) fn insert(&mut self, address: &SocketAddr, id: Option<u64>) -> Result<SlotId> {
        let key = self.table.key(address);
        if let Some(spot) = self.table.find_key(&key) {
            return self.insert_again(spot, id);
        }
        let index = match self.writer.free_indexes.lowest() {
            Some(index) => index,
            None => {
                self.reserve_entry(self.writer.top)?;
                self.writer.top
            }
        };
        let table = self.table;
        let entry = table.entries.get(index).ok_or(Errno::ENOMEM)?;
        let wide = match &key.ipv6 {
            None => None,
            Some(words) => Some((table.ipv6_parts.get_or_alloc(index)?, words)),
        };
        let id = match id {
            None => None,
            Some(id) => Some((table.user_ids.get_or_alloc(index)?, id)),
        };
        // No step fails from here on.
        if index == self.writer.top {
            self.writer.top += 1;
        } else {
            self.writer.free_indexes.remove(index);
        }
        let stamp = read_once(&entry.stamp).wrapping_add(1);
        // A reader that sees a store of the new address also sees that the old address is gone.
        write_barrier();
        entry.first.store(key.first, Relaxed);
        entry.second.store(key.second, Relaxed);
        if let Some((wide, words)) = wide {
            for (wide, word) in wide.iter().zip(words) {
                wide.store(*word, Relaxed);
            }
        }
        if let Some((place, id)) = id {
            place.store(id, Relaxed);
        }
        // Relaxed: the store of the new stamp is the release. A reader that sees one of these stores also
        // sees that the old stamp is no longer valid.
        entry.users.store(1 | id.map_or(0, |_| HAS_ID), Relaxed);
        store_release(&entry.stamp, stamp);
        table.count.add(1);
        self.link(entry, index, read_once(&table.level));
        Ok(SlotId::from_stamp(index, stamp))
    }

    fn insert_again(&mut self, slot: SlotId, id: Option<u64>) -> Result<SlotId> {
        let entry = self.table.entries.get(slot.index).ok_or(Errno::EINVAL)?;
        let users = read_once(&entry.users);
        Errno::EOVERFLOW.when(users & !HAS_ID == !HAS_ID)?;
        let mut has_id = 0;
        if let Some(id) = id {
            let place = self.table.user_ids.get_or_alloc(slot.index)?;
            place.store(id, Relaxed);
            has_id = HAS_ID;
        }
        // Release: the stamp does not change, so this store publishes the identifier to readers that see
        // HAS_ID.
        entry.users.store((users + 1) | has_id, Release);
        Ok(slot)
    }

    /// Returns the slot at an index, if it is in use and, where a generation is given, of that generation.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is no such slot.
    pub(super) fn slot_at(&self, index: u32, generation: Option<u32>) -> Result<SlotId> {
        let entry = self.table.entries.get(index).ok_or(Errno::EINVAL)?;
        let stamp = read_once(&entry.stamp);
        let spot = SlotId::from_stamp(index, stamp);
        let is_other = generation.is_some_and(|wanted| wanted != spot.generation);
        Errno::EINVAL.when(stamp % 2 == 0 || is_other)?;
        Ok(spot)
    }

    /// Removes one insertion of an address; the last removal frees the slot.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the address is not present any more.
    pub(super) fn remove(&mut self, slot: SlotId) -> Result {
        let SlotId { index, generation } = self.slot_at(slot.index, Some(slot.generation))?;
        let entry = self.table.entries.get(index).ok_or(Errno::EINVAL)?;
        let users = read_once(&entry.users);
        if users & !HAS_ID > 1 {
            // Release: for the reason given in `insert_again`, whose store this one replaces.
            entry.users.store(users - 1, Release);
            return Ok(());
        }
        self.unlink(entry, index);
        store_release(&entry.stamp, read_once(&entry.stamp).wrapping_add(1));
        // Release: a reader that no longer finds the identifier also sees that the stamp has changed.
        entry.users.store(0, Release);
        self.table.count.add(-1);
        if generation + 1 < self.table.max_generations {
            self.writer.free_indexes.add(index);
        }
        Ok(())
    }

    /// Calls `f` for each used slot in the order of indices.
    pub(super) fn for_each(&self, mut f: impl FnMut(SlotId)) {
        for index in 0..self.writer.top {
            if let Some((_, spot)) = self.table.get(index) {
                f(spot);
            }
        }
    }

    /// Allocates entries for `count` addresses, as far as memory allows. May sleep.
    pub(super) fn reserve(&mut self, count: u32) {
        let mut at = self.writer.allocated;
        while at < count && self.reserve_entry(at).is_ok() {
            at = self.writer.allocated;
        }
    }

    /// Allocates the leaf of the entry at `index`, the first one without memory, if it has none.
    fn reserve_entry(&mut self, index: u32) -> Result {
        if index < self.writer.allocated {
            return Ok(());
        }
        let room = index / LEAF_LEN * LEAF_LEN + LEAF_LEN;
        // A later removal must be able to add each index without an allocation.
        self.writer.free_indexes.reserve(room)?;
        self.table.entries.get_or_alloc(index)?;
        self.writer.allocated = room;
        let level = room.ilog2();
        if level > read_once(&self.table.level) {
            self.grow(level);
        }
        Ok(())
    }

    /// Builds the chains of a level, and then switches readers to them.
    fn grow(&self, level: u32) {
        // The level uses the set of links that readers do not use now.
        let now = read_once(&self.table.level);
        debug_assert!(level == now + 1 || now == 0 && level == FIRST_LEVEL);
        let side = link_set(level);
        for bucket in 0..1 << level {
            if let Some(entry) = self.table.entries.get(bucket) {
                store_release(&entry.heads[side], end_marker(bucket, level));
            }
        }
        for index in 0..self.writer.top {
            if let Some(entry) = self.table.entries.get(index) {
                if read_once(&entry.stamp) % 2 == 1 {
                    self.link(entry, index, level);
                }
            }
        }
        store_release(&self.table.level, level);
    }

    /// Returns the head of the chain that an entry belongs to.
    fn chain_head(&self, entry: &Entry, level: u32) -> Option<&Atomic<u32>> {
        let (first, second) = (read_once(&entry.first), read_once(&entry.second));
        let bucket = bucket(self.table.hash(first, second), level);
        Some(&self.table.entries.get(bucket)?.heads[link_set(level)])
    }

    fn link(&self, entry: &Entry, index: u32, level: u32) {
        if let Some(head) = self.chain_head(entry, level) {
            store_release(&entry.links[link_set(level)], read_once(head));
            store_release(head, index);
        }
    }

    /// Removes an entry from its chain. The entry keeps its own link for readers that are at it.
    fn unlink(&self, entry: &Entry, index: u32) {
        let level = read_once(&self.table.level);
        let mut before = self.chain_head(entry, level);
        while let Some(link) = before {
            let at = read_once(link);
            if at == index {
                store_release(link, read_once(&entry.links[link_set(level)]));
                return;
            }
            let next = self.table.entries.get(at).filter(|_| at & END == 0);
            before = next.map(|next| &next.links[link_set(level)]);
        }
    }
}
