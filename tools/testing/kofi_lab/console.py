# SPDX-License-Identifier: GPL-2.0
"""Parses a guest's console: the results of scenarios and of KUnit, and the splats of the kernel."""

import re
from dataclasses import dataclass, field

from . import ktap, splat
from .results import FAILED, PASSED, SKIPPED, Results

STAMP = re.compile(r"^\[\s*\d+\.\d+\](\[\s*[TC]\d+\])? ")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|\r")
RESULT = re.compile(r"(not )?ok \d+ (\S+)( # SKIP ?(.*))?")
SUBTEST = re.compile(r"  # Subtest: (\S+)")
TEXT = re.compile(r" {2,}# (.*)")


@dataclass
class Scenario:
    """The console lines of a running scenario, and the tests that were counted at its end."""

    name: str
    ktap: list[str] = field(default_factory=list)  # KTAP of the scenario's script
    log: list[str] = field(default_factory=list)  # kernel log, with the KTAP of KUnit
    output: list[str] = field(default_factory=list)  # diagnostic lines of the script
    splats: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)


class Console:
    """A parser of one guest's console, which adds the tests of each scenario to the results at its end."""

    def __init__(self, lane: str, results: Results, allowed: list[splat.Allowance]) -> None:
        self.lane = lane
        self.results = results
        self.allowed = allowed
        self.scenario: Scenario | None = None
        self.booted = False
        self.over = False
        self.outside: list[str] = []  # splats and timeouts outside of scenarios: at boot, between, at power off
        self.finished: Scenario | None = None

    def feed(self, raw: str) -> None:
        """Parses one line of the console."""
        line = STAMP.sub("", ESCAPE.sub("", raw).rstrip("\n"))
        if line.startswith("lab: "):
            self._ktap(line.removeprefix("lab: "))
            return
        if self.scenario:
            self.scenario.log.append(line)
        else:
            self.outside += splat.find("none", [line], self.allowed)

    def _ktap(self, line: str) -> None:
        """Parses one line of the guest's KTAP document."""
        scenario = self.scenario
        if line == "KTAP version 1":
            self.booted = True
        elif line == "# over":
            self.over = True
        elif match := SUBTEST.fullmatch(line):
            self.scenario = Scenario(match[1], [line])
        elif scenario is None:
            return
        else:
            scenario.ktap.append(line)
            if match := TEXT.fullmatch(line):
                scenario.output.append(match[1])
                if scenario.name == "kmemleak":
                    scenario.log.append(match[1])
            elif (match := RESULT.fullmatch(line)) and match[2] == scenario.name:
                self._end(match)

    def _count(self) -> str:
        """Adds the tests of the scenario to the results. Returns the reason that its own result line has."""
        scenario = self.scenario
        assert scenario
        scenario.splats = splat.find(scenario.name, scenario.log, self.allowed)
        mine = ktap.read(scenario.ktap)[0]
        found = [result for suite in ktap.read(scenario.log) for result in ktap.results(suite)]
        for check in mine.subtests:
            found += [(f"{mine.name}.{name}", *more) for name, *more in ktap.results(check)]
        for name, outcome, reason in found:
            # A suite that runs several times counts once, but each of its failures counts.
            if name in scenario.counted and outcome != FAILED:
                continue
            scenario.counted.add(name)
            if outcome == FAILED:
                scenario.failed.append(f"{name}: {reason}")
            self.results.add(self.lane, name, outcome, reason, scenario.name)
        return ktap.failure_reason(mine, mine.name)

    def _end(self, result: re.Match[str]) -> None:
        """Counts the scenario and its tests at its result line."""
        scenario = self.scenario
        assert scenario
        reason = self._count()
        if scenario.splats:
            self._close(FAILED, "kernel log: " + scenario.splats[0])
        elif result[1]:
            self._close(FAILED, reason)
        elif scenario.failed:
            self._close(FAILED, f"{len(scenario.failed)} of its tests failed")
        elif result[3]:
            self._close(SKIPPED, result[4])
        else:
            self._close(PASSED, "")

    def abort(self, reason: str) -> None:
        """Counts the running scenario as failed, because its guest died or its time is over."""
        if self.scenario:
            self._count()
            splats = "".join(f"; kernel log: {line}" for line in self.scenario.splats[:1])
            self._close(FAILED, reason + splats)

    def _close(self, outcome: str, reason: str) -> None:
        """Adds the scenario to the results, and makes it the finished one."""
        scenario, self.scenario = self.scenario, None
        assert scenario
        self.finished = scenario
        self.results.add(self.lane, scenario.name, outcome, reason)
