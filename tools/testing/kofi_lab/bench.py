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
from .output import LabError, print_line
from .results import Results
from .session import Session

RESULT = re.compile(
    r"bench: impl=(?P<impl>kofi|raw|rdm|hand|loop|ring|user) name=(?P<name>\w+) size=(?P<size>\d+)"
    r" value=(?P<value>\d+) unit=(?P<unit>\S+)"
)
# Who is measured beside whom, and what that one is called. Some are beside nobody.
PAIRS = (
    ("kofi", "raw", ""),
    ("rdm", "kofi", "msg"),
    ("rdm", "hand", "hand"),
    ("rdm", "user", "user"),
    ("loop", "ring", "ring"),
    ("loop", "kofi", "device"),
    ("loop", "user", "shm"),
)
ALONE = "rdm"
LANES = ("native", "plain")
MOST_TIME = 1.02  # in raw verbs' own
LEAST_RATE = 0.98
# Of libfabric's own time for the same vector, and of a bare wait queue's.
MOST_OF = {"insert": 0.333, "batch": 0.333, "wait": 1.2}
# Of datagrams, in the time or at the speed of connected endpoints: at which size.
MOST_OF_MSG = {("rdm_lat", 64): 1.15}
LEAST_OF_MSG = {("rdm_rate", 64): 0.85, ("rdm_bw", 1 << 20): 0.97}
# Of endpoints within a host, in the time or at the speed of a ring's copies, or of a device's endpoints.
MOST_OF_HOST = {("loop_lat", 8, "ring"): 1.3}
LEAST_OF_HOST = {("loop_bw", 1 << 20, "ring"): 0.9, ("loop_rate", 64, "device"): 3.0}
# Without a bar: what they show is how they grow, or they have one where instructions are counted.
UNBARRED = ("lookup", "again", "remove", "threads", "poll", "handle")
# What stands before a short message on the wire, which rxe has the CPU checksum at both ends.
HEADER = 64
MOST_BYTES = 40  # of an entry of a vector
MOST_KNOWN_BYTES = 64  # of one that an endpoint knows
MOST_GROWTH = 1.05  # of the cost of an operation, from one connection to the most
BARRED = "native"  # the lane whose ratios have bars; an emulator's say less
COUNTED = "plain"  # the lane whose guest can count instructions
COUNT_ROUNDS = 3
INSTRUCTIONS = "instr"
TIME = "ns"
BYTES = "B"
GROWTH = "x"
# How many instructions a call may have beyond the one of the device; an entry's, where several are read.
MOST_BEYOND = {"send": 60, "recv": 60, "write": 60, "inject": 80, "read": 30}


def bar(is_met: bool, text: str) -> str:
    """A bar, and whether it is met."""
    return f"{'met' if is_met else 'missed'} ({text})"


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
    beside: str = ""  # whose the other figure is, if not raw verbs'; empty for nobody's, too

    @property
    def datagram_verdict(self) -> str:
        """The same of datagrams."""
        if self.unit == GROWTH:
            return bar(self.ours <= MOST_GROWTH, f"<= {MOST_GROWTH}")
        if self.name == "rdm_known":
            return bar(self.ours <= MOST_KNOWN_BYTES, f"<= {MOST_KNOWN_BYTES}")
        if self.beside != "msg":
            return ""
        if most := MOST_OF_MSG.get((self.name, self.size)):
            return bar(self.ratio <= most, f"<= {most}")
        if least := LEAST_OF_MSG.get((self.name, self.size)):
            return bar(self.ratio >= least, f">= {least}")
        return ""

    @property
    def host_verdict(self) -> str:
        """The same within a host."""
        key = (self.name, self.size, self.beside)
        if most := MOST_OF_HOST.get(key):
            return bar(self.ratio <= most, f"<= {most}")
        if least := LEAST_OF_HOST.get(key):
            return bar(self.ratio >= least, f">= {least}")
        return ""

    @property
    def verdict(self) -> str:
        """Whether the bar is met; empty where there is none."""
        if self.unit == INSTRUCTIONS:
            most, beyond = MOST_BEYOND.get(self.name), self.ours - self.raw
            word = "" if most is None else bar(beyond <= most, f"<= {most}")
            return f"{beyond:+,.0f} {word}".rstrip()
        if self.lane != BARRED:
            return ""
        if self.name.startswith("rdm_"):
            return self.datagram_verdict
        if self.name.startswith("loop_"):
            return self.host_verdict
        if self.unit == BYTES:
            return bar(self.ours <= MOST_BYTES, f"<= {MOST_BYTES}")
        if self.name in UNBARRED:
            return ""
        if self.unit == GROWTH:
            return bar(self.ours <= MOST_GROWTH, f"<= {MOST_GROWTH}")
        if self.unit == TIME:
            most = MOST_OF.get(self.name, MOST_TIME)
            return bar(self.ratio <= most, f"<= {most}")
        return bar(self.ratio >= LEAST_RATE, f">= {LEAST_RATE}")


def best(turns: list[tuple[str, int]], unit: str) -> dict[str, int]:
    """The best turn of each implementation."""
    of: dict[str, list[int]] = {}
    for implementation, value in turns:
        of.setdefault(implementation, []).append(value)
    return {key: (min if unit in (TIME, BYTES) else max)(found) for key, found in of.items()}


def beside(
    lane_name: str,
    key: tuple[str, int, str],
    parts: list[dict[str, int]],
    pair: tuple[str, str, str],
) -> Row:
    """One implementation beside another."""
    ours, other, called = pair
    medians = [median(part[which] for part in parts) for which in (ours, other)]
    ratio = median(part[ours] / part[other] for part in parts)
    return Row(lane_name, *key, *medians, round(ratio, 4), called)


def alone(lane_name: str, key: tuple[str, int, str], parts: list[dict[str, int]]) -> Row:
    """What there is nothing to compare with."""
    return Row(lane_name, *key, median(part[ALONE] for part in parts), 0, 0)


def rows(name: str, lines: Iterable[str], rounds: int) -> list[Row]:
    """What a lane's console says, in the order in which it was measured. All rounds are alike."""
    values: dict[tuple[str, int, str], list[tuple[str, int]]] = {}
    for line in lines:
        if found := RESULT.search(line):
            key = (found["name"], int(found["size"]), found["unit"])
            values.setdefault(key, []).append((found["impl"], int(found["value"])))
    table = []
    for key, turns in values.items():
        count = len(turns) // rounds
        parts = [best(turns[at * count : (at + 1) * count], key[2]) for at in range(rounds)]
        seen = set(parts[0])
        if any(set(part) != seen for part in parts) or len(turns) % rounds:
            raise LabError(f"{name}: {key[0]} of {key[1]} bytes was not measured often enough")
        compared = [beside(name, key, parts, pair) for pair in PAIRS if {*pair[:2]} <= seen]
        if not compared:
            if seen != {ALONE}:
                raise LabError(f"{name}: {key[0]} of {key[1]} bytes has nothing to be beside")
            compared = [alone(name, key, parts)]
        table += compared
    return table


def growth(table: list[Row]) -> list[Row]:
    """How much more an operation costs among the most connections, or known peers, than on a single one."""
    grown = []
    for name in ("links", "rdm_peers"):
        found = sorted((row for row in table if row.name == name), key=lambda row: row.size)
        if not found:
            continue
        one, most = found[0], found[-1]
        ours = round(most.ours / one.ours, 3)
        raw = round(most.raw / one.raw, 3) if one.raw else 0
        ratio = round(ours / raw, 4) if raw else 0
        called = name.replace("links", "growth").replace("peers", "growth")
        grown.append(replace(most, name=called, unit=GROWTH, ours=ours, raw=raw, ratio=ratio))
    return grown


def packets(table: list[Row]) -> list[Row]:
    """Datagrams beside connected endpoints that carry as many bytes: a packet's, its header included."""
    there = {(row.name, row.size): row for row in table if row.beside == "msg"}
    found = []
    for (name, size), row in there.items():
        if other := there.get((name, size + HEADER)):
            ratio = round(row.ours / other.raw, 4)
            found.append(replace(row, raw=other.raw, ratio=ratio, beside="packet"))
    return found


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
    return table + growth(table) + packets(table)


def report(table: list[Row]) -> None:
    """The table, for people."""
    head = f"{'lane':7}{'name':11}{'size':>8}  {'ours':>14}{'raw':>14}"
    print_line(f"{head}  {'unit':6}{'ratio':>7}  {'beside':7}bar")
    for row in table:
        places = 3 if row.unit == GROWTH else 0
        raw = f"{row.raw:14,.{places}f}" if row.raw else " " * 14
        ratio = f"{row.ratio:7.3f}" if row.raw else " " * 7
        line = f"{row.lane:7}{row.name:11}{row.size:8}  {row.ours:14,.{places}f}{raw}"
        print_line(f"{line}  {row.unit:6}{ratio}  {row.beside:7}{row.verdict}".rstrip())


def write(table: list[Row]) -> Path:
    """bench.json, in the folder of this checkout's builds."""
    place = tree.build_folder(kernel.find(lane(BARRED))).parent / "bench.json"
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
    print_line(f"written to {write(table)}")
