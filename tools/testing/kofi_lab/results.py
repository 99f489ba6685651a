# SPDX-License-Identifier: GPL-2.0
"""Collects the outcomes of tests and prints the summary of a run."""

import re
from collections import Counter
from dataclasses import dataclass, field

from .output import print_line

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Test:
    """A test and its outcome."""

    lane: str
    name: str
    outcome: str
    reason: str = ""
    scenario: str = ""  # the scenario that ran it: a KUnit case runs in several scenarios

    @property
    def title(self) -> str:
        """The name of the test, with the scenario that ran it."""
        return f"{self.name} ({self.scenario})" if self.scenario else self.name


@dataclass
class Results:
    """The tests of a run in the order in which they ended."""

    tests: list[Test] = field(default_factory=list)

    def add(
        self, lane: str, name: str, outcome: str, reason: str = "", scenario: str = ""
    ) -> Test:
        """Adds a test and its outcome."""
        test = Test(lane, name, outcome, reason, scenario)
        self.tests.append(test)
        return test

    def count(self, outcome: str) -> int:
        """Returns the number of tests with this outcome."""
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def good(self) -> bool:
        """True if at least one test passed and none failed."""
        return self.count(PASSED) > 0 and self.count(FAILED) == 0

    def report(self) -> None:
        """Prints the skipped and the failed tests, the counts of each lane and the total.

        The last line is `N passed, N failed`, which other programs read.
        """
        for test in self.tests:
            if test.outcome == SKIPPED:
                print_line(f"skipped  {test.lane}  {test.title}  {test.reason}")
        for test in self.tests:
            if test.outcome == FAILED:
                print_line(f"FAILED   {test.lane}  {test.title}  {test.reason}")
        lanes = Counter((test.lane, test.outcome) for test in self.tests)
        for lane in dict.fromkeys(test.lane for test in self.tests):
            counts = (f"{lanes[lane, how]} {how}" for how in (PASSED, FAILED, SKIPPED))
            print_line(f"{lane:8} {', '.join(counts)}")
        print_line(f"{self.count(PASSED)} passed, {self.count(FAILED)} failed")


def matches(pattern: str | tuple[str, ...], name: str) -> bool:
    """Returns whether a name contains a match of a pattern, in which `*` matches any characters."""
    patterns = (pattern,) if isinstance(pattern, str) else pattern
    return any(re.search(re.escape(one).replace(r"\*", ".*"), name) for one in patterns)
