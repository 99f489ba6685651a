# SPDX-License-Identifier: GPL-2.0
"""Lines of a kernel's log that fail a run whatever the tests say."""

import re
from dataclasses import dataclass

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
            r"[Pp]anic",
            r"DMA-API",
            r"new suspected memory leaks",
            r"unreferenced object 0x",
            r"Unknown rela relocation",
            r"Unknown symbol",
        )
    )
)


@dataclass(frozen=True)
class Allowance:
    """A line that one scenario provokes on purpose, and why that is right."""

    scenario: re.Pattern[str]
    line: re.Pattern[str]
    reason: str


def find(line: str, scenario: str, allowed: list[Allowance]) -> bool:
    """Whether this line of the log is one that must not be there."""
    if not SPLAT.search(line):
        return False
    return not any(
        rule.scenario.fullmatch(scenario) and rule.line.search(line) for rule in allowed
    )
