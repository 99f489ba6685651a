# SPDX-License-Identifier: GPL-2.0
"""The check of the page on locking finds locks and classes on both sides."""

import unittest

from kofi_lab.locks import compared

CODE = """
struct Queue {
    #[pin]
    inner: FastLockIrq<u32>,
    done: Completion,
}
static LIST: Mutex<u32> = 0;
fn f() {
    // A comment names "kofi::Other".
    inner <- FastLockIrq::new(0, c"kofi::Queue", static_lock_class!()),
    done <- Completion::new(),
}
"""
PAGE = """
   * - ``fi::Queue::inner``
     - ``kofi::Queue``
   * - ``fi::Queue::done``
   * - ``fi::LIST``
"""


class LocksTest(unittest.TestCase):
    """Compares a small file with a small page."""

    def complaints(self, code: str = CODE, page: str = PAGE) -> list[str]:
        """Returns what the check says of a file of rust/fi."""
        return compared({"rust/fi/queue.rs": code}, page)

    def test_equal_lists_have_no_complaints(self) -> None:
        self.assertEqual(self.complaints(), [])

    def test_a_new_lock_and_a_lock_that_is_gone_are_named(self) -> None:
        renamed = CODE.replace("inner: Fast", "state: Fast")
        words = self.complaints(renamed)
        self.assertEqual(words, ["fi::Queue::state: not in locking.rst", "fi::Queue::inner: in locking.rst, but gone"])

    def test_a_class_is_listed_unique_and_not_missing(self) -> None:
        self.assertEqual(len(self.complaints(CODE.replace("kofi::Queue", "kofi::Fifo"))), 2)
        self.assertEqual(len(self.complaints(CODE + 'new_work!("kofi::Queue")')), 1)
        self.assertEqual(len(self.complaints(CODE + "new_mutex!(f(0))")), 1)
        self.assertEqual(self.complaints(CODE + 'new_mutex!(f(0), "kofi::Queue::x")', PAGE + "``kofi::Queue::x``"), [])

    def test_locks_of_c_files_count(self) -> None:
        code = "struct raw {\n\tspinlock_t lock;\n};\nstatic DEFINE_MUTEX(guard);\n"
        page = "   * - ``perf::raw::lock``\n   * - ``perf::guard``\n"
        self.assertEqual(compared({"rust/perf/raw.c": code}, page), [])
        self.assertEqual(len(compared({"rust/perf/raw.c": code}, "")), 2)
