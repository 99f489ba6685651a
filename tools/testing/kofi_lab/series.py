# SPDX-License-Identifier: GPL-2.0
"""Series of Linux: those that kOFI is tested on, which Kbuild lists, and the one that KERNEL= chooses."""

import os
import re

from .output import LabError
from .paths import CONFIGS, TREE


def listed(kbuild: str) -> tuple[str, ...]:
    """Returns the known series in the text of Kbuild, oldest first."""
    match = re.search(r"^kofi-series := (.+)$", kbuild, re.MULTILINE)
    if not match:
        raise LabError("Kbuild does not list the series of Linux in kofi-series")
    return tuple(match[1].split())


KNOWN = listed((TREE / "Kbuild").read_text())
# Series on trial, which are taken instead of the known ones.
TRIAL: list[str] = []


def numbers(text: str) -> list[int]:
    """Returns the numbers of a version, for comparison."""
    return [int(part) for part in re.findall(r"\d+", text)]


def of(release: str) -> str:
    """Returns the series of a release: 7.3 of 7.3.4-1-amd64."""
    return ".".join(map(str, numbers(release)[:2]))


def newer(names: list[str]) -> list[str]:
    """Returns those that are newer than every known series, newest first."""
    return sorted((name for name in names if numbers(name) > numbers(KNOWN[-1])), key=numbers, reverse=True)


def is_too_old(release: str) -> bool:
    """Returns whether a release is of a series before the oldest known one."""
    return numbers(of(release)) < numbers(KNOWN[0])


def words() -> str:
    """Returns the known series as a sentence names them."""
    return " and ".join(KNOWN)


def wanted() -> list[str]:
    """Returns the series to take, best first: the one that KERNEL= names, or the known ones from the newest on."""
    if TRIAL:
        return TRIAL
    name = os.environ.get("KERNEL", "")
    if name and name not in KNOWN:
        raise LabError(f"KERNEL={name} names no series of Linux that kOFI is tested on, which are {words()}")
    return [name] if name else [*reversed(KNOWN)]


def fragments(release: str) -> tuple[str, ...]:
    """Returns the configuration fragments that a release needs beyond those of its lane."""
    name = of(release)
    return (name,) if (CONFIGS / f"{name}.config").exists() else ()
