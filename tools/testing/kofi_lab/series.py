# SPDX-License-Identifier: GPL-2.0
"""Knows the series of Linux that kOFI is tested on, which Kbuild lists, and the one that KERNEL= selects."""

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
# The series under trial; if set, it replaces the known ones.
TRIAL: list[str] = []


def numbers(text: str) -> list[int]:
    """Returns the numbers of a version, which order versions."""
    return [int(part) for part in re.findall(r"\d+", text)]


def of(release: str) -> str:
    """Returns the series of a release, such as 7.3 for 7.3.4-1-amd64."""
    return ".".join(map(str, numbers(release)[:2]))


def newer(names: list[str]) -> list[str]:
    """Returns the series in a list that are newer than all known ones, newest first."""
    return sorted((name for name in names if numbers(name) > numbers(KNOWN[-1])), key=numbers, reverse=True)


def is_too_old(release: str) -> bool:
    """Returns whether the series of a release is older than all known ones."""
    return numbers(of(release)) < numbers(KNOWN[0])


def known_text() -> str:
    """Returns the known series for a message, such as `7.2 and 7.3`."""
    return " and ".join(KNOWN)


def wanted() -> list[str]:
    """Returns the acceptable series, best first: the one that KERNEL= names, or all known ones, newest first."""
    if TRIAL:
        return TRIAL
    name = os.environ.get("KERNEL", "")
    if name and name not in KNOWN:
        raise LabError(f"KERNEL={name} is no series of Linux that kOFI is tested on; choose {known_text()}")
    return [name] if name else [*reversed(KNOWN)]


def fragments(release: str) -> tuple[str, ...]:
    """Returns the configuration fragments of a release's series, beyond those of its lane."""
    name = of(release)
    return (name,) if (CONFIGS / f"{name}.config").exists() else ()
