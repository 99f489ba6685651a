# SPDX-License-Identifier: GPL-2.0
"""Runs the demo: every pair of sample modules exchanges messages over soft-RoCE in a virtual machine."""

import re

from . import kernel, plan, tree
from .lane import lane
from .output import print_line
from .results import Results
from .session import Session

ROW = re.compile(
    r"pairing (?P<server>\w+) (?P<client>\w+) count=(?P<count>\d+) size=(?P<size>\d+)"
    r" usec=(?P<usec>\d+) errors=(?P<errors>\d+)"
)
HEAD = ("server", "client", "messages", "bytes", "verified", "round trips/s")


def table(lines: list[str]) -> list[tuple[str, ...]]:
    """Returns a row for each pair in the output that completed."""
    rows = []
    for row in filter(None, map(ROW.search, lines)):
        count, size, usec = int(row["count"]), int(row["size"]), max(int(row["usec"]), 1)
        verified = "yes" if row["errors"] == "0" else f"{row['errors']} errors"
        rate = f"{count * 1_000_000 // usec:,}"
        cells = (f"{count:,}", f"{2 * count * size:,}", verified, rate)
        rows.append((row["server"], row["client"], *cells))
    return rows


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Prints the rows below a head, names left-aligned and numbers right-aligned."""
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    for row in [HEAD, tuple("-" * width for width in widths), *rows]:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        print_line("  " + "  ".join(cells))


def run() -> int:
    """Boots the plain lane, runs all pairs and prints the table. Returns 0 if all messages were verified."""
    target = kernel.ensure(lane("plain"))
    modules = tree.build(target)
    print_line(f"booting Linux {target.source.name.removeprefix('linux-')} under QEMU")
    results = Results()
    session = Session(target, modules, results)
    session.run(plan.select("demo", target.lane))
    lines = [line for output in session.output.values() for line in output]
    print_line("\nTwo kernel modules talk over kOFI, soft-RoCE device rxe0, in one virtual machine:\n")
    print_table(table(lines))
    print_line(f"\nconsole: {session.logs[-1]}")
    return 0 if results.good else 1
