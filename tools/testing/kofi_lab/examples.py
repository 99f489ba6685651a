# SPDX-License-Identifier: GPL-2.0
"""Extracts the examples of Documentation/ and README.md, and compiles them against kOFI and a kernel's headers.

Each block becomes the body of a function. Functions and preprocessor directives in a block of C are moved before that
function. A line of three dots is an omission. examples/given.h and given.rs declare the names that the pages use
without a declaration.
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
# A block without a language, and a line that looks like a statement, which needs a block with a language.
LITERAL = re.compile(
    r"^(?P<indent> *)(?!\.\. )[^\n]*::\n\n(?P<body>(?:\n|(?P=indent) +[^\n]*\n)+)", re.MULTILINE
)
STATEMENT = re.compile(r"^ *(?:[\w*&][^'@]*;|[\w*&]+[^'@]*\) \{)$", re.MULTILINE)
# A function that a block defines.
FUNCTION = re.compile(r"^(?:static )?[\w *]+\([^;]*?\)\n\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^#.*\n", re.MULTILINE)
LEFT_OUT = re.compile(r"^( *)\.\.\.(?= *(?:/\*.*\*/)?$)", re.MULTILINE)
# No caller uses the functions of the examples, which leave variables unused.
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
    """Returns the examples of a page in one language, each with its first line number."""
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
    """Returns a C file with all examples of a page. Its #line directives make errors name lines of the page."""
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
    """Returns a Rust module with all examples of a page.

    Each line has the same number as in the page, so that errors name lines of the page.
    """
    lines = ["use super::given::*;"] + [""] * text.count("\n")
    for first, block in blocks(text, "rust"):
        body = LEFT_OUT.sub("", block).rstrip("\n").split("\n")
        lines[first - 2] += f"fn example_{first}(given: Given<'_>) -> Result {{ let Given {{ {names} }} = given;"
        lines[first - 1 : first - 1 + len(body)] = body
        lines[first - 1 + len(body)] += "Ok(()) }"
    return "\n".join(lines) + "\n"


def uncompiled(text: str) -> list[int]:
    """Returns the line numbers of statements in blocks without a language, which are not compiled."""
    found = []
    for literal in LITERAL.finditer(text):
        for match in STATEMENT.finditer(literal["body"]):
            found.append(text.count("\n", 0, literal.start("body") + match.start()) + 1)
    return found


def pages() -> list[Path]:
    """Returns the pages that have examples."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    return [page for page, text in texts.items() if uncompiled(text) or any(blocks(text, each) for each in BLOCKS)]


def check(kernel: Kernel, chosen: list[Path]) -> dict[Path, str]:
    """Compiles the examples of pages. Returns the errors of each page, empty if there are none."""
    texts = {page: page.read_text(encoding="utf-8") for page in chosen}
    errors = {page: "" for page in chosen}
    for page, text in texts.items():
        for line in uncompiled(text):
            errors[page] += f"{page.name}:{line}: error: put code into a block with a language, which is compiled\n"
    for found in (compile_c(kernel, texts), compile_rust(kernel, texts), compile_user_space(texts)):
        for page, output in found.items():
            errors[page] += output
    return errors


def compile_c(kernel: Kernel, texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples in C. Returns the errors of the pages that have any."""
    folder = tree.build_folder(kernel, "examples")
    found = {}
    with tree.locked(folder):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(TREE / "include", folder / "include")
        for header in [*(TREE / "samples/c").glob("*.h"), *(TESTING / "examples").glob("*.h")]:
            shutil.copy(header, folder)
        (folder / "Kbuild").write_text(KBUILD)
        for page, text in texts.items():
            if not blocks(text):
                continue
            name = str(page.relative_to(TREE))
            (folder / f"{page.stem}.c").write_text(source(name, text))
            try:
                tree.make(kernel, folder, f"{page.stem}.o")
            except tree.ModuleError as error:
                found[page] = str(error)
    return found


def compile_user_space(texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples for user space against the distribution's libfabric. Returns the errors of pages."""
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


def compile_rust(kernel: Kernel, texts: dict[Path, str]) -> dict[Path, str]:
    """Compiles the examples in Rust of all pages as one module. Returns the errors of the pages that have any."""
    texts = {page: text for page, text in texts.items() if blocks(text, "rust")}
    if not texts:
        return {}
    tree.build(kernel)
    given = (TESTING / "examples/given.rs").read_text(encoding="utf-8")
    names = ", ".join(re.findall(r"pub\(crate\) (\w+):", given))
    folder = tree.build_folder(kernel, "examples-rust")
    with tree.locked(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "Kbuild").write_text(RUST_KBUILD)
        (folder / "given.rs").write_text(given)
        root = [RUST_ROOT, *(f"mod {page.stem};\n" for page in texts), RUST_MODULE]
        (folder / "pages.rs").write_text("".join(root))
        for page, text in texts.items():
            (folder / f"{page.stem}.rs").write_text(rust_source(text, names))
        try:
            tree.make(kernel, folder, f"KOFI={tree.build_folder(kernel)}", "pages.o")
        except tree.ModuleError as error:
            return errors_of_pages(str(error), texts)
    return {}


def errors_of_pages(output: str, texts: dict[Path, str]) -> dict[Path, str]:
    """Returns the part of rustc's output for each page. Output without the name of a page counts for the first."""
    found: dict[Path, str] = {}
    for piece in re.split(r"\n\n", output):
        match = re.search(r"--> .*?(\w+)\.rs:(\d+)", piece)
        pages_ = [page for page in texts if match and page.stem == match[1]]
        for page in pages_:
            found[page] = found.get(page, "") + f"{page.name}:{match[2]}: {piece.strip()}\n"
    return found or {next(iter(texts)): output}
