# SPDX-License-Identifier: GPL-2.0
"""Keeps the durations of scenarios between runs, and divides scenarios among guests by them."""

import fcntl
import json
import re
from collections.abc import Iterable
from pathlib import Path

from .output import LabError, print_line
from .paths import CACHE, LOGS
from .plan import Scenario

FILE = CACHE / "timings.json"
SLOWEST = 25  # rows of each table of `make timings`
RECENT = 20  # newest console logs that are searched for KUnit cases
LINE = re.compile(r"\[ *(\d+\.\d+)\](?:\[[^]]*\])? (.*)")
SCENARIO = re.compile(r"lab:   # Subtest: (\S+)")
CASE = re.compile(r" {4}(?:not )?ok \d+ (\S+)")


def read() -> dict[str, float]:
    """Returns the seconds that each scenario took when it last passed, by "LANE SCENARIO"."""
    try:
        return json.loads(FILE.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def save(lane: str, scenario: str, seconds: float) -> None:
    """Saves the duration of a scenario that passed."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with open(FILE.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read() | {f"{lane} {scenario}": round(seconds, 1)}
        part = FILE.with_suffix(".part")
        part.write_text(json.dumps(known, indent=0, sort_keys=True))
        part.rename(FILE)


def estimate(lane: str, scenario: Scenario, known: dict[str, float]) -> float:
    """Returns the last duration of a scenario, or a tenth of its time limit if it never passed."""
    return known.get(f"{lane} {scenario.name}", scenario.seconds / 10)


def divide(lane: str, scenarios: list[Scenario], guests: int) -> list[list[Scenario]]:
    """Divides scenarios among guests so that all guests end at about the same time.

    The longest scenario is assigned first, each to the guest with the smallest sum. A guest runs the scenarios of siw
    last: lockdep reports a known fault of siw there, and checks nothing after its first report.
    """
    known = read()
    parts: list[list[Scenario]] = [[] for _ in range(guests)]
    loads = [0.0] * guests
    for scenario in sorted(scenarios, key=lambda item: -estimate(lane, item, known)):
        least = loads.index(min(loads))
        parts[least].append(scenario)
        loads[least] += estimate(lane, scenario, known)
    for part in parts:
        part.sort(key=lambda item: (item.is_siw, scenarios.index(item)))
    return [part for part in parts if part]


def cases(log: Iterable[str]) -> dict[str, dict[str, float]]:
    """Returns the guest time in seconds of each KUnit case in a console log, by scenario."""
    found: dict[str, dict[str, float]] = {}
    scenario = suite = ""
    start = 0.0
    for line in log:
        match = LINE.match(line)
        if not match:
            continue
        time, text = float(match[1]), match[2].rstrip()
        if begin := SCENARIO.fullmatch(text):
            scenario = begin[1]
            found[scenario] = {}
        elif text.startswith("    # Subtest: "):
            suite, start = text.split()[2], time
        elif scenario and suite and (case := CASE.match(text)):
            found[scenario][f"{suite}.{case[1]}"] = time - start
            start = time
    return found


def recent_cases(logs: list[Path]) -> dict[str, float]:
    """Returns the durations of KUnit cases from the newest console log of each scenario."""
    known: dict[str, dict[str, float]] = {}
    for log in sorted(logs, key=lambda path: -path.stat().st_mtime)[:RECENT]:
        lane = log.name.split("-")[1]
        with log.open(encoding="utf-8", errors="replace") as lines:
            for scenario, durations in cases(lines).items():
                known.setdefault(f"{lane} {scenario}", durations)
    return {f"{run} {case}": time for run, found in known.items() for case, time in found.items()}


def report() -> None:
    """Prints the longest scenarios and KUnit cases, and the sum of each lane."""
    known = read()
    if not known:
        raise LabError(f"{FILE} has no timings yet: run `make test`")
    for row in rows(known.items()):
        print_line(row)
    print_line("\nKUnit cases, in the guest's time:")
    slowest = sorted(recent_cases(list(LOGS.glob("console-*.log"))).items(), key=lambda pair: -pair[1])
    for name, seconds in slowest[:SLOWEST]:
        print_line(f"{seconds:8.1f} s  {name}")


def rows(known: Iterable[tuple[str, float]]) -> list[str]:
    """Returns the lines about the longest scenarios and the sums of the lanes."""
    slowest = sorted(known, key=lambda pair: -pair[1])
    lines = [f"{seconds:8.1f} s  {name}" for name, seconds in slowest[:SLOWEST]]
    lanes = sorted({name.split()[0] for name, _ in slowest})
    sums = ((lane, sum(each for name, each in slowest if name.split()[0] == lane)) for lane in lanes)
    return [*lines, *(f"{total:8.1f} s  {lane}, sum" for lane, total in sums)]
