// SPDX-License-Identifier: GPL-2.0

//! Atomic operations that a device does not have, built from compare and swap of one word.
//!
//! The new value of a word is computed here, from its expected value. The device stores it if the
//! word has that value, and else returns the value that it has, for another try. So accesses to the
//! word by way of the device, natively or like this, see each operation either done or not done.
//! Elements smaller than a word are changed in the word that they lie in, all those of one word at
//! once.
//!
//! An operation has a slot of the queue's [`CasAtomicTable`] instead of one of its ring, and its
//! own space in the device's queues: it makes progress whether or not the consumer reads its other
//! completions. The thread that polls the completion of a work request decides on the next one
//! under the completion queue's lock, and posts it after it has unlocked. For a consumer that does
//! not read its completions, a work item polls.

pub(super) mod operands;
mod post;
mod progress;
mod table;

pub(super) use table::{
    CasAtomicTable,
    DeviceWord,
    MAX_CAS_OPS, //
};

use super::prelude::*;
use crate::{
    fi::atomic::{
        load_element,
        store_element,
        Atomic,
        Datatype,
        Op,
        Operands, //
    },
    prov::verbs::sge::{
        check_writable,
        MAX_SGE, //
    },
};

/// Size of the words that devices change atomically.
pub(super) const WORD_SIZE: usize = 8;

/// Maximum number of bytes of the elements of one operation.
pub(super) const MAX_OP_SIZE: usize = 64;

/// Maximum number of tries for one word. Each failed try means that another operation was done; not
/// even one of a hundred equally fast competitors fails that often in a row.
const MAX_TRIES: u32 = 4096;

/// State of an operation after a completion of one of its work requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CasProgress {
    /// The next work request has to be posted.
    NextRequest,
    /// The operation has completed.
    Done,
    /// Other operations won each time. This element and those behind it are unchanged.
    Contended,
}

/// Parameters of a compare-and-swap work request.
#[derive(Clone, Copy)]
struct CasRequest {
    remote: RemoteAddr,
    compare: u64,
    swap: u64,
}

/// Data of the operation's completion.
#[derive(Clone, Copy)]
pub(super) struct AtomicComp {
    pub(super) context: Context,
    /// Flags of the completion.
    pub(super) flags: u64,
    /// Set if a success is reported.
    pub(super) is_reported: bool,
}

/// An operation on elements that lie side by side in the peer's memory.
///
/// # Invariants
///
/// The address is a multiple of the elements' size. So is `len`, which is at most [`MAX_OP_SIZE`],
/// and so is `bytes_done`, which is less than `len` until the operation has completed.
struct CasAtomic {
    op: Op,
    datatype: Datatype,
    target: RemoteAddr,
    len: usize,
    operands: [u8; MAX_OP_SIZE],
    compare: [u8; MAX_OP_SIZE],
    /// Old values of the target, as far as they are known.
    old_values: [u8; MAX_OP_SIZE],
    /// Destination of the old values: addresses and lengths of segments, which promise that the
    /// memory is the operation's until it completes.
    results: [(usize, usize); MAX_SGE],
    completion: AtomicComp,
    /// Number of bytes of the target that are done.
    bytes_done: usize,
    /// Expected value of the next word.
    expected: u64,
    /// Number of failed tries for the next word.
    tries: u32,
}

impl CasAtomic {
    /// Creates an operation of the kind of `atomic` on `len` bytes, at most [`MAX_OP_SIZE`], at
    /// `target`, an address aligned for such elements. Operands are added later.
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
            // A guess: a word that is 0 takes one work request.
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

    /// Returns the offset of the elements in the next word, and their length in bytes.
    fn word_part(&self) -> (usize, usize) {
        let at = (self.target.addr as usize).wrapping_add(self.bytes_done) % WORD_SIZE;
        (at, (WORD_SIZE - at).min(self.len - self.bytes_done))
    }

    /// Returns the new value of the next word, if its value is `word`.
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
            store_element(part, new);
        }
        u64::from_ne_bytes(bytes)
    }

    /// Returns the next work request.
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

    /// Handles the value that the device has found in the word.
    fn handle_result(&mut self, seen: u64) -> CasProgress {
        // A value that the operation would not change need not be stored.
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
        // INVARIANT: Word by word, and the last one ends the operation.
        self.bytes_done += len;
        self.expected = 0;
        self.tries = 0;
        match self.bytes_done == self.len {
            true => CasProgress::Done,
            false => CasProgress::NextRequest,
        }
    }
}

#[kunit_tests(kofi_verbs_cas_atomic)]
mod tests {
    use super::*;
    use crate::{
        abi,
        fi::atomic::Form, //
    };

    /// Creates an operation on `count` elements at `addr` with operands of 1 and compare values of 2.
    fn new_cas(raw: abi::fi_datatype, op: Op, addr: u64, count: usize) -> Result<CasAtomic> {
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
        let comp = AtomicComp {
            context: Context::NULL,
            flags: 0,
            is_reported: true,
        };
        let size = atomic.datatype.size();
        let mut cas = CasAtomic::new(&atomic, (target, count * size), comp);
        for element in cas.operands.chunks_exact_mut(size) {
            store_element(element, 1);
        }
        for element in cas.compare.chunks_exact_mut(size) {
            store_element(element, 2);
        }
        Ok(cas)
    }

    /// Acts as the device, on memory that begins at 0; returns the number of work requests.
    fn run(cas: &mut CasAtomic, words: &mut [u64]) -> usize {
        for requests in 1.. {
            let request = cas.next_request();
            let word = &mut words[request.remote.addr as usize / WORD_SIZE];
            let seen = *word;
            if seen == request.compare {
                *word = request.swap;
            }
            match cas.handle_result(seen) {
                CasProgress::NextRequest => {}
                CasProgress::Done => return requests,
                CasProgress::Contended => return 0,
            }
        }
        0
    }

    #[test]
    fn atom_03_zero_words_take_one_request_each() -> Result {
        let mut words = [0; 3];
        let mut sum = new_cas(abi::FI_UINT64, Op::Sum, 8, 2)?;
        assert_eq!(run(&mut sum, &mut words), 2);
        assert_eq!(words, [0, 1, 1]);
        let mut sum = new_cas(abi::FI_UINT64, Op::Sum, 0, 2)?;
        assert_eq!(run(&mut sum, &mut words), 3);
        assert_eq!(words, [1, 2, 1]);
        Ok(())
    }

    #[test]
    fn atom_03_elements_of_a_word_share_a_request() -> Result {
        // From the last byte of one word to the first of the third.
        let mut words = [u64::MAX; 3];
        let mut write = new_cas(abi::FI_UINT8, Op::Write, 7, 10)?;
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
    fn atom_02_unchanged_word_is_not_written() -> Result {
        let mut words = [7];
        let mut swap = new_cas(abi::FI_UINT32, Op::Swap, 0, 1)?;
        assert_eq!(run(&mut swap, &mut words), 1);
        assert_eq!(words, [7]);
        assert_eq!(load_element(&swap.old_values[..4]), 7);
        Ok(())
    }

    #[test]
    fn atom_05_repeated_contention_fails_the_operation() -> Result {
        let mut sum = new_cas(abi::FI_UINT64, Op::Sum, 0, 1)?;
        for other in 1..u64::from(MAX_TRIES) {
            assert_eq!(sum.handle_result(other), CasProgress::NextRequest);
            assert_eq!(sum.next_request().compare, other);
            assert_eq!(sum.next_request().swap, other + 1);
        }
        assert_eq!(
            sum.handle_result(u64::from(MAX_TRIES)),
            CasProgress::Contended
        );
        // A success resets the number of tries.
        let mut sum = new_cas(abi::FI_UINT64, Op::Sum, 0, 2)?;
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
