# SPDX-License-Identifier: GPL-2.0
"""Runs scenarios in guests of one lane; a guest that dies costs one scenario, not the rest."""

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
# An emulated kernel may die of itself, over its own patches of its code, before anything of ours is there.
BOOTS = 3
END_SECONDS = 90  # leak scan and power off
TIDY_SECONDS = 90  # unloading what a scenario left, beyond its own limit
COUNTER = itertools.count()


@dataclass
class Session:
    """A lane's kernel, the modules to run on it and where the counts go."""

    kernel: Kernel
    modules: list[Path]
    results: Results
    environment: dict[str, str] = field(default_factory=dict)
    cpus: int = 2
    counting: bool = False  # a virtual machine whose clock counts instructions
    extra: str = ""  # kernel command line
    echo: bool = False
    logs: list[Path] = field(default_factory=list)
    words: dict[str, list[str]] = field(default_factory=dict)  # what each scenario printed

    def run(self, scenarios: list[plan.Scenario]) -> None:
        """Runs them all, in as many boots as it takes."""
        left, boots = list(scenarios), BOOTS
        while left:
            boots -= 1
            ended, is_up = self._boot(left, boots > 0)
            if not is_up and boots > 0:
                continue
            if ended == 0:
                for scenario in left:
                    self.results.add(self.kernel.lane.name, scenario.name, FAILED, "never started")
                return
            left, boots = left[ended:], BOOTS

    def _payload(self, scenarios: list[plan.Scenario], shell: bool = False) -> Path:
        lane = self.kernel.lane
        place = RUNS / f"{lane.name}-{os.getpid()}-{next(COUNTER)}"
        shutil.rmtree(place, ignore_errors=True)
        (place / "modules").mkdir(parents=True)
        (place / "scenarios").mkdir()
        shutil.copytree(GUEST, place / "guest")
        (place / "bin").mkdir()
        for program in programs.build(self.kernel):
            shutil.copy(program, place / "bin")
        depends = []
        for module in self.modules:
            shutil.copy(module, place / "modules")
            depends.append(f"{module.stem}:{' '.join(tree.depends(module))}")
        (place / "depends").write_text("\n".join(depends) + "\n")
        rows = []
        for scenario in scenarios:
            shutil.copy(scenario.script, place / "scenarios")
            limit = scenario.limit(lane)
            rows.append(f"{scenario.name}|{limit}|{scenario.script.name}|{scenario.arguments}\n")
        (place / "list").write_text("".join(rows))
        mode = "shell" if shell else "run"
        env = {"LANE": lane.name, "TIMEOUT_FACTOR": str(lane.timeout_factor), "MODE": mode, **self.environment}
        text = "".join(f"export {name}='{value}'\n" for name, value in env.items())
        (place / "env").write_text(text)
        return place

    def _boot(self, scenarios: list[plan.Scenario], again: bool) -> tuple[int, bool]:
        """One guest's life; how many of the scenarios came to an end, and whether it was ever up.

        One that was not is another's turn, if there is one again.
        """
        lane = self.kernel.lane
        payload = self._payload(scenarios)
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"console-{payload.name}.log"
        self.logs.append(log)
        console = Console(lane.name, self.results, plan.allowances())
        words = guest.command(
            self.kernel, payload, False, self.cpus, self.extra, self.counting
        )
        with guest.Guest(words, log) as running:
            ended = self._watch(running, console, scenarios)
        self._close(console, log, again)
        shutil.rmtree(payload, ignore_errors=True)
        payload.with_suffix(".cpio").unlink(missing_ok=True)
        return ended, console.booted

    def _watch(self, running: guest.Guest, console: Console, scenarios: list[plan.Scenario]) -> int:
        limits = {item.name: item.limit(self.kernel.lane) for item in scenarios}
        timeout_factor = min(self.kernel.lane.timeout_factor, 4)
        state, ended = ("", False), 0
        waiting, start, limit = "the guest to boot", time.monotonic(), BOOT_SECONDS * timeout_factor
        for line in running.lines():
            if line is not None:
                console.feed(line)
                if self.echo:
                    print_line(line.rstrip())
            if console.finished:
                ended += self._tell(console, limits, time.monotonic() - start)
            current = console.scenario.name if console.scenario else ""
            if (current, console.booted) != state:
                state = (current, console.booted)
                start = time.monotonic()
                waiting = f"{current} to end" if current else "the next scenario"
                limit = limits.get(current, END_SECONDS * timeout_factor) + TIDY_SECONDS
            if console.over:
                break
            if time.monotonic() - start > limit:
                console.give_up(f"waited {limit} s for {waiting}")
                if not console.finished:
                    console.outside.append(f"waited {limit} s for {waiting}")
                break
        else:
            console.give_up("the guest ended in the middle of it")
            if not console.finished:
                console.outside.append(f"the guest ended while this waited for {waiting}")
        if console.finished:
            ended += self._tell(console, limits, time.monotonic() - start)
        return ended

    def _tell(self, console: Console, limits: dict[str, int], seconds: float) -> int:
        """A line for the scenario that just ended; 1 when it is one of the plan's."""
        scenario, console.finished = console.finished, None
        assert scenario
        self.words[scenario.name] = scenario.text
        test = self.results.tests[-1]
        if test.outcome == PASSED and not self.counting:
            timings.note(test.lane, test.name, seconds)
        inner = f"  {len(scenario.counted)} tests" if scenario.counted else ""
        word = {PASSED: "ok", FAILED: "FAILED"}.get(test.outcome, test.outcome)
        line = f"  {test.lane:6} {test.name:32} {word:8} {seconds:6.1f} s{inner}  {test.reason}"
        print_line(line.rstrip())
        if test.outcome == FAILED and not self.echo:
            for text in [*scenario.failed[:12], *scenario.text[-12:], *scenario.splats[:3]]:
                print_line(f"         | {text}")
        return int(scenario.name in limits)

    def _close(self, console: Console, log: Path, again: bool) -> None:
        """Counts what belongs to no scenario: a boot is a test of its own when it goes wrong for good."""
        if not console.outside:
            return
        reason = console.outside[0]
        if again and not console.booted:
            lane = self.kernel.lane.name
            print_line(f"  {lane:6} the kernel did not boot, and is booted again: {reason}\n         see {log}")
            return
        self.results.add(self.kernel.lane.name, "console", FAILED, reason)
        print_line(f"  {self.kernel.lane.name:6} {'console':32} FAILED   {reason}\n         see {log}")

    def shell(self) -> int:
        """An interactive guest on this terminal."""
        payload = self._payload([], shell=True)
        words = guest.command(self.kernel, payload, True, self.cpus, self.extra)
        try:
            return os.spawnvp(os.P_WAIT, words[0], words)
        finally:
            shutil.rmtree(payload, ignore_errors=True)
            payload.with_suffix(".cpio").unlink(missing_ok=True)
