# SPDX-License-Identifier: GPL-2.0
"""Whatever goes wrong in a run is counted: its last line is what machines believe."""

import contextlib
import io
import unittest

from kofi_lab.output import LabError
from kofi_lab.results import PASSED, Results
from kofi_lab.suite import guarded


def fail(error: BaseException) -> None:
    """Work that does not come to its end."""
    raise error


class GuardedTest(unittest.TestCase):
    """Work that ends in one way or another."""

    def run_guarded(self, error: BaseException | None) -> Results:
        """The counts of a run with one passed test before the work's end."""
        results = Results()

        def work() -> None:
            results.add("uml", "a", PASSED)
            if error:
                fail(error)

        with contextlib.redirect_stdout(io.StringIO()):
            guarded(results, work)
        return results

    def test_the_end_adds_nothing(self) -> None:
        results = self.run_guarded(None)
        self.assertEqual([test.outcome for test in results.tests], [PASSED])
        self.assertTrue(results.good)

    def test_errors_of_any_kind_fail_the_run(self) -> None:
        for error in (LabError("no kernel\nand more"), ValueError("of ours")):
            results = self.run_guarded(error)
            self.assertFalse(results.good)
            self.assertEqual(len(results.tests), 2)
        self.assertIn("of ours", results.tests[-1].reason)

    def test_the_reason_is_one_line(self) -> None:
        self.assertEqual(self.run_guarded(LabError("a\nb")).tests[-1].reason, "a")

    def test_an_interrupt_is_nobodys_failure(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.run_guarded(KeyboardInterrupt())
