# SPDX-License-Identifier: GPL-2.0
"""Builds Documentation/ as HTML and as manual pages, by Sphinx with the kernel's kernel-doc."""

import re
import shutil
import subprocess
import zlib
from pathlib import Path

from . import calls, source, toolchain, tree
from .output import LabError, print_line
from .paths import TREE

PAGES = TREE / "Documentation"
SPHINX = "/usr/bin/sphinx-build"


# What Sphinx's inventory says of a function: `fi_send c:function 1 msg.html#c.fi_send -`
ENTRY = re.compile(r"^(\w+) c:function \S+ (\w+)\.html", re.MULTILINE)
# What kfi.h and the headers that it includes have besides other names for calls.
ADAPTED = re.compile(r"^ \* (kfi_\w+)\(\) - ", re.MULTILINE)
# An index, and tables that are wider than a terminal.
HTML_ONLY = {"index", "conformance", "internals", "locking", "rxm"}
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
    return tree.checkout_folder("docs")


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
    # A page that was read before would not be complained of again: -E forgets it.
    command = [SPHINX, "-E", "-q", "-W", "--keep-going", "-d", f"{target}.read", "-b", builder]
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
        words = sphinx("man") or "".join(groff(page) for page in manuals())
        return words + "".join(f"{page} has no manual page\n" for page in pages_lacking_manuals())


def pages_lacking_manuals() -> list[str]:
    """The pages that conf.py gives no manual page, and that are not for browsers alone."""
    names = {path.stem for path in PAGES.glob("*.rst")} - HTML_ONLY
    return sorted(name for name in names if not manual_of(name))


def manuals() -> list[Path]:
    """The manual pages that have been built."""
    return sorted((place() / "man").glob("man?/*"))


def entries() -> dict[str, str]:
    """The functions that have an entry in a page, as HTML was built last, and which page that is."""
    inventory = (place() / "html" / "objects.inv").read_bytes()
    # Four lines that tell what it is; the rest is compressed.
    text = zlib.decompress(inventory.split(b"\n", 4)[4]).decode()
    return dict(ENTRY.findall(text))


def entries_lacking() -> str:
    """Calls without an entry in any page, and entries of what is no call."""
    if words := html():
        return words
    found = set(entries())
    adapted = [name for path in calls.OURS.glob("kfi*.h") for name in ADAPTED.findall(path.read_text(encoding="utf-8"))]
    wanted = {*calls.of(calls.OURS), *calls.of(calls.OURS / "providers"), *adapted}
    words = [f"{name}() has no entry in Documentation" for name in sorted(wanted - found)]
    words += [f"{name}() has an entry and is declared nowhere" for name in sorted(found - wanted)]
    return "\n".join(words)


def name_calls() -> int:
    """Gives each call a manual page, which is that of the page with its entry; how many there are."""
    places = {path.stem: path for path in manuals()}
    count = 0
    for name, page in entries().items():
        if name not in places and (whole := places.get(manual_of(page))):
            whole.with_stem(name).write_text(f".so {whole.parent.name}/{whole.name}\n")
            count += 1
    return count


def manual_of(page: str) -> str:
    """The manual page that is made of a page."""
    found = re.search(rf'\("{page}", "(\w+)", ', (PAGES / "conf.py").read_text(encoding="utf-8"))
    return found[1] if found else ""


def run() -> None:
    """Builds both, and says where they are."""
    if words := html() or man():
        raise LabError(f"the documentation does not build cleanly:\n{words}")
    pages = len(manuals())
    print_line(f"{pages} manual pages, and {name_calls()} names of calls: man -M {place() / 'man'} fi_cq_read")
    print_line(f"for a browser: {place() / 'html' / 'index.html'}")
