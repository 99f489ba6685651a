# SPDX-License-Identifier: GPL-2.0
"""Runs the bench scenarios, compares kOFI with raw verbs and other baselines, and writes bench.json."""

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
    r"bench: impl=(?P<impl>kofi|raw|rdm|hand|loop|ring|user|nvme|host) name=(?P<name>\w+) size=(?P<size>\d+)"
    r" value=(?P<value>\d+) unit=(?P<unit>\S+)"
)
# Each pair has an implementation, its baseline, and the baseline's name in the table.
PAIRS = (
    ("kofi", "raw", ""),
    ("rdm", "kofi", "msg"),
    ("rdm", "hand", "hand"),
    ("rdm", "user", "user"),
    ("loop", "ring", "ring"),
    ("loop", "kofi", "device"),
    ("loop", "user", "shm"),
    ("nvme", "host", "host"),
)
WITHOUT_BASELINE = "rdm"  # the implementation that may be measured without a baseline
LANES = ("native", "plain")
# Limits. MAX is for ratios of times, MIN for ratios of rates.
MAX_TIME_RATIO = 1.02
MIN_RATE_RATIO = 0.98
# By name; the baselines are libfabric's address vector of user space, a plain wait queue and a pool of ib_mr.
MAX_RATIO = {"insert": 0.333, "batch": 0.333, "wait": 1.2, "reg": 1.05}
# By name and size; the baseline is a connected endpoint.
MAX_RATIO_TO_MSG = {("rdm_lat", 64): 1.15}
MIN_RATIO_TO_MSG = {("rdm_rate", 64): 0.85, ("rdm_bw", 1 << 20): 0.97}
# By name, size and baseline: the copies of a ring, or the endpoints of a device.
MAX_LOOP_RATIO = {("loop_lat", 8, "ring"): 1.3}
MIN_LOOP_RATIO = {("loop_bw", 1 << 20, "ring"): 0.9, ("loop_rate", 64, "device"): 3.0}
# The baseline is the kernel's own NVMe host.
MAX_NVME_TIME_RATIO = 1.03
MIN_NVME_RATE_RATIO = 0.97
# Measurements without a limit: they show growth, or have a limit on instructions.
WITHOUT_LIMIT = ("lookup", "again", "remove", "threads", "poll", "handle", "safe_lat", "safe_rate")
# Bytes of a packet before the data of a short message; with rxe, the CPU computes their checksum at both ends.
HEADER = 64
MAX_BYTES = 40  # of an entry of an address vector
MAX_KNOWN_BYTES = 64  # of an entry that an endpoint uses
# Growth of the cost of an operation, from one connection, peer or entry to the largest number, by the name of the
# measurement: its name and its limit.
GROWTHS = {
    "links": ("growth", 1.05),
    "rdm_peers": ("rdm_growth", 1.05),
    "rdm_active": ("rdm_active_x", 1.05),
    "rdm_p99": ("rdm_p99_x", 2),
    "rdm_posted": ("rdm_posted_x", 1.5),
    "rdm_unexp": ("rdm_unexp_x", 1.5),
    # The time of a registration, with one thread and with several: the limit is on the ratio to that of raw verbs.
    "regs": ("regs_x", 1 / 0.95),
}
MAX_GROWTH = dict(GROWTHS.values())  # by the name of the growth
SCALING = "regs_x"  # the growth that has a limit relative to the baseline, on each lane
LIMITED_LANE = "native"  # the lane whose ratios have limits; ratios of emulated CPUs are less meaningful
# Lanes whose guests count instructions: of calls, and of the longest section with interrupts disabled.
COUNTING_LANES = ("plain", "traced")
COUNTING_ROUNDS = 3
INSTRUCTIONS = "instr"
TIME = "ns"
# Time with interrupts disabled: a guest that counts instructions executes a thousand of them in a microsecond.
MASKED = "us"
MAX_MASKED = 50
BYTES = "B"
GROWTH = "x"
# Instructions of a call beyond those of raw verbs; for `read`, of each entry.
MAX_MORE_INSTRUCTIONS = {"send": 60, "recv": 60, "write": 60, "inject": 80, "read": 30}


def limit(is_met: bool, text: str) -> str:
    """Returns the text for a limit that is met or missed."""
    return f"{'met' if is_met else 'missed'} ({text})"


@dataclass(frozen=True)
class Row:
    """A measurement: the medians over all rounds of kOFI's value, of the baseline's value and of their ratio.

    The value of a round is the best of its turns, because the load of the machine only makes a turn slower. The ratio
    is computed within a round, because the machine's speed changes more between rounds than the values differ.
    """

    lane: str
    name: str
    size: int
    unit: str
    ours: float
    raw: float
    ratio: float
    beside: str = ""  # the baseline; empty for raw verbs, or for none if raw is 0

    @property
    def rdm_verdict(self) -> str:
        """The verdict on a measurement of datagram endpoints."""
        if self.unit == GROWTH:
            return self.growth_verdict
        if self.name == "rdm_known":
            return limit(self.ours <= MAX_KNOWN_BYTES, f"<= {MAX_KNOWN_BYTES}")
        if self.beside != "msg":
            return ""
        if most := MAX_RATIO_TO_MSG.get((self.name, self.size)):
            return limit(self.ratio <= most, f"<= {most}")
        if least := MIN_RATIO_TO_MSG.get((self.name, self.size)):
            return limit(self.ratio >= least, f">= {least}")
        return ""

    @property
    def growth_verdict(self) -> str:
        """The verdict on the growth of a cost."""
        most = MAX_GROWTH[self.name]
        return limit(self.ours <= most, f"<= {most}")

    @property
    def loop_verdict(self) -> str:
        """The verdict on a measurement of endpoints within a host."""
        key = (self.name, self.size, self.beside)
        if most := MAX_LOOP_RATIO.get(key):
            return limit(self.ratio <= most, f"<= {most}")
        if least := MIN_LOOP_RATIO.get(key):
            return limit(self.ratio >= least, f">= {least}")
        return ""

    @property
    def nvme_verdict(self) -> str:
        """The verdict on a measurement of the NVMe host of samples/nvme."""
        if self.unit == TIME:
            return limit(self.ratio <= MAX_NVME_TIME_RATIO, f"<= {MAX_NVME_TIME_RATIO}")
        return limit(self.ratio >= MIN_NVME_RATE_RATIO, f">= {MIN_NVME_RATE_RATIO}")

    @property
    def verdict(self) -> str:
        """The text whether the limit is met, or an empty string if the measurement has no limit."""
        if self.unit == INSTRUCTIONS:
            most, more = MAX_MORE_INSTRUCTIONS.get(self.name), self.ours - self.raw
            text = "" if most is None else limit(more <= most, f"<= {most}")
            return f"{more:+,.0f} {text}".rstrip()
        if self.unit == MASKED:
            return limit(self.ours <= MAX_MASKED, f"<= {MAX_MASKED}")
        if self.name == SCALING:
            return limit(self.ratio <= MAX_GROWTH[SCALING], f"<= {MAX_GROWTH[SCALING]:.3f}")
        if self.lane != LIMITED_LANE:
            return ""
        if self.name.startswith("rdm_"):
            return self.rdm_verdict
        if self.name.startswith("loop_"):
            return self.loop_verdict
        if self.name.startswith("nvme_"):
            return self.nvme_verdict
        if self.unit == BYTES:
            return limit(self.ours <= MAX_BYTES, f"<= {MAX_BYTES}")
        if self.name in WITHOUT_LIMIT:
            return ""
        if self.unit == GROWTH:
            return self.growth_verdict
        if self.unit == TIME:
            most = MAX_RATIO.get(self.name, MAX_TIME_RATIO)
            return limit(self.ratio <= most, f"<= {most}")
        return limit(self.ratio >= MIN_RATE_RATIO, f">= {MIN_RATE_RATIO}")


def best(turns: list[tuple[str, int]], unit: str) -> dict[str, int]:
    """Returns the best turn of each implementation: the smallest time or size, or the largest rate."""
    of: dict[str, list[int]] = {}
    for implementation, value in turns:
        of.setdefault(implementation, []).append(value)
    return {key: (min if unit in (TIME, BYTES) else max)(found) for key, found in of.items()}


def compare(
    lane_name: str,
    key: tuple[str, int, str],
    parts: list[dict[str, int]],
    pair: tuple[str, str, str],
) -> Row:
    """Returns the row of an implementation and its baseline; `parts` has the best turns of each round."""
    ours, other, called = pair
    medians = [median(part[which] for part in parts) for which in (ours, other)]
    ratio = median(part[ours] / part[other] for part in parts)
    return Row(lane_name, *key, *medians, round(ratio, 4), called)


def row_without_baseline(lane_name: str, key: tuple[str, int, str], parts: list[dict[str, int]]) -> Row:
    """Returns the row of a measurement that has no baseline."""
    return Row(lane_name, *key, median(part[WITHOUT_BASELINE] for part in parts), 0, 0)


def rows(name: str, lines: Iterable[str], rounds: int) -> list[Row]:
    """Returns the rows of a console, in the order of measurement.

    Raises LabError if the rounds have different measurements, or if one has no baseline.
    """
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
            raise LabError(f"{name}: {key[0]} of {key[1]} bytes was not measured in each of the {rounds} rounds")
        compared = [compare(name, key, parts, pair) for pair in PAIRS if {*pair[:2]} <= seen]
        if not compared:
            if seen != {WITHOUT_BASELINE}:
                raise LabError(f"{name}: {key[0]} of {key[1]} bytes was measured without a baseline")
            compared = [row_without_baseline(name, key, parts)]
        table += compared
    return table


def growth(table: list[Row]) -> list[Row]:
    """Returns the rows of growth: the cost of an operation with the most connections, peers or entries, relative to one."""
    grown = []
    for name, (called, _) in GROWTHS.items():
        found = sorted((row for row in table if row.name == name), key=lambda row: row.size)
        if not found:
            continue
        one, most = found[0], found[-1]
        ours = round(most.ours / one.ours, 3)
        raw = round(most.raw / one.raw, 3) if one.raw else 0
        ratio = round(ours / raw, 4) if raw else 0
        grown.append(replace(most, name=called, unit=GROWTH, ours=ours, raw=raw, ratio=ratio))
    return grown


def packets(table: list[Row]) -> list[Row]:
    """Returns the rows of datagrams relative to messages of connected endpoints with the size of the packet."""
    by_size = {(row.name, row.size): row for row in table if row.beside == "msg"}
    found = []
    for (name, size), row in by_size.items():
        if other := by_size.get((name, size + HEADER)):
            ratio = round(row.ours / other.raw, 4)
            found.append(replace(row, raw=other.raw, ratio=ratio, beside="packet"))
    return found


def measure(name: str, rounds: int, counting: bool = False) -> list[Row]:
    """Boots a lane and runs its bench scenarios or, with `counting`, those that count instructions."""
    target = kernel.ensure(lane(name))
    results = Results()
    modules, lines = tree.build(target), []
    chosen = plan.select("count" if counting else "bench", target.lane)
    # Most have one CPU: another virtual CPU would be a thread that competes for the CPUs of the machine.
    for cpus in sorted({item.cpus for item in chosen}):
        session = Session(target, modules, results, cpus=cpus, counting=counting)
        session.run([replace(item, arguments=str(rounds)) for item in chosen if item.cpus == cpus])
        if not results.good:
            raise LabError(f"a bench scenario failed on {name}: see {session.logs[-1]}")
        lines += [line for log in session.logs for line in log.read_text(errors="replace").splitlines()]
    table = rows(name, lines, rounds)
    if counting:
        return [replace(row, unit=INSTRUCTIONS) if row.unit == TIME else row for row in table]
    return table + growth(table) + packets(table)


def report(table: list[Row]) -> None:
    """Prints the table."""
    head = f"{'lane':7}{'name':14}{'size':>8}  {'ours':>14}{'raw':>14}"
    print_line(f"{head}  {'unit':6}{'ratio':>7}  {'beside':7}limit")
    for row in table:
        places = 3 if row.unit == GROWTH else 0
        raw = f"{row.raw:14,.{places}f}" if row.raw else " " * 14
        ratio = f"{row.ratio:7.3f}" if row.raw else " " * 7
        line = f"{row.lane:7}{row.name:14}{row.size:8}  {row.ours:14,.{places}f}{raw}"
        print_line(f"{line}  {row.unit:6}{ratio}  {row.beside:7}{row.verdict}".rstrip())


def write(table: list[Row]) -> Path:
    """Writes bench.json into the folder of this checkout's builds. Returns its path."""
    path = tree.build_folder(kernel.find(lane(LIMITED_LANE))).parent / "bench.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in table], indent=2) + "\n")
    return path


def run(lanes: Iterable[str], rounds: int) -> None:
    """Runs the bench on lanes, prints the table and writes bench.json. A missed limit is no error."""
    names = list(lanes)
    table = [row for name in names if plan.select("bench", lane(name)) for row in measure(name, rounds)]
    for name in COUNTING_LANES:
        if name in names:
            table += measure(name, COUNTING_ROUNDS, counting=True)
    report(table)
    print_line(f"written to {write(table)}")
