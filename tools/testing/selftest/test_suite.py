# SPDX-License-Identifier: GPL-2.0
"""Tests that an exception in a run counts as a failed test, and that the lanes of the soak run one by one."""

import contextlib
import io
import unittest
from unittest.mock import patch

from kofi_lab.output import LabError
from kofi_lab.results import PASSED, Results
from kofi_lab.suite import count_errors, soak


def fail(error: BaseException) -> None:
    """Raises an exception."""
    raise error


class CountErrorsTest(unittest.TestCase):
    """Runs that return or raise."""

    def run_counted(self, error: BaseException | None) -> Results:
        """Returns the results of a run with one passed test and then this exception."""
        results = Results()

        def work() -> None:
            results.add("uml", "a", PASSED)
            if error:
                fail(error)

        with contextlib.redirect_stdout(io.StringIO()):
            count_errors(results, work)
        return results

    def test_a_run_without_errors_adds_nothing(self) -> None:
        results = self.run_counted(None)
        self.assertEqual([test.outcome for test in results.tests], [PASSED])
        self.assertTrue(results.good)

    def test_errors_of_any_kind_fail_the_run(self) -> None:
        for error in (LabError("no kernel\nand more"), ValueError("of ours")):
            results = self.run_counted(error)
            self.assertFalse(results.good)
            self.assertEqual(len(results.tests), 2)
        self.assertIn("of ours", results.tests[-1].reason)

    def test_the_reason_is_one_line(self) -> None:
        self.assertEqual(self.run_counted(LabError("a\nb")).tests[-1].reason, "a")

    def test_an_interrupt_is_raised_and_not_counted(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.run_counted(KeyboardInterrupt())


class SoakTest(unittest.TestCase):
    """A soak whose lanes run nothing."""

    def test_the_lanes_run_one_after_another(self) -> None:
        with (
            patch("kofi_lab.suite.setup.ensure"),
            patch("kofi_lab.suite.run_lanes") as run_lanes,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            soak("nvme", ["native", "smp"])
        self.assertEqual([call.args[2] for call in run_lanes.call_args_list], [["smp"], ["native"]])
