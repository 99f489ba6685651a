// SPDX-License-Identifier: GPL-2.0

//! Atomic operations that a device does not have: made of what it has, compare and swap of one word.
//!
//! What a word will be is computed here, from what it is believed to be; the device puts it there if
//! that was right, and else says what the word is, for another try. So whatever else changes the word
//! by way of the device, natively or like this, sees each operation done or not done. Elements
//! smaller than a word are changed in the word that they lie in, those of one word at once.
//!
//! An operation has a cell of the queue's [`CasAtomicTable`] in place of a slot, and room in the device's queues
//! beside those that have one: it goes on whether or not the consumer reads what else has completed.
//! Whoever takes the completion of a request from the device says what follows, under the completion
//! queue's lock, and whoever holds that no longer posts it. A consumer that reads none of its
//! completions has a work item do so.

pub(super) mod operands;
mod post;
mod progress;
mod table;

pub(super) use table::{
    CasAtomicTable,
    MAX_CAS_OPS, //
};

use crate::{
    abi::{
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Atomic,
            Datatype,
            Op,
            Operands, //
        },
        memory::{
            Context,
            Segment, //
        },
    },
    prov::verbs::sge::{
        check_writable,
        MAX_SGE, //
    },
    rdma::wr::RemoteAddr, //
};
use kernel::prelude::*;

/// Bytes of what devices change atomically.
pub(super) const WORD_SIZE: usize = 8;

/// Most bytes of the elements of one operation.
pub(super) const MAX_OP_SIZE: usize = 64;

/// How often one word may be found to be another than it was a moment ago. Each time somebody else's
/// operation was done; of a hundred who are equally fast, not one is that unlucky.
const MAX_TRIES: u32 = 4096;

/// How far an operation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CasProgress {
    /// There is something to be posted.
    NextRequest,
    /// Done.
    Done,
    /// Somebody else was faster each time; the elements from there on are as they were.
    Contended,
}

/// What the device is to be asked for.
#[derive(Clone, Copy)]
struct CasRequest {
    remote: RemoteAddr,
    compare: u64,
    swap: u64,
}

/// What the consumer is told of it in the end.
#[derive(Clone, Copy)]
pub(super) struct AtomicComp {
    pub(super) context: Context,
    /// Those of its completion.
    pub(super) flags: u64,
    /// Whether its success is reported.
    pub(super) is_reported: bool,
}

/// One operation on the elements that lie side by side in the peer's memory.
///
/// # Invariants
///
/// The address is a multiple of the elements' size, `len` one as well and at most [`MAX_OP_SIZE`], and `done`
/// one and less than `len` as long as the operation is not over.
struct CasAtomic {
    op: Op,
    datatype: Datatype,
    target: RemoteAddr,
    len: usize,
    operands: [u8; MAX_OP_SIZE],
    compare: [u8; MAX_OP_SIZE],
    /// What was there before, as far as it is known.
    old_values: [u8; MAX_OP_SIZE],
    /// Where that goes in the end: addresses and lengths of segments, which promise that the memory is
    /// the operation's until then.
    results: [(usize, usize); MAX_SGE],
    completion: AtomicComp,
    /// How many bytes of the target are done.
    bytes_done: usize,
    /// What the word that is next is believed to be.
    expected: u64,
    /// How often it was not.
    tries: u32,
}

impl CasAtomic {
    /// Makes an operation of the kind of `atomic` on `len` bytes, at most [`MAX_OP_SIZE`], at `target`, an address
    /// aligned for such elements. Operands are added later.
    fn new(
        atomic: &Atomic<'_>,
        (target, len): (RemoteAddr, usize),
        completion: AtomicComp,
    ) -> Self {
        // INVARIANT: `target` is aligned for such elements; `len` is bounded here.
        Self {
            op: atomic.op,
            datatype: atomic.datatype,
            target,
            len: len.min(MAX_OP_SIZE),
            operands: [0; MAX_OP_SIZE],
            compare: [0; MAX_OP_SIZE],
            old_values: [0; MAX_OP_SIZE],
            results: [(0, 0); MAX_SGE],
            completion,
            bytes_done: 0,
            // A guess: a word that is nothing yet takes one request.
            expected: 0,
            tries: 0,
        }
    }

    /// Sets the operands, and the memory for the old values.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an invalid address, or for too many segments.
    #[inline(never)]
    fn load_operands(&mut self, atomic: &Atomic<'_>, operands: &[Segment]) -> Result {
        operands::copy_operands(operands, &mut self.operands)?;
        operands::copy_operands(atomic.compare, &mut self.compare)?;
        for (nth, segment) in atomic.result.iter().enumerate() {
            check_writable(segment)?;
            let result = self.results.get_mut(nth).ok_or(Errno::EINVAL)?;
            *result = (segment.addr(), segment.len());
        }
        Ok(())
    }

    /// Where in the word that is next its elements begin, and how many bytes they have.
    fn word_part(&self) -> (usize, usize) {
        let at = (self.target.addr as usize).wrapping_add(self.bytes_done) % WORD_SIZE;
        (at, (WORD_SIZE - at).min(self.len - self.bytes_done))
    }

    /// What becomes of that word.
    fn apply_to_word(&self, word: u64) -> u64 {
        let (at, len) = self.word_part();
        let size = self.datatype.size();
        let mut bytes = word.to_ne_bytes();
        let parts = bytes[at..at + len].chunks_exact_mut(size);
        let range = self.bytes_done..self.bytes_done + len;
        let operands = self.operands[range.clone()].chunks_exact(size);
        let compare = self.compare[range].chunks_exact(size);
        for ((part, operand), compare) in parts.zip(operands).zip(compare) {
            let new = self.op.apply(
                self.datatype,
                Operands {
                    old: load_element(part),
                    operand: load_element(operand),
                    compare: load_element(compare),
                },
            );
            store_element(new, part);
        }
        u64::from_ne_bytes(bytes)
    }

    /// What is next.
    fn next_request(&self) -> CasRequest {
        let (at, _) = self.word_part();
        let addr = self.target.addr.wrapping_add(self.bytes_done as u64);
        CasRequest {
            remote: RemoteAddr {
                addr: addr.wrapping_sub(at as u64),
                ..self.target
            },
            compare: self.expected,
            swap: self.apply_to_word(self.expected),
        }
    }

    /// Takes what the device has found in the word.
    fn handle_result(&mut self, seen: u64) -> CasProgress {
        // What would change nothing need not be put there.
        if seen != self.expected && self.apply_to_word(seen) != seen {
            self.expected = seen;
            self.tries += 1;
            return match self.tries {
                MAX_TRIES => CasProgress::Contended,
                _ => CasProgress::NextRequest,
            };
        }
        let (at, len) = self.word_part();
        let old = &mut self.old_values[self.bytes_done..self.bytes_done + len];
        old.copy_from_slice(&seen.to_ne_bytes()[at..at + len]);
        // INVARIANT: Part by part, and the last one ends the operation.
        self.bytes_done += len;
        self.expected = 0;
        self.tries = 0;
        match self.bytes_done == self.len {
            true => CasProgress::Done,
            false => CasProgress::NextRequest,
        }
    }
}

/// The number whose bytes these are: 1, 2, 4 or 8.
fn load_element(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// And back.
fn store_element(value: u64, to: &mut [u8]) {
    match to.len() {
        1 => to.copy_from_slice(&(value as u8).to_ne_bytes()),
        2 => to.copy_from_slice(&(value as u16).to_ne_bytes()),
        4 => to.copy_from_slice(&(value as u32).to_ne_bytes()),
        _ => to.copy_from_slice(&value.to_ne_bytes()),
    }
}

#[kunit_tests(kofi_verbs_exchange)]
mod tests {
    use super::*;
    use crate::{
        abi,
        fi::atomic::Form, //
    };

    /// An operation on `count` elements at `addr`, each with the operand 1, compared with 2.
    fn exchange(raw: abi::fi_datatype, op: Op, addr: u64, count: usize) -> Result<CasAtomic> {
        let atomic = Atomic {
            form: Form::Base,
            op,
            datatype: Datatype::from_raw(raw)?,
            remote: &[],
            compare: &[],
            result: &[],
            result_descriptors: &[],
        };
        let target = RemoteAddr { addr, rkey: 0 };
        let told = AtomicComp {
            context: Context::NULL,
            flags: 0,
            is_reported: true,
        };
        let size = atomic.datatype.size();
        let mut new = CasAtomic::new(&atomic, (target, count * size), told);
        for element in new.operands.chunks_exact_mut(size) {
            store_element(1, element);
        }
        for element in new.compare.chunks_exact_mut(size) {
            store_element(2, element);
        }
        Ok(new)
    }

    /// Does as a device does, on memory that begins at 0; says how many requests that took.
    fn run(exchange: &mut CasAtomic, words: &mut [u64]) -> usize {
        for requests in 1.. {
            let ask = exchange.next_request();
            let word = &mut words[ask.remote.addr as usize / WORD_SIZE];
            let seen = *word;
            if seen == ask.compare {
                *word = ask.swap;
            }
            match exchange.handle_result(seen) {
                CasProgress::NextRequest => {}
                CasProgress::Done => return requests,
                CasProgress::Contended => return 0,
            }
        }
        0
    }

    #[test]
    fn atom_03_words_that_are_nothing_take_one_request() -> Result {
        let mut words = [0; 3];
        let mut sum = exchange(abi::FI_UINT64, Op::Sum, 8, 2)?;
        assert_eq!(run(&mut sum, &mut words), 2);
        assert_eq!(words, [0, 1, 1]);
        let mut sum = exchange(abi::FI_UINT64, Op::Sum, 0, 2)?;
        assert_eq!(run(&mut sum, &mut words), 3);
        assert_eq!(words, [1, 2, 1]);
        Ok(())
    }

    #[test]
    fn atom_03_elements_of_a_word_go_together() -> Result {
        // From the last byte of one word to the first of the third.
        let mut words = [u64::MAX; 3];
        let mut write = exchange(abi::FI_UINT8, Op::Write, 7, 10)?;
        assert_eq!(run(&mut write, &mut words), 6);
        let expected = [[0xff; 7].as_slice(), &[1; 10], &[0xff; 7]];
        let mut bytes = expected.iter().copied().flatten();
        for byte in words.iter().flat_map(|word| word.to_ne_bytes()) {
            assert_eq!(Some(&byte), bytes.next());
        }
        assert!(write.old_values[..10].iter().all(|byte| *byte == 0xff));
        Ok(())
    }

    #[test]
    fn atom_02_what_changes_nothing_is_not_put_there() -> Result {
        let mut words = [7];
        let mut swap = exchange(abi::FI_UINT32, Op::Swap, 0, 1)?;
        assert_eq!(run(&mut swap, &mut words), 1);
        assert_eq!(words, [7]);
        assert_eq!(load_element(&swap.old_values[..4]), 7);
        Ok(())
    }

    #[test]
    fn atom_05_who_always_loses_is_told() -> Result {
        let mut sum = exchange(abi::FI_UINT64, Op::Sum, 0, 1)?;
        for other in 1..u64::from(MAX_TRIES) {
            assert_eq!(sum.handle_result(other), CasProgress::NextRequest);
            assert_eq!(sum.next_request().compare, other);
            assert_eq!(sum.next_request().swap, other + 1);
        }
        assert_eq!(
            sum.handle_result(u64::from(MAX_TRIES)),
            CasProgress::Contended
        );
        // A win in between begins anew.
        let mut sum = exchange(abi::FI_UINT64, Op::Sum, 0, 2)?;
        for other in 1..u64::from(MAX_TRIES) {
            assert_eq!(sum.handle_result(other), CasProgress::NextRequest);
        }
        assert_eq!(
            sum.handle_result(u64::from(MAX_TRIES) - 1),
            CasProgress::NextRequest
        );
        assert_eq!(sum.handle_result(1), CasProgress::NextRequest);
        assert_eq!(sum.handle_result(1), CasProgress::Done);
        Ok(())
    }
}
