// SPDX-License-Identifier: GPL-2.0

//! Changes of an address table, under its writer lock.

use super::{
    bucket,
    end_marker,
    link_set,
    paged_array::LEAF_LEN,
    Entry,
    SlotId,
    Table,
    WriterState,
    END,
    FIRST_LEVEL,
    HAS_ID, //
};
use crate::{
    fi::prelude::*,
    util::once::{
        read_once,
        store_release,
        write_barrier, //
    },
};
use kernel::sync::MutexGuard;

/// Write access to a table. At most one guard exists at a time.
pub(in crate::fi::av) struct WriteGuard<'a> {
    table: &'a Table,
    pub(super) writer: MutexGuard<'a, WriterState>,
}

impl Table {
    /// Takes the writer lock. May sleep.
    pub(in crate::fi::av) fn write(&self) -> WriteGuard<'_> {
        WriteGuard {
            table: self,
            writer: self.writer.lock(),
        }
    }
}

impl WriteGuard<'_> {
    /// Inserts an address at the lowest free index, or increments the use count of one that is present. `id`
    /// is the consumer's identifier. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; -FI_EOVERFLOW for an address with a use count of 2^31 - 1.
    pub(in crate::fi::av) fn insert(
        &mut self,
        address: &SocketAddr,
        id: Option<u64>,
    ) -> Result<SlotId> {
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
    pub(in crate::fi::av) fn slot_at(&self, index: u32, generation: Option<u32>) -> Result<SlotId> {
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
    pub(in crate::fi::av) fn remove(&mut self, slot: SlotId) -> Result {
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
    pub(in crate::fi::av) fn for_each(&self, mut f: impl FnMut(SlotId)) {
        for index in 0..self.writer.top {
            if let Some((_, spot)) = self.table.get(index) {
                f(spot);
            }
        }
    }

    /// Allocates entries for `count` addresses, as far as memory allows. May sleep.
    pub(in crate::fi::av) fn reserve(&mut self, count: u32) {
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
        let space = index / LEAF_LEN * LEAF_LEN + LEAF_LEN;
        // A later removal must be able to add each index without an allocation.
        self.writer.free_indexes.reserve(space)?;
        self.table.entries.get_or_alloc(index)?;
        self.writer.allocated = space;
        let level = space.ilog2();
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
