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
MOST_TIME = 1.02  # in raw verbs' own
LEAST_RATE = 0.98
# Of libfabric's own time for the same vector, and of a bare wait queue's.
MOST_OF = {"insert": 0.333, "batch": 0.333, "wait": 1.2}
# Without a bar: what they show is how they grow, or they have one where instructions are counted.
UNBARRED = ("lookup", "again", "remove", "threads", "poll", "handle")
MOST_BYTES = 40  # of an entry of a vector
MOST_GROWTH = 1.05  # of the cost of an operation, from one connection to the most
BARRED = "uml"  # the lane whose ratios have bars; an emulator's say less
COUNTED = "plain"  # the lane whose guest can count instructions
COUNT_ROUNDS = 3
INSTRUCTIONS = "instr"
TIME = "ns"
BYTES = "B"
GROWTH = "x"
# How many instructions a call may have beyond the one of the device; an entry's, where several are read.
MOST_BEYOND = {"send": 60, "recv": 60, "write": 60, "inject": 80, "read": 30}


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
        if self.unit == BYTES:
            return f"{'met' if self.ours <= MOST_BYTES else 'missed'} (<= {MOST_BYTES})"
        if self.name in UNBARRED:
            return ""
        if self.unit == GROWTH:
            return f"{'met' if self.ours <= MOST_GROWTH else 'missed'} (<= {MOST_GROWTH})"
        if self.unit == TIME:
            most = MOST_OF.get(self.name, MOST_TIME)
            return f"{'met' if self.ratio <= most else 'missed'} (<= {most})"
        return f"{'met' if self.ratio >= LEAST_RATE else 'missed'} (>= {LEAST_RATE})"


def best(turns: list[tuple[str, int]], unit: str) -> dict[str, int]:
    """The best turn of each implementation."""
    of: dict[str, list[int]] = {}
    for implementation, value in turns:
        of.setdefault(implementation, []).append(value)
    return {key: (min if unit in (TIME, BYTES) else max)(found) for key, found in of.items()}


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


def growth(table: list[Row]) -> list[Row]:
    """How much more an operation costs among the most connections than on a single one."""
    found = sorted((row for row in table if row.name == "links"), key=lambda row: row.size)
    if not found:
        return []
    one, most = found[0], found[-1]
    ours, raw = round(most.ours / one.ours, 3), round(most.raw / one.raw, 3)
    return [replace(most, name="growth", unit=GROWTH, ours=ours, raw=raw, ratio=round(ours / raw, 4))]


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
    if counting:
        return [replace(row, unit=INSTRUCTIONS) for row in table]
    return table + growth(table)


def report(table: list[Row]) -> None:
    """The table, for people."""
    say(f"{'lane':7}{'name':7}{'size':>8}  {'ours':>14}{'raw':>14}  {'unit':6}{'ratio':>7}  bar")
    for row in table:
        places = 3 if row.unit == GROWTH else 0
        numbers = f"{row.ours:14,.{places}f}{row.raw:14,.{places}f}"
        line = f"{row.lane:7}{row.name:7}{row.size:8}  {numbers}  {row.unit:6}{row.ratio:7.3f}"
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
