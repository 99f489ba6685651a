// SPDX-License-Identifier: GPL-2.0

//! The side that reaches into the memory of the other.
//!
//! That has a place for each access that may be under way. Access number `seq` goes to place `seq % window`:
//! operations of a connection are done in their order, so the one that was there before is over.

use super::{
    client::Clock,
    request::{
        Change,
        Traffic, //
    },
    Tally, //
};
use crate::{
    abi::{
        context::InProcess,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Form,
            Operands, //
        },
        memory::Buffer,
        msg::{
            Connection,
            Elements,
            Remote, //
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

/// A connection to a server that has lent its memory.
pub(super) struct Borrower<'a> {
    pub(super) here: InProcess,
    pub(super) connection: &'a Connection,
    pub(super) region: Remote,
    pub(super) traffic: &'a Traffic,
    pub(super) clock: &'a Clock<'a>,
    pub(super) tally: &'a Tally,
}

impl Borrower<'_> {
    fn place(&self, seq: u64) -> Remote {
        let Traffic { window, length, .. } = *self.traffic;
        let place = seq.checked_rem(window as u64).unwrap_or(0);
        self.region.behind(place.wrapping_mul(length as u64))
    }

    fn buffers(&self) -> Result<KVec<KBox<Buffer>>> {
        let mut buffers = KVec::with_capacity(self.traffic.window, GFP_KERNEL)?;
        for _ in 0..self.traffic.window {
            let buffer = Buffer::new(self.here, self.traffic.length, 0)?;
            buffers.push(buffer, GFP_KERNEL)?;
        }
        Ok(buffers)
    }

    /// Waits for an access to be over, which has been in the buffer that this gives back.
    fn finish(&self, is_good: impl Fn(&Buffer) -> bool) -> Result<KBox<Buffer>> {
        let buffer = self.connection.sent(self.here)?;
        self.tally.message(self.traffic.length, is_good(&buffer));
        self.tally.took(self.clock.elapsed());
        Ok(buffer)
    }

    /// Writes until it is enough.
    pub(super) fn write(&self) -> Result {
        let (window, mut idle) = (self.traffic.window, self.buffers()?);
        let mut seq = 0;
        while !self.clock.is_enough(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.finish(|_| true)?,
            };
            self.traffic.fill(&mut buffer, seq);
            let length = self.traffic.length;
            self.connection
                .endpoint
                .write(buffer, length, self.place(seq))?;
            seq += 1;
            if seq.is_multiple_of(window as u64) && self.traffic.verify {
                self.drain(&mut idle, |_| true)?;
                self.look(seq, &mut idle)?;
            }
        }
        self.drain(&mut idle, |_| true)?;
        if self.traffic.verify {
            self.look(seq, &mut idle)?;
        }
        Ok(())
    }

    /// Waits until nothing is under way.
    fn drain(&self, idle: &mut KVec<KBox<Buffer>>, is_good: impl Fn(&Buffer) -> bool) -> Result {
        while idle.len() < self.traffic.window {
            let buffer = self.finish(&is_good)?;
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Reads what the last of `seq` writes have left behind, one by one, and counts what is not right.
    fn look(&self, seq: u64, idle: &mut KVec<KBox<Buffer>>) -> Result {
        let length = self.traffic.length;
        for written in seq.saturating_sub(self.traffic.window as u64)..seq {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            buffer.fill(0);
            self.connection
                .endpoint
                .read(buffer, length, self.place(written))?;
            let buffer = self.connection.sent(self.here)?;
            let is_good = self.traffic.is_good(&buffer, length, written);
            self.tally.damaged((!is_good).into());
            let _ = idle.push_within_capacity(buffer);
        }
        Ok(())
    }

    /// Reads until it is enough what it has written before.
    pub(super) fn read(&self) -> Result {
        let (length, window) = (self.traffic.length, self.traffic.window as u64);
        let mut idle = self.buffers()?;
        for seq in 0..window {
            let mut buffer = idle.pop().ok_or(Errno::EOTHER)?;
            self.traffic.fill(&mut buffer, seq);
            self.connection
                .endpoint
                .write(buffer, length, self.place(seq))?;
            let _ = idle.push_within_capacity(self.connection.sent(self.here)?);
        }
        let is_good = |buffer: &Buffer| self.traffic.is_good(buffer, length, buffer.tag);
        let mut seq = 0;
        while !self.clock.is_enough(seq) {
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.finish(is_good)?,
            };
            if self.traffic.verify {
                buffer.fill(0);
            }
            buffer.tag = seq.checked_rem(window).unwrap_or(0);
            self.connection
                .endpoint
                .read(buffer, length, self.place(seq))?;
            seq += 1;
        }
        self.drain(&mut idle, is_good)
    }

    /// Changes the same elements until it is enough, one operation at a time.
    pub(super) fn change(&self, change: &Change) -> Result {
        let Change { form, op, datatype } = *change;
        let (length, size) = (self.traffic.length, datatype.size());
        let count = datatype.count_in(length);
        let elements = Elements {
            remote: self.region,
            count,
            datatype,
        };
        // What is there: the server begins with nothing.
        let mut known = KVVec::from_elem(0u64, count, GFP_KERNEL)?;
        let mut buffer = Buffer::new(self.here, 2 * length, 0)?;
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
            match form {
                Form::Compare => self.connection.endpoint.compare(buffer, op, elements)?,
                Form::Base | Form::Fetch => self.connection.endpoint.fetch(buffer, op, elements)?,
            }
            buffer = self.connection.sent(self.here)?;
            self.tally.round_trip(start.elapsed());
            let mut is_good = true;
            for (at, (old, found)) in known.iter_mut().zip(buffer.chunks(size)).enumerate() {
                is_good &= load(found) == *old;
                *old = op.apply(datatype, given(at, *old));
            }
            self.tally.message(length, is_good || !self.traffic.verify);
            self.tally.took(self.clock.elapsed());
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
fn load(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The lowest bytes of a value, as an element of any size.
fn store(bytes: &mut [u8], value: u64) {
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
