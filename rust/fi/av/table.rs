// SPDX-License-Identifier: GPL-2.0

//! Addresses under small indices: read by index and by address without a lock, from any context,
//! written by one at a time.
//!
//! An entry is 32 bytes and never moves; those of IPv6 have a second part. Its stamp is odd while it
//! is used, and goes on whenever that changes: who has read an entry under one stamp has read one
//! address. The lower bits of an address's hash name its bucket, whose chain begins in the entry of
//! the bucket's number, so that there are as many buckets as the entries' pages have room for, to the
//! next lower power of two: the level. When there is room for twice as many, all chains are made anew
//! from a second set of links, which readers do not see until it is whole.
//!
//! A chain ends in a mark of its level and bucket. A reader may be led astray, by an entry that is put
//! to another use while it stands there, or by links that the next but one level has taken over. Then
//! it comes to another mark than it expects, and begins again.

mod paged_array;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use self::paged_array::{
    PagedArray,
    LEAF,
    MOST, //
};
use super::free_indexes::FreeIndexes;
use crate::{
    abi::{
        once::{
            load_acquire,
            read_barrier,
            read_once,
            store_release,
            write_barrier, //
        },
        random::random,
        Errno,
        Result,
        KOFI_VALUE_ADDRESSES, //
    },
    fi::introspect::NamedValue, //
};
use core::net::{
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed,
            Release, //
        },
        new_mutex,
        Mutex,
        MutexGuard, //
    },
};

/// In a link: there is no entry, but the end of a chain.
const END: u32 = 1 << 31;
/// In `Entry::second`: an address of IPv6, whose hash `first` is.
const IS_V6: u32 = 1 << 16;
/// In `Entry::users`: there is an identifier of the consumer's.
const HAS_ID: u32 = 1 << 31;
/// The level of a table that has one leaf.
const FIRST_LEVEL: u32 = LEAF.ilog2();

/// How many addresses a table can have: what indices are below.
pub(super) const MOST_ADDRESSES: u32 = MOST;

/// An index, and how often it has been used before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// An address, or room for one.
struct Entry {
    stamp: Atomic<u32>,
    /// How often the address has been inserted. Of writers only.
    users: Atomic<u32>,
    /// The address of IPv4, or the hash of one of IPv6.
    first: Atomic<u32>,
    /// The port, and whether it is IPv6.
    second: Atomic<u32>,
    /// What follows in the chain; which of them counts, the level says.
    links: [Atomic<u32>; 2],
    /// Where the chain of the bucket of this index begins.
    heads: [Atomic<u32>; 2],
}

impl Default for Entry {
    fn default() -> Self {
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

/// What an address of IPv6 has besides: the address, the scope and the flow.
struct Ipv6Part([Atomic<u32>; WIDE]);

const WIDE: usize = 6;
/// How much of it tells peers apart: the flow does not.
const IDENTITY: usize = 5;

impl Default for Ipv6Part {
    fn default() -> Self {
        Self([const { Atomic::new(0) }; WIDE])
    }
}

/// Identifier that the consumer gave to an entry. Written before HAS_ID is set, and read after it.
struct UserId(Atomic<u64>);

impl Default for UserId {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

/// An address as entries have it.
struct AddrKey {
    first: u32,
    second: u32,
    wide: Option<[u32; WIDE]>,
}

impl AddrKey {
    fn to_address(&self) -> SocketAddr {
        let port = self.second as u16;
        match self.wide {
            None => SocketAddrV4::new(Ipv4Addr::from(self.first), port).into(),
            Some([a, b, c, d, scope, flow]) => {
                let [a, b, c, d] = [a, b, c, d].map(u128::from);
                let ip = Ipv6Addr::from(a << 96 | b << 64 | c << 32 | d);
                SocketAddrV6::new(ip, port, flow, scope).into()
            }
        }
    }
}

/// Spreads what differs over all bits.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 32
}

/// The addresses. The lock guards what writers do; it is taken in process context, and memory is
/// allocated under it.
#[pin_data]
pub(super) struct Table {
    /// How many buckets there are, as a power of two; 0 before the first entry.
    level: Atomic<u32>,
    /// How many addresses there are.
    count: NamedValue,
    entries: PagedArray<Entry>,
    wide: PagedArray<Ipv6Part>,
    ids: PagedArray<UserId>,
    /// So that nobody can choose addresses which fall into one bucket.
    seed: u64,
    /// An entry that has been used so often is not used any more.
    most_generations: u32,
    #[pin]
    writer: Mutex<WriterState>,
}

/// What writers know.
struct WriterState {
    /// Which indices below `top` are free.
    vacant: FreeIndexes,
    /// All indices from here on are.
    top: u32,
    /// Below this the entries have memory.
    room: u32,
}

/// Somebody who writes; there is one at a time.
pub(super) struct WriteGuard<'a> {
    table: &'a Table,
    writer: MutexGuard<'a, WriterState>,
}

impl Table {
    /// An empty one, which never tells a [`SlotId`] again that has a generation of less than
    /// `most_generations`.
    pub(super) fn new(most_generations: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            level: Atomic::new(0),
            count: NamedValue::new_embedded(KOFI_VALUE_ADDRESSES, 0),
            entries: PagedArray::new(),
            wide: PagedArray::new(),
            ids: PagedArray::new(),
            seed: random(),
            most_generations,
            writer <- new_mutex!(
                WriterState {
                    vacant: FreeIndexes::new(),
                    top: 0,
                    room: 0,
                },
                "kofi::av::Table"
            ),
        })
    }

    /// Waits for other writers. May sleep.
    pub(super) fn write(&self) -> WriteGuard<'_> {
        WriteGuard {
            table: self,
            writer: self.writer.lock(),
        }
    }

    /// How many addresses there are.
    pub(super) fn count(&self) -> &NamedValue {
        &self.count
    }

    /// The address at an index. Any context.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<(SocketAddr, SlotId)> {
        let entry = self.entries.get(index)?;
        loop {
            let stamp = load_acquire(&entry.stamp);
            if stamp % 2 == 0 {
                return None;
            }
            let key = self.key_at(entry, index);
            read_barrier();
            if read_once(&entry.stamp) == stamp {
                return Some((key?.to_address(), SlotId::of(index, stamp)));
            }
        }
    }

    /// The same by a shorter way, which only leads to addresses of IPv4, and gives up where somebody
    /// writes just now: the IP address and the port. Any context.
    #[inline(always)]
    pub(super) fn get_v4(&self, index: u32) -> Option<((u32, u16), SlotId)> {
        let entry = self.entries.get(index)?;
        let stamp = load_acquire(&entry.stamp);
        let (first, second) = (read_once(&entry.first), read_once(&entry.second));
        read_barrier();
        if stamp % 2 == 0 || second & IS_V6 != 0 || read_once(&entry.stamp) != stamp {
            return None;
        }
        Some(((first, second as u16), SlotId::of(index, stamp)))
    }

    /// Where an address is. Any context.
    pub(super) fn find(&self, address: &SocketAddr) -> Option<SlotId> {
        self.find_key(&self.key(address))
    }

    /// Returns the consumer's identifier of the entry at `index`, if it has one and, where a generation is
    /// given, is of that generation. Any context.
    pub(super) fn id(&self, index: u32, generation: Option<u32>) -> Option<u64> {
        let entry = self.entries.get(index)?;
        loop {
            let stamp = load_acquire(&entry.stamp);
            let spot = SlotId::of(index, stamp);
            if stamp % 2 == 0 || generation.is_some_and(|wanted| wanted != spot.generation) {
                return None;
            }
            // Acquire: pairs with the release of `insert_again`, which gives an identifier under the same stamp.
            let id = match load_acquire(&entry.users) & HAS_ID {
                0 => None,
                _ => Some(read_once(&self.ids.get(index)?.0)),
            };
            read_barrier();
            if read_once(&entry.stamp) == stamp {
                return id;
            }
        }
    }

    /// How often the entry at an index has been inserted and not removed; none where nothing is or has
    /// ever been. Any context.
    pub(super) fn uses(&self, index: u32) -> Option<u32> {
        let entry = self.entries.get(index)?;
        Some(read_once(&entry.users) & !HAS_ID)
    }

    fn key(&self, address: &SocketAddr) -> AddrKey {
        let port = u32::from(address.port());
        match address {
            SocketAddr::V4(v4) => AddrKey {
                first: v4.ip().to_bits(),
                second: port,
                wide: None,
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
                    first: wide.iter().take(IDENTITY).fold(self.seed, fold) as u32,
                    second: port | IS_V6,
                    wide: Some(wide),
                }
            }
        }
    }

    /// What is in an entry, which may be changing; none if it lacks its second part.
    #[inline]
    fn key_at(&self, entry: &Entry, index: u32) -> Option<AddrKey> {
        let second = read_once(&entry.second);
        let wide = match second & IS_V6 {
            0 => None,
            _ => {
                let wide = self.wide.get(index)?;
                Some(wide.0.each_ref().map(read_once))
            }
        };
        Some(AddrKey {
            first: read_once(&entry.first),
            second,
            wide,
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
            let side = side(level);
            let bucket = bucket(hash, level);
            let mut at = load_acquire(&self.entries.get(bucket)?.heads[side]);
            while at & END == 0 {
                let entry = self.entries.get(at)?;
                if let Some(stamp) = self.stamp_if(entry, at, key) {
                    return Some(SlotId::of(at, stamp));
                }
                at = load_acquire(&entry.links[side]);
            }
            if at == end_of(bucket, level) {
                return None;
            }
        }
    }

    /// The stamp under which an entry has this address.
    #[inline]
    fn stamp_if(&self, entry: &Entry, index: u32, key: &AddrKey) -> Option<u32> {
        let stamp = load_acquire(&entry.stamp);
        let is_same = stamp % 2 == 1
            && read_once(&entry.first) == key.first
            && read_once(&entry.second) == key.second
            && match &key.wide {
                None => true,
                Some(wide) => {
                    let have = self.wide.get(index)?;
                    let mut words = have.0.iter().zip(wide).take(IDENTITY);
                    words.all(|(have, want)| read_once(have) == *want)
                }
            };
        read_barrier();
        (is_same && read_once(&entry.stamp) == stamp).then_some(stamp)
    }

    /// How many bytes it takes. May sleep.
    pub(super) fn size(&self) -> usize {
        let writer = self.writer.lock();
        size_of::<Self>()
            + self.entries.size(writer.room)
            + self.wide.size(writer.room)
            + self.ids.size(writer.room)
            + writer.vacant.size()
    }
}

impl SlotId {
    fn of(index: u32, stamp: u32) -> Self {
        Self {
            index,
            generation: stamp / 2,
        }
    }
}

/// Which set of links and heads a level has.
fn side(level: u32) -> usize {
    (level % 2) as usize
}

fn bucket(hash: u32, level: u32) -> u32 {
    hash & ((1 << level) - 1)
}

/// How the chain of a bucket ends: another number for each bucket of each level.
fn end_of(bucket: u32, level: u32) -> u32 {
    END | 1 << level | bucket
}

impl WriteGuard<'_> {
    /// Inserts an address, at the lowest free index unless it is there; `id` is the consumer's for it.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; -FI_EOVERFLOW for what has been inserted 2^31 times.
    pub(super) fn insert(&mut self, address: &SocketAddr, id: Option<u64>) -> Result<SlotId> {
        let key = self.table.key(address);
        if let Some(spot) = self.table.find_key(&key) {
            return self.insert_again(spot, id);
        }
        let index = match self.writer.vacant.lowest() {
            Some(index) => index,
            None => {
                self.make_room(self.writer.top)?;
                self.writer.top
            }
        };
        let table = self.table;
        let entry = table.entries.get(index).ok_or(Errno::ENOMEM)?;
        let wide = match &key.wide {
            None => None,
            Some(words) => Some((table.wide.make(index)?, words)),
        };
        let id = match id {
            None => None,
            Some(id) => Some((&table.ids.make(index)?.0, id)),
        };
        // Nothing fails from here on.
        if index == self.writer.top {
            self.writer.top += 1;
        } else {
            self.writer.vacant.take(index);
        }
        let stamp = read_once(&entry.stamp).wrapping_add(1);
        // Who sees something of the new address sees that the old one has gone.
        write_barrier();
        entry.first.store(key.first, Relaxed);
        entry.second.store(key.second, Relaxed);
        if let Some((wide, words)) = wide {
            wide.0
                .iter()
                .zip(words)
                .for_each(|(wide, word)| wide.store(*word, Relaxed));
        }
        if let Some((place, id)) = id {
            place.store(id, Relaxed);
        }
        // Relaxed: the store of the new stamp is the release. A reader that sees one of these stores also sees
        // that the old stamp is no longer valid.
        entry.users.store(1 | id.map_or(0, |_| HAS_ID), Relaxed);
        store_release(&entry.stamp, stamp);
        table.count.add(1);
        self.link(entry, index, read_once(&table.level));
        Ok(SlotId::of(index, stamp))
    }

    fn insert_again(&mut self, spot: SlotId, id: Option<u64>) -> Result<SlotId> {
        let entry = self.table.entries.get(spot.index).ok_or(Errno::EINVAL)?;
        let users = read_once(&entry.users);
        if users & !HAS_ID == !HAS_ID {
            return Err(Errno::EOVERFLOW);
        }
        let mut has_id = 0;
        if let Some(id) = id {
            self.table.ids.make(spot.index)?.0.store(id, Relaxed);
            has_id = HAS_ID;
        }
        // Release: the stamp does not change, so this store publishes the identifier to readers that see HAS_ID.
        entry.users.store((users + 1) | has_id, Release);
        Ok(spot)
    }

    /// What is at an index, in that generation if one is given.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if nothing is.
    pub(super) fn spot(&self, index: u32, generation: Option<u32>) -> Result<SlotId> {
        let entry = self.table.entries.get(index).ok_or(Errno::EINVAL)?;
        let stamp = read_once(&entry.stamp);
        let spot = SlotId::of(index, stamp);
        if stamp % 2 == 0 || generation.is_some_and(|wanted| wanted != spot.generation) {
            return Err(Errno::EINVAL);
        }
        Ok(spot)
    }

    /// Takes back one insertion of an address.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is not there any more.
    pub(super) fn remove(&mut self, spot: SlotId) -> Result {
        let SlotId { index, generation } = self.spot(spot.index, Some(spot.generation))?;
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
        if generation + 1 < self.table.most_generations {
            self.writer.vacant.add(index);
        }
        Ok(())
    }

    /// Hands all that is there to `f`, by rising index.
    pub(super) fn each(&self, mut f: impl FnMut(SlotId)) {
        for index in 0..self.writer.top {
            if let Some((_, spot)) = self.table.get(index) {
                f(spot);
            }
        }
    }

    /// Makes room for `count` addresses, if there is memory. May sleep.
    pub(super) fn expect(&mut self, count: u32) {
        let mut at = self.writer.room;
        while at < count && self.make_room(at).is_ok() {
            at = self.writer.room;
        }
    }

    /// Makes room for the entry at `index`, which is the next for which there is none, if any.
    fn make_room(&mut self, index: u32) -> Result {
        if index < self.writer.room {
            return Ok(());
        }
        let room = index / LEAF * LEAF + LEAF;
        // So that a removal has a place to go to.
        self.writer.vacant.reserve(room)?;
        self.table.entries.make(index)?;
        self.writer.room = room;
        let level = room.ilog2();
        if level > read_once(&self.table.level) {
            self.grow(level);
        }
        Ok(())
    }

    /// Makes the chains of a level anew, and has readers take them.
    fn grow(&self, level: u32) {
        // The other set of links than readers have now.
        let now = read_once(&self.table.level);
        debug_assert!(level == now + 1 || now == 0 && level == FIRST_LEVEL);
        let side = side(level);
        for bucket in 0..1 << level {
            if let Some(entry) = self.table.entries.get(bucket) {
                store_release(&entry.heads[side], end_of(bucket, level));
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

    /// Where the chain begins that an entry belongs to.
    fn head(&self, entry: &Entry, level: u32) -> Option<&Atomic<u32>> {
        let hash = self
            .table
            .hash(read_once(&entry.first), read_once(&entry.second));
        let first = self.table.entries.get(bucket(hash, level))?;
        Some(&first.heads[side(level)])
    }

    fn link(&self, entry: &Entry, index: u32, level: u32) {
        if let Some(head) = self.head(entry, level) {
            store_release(&entry.links[side(level)], read_once(head));
            store_release(head, index);
        }
    }

    /// Takes an entry out of its chain; its own link stays for who stands there.
    fn unlink(&self, entry: &Entry, index: u32) {
        let level = read_once(&self.table.level);
        let mut before = self.head(entry, level);
        while let Some(link) = before {
            let at = read_once(link);
            if at == index {
                store_release(link, read_once(&entry.links[side(level)]));
                return;
            }
            let next = self.table.entries.get(at).filter(|_| at & END == 0);
            before = next.map(|next| &next.links[side(level)]);
        }
    }
}
