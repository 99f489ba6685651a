# SPDX-License-Identifier: GPL-2.0
"""Builds Documentation/ as HTML and as manual pages, by Sphinx with the kernel's kernel-doc."""

import re
import shutil
import subprocess
from pathlib import Path

from . import calls, source, toolchain, tree
from .paths import TREE
from .say import LabError, say

PAGES = TREE / "Documentation"
SPHINX = "/usr/bin/sphinx-build"


# The comment of one call, to its end.
COMMENT = r"/\*\*\n \* {}\(\) - (.*?)\n \*/\n"


def comments() -> str:
    """What is wrong with the headers' comments: each call has one, with its contexts and answers."""
    files = sorted(calls.OURS.glob("*.h"))
    tool = source.ensure() / "tools" / "docs" / "kernel-doc"
    words = said([str(tool), "-none", "-Wall", "-Werror", *map(str, files)])
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name, prototype in calls.declared(text).items():
            match = re.search(COMMENT.format(name), text, re.DOTALL)
            comment = match[1] if match else ""
            wanted = ["Context"] if prototype.startswith("void (") else ["Context", "Return"]
            lacking = [title for title in wanted if f"\n * {title}:" not in comment]
            if lacking:
                words += f"{path.name}: {name}() lacks {' and '.join(lacking)}\n"
    return words


def place() -> Path:
    """Where the pages of this checkout are built."""
    return tree.place("docs")


def said(command: list[str]) -> str:
    """What a tool complains of, nothing when it is content."""
    environment = {
        **toolchain.environment(),
        "srctree": str(source.ensure()),
        # That source is everybody's.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode:
        return result.stderr or f"{command[0]} answered {result.returncode}\n"
    return result.stderr


def sphinx(builder: str) -> str:
    """Builds all pages in one form: what Sphinx warns of."""
    target = place() / builder
    # A page that is gone stays gone.
    shutil.rmtree(target, ignore_errors=True)
    command = [SPHINX, "-q", "-W", "--keep-going", "-d", str(place() / "read"), "-b", builder]
    return said([*command, str(PAGES), str(target)])


def groff(page: Path) -> str:
    """What groff warns of in a manual page, but for lines of narrow columns that it cannot fill."""
    return said(["groff", "-t", "-man", "-Kutf8", "-Tutf8", "-ww", "-Wbreak", str(page)])


def html() -> str:
    """Builds the pages for browsers; what is wrong with them."""
    with tree.locked(place()):
        return sphinx("html")


def man() -> str:
    """Builds the manual pages; what is wrong with them."""
    with tree.locked(place()):
        return sphinx("man") or "".join(groff(page) for page in manuals())


def manuals() -> list[Path]:
    """The manual pages that have been built."""
    return sorted((place() / "man").glob("man?/*"))


def run() -> None:
    """Builds both, and says where they are."""
    if words := html() or man():
        raise LabError(f"the documentation does not build cleanly:\n{words}")
    say(f"{len(manuals())} manual pages: man -M {place() / 'man'} fi_cq")
    say(f"for a browser: {place() / 'html' / 'index.html'}")
