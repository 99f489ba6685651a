# SPDX-License-Identifier: GPL-2.0
"""Counts unclear wording in comments and pages, and compares the counts of each folder with its limits.

The rule is that a comment begins with its subject. Each folder has three counts: comments that begin with a relative
clause ("What is posted ..."), comments that begin with a pronoun or a conjunction ("The same for ..."), and lines with
listed idioms. For comparison, rust/kernel has 0.2 %, 1.8 %, and 0.5 words in 1,000 lines. The limits are in
prose.toml. `lab.py prose` lowers them to the present counts, and never raises one.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import PurePath

from . import tree
from .output import print_line
from .paths import TESTING, TREE

FILE = TESTING / "prose.toml"
RELATIVE = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Where|Wherever|Whether|How (many|much|often|long))\b(?!.*\?)"
)
ANAPHOR = re.compile(
    r"(The same|That of|Those|That|It|Its|They|Their|One|Of|And|But|So|Nothing|None|All|Any other|Both|Neither)\b"
)
RIDDLE = re.compile(
    r"\b(whoever|nobody|somebody|anybody|who (posts|sends|reads|asks|waits|comes|leaves|receives|has)|is told"
    r"|are told|told of|tells of|has (it|them) \w+ed|by what|to what|of what|with what|in hand|on its way"
    r"|looked after|is to be)\b(?!\.\w)",
    re.IGNORECASE,
)
RUST_COMMENT = re.compile(r"\s*//[/!] ?(.*)")
HASH_COMMENT = re.compile(r'\s*(?:#(?:$| (?!SPDX|shellcheck))|""")(.*)')
C_COMMENT = re.compile(r"/\*\*?\s*\n?\s*\*?\s*(.*)")
COMMENT_LINE = re.compile(r"\s*(//|/?\*)")
HASH_SUFFIXES = (".py", ".sh", ".toml", ".config")
SUFFIXES = (".rs", ".rst", ".c", ".h", *HASH_SUFFIXES)
HEAD = """# SPDX-License-Identifier: GPL-2.0
#
# Limits for each folder: comments that begin with a relative clause, comments that begin with a reference to another
# one, and words for persons. `lab.py prose` lowers these limits to the present counts. Do not raise them.

"""


@dataclass
class Count:
    """The counts of unclear wording in one folder, and the totals that the rates need."""

    relative: int = 0
    anaphoric: int = 0
    riddles: int = 0
    openings: int = 0
    lines: int = 0

    @property
    def limited(self) -> tuple[int, int, int]:
        """The counts that have limits."""
        return self.relative, self.anaphoric, self.riddles


def openings(suffix: str, text: str) -> Iterator[str]:
    """Yields the first line of each comment of a source, or of each prose paragraph of a page."""
    if suffix in (".rs", *HASH_SUFFIXES):
        comment = RUST_COMMENT if suffix == ".rs" else HASH_COMMENT
        inside = False
        for line in text.splitlines():
            match = comment.match(line)
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
    """Adds the counts of one file to those of its folder."""
    for words in openings(suffix, text):
        count.openings += 1
        if RELATIVE.match(words):
            count.relative += 1
        elif ANAPHOR.match(words):
            count.anaphoric += 1
    comment_line = HASH_COMMENT if suffix in HASH_SUFFIXES else COMMENT_LINE
    for line in text.splitlines():
        if suffix == ".rst" or comment_line.match(line):
            count.lines += 1
            count.riddles += bool(RIDDLE.search(line))


def folder(name: str) -> str:
    """Returns the folder in which a file counts, which is at most three levels deep."""
    return "/".join(PurePath(name).parent.parts[:3]) or "."


def counts() -> dict[str, Count]:
    """Returns the counts of every folder of the checkout."""
    found: dict[str, Count] = {}
    for name in tree.files():
        if name.endswith(SUFFIXES) and not name.startswith("."):
            text = (TREE / name).read_text(encoding="utf-8", errors="replace")
            measure(PurePath(name).suffix, text, found.setdefault(folder(name), Count()))
    return found


def limits() -> dict[str, tuple[int, int, int]]:
    """Returns the limits of the folders in prose.toml. The limits of all other folders are zero."""
    return {name: tuple(limit) for name, limit in tomllib.loads(FILE.read_text()).items()}


def check() -> list[str]:
    """Returns an error for each count that is above its limit."""
    limits_of = limits()
    kinds = ("comments begin with a relative clause", "comments begin with a reference", "words for persons")
    errors = []
    for name, count in counts().items():
        for kind, now, limit in zip(kinds, count.limited, limits_of.get(name, (0, 0, 0))):
            if now > limit:
                errors.append(f"{name}: {now} {kind}, the limit is {limit}; see Documentation/testing.rst")
    return errors


def lower() -> None:
    """Prints the rates of all folders, and lowers their limits to the present counts."""
    limits_of = limits()
    print_line(f"{'folder':32} {'openings':>8} {'relative':>9} {'refer back':>11} {'persons/1000 lines':>19}")
    rows = []
    total = Count()
    for name, count in sorted(counts().items()):
        now = tuple(map(min, count.limited, limits_of.get(name, (0, 0, 0))))
        if any(now):
            rows.append(f'"{name}" = {list(now)}\n')
        total = Count(*map(sum, zip(astuple(total), astuple(count))))
        print_line(row(name, count))
    print_line(row("all", total))
    FILE.write_text(HEAD + "".join(rows))


def row(name: str, count: Count) -> str:
    """Returns a line with the rates of one folder."""
    openings_ = max(count.openings, 1)
    relative, anaphoric = 100 * count.relative / openings_, 100 * count.anaphoric / openings_
    riddles = 1000 * count.riddles / max(count.lines, 1)
    return f"{name:32} {count.openings:8} {relative:8.1f}% {anaphoric:10.1f}% {riddles:19.1f}"
