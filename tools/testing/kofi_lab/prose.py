# SPDX-License-Identifier: GPL-2.0
"""Counts comments and sentences that readers have to solve, and holds each folder to its bar.

A comment should open with its subject. Three counts per folder: openings by a relative clause ("What is
posted ..."), openings that refer to an earlier comment ("The same for ..."), and words that stand for a
person where an object is meant. rust/kernel has 0.2 %, 1.8 %, and 0.5 words in 1,000 lines: the aim. The
bars in prose.toml are what the tree has today; `lab.py prose` lowers them and never raises one.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import PurePath

from . import tree
from .output import print_line
from .paths import TESTING, TREE

BARS = TESTING / "prose.toml"
RELATIVE = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Where|Wherever|Whether|How (many|much|often|long))\b(?!.*\?)"
)
ANAPHOR = re.compile(
    r"(The same|That of|Those|That|It|Its|They|Their|One|Of|And|But|So|Nothing|None|All|Any other|Both|Neither)\b"
)
RIDDLE = re.compile(
    r"\b(whoever|nobody|somebody|anybody|who (posts|sends|reads|asks|waits|comes|leaves|receives|has)|is told"
    r"|are told|told of|tells of|has (it|them) \w+ed|by what|to what|of what|with what|in hand|on its way"
    r"|looked after|is to be)\b",
    re.IGNORECASE,
)
RUST_COMMENT = re.compile(r"\s*//[/!] ?(.*)")
C_COMMENT = re.compile(r"/\*\*?\s*\n?\s*\*?\s*(.*)")
COMMENT_LINE = re.compile(r"\s*(//|/?\*)")
SUFFIXES = (".rs", ".rst", ".c", ".h")
HEAD = """# SPDX-License-Identifier: GPL-2.0
#
# For each folder: comments that open with a relative clause, comments that open with a reference to an earlier
# one, and words for persons. `lab.py prose` lowers these counts; none is raised.

"""


@dataclass
class Count:
    """The counts of one folder."""

    relative: int = 0
    anaphoric: int = 0
    riddles: int = 0
    openings: int = 0
    lines: int = 0

    @property
    def judged(self) -> tuple[int, int, int]:
        """The counts that have bars."""
        return self.relative, self.anaphoric, self.riddles


def openings(suffix: str, text: str) -> Iterator[str]:
    """Yields the first line of each comment, or of each paragraph of a page."""
    if suffix == ".rs":
        inside = False
        for line in text.splitlines():
            match = RUST_COMMENT.match(line)
            words = match[1].strip() if match else ""
            if words and not inside and not words.startswith("#"):
                yield words
            inside = bool(words)
    elif suffix == ".rst":
        starts = True
        for line in map(str.strip, text.splitlines()):
            if line and starts and re.match(r"[A-Z][a-z]+ ", line):
                yield line
            starts = not line
    else:
        for match in C_COMMENT.finditer(text):
            words = match[1].strip()
            if words and not words.startswith(("SPDX", "Copyright")):
                yield words


def measure(suffix: str, text: str, count: Count) -> None:
    """Adds the counts of one file."""
    for words in openings(suffix, text):
        count.openings += 1
        if RELATIVE.match(words):
            count.relative += 1
        elif ANAPHOR.match(words):
            count.anaphoric += 1
    for line in text.splitlines():
        if suffix == ".rst" or COMMENT_LINE.match(line):
            count.lines += 1
            count.riddles += bool(RIDDLE.search(line))


def folder(name: str) -> str:
    """Returns the folder whose bar a file counts against: at most three levels deep."""
    return "/".join(PurePath(name).parent.parts[:3]) or "."


def counts() -> dict[str, Count]:
    """Returns the counts of every folder of the checkout."""
    found: dict[str, Count] = {}
    for name in tree.files():
        if name.endswith(SUFFIXES):
            text = (TREE / name).read_text(encoding="utf-8", errors="replace")
            measure(PurePath(name).suffix, text, found.setdefault(folder(name), Count()))
    return found


def bars() -> dict[str, tuple[int, int, int]]:
    """Returns the bar of every folder; a folder without one has zeros."""
    return {name: tuple(bar) for name, bar in tomllib.loads(BARS.read_text()).items()}


def risen() -> list[str]:
    """Returns a line for each count that is above its bar."""
    bar_of = bars()
    lines = []
    for name, count in counts().items():
        words = ("openings by a relative clause", "openings that refer back", "words for persons")
        for what, now, bar in zip(words, count.judged, bar_of.get(name, (0, 0, 0))):
            if now > bar:
                lines.append(f"{name}: {now} {what}, {bar} before; see Documentation/testing.rst")
    return lines


def lower() -> None:
    """Prints the rates of every folder, and writes the counts that are below their bars."""
    bar_of = bars()
    print_line(f"{'folder':32} {'openings':>8} {'relative':>9} {'refer back':>11} {'persons/1000 lines':>19}")
    rows = []
    total = Count()
    for name, count in sorted(counts().items()):
        now = tuple(map(min, count.judged, bar_of.get(name, (0, 0, 0))))
        if any(now):
            rows.append(f'"{name}" = {list(now)}\n')
        total = Count(*map(sum, zip(astuple(total), astuple(count))))
        print_line(row(name, count))
    print_line(row("all", total))
    BARS.write_text(HEAD + "".join(rows))


def row(name: str, count: Count) -> str:
    """Returns the rates of one folder for people."""
    openings_ = max(count.openings, 1)
    relative, anaphoric = 100 * count.relative / openings_, 100 * count.anaphoric / openings_
    riddles = 1000 * count.riddles / max(count.lines, 1)
    return f"{name:32} {count.openings:8} {relative:8.1f}% {anaphoric:10.1f}% {riddles:19.1f}"
