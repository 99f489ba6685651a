# SPDX-License-Identifier: GPL-2.0
"""Reads a guest's console: where it is, what scenarios and KUnit suites say, what is wrong."""

import re
from dataclasses import dataclass, field

from . import ktap, splat
from .results import FAILED, PASSED, SKIPPED, Results

STAMP = re.compile(r"^\[\s*\d+\.\d+\](\[\s*[TC]\d+\])? ")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|\r")
SKIP_STATUS = 77
KILLED = (137, 143)


@dataclass
class Scenario:
    """A scenario on its way."""

    name: str
    text: list[str] = field(default_factory=list)
    splats: list[str] = field(default_factory=list)
    failed: int = 0
    counted: set[str] = field(default_factory=set)


class Console:
    """Takes the console line by line; keeps the counts."""

    def __init__(self, lane: str, results: Results, allowed: list[splat.Allowance]) -> None:
        self.lane = lane
        self.results = results
        self.allowed = allowed
        self.suites = ktap.Reader()
        self.scenario: Scenario | None = None
        self.booted = False
        self.over = False
        self.outside: list[str] = []  # splats of no scenario: at boot, or at the end
        self.finished: Scenario | None = None

    def feed(self, raw: str) -> None:
        """One line of the console."""
        line = STAMP.sub("", ESCAPE.sub("", raw).rstrip("\n"))
        if line.startswith("lab: "):
            self._protocol(line.removeprefix("lab: "))
            return
        for result in self.suites.feed(line):
            self._count(*result)
        self._inspect(line)

    def _inspect(self, line: str) -> None:
        name = self.scenario.name if self.scenario else "none"
        if splat.find(line, name, self.allowed):
            (self.scenario.splats if self.scenario else self.outside).append(line.strip())

    def _count(self, name: str, outcome: str, reason: str) -> None:
        scenario = self.scenario
        # A suite may run more than once: it counts once, and whenever it fails.
        if scenario is None or (name in scenario.counted and outcome != FAILED):
            return
        scenario.counted.add(name)
        scenario.failed += outcome == FAILED
        self.results.add(self.lane, name, outcome, reason, scenario.name)

    def _protocol(self, word: str) -> None:
        if word == "boot":
            self.booted = True
        elif word == "over":
            self.over = True
        elif match := re.fullmatch(r"begin (\S+)", word):
            self.scenario = Scenario(match[1])
        elif self.scenario is None:
            return
        elif match := re.fullmatch(r"end (\S+) (\d+)", word):
            self._end(int(match[2]))
        elif match := re.fullmatch(r"ok (\S+).*", word):
            self._count(f"{self.scenario.name}.{match[1]}", PASSED, "")
        elif match := re.fullmatch(r"not ok (\S+)(.*)", word):
            self._count(f"{self.scenario.name}.{match[1]}", FAILED, match[2].strip())
        elif word.startswith("| "):
            text = word.removeprefix("| ")
            self.scenario.text.append(text)
            if self.scenario.name == "kmemleak":
                self._inspect(text)

    def _end(self, status: int) -> None:
        scenario = self.scenario
        assert scenario
        last = scenario.text[-1] if scenario.text else ""
        for result in self.suites.interrupted():
            self._count(*result)
        if scenario.splats:
            self._close(FAILED, "the kernel says: " + scenario.splats[0])
        elif status == SKIP_STATUS:
            self._close(SKIPPED, last.removeprefix("skip: "))
        elif status in KILLED:
            self._close(FAILED, "ran out of time; last words: " + last)
        elif status:
            self._close(FAILED, f"ended with {status}: {last}")
        elif scenario.failed:
            self._close(FAILED, f"{scenario.failed} of its tests failed")
        else:
            self._close(PASSED, "")

    def give_up(self, reason: str) -> None:
        """The guest is gone: what was running failed, for that reason."""
        if self.scenario:
            for result in self.suites.interrupted():
                self._count(*result)
            splats = "".join(f"; the kernel says: {line}" for line in self.scenario.splats[:1])
            self._close(FAILED, reason + splats)

    def _close(self, outcome: str, reason: str) -> None:
        scenario, self.scenario = self.scenario, None
        assert scenario
        self.finished = scenario
        self.results.add(self.lane, scenario.name, outcome, reason)
