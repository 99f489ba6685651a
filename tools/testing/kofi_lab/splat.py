# SPDX-License-Identifier: GPL-2.0
"""Finds warnings and errors in a kernel's log. One that plan.toml does not allow fails its scenario."""

import re
from dataclasses import dataclass
from itertools import takewhile

SPLAT = re.compile(
    "|".join(
        (
            r"WARNING: ",
            r"\bBUG: ",
            r"kernel BUG at",
            r"\bKASAN\b.*(in|report)",
            r"INFO: possible",
            r"INFO: task .* blocked for more than",
            r"possible (circular|recursive) locking",
            r"inconsistent lock state",
            r"suspicious RCU",
            r"held lock freed|lock held when returning",
            r"scheduling while atomic",
            r"sleeping function called",
            r"detected( expedited)? stalls|self-detected stall",
            r"soft lockup|hard LOCKUP|workqueue lockup",
            r"refcount_t: ",
            r"ODEBUG: ",
            r"list_(add|del) corruption",
            r"Oops",
            r"general protection",
            r"unable to handle",
            r"Bad page state",
            r"Kernel panic|\bpanicked at\b",
            r"DMA-API",
            r"new suspected memory leaks",
            r"unreferenced object 0x",
            r"Unknown rela relocation",
            r"Unknown symbol",
            # A second suite with the name of another one does not run.
            r"already exists in 'kunit'",
        )
    )
)


@dataclass(frozen=True)
class Allowance:
    """A log line that plan.toml allows in some scenarios, and the reason."""

    scenario: re.Pattern[str]
    line: re.Pattern[str]
    reason: str
    trace: re.Pattern[str] | None = None  # a line between this splat and the next must match

    def covers(self, scenario: str, log: list[str], at: int) -> bool:
        """Returns whether the allowance covers line number `at` of a scenario's log."""
        if not self.scenario.fullmatch(scenario) or not self.line.search(log[at]):
            return False
        report = takewhile(lambda line: not SPLAT.search(line), log[at + 1 :])
        return self.trace is None or any(map(self.trace.search, report))


def find(scenario: str, log: list[str], allowed: list[Allowance]) -> list[str]:
    """Returns the splats of a scenario's log that no allowance covers."""
    return [
        line.strip()
        for at, line in enumerate(log)
        if SPLAT.search(line) and not any(rule.covers(scenario, log, at) for rule in allowed)
    ]
