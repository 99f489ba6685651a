# SPDX-License-Identifier: GPL-2.0
"""What was tested, and how it ended."""

import re
from collections import Counter
from dataclasses import dataclass, field

from .output import print_line

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Test:
    """One counted test."""

    lane: str
    name: str
    outcome: str
    reason: str = ""
    scenario: str = ""  # that it is a part of: a KUnit case runs on more than one device

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.name} ({self.scenario})" if self.scenario else self.name


@dataclass
class Results:
    """The tests of a run, in the order in which they ended."""

    tests: list[Test] = field(default_factory=list)

    def add(
        self, lane: str, name: str, outcome: str, reason: str = "", scenario: str = ""
    ) -> Test:
        """Counts one test."""
        test = Test(lane, name, outcome, reason, scenario)
        self.tests.append(test)
        return test

    def count(self, outcome: str) -> int:
        """How many ended like that."""
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def good(self) -> bool:
        """Something ran and nothing failed."""
        return self.count(PASSED) > 0 and self.count(FAILED) == 0

    def report(self) -> None:
        """Skips and failures by name, a count per lane, and the one line that machines read."""
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
    """Returns whether T=pattern, or one of several, means a name: a part of it, `*` standing for anything."""
    words = (pattern,) if isinstance(pattern, str) else pattern
    return any(re.search(re.escape(word).replace(r"\*", ".*"), name) for word in words)
