# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: fragments on top of allnoconfig, and whether they took effect."""

import hashlib
import re
from pathlib import Path

from .paths import CONFIGS

SET = re.compile(r"(CONFIG_\w+)=(.+)")
UNSET = re.compile(r"# (CONFIG_\w+) is not set")


def parse(text: str) -> dict[str, str]:
    """Symbols and values of a .config or a fragment; an unset symbol is `n`."""
    symbols: dict[str, str] = {}
    for line in text.splitlines():
        if match := SET.fullmatch(line.strip()):
            symbols[match[1]] = match[2]
        elif match := UNSET.fullmatch(line.strip()):
            symbols[match[1]] = "n"
    return symbols


def asked(fragments: tuple[str, ...]) -> dict[str, str]:
    """What a lane's fragments ask for; a later fragment wins."""
    symbols: dict[str, str] = {}
    for name in fragments:
        symbols |= parse((CONFIGS / f"{name}.config").read_text())
    return symbols


def render(symbols: dict[str, str]) -> str:
    """The text that the kernel's KCONFIG_ALLCONFIG reads."""
    return "".join(
        f"# {name} is not set\n" if value == "n" else f"{name}={value}\n"
        for name, value in sorted(symbols.items())
    )


def digest(symbols: dict[str, str], *more: str) -> str:
    """A short key of a configuration and of whatever else decides the outcome of a build."""
    text = "\n".join([render(symbols), *more])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def refused(symbols: dict[str, str], final: Path) -> list[str]:
    """Symbols that Kconfig dropped or changed: it does so silently when a dependency lacks."""
    have = parse(final.read_text())
    return [
        f"{name}: asked for {value}, got {have.get(name, 'n')}"
        for name, value in symbols.items()
        if have.get(name, "n") != value
    ]
