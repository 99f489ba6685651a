# SPDX-License-Identifier: GPL-2.0
"""Runs scenarios in guests of one lane. If a guest dies, its scenario fails and a new guest runs the rest."""

import itertools
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import guest, plan, programs, timings, tree
from .console import Console
from .kernel import Kernel
from .output import print_line
from .paths import GUEST, LOGS, RUNS
from .results import FAILED, PASSED, Results

BOOT_SECONDS = 60
# An emulated CPU sometimes fails when the kernel patches its text, before a module is loaded.
BOOTS = 3
END_SECONDS = 90  # leak scan and power off
CLEANUP_SECONDS = 90  # cleanup after a scenario, beyond its time limit
MAX_SECONDS = 3600  # maximum duration of a scenario that still prints lines, unless its limit is longer
COUNTER = itertools.count()


@dataclass
class Session:
    """A run of scenarios on one lane's kernel, with the modules and environment of its guests."""

    kernel: Kernel
    modules: list[Path]
    results: Results
    environment: dict[str, str] = field(default_factory=dict)
    cpus: int = 0  # the number that each guest has; 0 means as many as the lane has
    counting: bool = False  # whether the clock of the virtual machine counts instructions
    parameters: str = ""  # more kernel parameters
    echo: bool = False  # whether the console is also printed
    logs: list[Path] = field(default_factory=list)  # one console log for each boot
    output: dict[str, list[str]] = field(default_factory=dict)  # diagnostic lines of each scenario

    @property
    def is_typical(self) -> bool:
        """True if the durations of scenarios are those of later runs: all suites run, and the clock is the machine's."""
        return not self.counting and "SUITES" not in self.environment

    def run(self, scenarios: list[plan.Scenario]) -> None:
        """Runs the scenarios. Boots a new guest whenever one dies."""
        left, boots = list(scenarios), BOOTS
        while left:
            boots -= 1
            ended, is_up = self._boot(left, boots > 0)
            if not is_up and boots > 0:
                continue
            if ended == 0:
                for scenario in left:
                    self.results.add(self.kernel.lane.name, scenario.name, FAILED, "the guest did not start it")
                return
            left, boots = left[ended:], BOOTS

    def _payload(self, scenarios: list[plan.Scenario], shell: bool = False) -> Path:
        """Creates the folder that a guest sees as $KOFI: modules, programs, scripts and their list."""
        lane = self.kernel.lane
        payload = RUNS / f"{lane.name}-{os.getpid()}-{next(COUNTER)}"
        shutil.rmtree(payload, ignore_errors=True)
        (payload / "modules").mkdir(parents=True)
        (payload / "scenarios").mkdir()
        shutil.copytree(GUEST, payload / "guest")
        (payload / "bin").mkdir()
        for program in programs.build(self.kernel):
            shutil.copy(program, payload / "bin")
        depends = []
        for module in self.modules:
            shutil.copy(module, payload / "modules")
            depends.append(f"{module.stem}:{' '.join(tree.depends(module))}")
        (payload / "depends").write_text("\n".join(depends) + "\n")
        rows = []
        for scenario in scenarios:
            shutil.copy(scenario.script, payload / "scenarios")
            limit = scenario.limit(lane)
            rows.append(f"{scenario.name}|{limit}|{scenario.script.name}|{scenario.arguments}\n")
        (payload / "list").write_text("".join(rows))
        mode = "shell" if shell else "run"
        env = {"LANE": lane.name, "TIMEOUT_FACTOR": str(lane.timeout_factor), "MODE": mode, **self.environment}
        text = "".join(f"export {name}='{value}'\n" for name, value in env.items())
        (payload / "env").write_text(text)
        return payload

    def _boot(self, scenarios: list[plan.Scenario], again: bool) -> tuple[int, bool]:
        """Boots a guest and runs scenarios in it. Returns how many ended, and whether the guest booted.

        `again` tells whether the caller boots another guest if this one does not boot.
        """
        lane = self.kernel.lane
        payload = self._payload(scenarios)
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"console-{payload.name}.log"
        self.logs.append(log)
        console = Console(lane.name, self.results, plan.allowances())
        command = guest.command(self.kernel, payload, False, self.cpus or lane.cpus, self.parameters, self.counting)
        with guest.Guest(command, log) as running:
            ended = self._watch(running, console, scenarios)
        self._report_console(console, log, again)
        shutil.rmtree(payload, ignore_errors=True)
        payload.with_suffix(".cpio").unlink(missing_ok=True)
        return ended, console.booted

    def _watch(self, running: guest.Guest, console: Console, scenarios: list[plan.Scenario]) -> int:
        """Parses the console until the guest ends or a limit expires. Returns how many scenarios ended.

        A limit bounds the time without a new line. The guest itself ends a scenario after up to two time limits.
        """
        limits = {item.name: item.limit(self.kernel.lane) for item in scenarios}
        timeout_factor = min(self.kernel.lane.timeout_factor, 4)
        state, ended = ("", False), 0
        waiting, limit = "the guest to boot", BOOT_SECONDS * timeout_factor
        start = heard = time.monotonic()
        for line in running.lines():
            if line is not None:
                heard = time.monotonic()
                console.feed(line)
                if self.echo:
                    print_line(line.rstrip())
            if console.finished:
                ended += self._report_scenario(console, limits, time.monotonic() - start)
            current = console.scenario.name if console.scenario else ""
            if (current, console.booted) != state:
                state = (current, console.booted)
                start = time.monotonic()
                waiting = f"{current} to end" if current else "the next scenario"
                limit = 2 * limits.get(current, END_SECONDS * timeout_factor) + CLEANUP_SECONDS
            if console.over:
                break
            now = time.monotonic()
            if now - heard > limit or now - start > max(MAX_SECONDS, limit):
                reason = f"waited {now - start:.0f} s for {waiting}, the last {now - heard:.0f} s without output"
                console.abort(reason)
                if not console.finished:
                    console.outside.append(reason)
                break
        else:
            console.abort("the guest died while the scenario ran")
            if not console.finished:
                console.outside.append(f"the guest died; the lab waited for {waiting}")
        if console.finished:
            ended += self._report_scenario(console, limits, time.monotonic() - start)
        return ended

    def _report_scenario(self, console: Console, limits: dict[str, int], seconds: float) -> int:
        """Prints the result of the scenario that just ended. Returns 1, or 0 for one of the guest itself."""
        scenario, console.finished = console.finished, None
        assert scenario
        self.output[scenario.name] = scenario.output
        test = self.results.tests[-1]
        if test.outcome == PASSED and self.is_typical:
            timings.save(test.lane, test.name, seconds)
        inner = f"  {len(scenario.counted)} tests" if scenario.counted else ""
        word = {PASSED: "ok", FAILED: "FAILED"}.get(test.outcome, test.outcome)
        line = f"  {test.lane:6} {test.name:32} {word:8} {seconds:6.1f} s{inner}  {test.reason}"
        print_line(line.rstrip())
        if test.outcome == FAILED and not self.echo:
            for text in [*scenario.failed[:12], *scenario.output[-12:], *scenario.splats[:3]]:
                print_line(f"         | {text}")
        return int(scenario.name in limits)

    def _report_console(self, console: Console, log: Path, again: bool) -> None:
        """Counts splats and timeouts outside of scenarios as the failed test `console`.

        A guest that did not boot is only reported if another one follows.
        """
        if not console.outside:
            return
        reason = console.outside[0]
        if again and not console.booted:
            lane = self.kernel.lane.name
            print_line(f"  {lane:6} the guest did not boot, another one is started: {reason}\n         see {log}")
            return
        self.results.add(self.kernel.lane.name, "console", FAILED, reason)
        print_line(f"  {self.kernel.lane.name:6} {'console':32} FAILED   {reason}\n         see {log}")

    def shell(self) -> int:
        """Boots an interactive guest on this terminal. Returns its exit status."""
        payload = self._payload([], shell=True)
        command = guest.command(self.kernel, payload, True, self.cpus or self.kernel.lane.cpus, self.parameters)
        try:
            return os.spawnvp(os.P_WAIT, command[0], command)
        finally:
            shutil.rmtree(payload, ignore_errors=True)
            payload.with_suffix(".cpio").unlink(missing_ok=True)
