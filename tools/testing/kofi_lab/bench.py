# SPDX-License-Identifier: GPL-2.0
"""kOFI against raw verbs: runs the bench scenarios, prints the ratios, writes bench.json."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from . import kernel, plan, tree
from .lane import lane
from .results import Results
from .say import LabError, say
from .session import Session

RESULT = re.compile(
    r"bench: impl=(?P<impl>kofi|raw) name=(?P<name>\w+) size=(?P<size>\d+)"
    r" value=(?P<value>\d+) unit=(?P<unit>\S+)"
)
LANES = ("uml", "plain")
MOST_LATENCY = 1.05
LEAST_RATE = 0.95
BARRED = "uml"  # the lane whose ratios have bars; an emulator's say less
COUNTED = "plain"  # the lane whose guest can count instructions
COUNT_ROUNDS = 3
INSTRUCTIONS = "instr"
# How many instructions a call may have beyond the one of the device; an entry's, where several are read.
MOST_BEYOND = {"send": 60, "recv": 60, "read": 30}


@dataclass(frozen=True)
class Row:
    """One measurement: medians of both, and of how they compare, over the rounds. In a round each
    counts with its best turn, because what else a machine does only slows it down; and its speed
    drifts by more than what is measured here, but little within a round."""

    lane: str
    name: str
    size: int
    unit: str
    ours: float
    raw: float
    ratio: float

    @property
    def verdict(self) -> str:
        """Whether the bar is met; empty where there is none."""
        if self.unit == INSTRUCTIONS:
            most, beyond = MOST_BEYOND.get(self.name), self.ours - self.raw
            word = "" if most is None else f"{'met' if beyond <= most else 'missed'} (<= {most})"
            return f"{beyond:+,.0f} {word}".rstrip()
        if self.lane != BARRED:
            return ""
        if self.name == "lat":
            return f"{'met' if self.ratio <= MOST_LATENCY else 'missed'} (<= {MOST_LATENCY})"
        return f"{'met' if self.ratio >= LEAST_RATE else 'missed'} (>= {LEAST_RATE})"


def best(turns: list[tuple[str, int]], unit: str) -> dict[str, int]:
    """The best turn of each implementation."""
    of: dict[str, list[int]] = {}
    for implementation, value in turns:
        of.setdefault(implementation, []).append(value)
    return {key: (min if unit == "ns" else max)(found) for key, found in of.items()}


def rows(name: str, lines: Iterable[str], rounds: int) -> list[Row]:
    """What a lane's console says, in the order in which it was measured. All rounds are alike."""
    values: dict[tuple[str, int, str], list[tuple[str, int]]] = {}
    for line in lines:
        if found := RESULT.search(line):
            key = (found["name"], int(found["size"]), found["unit"])
            values.setdefault(key, []).append((found["impl"], int(found["value"])))
    table = []
    for (test, size, unit), turns in values.items():
        count = len(turns) // rounds
        parts = [best(turns[at * count : (at + 1) * count], unit) for at in range(rounds)]
        if any(part.keys() != {"kofi", "raw"} for part in parts) or len(turns) % rounds:
            raise LabError(f"{name}: {test} of {size} bytes was not measured often enough")
        ours, raw = (median(part[key] for part in parts) for key in ("kofi", "raw"))
        ratio = median(part["kofi"] / part["raw"] for part in parts)
        table.append(Row(name, test, size, unit, ours, raw, round(ratio, 4)))
    return table


def measure(name: str, rounds: int, counting: bool = False) -> list[Row]:
    """Boots one lane and runs its bench scenarios; where instructions count, its scenarios for that."""
    target = kernel.ensure(lane(name))
    results = Results()
    # A second virtual CPU would be a thread that competes with whatever else the machine does.
    session = Session(target, tree.build(target), results, cpus=1, counting=counting)
    chosen = plan.select("count" if counting else "bench", target.lane)
    session.run([replace(item, arguments=str(rounds)) for item in chosen])
    if not results.good:
        raise LabError(f"the bench did not come to its end on {name}: see {session.logs[-1]}")
    lines = [line for log in session.logs for line in log.read_text(errors="replace").splitlines()]
    table = rows(name, lines, rounds)
    return [replace(row, unit=INSTRUCTIONS) for row in table] if counting else table


def report(table: list[Row]) -> None:
    """The table, for people."""
    say(f"{'lane':7}{'name':6}{'size':>7}  {'ours':>14}{'raw':>14}  {'unit':6}{'ratio':>7}  bar")
    for row in table:
        numbers = f"{row.ours:14,.0f}{row.raw:14,.0f}"
        line = f"{row.lane:7}{row.name:6}{row.size:7}  {numbers}  {row.unit:6}{row.ratio:7.3f}"
        say(f"{line}  {row.verdict}".rstrip())


def write(table: list[Row]) -> Path:
    """bench.json, in the folder of this checkout's builds."""
    place = tree.folder(kernel.find(lane(BARRED))).parent / "bench.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps([asdict(row) for row in table], indent=2) + "\n")
    return place


def run(lanes: Iterable[str], rounds: int) -> None:
    """Measures, prints and writes; a missed bar is shown, it fails nothing."""
    names = list(lanes)
    table = [row for name in names for row in measure(name, rounds)]
    if COUNTED in names:
        table += measure(COUNTED, COUNT_ROUNDS, counting=True)
    report(table)
    say(f"written to {write(table)}")
