# SPDX-License-Identifier: GPL-2.0
"""Builds Documentation/ as HTML and as manual pages, by Sphinx with the kernel's kernel-doc."""

import shutil
import subprocess
from pathlib import Path

from . import source, toolchain, tree
from .paths import TREE
from .say import LabError, say

PAGES = TREE / "Documentation"
SPHINX = "/usr/bin/sphinx-build"


def place() -> Path:
    """Where the pages of this checkout are built."""
    return tree.place("docs")


def sphinx(builder: str) -> str:
    """Builds all pages in one form: what Sphinx warns of, nothing when it is content."""
    environment = {
        **toolchain.environment(),
        "srctree": str(source.ensure()),
        # That source is everybody's.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    target = place() / builder
    # A page that is gone stays gone.
    shutil.rmtree(target, ignore_errors=True)
    command = [SPHINX, "-q", "-W", "--keep-going", "-d", str(place() / "read"), "-b", builder]
    result = subprocess.run(
        [*command, str(PAGES), str(target)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return ""
    return result.stdout + result.stderr or f"sphinx-build answered {result.returncode}"


def groff(page: Path) -> str:
    """What groff warns of in a manual page, but for lines of narrow columns that it cannot fill."""
    command = ["groff", "-t", "-man", "-Kutf8", "-Tutf8", "-ww", "-Wbreak", str(page)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stderr or ("" if result.returncode == 0 else f"groff answered {result.returncode}")


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
