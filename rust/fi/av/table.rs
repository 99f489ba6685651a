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
mod write;

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
            read_once, //
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

pub(super) use write::WriteGuard;

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
