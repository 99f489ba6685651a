// SPDX-License-Identifier: GPL-2.0

//! Index of queued transmit operations by their context, for fi_cancel(). Guarded by `EpCore::inner`.
//!
//! A queued operation is one of which nothing has been posted. The index says in which queue it is; a queue holds the
//! operations to one peer, so its length is bounded by the budget. Operations without a context are not in the index.

use super::super::{
    inflight::Indexed,
    pkt_buf::Packet, //
};
use crate::fi::prelude::*;

/// Multiplier of the hash: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Queue that holds an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum QueuedAt {
    /// Deferred queue of the peer with this index.
    Peer(u32),
    /// Operations whose peer has no index.
    Unresolved,
}

/// Context of an operation, and transmit context that it was posted to.
type Key = (usize, u8);

/// Entry of a buffer.
#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    /// Queue of the operation; `None` if the buffer is not in the index.
    at: Option<QueuedAt>,
    /// Number of the next buffer of the chain, plus one; 0 for none.
    next: u32,
    /// Number of the previous buffer of the chain, plus one; 0 for none.
    previous: u32,
}

/// Index of queued operations.
pub(in super::super) struct QueuedOps {
    /// Number of the first buffer of each chain, plus one; 0 for none. The number of chains is a power of two.
    heads: KVVec<u32>,
    /// Entries by the number of the buffer.
    entries: KVVec<Entry>,
}

impl QueuedOps {
    /// Creates an empty index of operations with numbers below `most`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn new(most: usize) -> Result<Self> {
        let none = Entry {
            key: (0, 0),
            at: None,
            next: 0,
            previous: 0,
        };
        Ok(Self {
            heads: KVVec::from_elem(0, most.next_power_of_two(), GFP_KERNEL)?,
            entries: KVVec::from_elem(none, most, GFP_KERNEL)?,
        })
    }

    /// Returns the index of the chain of a key.
    fn chain_of(&self, (context, tx_ctx): Key) -> usize {
        let mixed = (context as u64 ^ u64::from(tx_ctx)).wrapping_mul(MULTIPLIER);
        (mixed >> 32) as usize & (self.heads.len() - 1)
    }

    /// Enters an operation that is queued at `at`, or changes the queue of one that has been entered.
    pub(in super::super) fn insert(&mut self, packet: &Packet, at: QueuedAt) {
        let comp = packet.tx_comp();
        if let Some(comp) = comp.filter(|comp| !comp.context.as_ptr().is_null()) {
            let key = (comp.context.as_ptr() as usize, comp.tx_ctx);
            self.link(packet.number(), key, at);
        }
    }

    /// Removes an operation, if it has been entered.
    pub(in super::super) fn remove(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return;
        };
        if entry.at.take().is_none() {
            return;
        }
        let Entry {
            key,
            next,
            previous,
            ..
        } = *entry;
        match self.entry(previous) {
            Some(previous) => previous.next = next,
            None => {
                let chain = self.chain_of(key);
                self.heads[chain] = next;
            }
        }
        if let Some(next) = self.entry(next) {
            next.previous = previous;
        }
    }

    /// Returns the number and the queue of the latest operation of a transmit context with a context.
    pub(in super::super) fn find(&self, context: Context, tx_ctx: u8) -> Option<(u32, QueuedAt)> {
        let key = (context.as_ptr() as usize, tx_ctx);
        let mut link = self.heads[self.chain_of(key)];
        loop {
            let number = link.checked_sub(1)?;
            let entry = self.entries.get(number as usize)?;
            if entry.key == key {
                return Some((number, entry.at?));
            }
            link = entry.next;
        }
    }

    fn entry(&mut self, link: u32) -> Option<&mut Entry> {
        self.entries.get_mut(link.checked_sub(1)? as usize)
    }

    fn link(&mut self, number: u32, key: Key, at: QueuedAt) {
        let chain = self.chain_of(key);
        let next = self.heads[chain];
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return;
        };
        if entry.at.replace(at).is_some() {
            return;
        }
        entry.key = key;
        entry.next = next;
        entry.previous = 0;
        if let Some(next) = self.entry(next) {
            next.previous = number + 1;
        }
        self.heads[chain] = number + 1;
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_queued_ops)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    fn context(address: usize) -> Context {
        Context::new(ptr::without_provenance_mut(address))
    }

    /// Number of operations.
    const MOST: usize = 100;

    #[test]
    fn an_operation_is_found_by_its_context_and_transmit_context() -> Result {
        let mut queued = QueuedOps::new(MOST)?;
        queued.link(7, (0x1000, 0), QueuedAt::Peer(4));
        queued.link(8, (0x1000, 1), QueuedAt::Unresolved);
        assert_eq!(
            queued.find(context(0x1000), 0),
            Some((7, QueuedAt::Peer(4)))
        );
        assert_eq!(
            queued.find(context(0x1000), 1),
            Some((8, QueuedAt::Unresolved))
        );
        assert_eq!(queued.find(context(0x1000), 2), None);
        // The peer of the operation has got an index.
        queued.link(8, (0x1000, 1), QueuedAt::Peer(6));
        assert_eq!(
            queued.find(context(0x1000), 1),
            Some((8, QueuedAt::Peer(6)))
        );
        queued.remove(8);
        queued.remove(8);
        assert_eq!(queued.find(context(0x1000), 1), None);
        // A number that no transmit buffer has.
        queued.link(MOST as u32, (0x2000, 0), QueuedAt::Peer(4));
        queued.remove(MOST as u32);
        assert_eq!(queued.find(context(0x2000), 0), None);
        Ok(())
    }

    #[test]
    fn the_index_equals_a_naive_model() -> Result {
        let mut random = SeededRandom::new(3);
        let mut queued = QueuedOps::new(MOST)?;
        // Contexts of the entered operations, by number.
        let mut model = KVVec::from_elem(0usize, MOST, GFP_KERNEL)?;
        for _ in 0..20_000 {
            let number = random.next_below(MOST as u64) as usize;
            let address = 64 * (1 + random.next_below(100) as usize);
            match random.next_below(3) {
                0 => {
                    queued.remove(number as u32);
                    model[number] = 0;
                }
                _ if model[number] == 0 => {
                    queued.link(number as u32, (address, 0), QueuedAt::Peer(number as u32));
                    model[number] = address;
                }
                _ => {}
            }
            match queued.find(context(address), 0) {
                None => assert!(!model.contains(&address)),
                Some((found, at)) => {
                    assert_eq!(model[found as usize], address);
                    assert_eq!(at, QueuedAt::Peer(found));
                }
            }
        }
        for number in 0..MOST as u32 {
            queued.remove(number);
        }
        assert!(queued.heads.iter().all(|&head| head == 0));
        Ok(())
    }
}
