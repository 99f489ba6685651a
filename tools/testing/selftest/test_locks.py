# SPDX-License-Identifier: GPL-2.0
"""Tests of the comparison of locks and lockdep classes with the page on locking."""

import unittest

from kofi_lab.locks import compare

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
    """Comparisons of a small file with a small page."""

    def errors(self, code: str = CODE, page: str = PAGE) -> list[str]:
        """Returns the errors for a file of rust/fi."""
        return compare({"rust/fi/queue.rs": code}, page)

    def test_equal_lists_have_no_errors(self) -> None:
        self.assertEqual(self.errors(), [])

    def test_a_new_and_a_removed_lock_are_named(self) -> None:
        added, removed = self.errors(CODE.replace("inner: Fast", "state: Fast"))
        self.assertIn("fi::Queue::state: add this lock to locking.rst", added)
        self.assertIn("fi::Queue::inner: remove this lock from locking.rst", removed)

    def test_a_class_is_listed_unique_and_not_missing(self) -> None:
        self.assertEqual(len(self.errors(CODE.replace("kofi::Queue", "kofi::Fifo"))), 2)
        self.assertEqual(len(self.errors(CODE + 'new_work!("kofi::Queue")')), 1)
        self.assertEqual(len(self.errors(CODE + "new_mutex!(f(0))")), 1)
        page = PAGE + "``kofi::Queue::x``"
        self.assertEqual(self.errors(CODE + 'new_mutex!(f(0), "kofi::Queue::x")', page), [])

    def test_locks_of_c_files_count(self) -> None:
        code = "struct raw {\n\tspinlock_t lock;\n};\nstatic DEFINE_MUTEX(guard);\n"
        page = "   * - ``perf::raw::lock``\n   * - ``perf::guard``\n"
        self.assertEqual(compare({"rust/perf/raw.c": code}, page), [])
        self.assertEqual(len(compare({"rust/perf/raw.c": code}, "")), 2)
