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


# A function in Sphinx's inventory: `fi_send c:function 1 msg.html#c.fi_send -`
ENTRY = re.compile(r"^(\w+) c:function \S+ (\w+)\.html", re.MULTILINE)
# Functions that kfi.h and the headers that it includes define; their other calls are macros.
ADAPTED = re.compile(r"^ \* (kfi_\w+)\(\) - ", re.MULTILINE)
# Pages without a manual page: the index, and pages with tables that are wider than a terminal.
HTML_ONLY = {"index", "conformance", "internals", "locking", "rxm"}
# The kernel-doc comment of a call.
COMMENT = r"/\*\*\n \* {}\(\) - (.*?)\n \*/\n"


def check_comments() -> str:
    """Checks that each call in the headers has a kernel-doc comment with Context and Return. Returns the errors."""
    files = sorted(calls.OURS.glob("*.h"))
    tool = source.ensure() / "tools" / "docs" / "kernel-doc"
    errors = run_tool([str(tool), "-none", "-Wall", "-Werror", *map(str, files)])
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name, prototype in calls.declared(text).items():
            match = re.search(COMMENT.format(name), text, re.DOTALL)
            comment = match[1] if match else ""
            required = ["Context"] if prototype.startswith("void (") else ["Context", "Return"]
            missing = [title for title in required if f"\n * {title}:" not in comment]
            if missing:
                errors += f"{path.name}: the comment of {name}() has no {' and no '.join(missing)}\n"
    return errors


def build_folder() -> Path:
    """Returns the folder in which the pages of this checkout are built."""
    return tree.checkout_folder("docs")


def run_tool(command: list[str]) -> str:
    """Runs a tool of the documentation. Returns its errors and warnings."""
    environment = {
        **toolchain.environment(),
        "srctree": str(source.ensure()),
        # Other checkouts use the same kernel source.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode:
        return result.stderr or f"{command[0]} exited with {result.returncode}\n"
    return result.stderr


def run_sphinx(builder: str) -> str:
    """Builds all pages with one builder of Sphinx. Returns its warnings."""
    target = build_folder() / builder
    # Sphinx does not delete the output of a deleted page.
    shutil.rmtree(target, ignore_errors=True)
    # -E: Sphinx would not repeat the warnings of an unchanged page.
    command = [SPHINX, "-E", "-q", "-W", "--keep-going", "-d", f"{target}.read", "-b", builder]
    return run_tool([*command, str(PAGES), str(target)])


def run_groff(page: Path) -> str:
    """Formats a manual page. Returns groff's warnings, except those about lines that it cannot fill."""
    return run_tool(["groff", "-t", "-man", "-Kutf8", "-Tutf8", "-ww", "-Wbreak", str(page)])


def build_html() -> str:
    """Builds the pages as HTML. Returns the warnings."""
    with tree.locked(build_folder()):
        return run_sphinx("html")


def build_manuals() -> str:
    """Builds the manual pages. Returns the warnings."""
    with tree.locked(build_folder()):
        errors = run_sphinx("man") or "".join(run_groff(page) for page in manuals())
        return errors + "".join(f"add {page} to the man_pages of conf.py\n" for page in pages_without_manual())


def pages_without_manual() -> list[str]:
    """Returns the pages that have no manual page in conf.py, without those that are HTML only."""
    names = {path.stem for path in PAGES.glob("*.rst")} - HTML_ONLY
    return sorted(name for name in names if not manual_of(name))


def manuals() -> list[Path]:
    """Returns the manual pages that have been built."""
    return sorted((build_folder() / "man").glob("man?/*"))


def entries() -> dict[str, str]:
    """Returns the page of each function that has an entry, from the last build of HTML."""
    inventory = (build_folder() / "html" / "objects.inv").read_bytes()
    # The inventory has four lines of head; the rest is compressed.
    text = zlib.decompress(inventory.split(b"\n", 4)[4]).decode()
    return dict(ENTRY.findall(text))


def check_entries() -> str:
    """Builds HTML. Returns an error for each call without an entry in a page, and each entry without a call."""
    if errors := build_html():
        return errors
    found = set(entries())
    texts = [path.read_text(encoding="utf-8") for path in calls.OURS.glob("kfi*.h")]
    adapted = [name for text in texts for name in ADAPTED.findall(text)]
    declared = {*calls.of(calls.OURS), *calls.of(calls.OURS / "providers"), *adapted}
    lines = [f"{name}() has no entry in Documentation" for name in sorted(declared - found)]
    lines += [f"{name}() has an entry, but no header declares it" for name in sorted(found - declared)]
    return "\n".join(lines)


def link_manuals() -> int:
    """Makes a manual page for each call, which includes the page with its entry. Returns how many it made."""
    paths = {path.stem: path for path in manuals()}
    count = 0
    for name, page in entries().items():
        if name not in paths and (whole := paths.get(manual_of(page))):
            whole.with_stem(name).write_text(f".so {whole.parent.name}/{whole.name}\n")
            count += 1
    return count


def manual_of(page: str) -> str:
    """Returns the name of the manual page that conf.py makes of a page, or an empty string."""
    found = re.search(rf'\("{page}", "(\w+)", ', (PAGES / "conf.py").read_text(encoding="utf-8"))
    return found[1] if found else ""


def run() -> None:
    """Builds HTML and manual pages, and prints their paths."""
    if errors := build_html() or build_manuals():
        raise LabError(f"the documentation does not build without warnings:\n{errors}")
    pages = len(manuals())
    print_line(f"{pages} manual pages and {link_manuals()} links: man -M {build_folder() / 'man'} fi_cq_read")
    print_line(f"HTML: {build_folder() / 'html' / 'index.html'}")
