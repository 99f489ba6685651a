# SPDX-License-Identifier: GPL-2.0
"""The examples in C of Documentation/ and README.md, cut out and compiled against a kernel's headers.

Each block is the body of a function; the functions in it, and what includes or defines, stand before that. A
line of three dots leaves something out. What the pages take as given is in examples/given.h.
"""

import re
import shutil
import textwrap
from pathlib import Path

from . import tree
from .kernel import Kernel
from .paths import TESTING, TREE

PAGES = [*sorted((TREE / "Documentation").glob("*.rst")), TREE / "README.md"]
BLOCK = re.compile(
    r"^(?P<indent> *)\.\. code-block:: c\n(?:\n|(?P=indent) +[^\n]*\n)+|^```c\n(?P<fenced>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
# A function of the block's own.
FUNCTION = re.compile(r"^(?:static )?[\w *]+\([^;]*?\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^#.*\n", re.MULTILINE)
LEFT_OUT = re.compile(r"^( *)\.\.\.(?= *(?:/\*.*\*/)?$)", re.MULTILINE)
# The examples use little of what they name, and nobody calls them.
KBUILD = (
    "ccflags-y := -I$(src)/include -I$(src) -Werror -Wno-unused -Wno-missing-prototypes"
    " -Wno-uninitialized\n"
)


def blocks(text: str) -> list[tuple[int, str]]:
    """The examples of a page, and the lines where they begin."""
    found = []
    for match in BLOCK.finditer(text):
        body = match["fenced"]
        if body is None:
            body = match[0].split("\n", 1)[1]
        blank = len(body) - len(body.lstrip("\n"))
        line = text.count("\n", 0, match.start()) + 2 + blank
        found.append((line, textwrap.dedent(body.strip("\n") + "\n")))
    return found


def source(page: str, text: str) -> str:
    """A C file of all examples of a page, which the compiler takes for the page."""
    pieces = ['#include "given.h"\n']
    for first, block in blocks(text):
        block = LEFT_OUT.sub(r"\1;", block)

        def outside(match: re.Match[str], first: int = first, block: str = block) -> str:
            line = first + block.count("\n", 0, match.start())
            pieces.append(f'#line {line} "{page}"\n{match[0]}')
            return "\n" * match[0].count("\n")

        inside = FUNCTION.sub(outside, DIRECTIVE.sub(outside, block))
        pieces.append(
            f'static int example_{first}(void)\n{{\n#line {first} "{page}"\n{inside}return 0;\n}}\n'
        )
    return "\n".join(pieces)


def pages() -> list[Path]:
    """The pages that have examples."""
    return [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]


def compiled(kernel: Kernel, chosen: list[Path]) -> dict[Path, str]:
    """For each page, what the compiler complains of: nothing when its examples are good."""
    place = tree.folder(kernel, "examples")
    found = {}
    with tree.locked(place):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(TREE / "include", place / "include")
        for header in [*(TREE / "samples/c").glob("*.h"), *(TESTING / "examples").glob("*.h")]:
            shutil.copy(header, place)
        (place / "Kbuild").write_text(KBUILD)
        for page in chosen:
            name = str(page.relative_to(TREE))
            text = source(name, page.read_text(encoding="utf-8"))
            (place / f"{page.stem}.c").write_text(text)
            try:
                tree.make(kernel, place, f"{page.stem}.o")
                found[page] = ""
            except tree.ModuleError as error:
                found[page] = str(error)
    return found

