# SPDX-License-Identifier: GPL-2.0
"""Reads KUnit's results, which come as KTAP lines in the kernel's log."""

import re
from dataclasses import dataclass, field

from .results import FAILED, PASSED, SKIPPED

SUITE = re.compile(r" {4}# Subtest: (\S+)")
PLAN = re.compile(r" {4}1\.\.(\d+)")
CASE = re.compile(r" {4}(not )?ok \d+ (\S+)(.*)")
END = re.compile(r"(not )?ok \d+ (\S+)(.*)")
NOTE = re.compile(r" {4,}# (?!.*speed: )(.*)")
DETAIL = re.compile(r" {4,}(Expected|Lengths|Could not) .*")


@dataclass
class Suite:
    """A suite on its way: how many cases it announced and how they ended."""

    name: str
    planned: int = 0
    cases: dict[str, tuple[str, str]] = field(default_factory=dict)
    note: str = ""


class Reader:
    """Takes lines, gives (name, outcome, reason) for every case of every suite that ended."""

    def __init__(self) -> None:
        self.suite: Suite | None = None

    def feed(self, line: str) -> list[tuple[str, str, str]]:
        """The results that this line completes."""
        if match := SUITE.fullmatch(line):
            left = self.interrupted()
            self.suite = Suite(match[1])
            return left
        if self.suite is None:
            return []
        if match := PLAN.fullmatch(line):
            self.suite.planned = int(match[1])
        elif match := CASE.fullmatch(line):
            self.suite.cases[match[2]] = verdict(match[1], match[3], self.suite.note)
            self.suite.note = ""
        elif match := END.fullmatch(line):
            return self._end(bool(match[1]), match[3])
        elif match := NOTE.fullmatch(line):
            # The first complaint of a case says most; what follows is about its context.
            self.suite.note = self.suite.note or match[1].strip()
        elif DETAIL.fullmatch(line) and self.suite.note.endswith(tuple("0123456789")):
            self.suite.note += ": " + line.strip()
        return []

    def interrupted(self) -> list[tuple[str, str, str]]:
        """What to count for a suite that never said how it ended."""
        if self.suite is None:
            return []
        last = list(self.suite.cases)[-1] if self.suite.cases else "its start"
        return self._end(True, "", f"the suite did not end; it stopped after {last}")

    def _end(self, failed: bool, directive: str, reason: str = "") -> list[tuple[str, str, str]]:
        suite, self.suite = self.suite, None
        assert suite
        results = [(f"{suite.name}.{case}", *how) for case, how in suite.cases.items()]
        if not results and "# SKIP" in directive:
            return [(suite.name, SKIPPED, directive.split("# SKIP", 1)[1].strip())]
        if len(suite.cases) < suite.planned and not reason:
            reason = f"{len(suite.cases)} of {suite.planned} cases reported"
        if failed and not reason and not any(how == FAILED for _, how, _ in results):
            reason = suite.note or "the suite failed"
        if reason:
            results.append((suite.name, FAILED, reason))
        return results


def verdict(failed: str | None, directive: str, note: str) -> tuple[str, str]:
    """Outcome and reason of one result line."""
    if "# SKIP" in directive:
        return SKIPPED, directive.split("# SKIP", 1)[1].strip()
    if failed:
        return FAILED, note
    return PASSED, ""
