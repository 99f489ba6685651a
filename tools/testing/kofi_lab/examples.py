# SPDX-License-Identifier: GPL-2.0
"""The examples of Documentation/ and README.md, cut out and compiled against a kernel's headers and kOFI.

Each block is the body of a function. In C, the functions in it, and what includes or defines, stand before that. A
line of three dots leaves something out. The names that the pages take as given are in examples/given.h and given.rs.
"""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

from . import tree
from .kernel import Kernel
from .paths import TESTING, TREE

PAGES = [*sorted((TREE / "Documentation").glob("*.rst")), TREE / "README.md"]
BLOCK = (
    r"^(?P<indent> *)\.\. code-block:: {0}\n(?P<body>(?:\n|(?P=indent) +[^\n]*\n)+)"
    r"|^```{1}\n(?P<fenced>.*?)^```\n"
)
USER_SPACE = r" +:class: user-space"
BLOCKS = {
    language: re.compile(BLOCK.format(directive, fence), re.MULTILINE | re.DOTALL)
    for language, directive, fence in (
        ("c", f"c(?!\n{USER_SPACE}\n)", "c"),
        ("rust", "rust", "rust"),
        ("user", f"c\n{USER_SPACE}", "c-user-space"),
    )
}
# A block without a language: a line that ends as statements do belongs into one with a language.
LITERAL = re.compile(
    r"^(?P<indent> *)(?!\.\. )[^\n]*::\n\n(?P<body>(?:\n|(?P=indent) +[^\n]*\n)+)", re.MULTILINE
)
STATEMENT = re.compile(r"^ *(?:[\w*&][^'@]*;|[\w*&]+[^'@]*\) \{)$", re.MULTILINE)
# A function of the block's own.
FUNCTION = re.compile(r"^(?:static )?[\w *]+\([^;]*?\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^#.*\n", re.MULTILINE)
LEFT_OUT = re.compile(r"^( *)\.\.\.(?= *(?:/\*.*\*/)?$)", re.MULTILINE)
# The examples use little of what they name, and nobody calls them.
KBUILD = (
    "ccflags-y := -I$(src)/include -I$(src) -Werror -Wno-unused -Wno-missing-prototypes"
    " -Wno-uninitialized\n"
)


GIVEN = {"c": "given.h", "user": "given_user.h"}
RUST_ROOT = """// SPDX-License-Identifier: GPL-2.0
//! The examples of the pages.
#![allow(dead_code, unreachable_code, unused_imports, unused_mut, unused_variables)]
mod given;
"""
RUST_KBUILD = "include $(KOFI)/kofi.mk\nobj-m += pages.o\n"
RUST_MODULE = """use kernel::prelude::*;
module! { type: Pages, name: "pages", authors: ["kOFI contributors"], description: "Examples", license: "GPL", }
struct Pages;
impl kernel::Module for Pages {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> { Ok(Self) }
}
"""


def blocks(text: str, language: str = "c") -> list[tuple[int, str]]:
    """The examples of a page in one language, and the lines where they begin."""
    found = []
    for match in BLOCKS[language].finditer(text):
        body = match["fenced"]
        if body is None:
            body = match["body"]
        blank = len(body) - len(body.lstrip("\n"))
        line = text.count("\n", 0, match.start() + match[0].index(body)) + 1 + blank
        found.append((line, textwrap.dedent(body.strip("\n") + "\n")))
    return found


def source(page: str, text: str, language: str = "c") -> str:
    """A C file of all examples of a page, which the compiler takes for the page."""
    pieces = [f'#include "{GIVEN[language]}"\n']
    for first, block in blocks(text, language):
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


def rust_source(text: str, names: str) -> str:
    """A Rust module of all examples of a page, each on its own lines, so that the compiler's numbers are the page's."""
    lines = ["use super::given::*;"] + [""] * text.count("\n")
    for first, block in blocks(text, "rust"):
        body = LEFT_OUT.sub("", block).rstrip("\n").split("\n")
        lines[first - 2] += f"fn example_{first}(given: Given<'_>) -> Result {{ let Given {{ {names} }} = given;"
        lines[first - 1 : first - 1 + len(body)] = body
        lines[first - 1 + len(body)] += "Ok(()) }"
    return "\n".join(lines) + "\n"


def unnamed(text: str) -> list[int]:
    """Returns the lines of statements that are in a block without a language, and so are never compiled."""
    found = []
    for literal in LITERAL.finditer(text):
        for match in STATEMENT.finditer(literal["body"]):
            found.append(text.count("\n", 0, literal.start("body") + match.start()) + 1)
    return found


def pages() -> list[Path]:
    """The pages that have examples."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    return [page for page, text in texts.items() if unnamed(text) or any(blocks(text, each) for each in BLOCKS)]


def compiled(kernel: Kernel, chosen: list[Path]) -> dict[Path, str]:
    """For each page, what the compilers complain of: nothing when its examples are good."""
    texts = {page: page.read_text(encoding="utf-8") for page in chosen}
    complaints = {page: "" for page in chosen}
    for page, text in texts.items():
        for line in unnamed(text):
            complaints[page] += f"{page.name}:{line}: error: code in a block without a language is never compiled\n"
    for found in (compiled_c(kernel, texts), compiled_rust(kernel, texts), compiled_for_users(texts)):
        for page, words in found.items():
            complaints[page] += words
    return complaints


def compiled_c(kernel: Kernel, texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples in C, page by page."""
    place = tree.build_folder(kernel, "examples")
    found = {}
    with tree.locked(place):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(TREE / "include", place / "include")
        for header in [*(TREE / "samples/c").glob("*.h"), *(TESTING / "examples").glob("*.h")]:
            shutil.copy(header, place)
        (place / "Kbuild").write_text(KBUILD)
        for page, text in texts.items():
            if not blocks(text):
                continue
            name = str(page.relative_to(TREE))
            (place / f"{page.stem}.c").write_text(source(name, text))
            try:
                tree.make(kernel, place, f"{page.stem}.o")
            except tree.ModuleError as error:
                found[page] = str(error)
    return found


def compiled_for_users(texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples of programs against the distribution's libfabric."""
    found = {}
    for page, text in texts.items():
        if blocks(text, "user"):
            command = ["/usr/bin/gcc", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused", "-x", "c", "-"]
            command += ["-I", str(TESTING / "examples")]
            code = source(str(page.relative_to(TREE)), text, "user")
            result = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
            if result.returncode:
                found[page] = result.stderr
    return found


def compiled_rust(kernel: Kernel, texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples in Rust of all pages as one module."""
    texts = {page: text for page, text in texts.items() if blocks(text, "rust")}
    if not texts:
        return {}
    tree.build(kernel)
    given = (TESTING / "examples/given.rs").read_text(encoding="utf-8")
    names = ", ".join(re.findall(r"pub\(crate\) (\w+):", given))
    place = tree.build_folder(kernel, "examples-rust")
    with tree.locked(place):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "Kbuild").write_text(RUST_KBUILD)
        (place / "given.rs").write_text(given)
        root = [RUST_ROOT, *(f"mod {page.stem};\n" for page in texts), RUST_MODULE]
        (place / "pages.rs").write_text("".join(root))
        for page, text in texts.items():
            (place / f"{page.stem}.rs").write_text(rust_source(text, names))
        try:
            tree.make(kernel, place, f"KOFI={tree.build_folder(kernel)}", "pages.o")
        except tree.ModuleError as error:
            return errors_of_pages(str(error), texts)
    return {}


def errors_of_pages(words: str, texts: dict[Path, str]) -> dict[Path, str]:
    """Divides what rustc prints among the pages; what names none counts for the first."""
    found: dict[Path, str] = {}
    for piece in re.split(r"\n\n", words):
        match = re.search(r"--> .*?(\w+)\.rs:(\d+)", piece)
        pages_ = [page for page in texts if match and page.stem == match[1]]
        for page in pages_:
            found[page] = found.get(page, "") + f"{page.name}:{match[2]}: {piece.strip()}\n"
    return found or {next(iter(texts)): words}
