// SPDX-License-Identifier: GPL-2.0

//! The side that reaches into the memory of the other.
//!
//! That has some places, for each access that may be under way where there is room for so many. Access
//! number `seq` goes to place `seq % places`: operations of a connection are done in their order, so nobody
//! is overtaken there.

use super::{
    client::Session,
    link::Link,
    request::Change, //
};
use crate::{
    abi::{
        Errno,
        Result, //
    },
    fi::{
        atomic::Operands,
        msg::{
            RemoteElements,
            RemoteMemory, //
        },
    },
};
use kernel::{
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    },
};

/// Over a connection to a server that has lent its memory: a region.
impl<L: Link> Session<'_, L> {
    fn place(&self, region: RemoteMemory, seq: u64) -> RemoteMemory {
        let place = self.number(seq).wrapping_mul(self.traffic.length as u64);
        region.offset_by(place)
    }

    /// The number of the place.
    fn number(&self, seq: u64) -> u64 {
        let places = self.traffic.places() as u64;
        seq.checked_rem(places).unwrap_or(0)
    }

    /// Writes until it is enough.
    pub(super) fn write(mut self, region: RemoteMemory) -> Result {
        let (places, mut idle) = (self.traffic.places() as u64, self.buffers()?);
        self.clock.start();
        let mut seq = 0;
        while !self.clock.is_enough(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.finish(|_| true)?,
            };
            self.traffic.fill(&mut buffer, seq);
            let (length, place) = (self.traffic.length, self.place(region, seq));
            self.link.write(buffer, length, place)?;
            seq += 1;
            if seq.is_multiple_of(places) && self.traffic.verify {
                self.drain(&mut idle)?;
                self.look(region, seq, &mut idle)?;
            }
        }
        self.drain(&mut idle)?;
        if self.traffic.verify {
            self.look(region, seq, &mut idle)?;
        }
        Ok(())
    }

    /// Waits until no write is under way.
    fn drain(&mut self, idle: &mut KVec<KBox<L::Buffer>>) -> Result {
        while idle.len() < self.traffic.window {
            let buffer = self.finish(|_| true)?;
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Reads what the last of `seq` writes have left behind, one by one, and counts what is not right.
    fn look(&mut self, region: RemoteMemory, seq: u64, idle: &mut KVec<KBox<L::Buffer>>) -> Result {
        let length = self.traffic.length;
        for written in seq.saturating_sub(self.traffic.places() as u64)..seq {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            buffer.fill(0);
            let place = self.place(region, written);
            self.link.read(buffer, length, place)?;
            let buffer = self.link.sent(self.here)?;
            let is_good = self.traffic.is_good(&buffer, length, written);
            self.tally.own.damaged((!is_good).into());
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Reads until it is enough what it has written before.
    pub(super) fn read(mut self, region: RemoteMemory) -> Result {
        let length = self.traffic.length;
        let mut idle = self.buffers()?;
        for seq in 0..self.traffic.places() as u64 {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            self.traffic.fill(&mut buffer, seq);
            let place = self.place(region, seq);
            self.link.write(buffer, length, place)?;
            let _ = idle.push_within_capacity(self.link.sent(self.here)?);
        }
        self.clock.start();
        // They end in the order in which they began.
        let (mut seq, mut over) = (0, 0);
        while !self.clock.is_enough(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.finish_read(&mut over)?,
            };
            if self.traffic.verify {
                buffer.fill(0);
            }
            let place = self.place(region, seq);
            self.link.read(buffer, length, place)?;
            seq += 1;
        }
        while over < seq {
            drop(self.finish_read(&mut over)?);
        }
        Ok(())
    }

    /// Waits for read number `over` to be over.
    fn finish_read(&mut self, over: &mut u64) -> Result<KBox<L::Buffer>> {
        let (traffic, place) = (self.traffic, self.number(*over));
        *over += 1;
        self.finish(|buffer| traffic.is_good(buffer, traffic.length, place))
    }

    /// Changes the same elements until it is enough, one operation at a time.
    pub(super) fn change(mut self, region: RemoteMemory, change: &Change) -> Result {
        let Change { op, datatype, .. } = *change;
        let (length, size) = (self.traffic.length, datatype.size());
        let count = datatype.count_in(length);
        let elements = RemoteElements {
            remote: region,
            count,
            datatype,
        };
        // What is there: the server begins with nothing.
        let mut known = KVVec::from_elem(0u64, count, GFP_KERNEL_ACCOUNT)?;
        let mut buffer = self.link.buffer(self.here, 2 * length)?;
        self.clock.start();
        let mut seq = 0;
        while !self.clock.is_enough(seq) {
            let given = |at: usize, old: u64| Operands {
                old,
                operand: mix(seq, at),
                // As often as not, what it is compared with is what is there.
                compare: if mix(seq, at) & 1 == 0 { old } else { !old },
            };
            let (here, compared) = buffer.split_at_mut(length);
            let pairs = here.chunks_mut(size).zip(compared.chunks_mut(size));
            for (at, (old, (operand, compare))) in known.iter().zip(pairs).enumerate() {
                let given = given(at, *old);
                store(operand, given.operand);
                store(compare, given.compare);
            }
            let start = Instant::<Monotonic>::now();
            self.link.change(buffer, change, elements)?;
            buffer = self.link.sent(self.here)?;
            self.tally.round_trip(start.elapsed());
            let mut is_good = true;
            for (at, (old, found)) in known.iter_mut().zip(buffer.chunks(size)).enumerate() {
                is_good &= load(found) == *old;
                *old = op.apply(datatype, given(at, *old));
            }
            self.tally
                .own
                .message(length, is_good || !self.traffic.verify);
            self.tally.own.took(self.clock.read());
            seq += 1;
        }
        Ok(())
    }
}

/// What operation number `seq` does to an element: any number.
fn mix(seq: u64, at: usize) -> u64 {
    let mixed = (seq ^ (at as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// An element of any size.
pub(super) fn load(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The lowest bytes of a value, as an element of any size.
pub(super) fn store(bytes: &mut [u8], value: u64) {
    match bytes {
        [a] => *a = value as u8,
        [_, _] => fill(bytes, (value as u16).to_ne_bytes()),
        [_, _, _, _] => fill(bytes, (value as u32).to_ne_bytes()),
        _ => fill(bytes, value.to_ne_bytes()),
    }
}

fn fill<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
    if let Some(room) = bytes.first_chunk_mut() {
        *room = value;
    }
}

#[kunit_tests(kofi_dev_test_memory)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_any_size_are_stored_as_they_are_loaded() {
        for size in [1, 2, 4, 8] {
            let mut bytes = [0xff; 9];
            for value in [0, 1, 0x80, 0x0102_0304_0506_0708, u64::MAX] {
                store(&mut bytes[..size], value);
                assert_eq!(load(&bytes[..size]), value & (u64::MAX >> (64 - 8 * size)));
                assert_eq!(bytes[size], 0xff);
            }
        }
    }
}
