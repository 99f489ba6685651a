// SPDX-License-Identifier: GPL-2.0

//! RMA and atomic operations of a client.
//!
//! The server's memory has slots, as a rule one for each access of the window. Access number `seq` goes to slot
//! `seq % slots`: the operations of a connection are performed in their order, also within a slot.

use super::{
    client::Session,
    prelude::*, //
};
use kofi::fi::atomic::{
    load_element,
    store_element,
    Operands, //
};

impl<T: Transport> Session<'_, T> {
    /// Returns the memory of the slot of access number `seq`.
    fn slot(&self, remote: RemoteMemory, seq: u64) -> RemoteMemory {
        let (index, length) = (self.slot_index(seq), self.traffic.length as u64);
        remote.offset_by(index.wrapping_mul(length))
    }

    fn slot_index(&self, seq: u64) -> u64 {
        seq.checked_rem(self.traffic.slots() as u64).unwrap_or(0)
    }

    /// Writes until the limit is reached.
    pub(super) fn write(mut self, remote: RemoteMemory) -> Result {
        let (slots, mut idle) = (self.traffic.slots() as u64, self.alloc_window()?);
        self.clock.start();
        let mut seq = 0;
        while !self.clock.at_limit(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.complete(|_| true)?,
            };
            self.traffic.fill(&mut buffer, seq);
            let (length, slot) = (self.traffic.length, self.slot(remote, seq));
            self.transport.post_write(buffer, length, slot)?;
            seq += 1;
            if seq.checked_rem(slots) == Some(0) && self.traffic.verify {
                self.drain(&mut idle)?;
                self.verify_slots(remote, seq, &mut idle)?;
            }
        }
        self.drain(&mut idle)?;
        if self.traffic.verify {
            self.verify_slots(remote, seq, &mut idle)?;
        }
        Ok(())
    }

    /// Waits until no write is outstanding.
    fn drain(&mut self, idle: &mut KVec<KBox<T::Buffer>>) -> Result {
        while idle.len() < self.traffic.window {
            let buffer = self.complete(|_| true)?;
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Reads the slots that the last of `seq` writes have written, one by one, and counts the damaged ones.
    fn verify_slots(
        &mut self,
        remote: RemoteMemory,
        seq: u64,
        idle: &mut KVec<KBox<T::Buffer>>,
    ) -> Result {
        let length = self.traffic.length;
        for written in seq.saturating_sub(self.traffic.slots() as u64)..seq {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            buffer.fill(0);
            let slot = self.slot(remote, written);
            self.transport.post_read(buffer, length, slot)?;
            let buffer = self.transport.wait_tx(self.here)?;
            let intact = self.traffic.is_intact(&buffer, length, written);
            self.stats.own.count_damaged((!intact).into());
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Writes to every slot, then reads the slots until the limit is reached.
    pub(super) fn read(mut self, remote: RemoteMemory) -> Result {
        let length = self.traffic.length;
        let mut idle = self.alloc_window()?;
        for seq in 0..self.traffic.slots() as u64 {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            self.traffic.fill(&mut buffer, seq);
            let slot = self.slot(remote, seq);
            self.transport.post_write(buffer, length, slot)?;
            let _ = idle.push_within_capacity(self.transport.wait_tx(self.here)?);
        }
        self.clock.start();
        // Reads complete in the order in which they were posted.
        let (mut seq, mut completed) = (0, 0);
        while !self.clock.at_limit(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.complete_read(&mut completed)?,
            };
            if self.traffic.verify {
                buffer.fill(0);
            }
            let slot = self.slot(remote, seq);
            self.transport.post_read(buffer, length, slot)?;
            seq += 1;
        }
        while completed < seq {
            drop(self.complete_read(&mut completed)?);
        }
        Ok(())
    }

    /// Waits for the completion of read number `completed`, and increments `completed`.
    fn complete_read(&mut self, completed: &mut u64) -> Result<KBox<T::Buffer>> {
        let (traffic, slot) = (self.traffic, self.slot_index(*completed));
        *completed += 1;
        self.complete(|buffer| traffic.is_intact(buffer, traffic.length, slot))
    }

    /// Changes the same elements until the limit is reached, one operation at a time.
    pub(super) fn atomic(mut self, remote: RemoteMemory, config: &AtomicConfig) -> Result {
        let AtomicConfig { op, datatype, .. } = *config;
        let (length, size) = (self.traffic.length, datatype.size());
        let count = datatype.count_in(length);
        let elements = RemoteElements {
            remote,
            count,
            datatype,
        };
        // The expected values: the server's memory is zeroed.
        let mut expected = KVVec::from_elem(0u64, count, GFP_KERNEL_ACCOUNT)?;
        let mut buffer = self.transport.alloc(self.here, 2 * length)?;
        self.clock.start();
        let mut seq = 0;
        while !self.clock.at_limit(seq) {
            let operands = |at: usize, old: u64| Operands {
                old,
                operand: mix(seq, at),
                // Every other comparison succeeds.
                compare: if mix(seq, at) & 1 == 0 { old } else { !old },
            };
            let (first, second) = buffer.split_at_mut(length);
            let pairs = first.chunks_mut(size).zip(second.chunks_mut(size));
            for (at, (old, (operand, compare))) in expected.iter().zip(pairs).enumerate() {
                let values = operands(at, *old);
                store_element(operand, values.operand);
                store_element(compare, values.compare);
            }
            let start = Instant::<Monotonic>::now();
            self.transport.post_atomic(buffer, config, elements)?;
            buffer = self.transport.wait_tx(self.here)?;
            self.stats.add_latency(start.elapsed());
            let mut intact = true;
            for (at, (old, fetched)) in expected.iter_mut().zip(buffer.chunks(size)).enumerate() {
                intact &= load_element(fetched) == *old;
                *old = op.apply(datatype, operands(at, *old));
            }
            let own = &self.stats.own;
            own.count_message(length, intact || !self.traffic.verify);
            own.set_time(self.clock.read());
            seq += 1;
        }
        Ok(())
    }
}

/// Returns the operand of operation number `seq` for an element: a pseudo-random number.
fn mix(seq: u64, at: usize) -> u64 {
    let mixed = (seq ^ (at as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
