# SPDX-License-Identifier: GPL-2.0
"""Compares the lists of calls in Documentation/libfabric.rst with the headers and with absent.c."""

import re
from pathlib import Path

from . import calls
from .paths import TESTING, TREE

PAGE = TREE / "Documentation" / "libfabric.rst"
# The tests that the calls of the list "-FI_ENOSYS" return this error.
ABSENT = TESTING / "kunit" / "absent.c"
LIST = re.compile(r"^([^\n]+)\n-+\n\n(.*?)(?=^[^\n]+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
# A row of a table: its first column is the name of a call.
ROW = re.compile(r"^``(fi_\w+)``  ", re.MULTILINE)
NAME = re.compile(r"``(fi_\w+)``")
ABSENT_TEST = re.compile(r"\bABSENT(?:_OPEN)?\((?:\w+,\s*)?(fi_\w+)\(")
VERSION = re.compile(r"#define FI_(MAJOR|MINOR)_VERSION\s+(\d+)")


def lists(text: str) -> dict[str, list[str]]:
    """Returns the calls of each list in the chapter `Every call`, by the title of the list.

    `text` is the page.
    """
    text = text[text.index("\nEvery call\n") :]
    found = {}
    for title, body in LIST.findall(text):
        table = ROW.findall(body)
        found[title] = table or NAME.findall(body)
    return found


def version(folder: Path) -> list[tuple[str, str]]:
    """Returns the major and minor version that a folder's fabric.h defines; an empty list without the file."""
    path = folder / "fabric.h"
    return VERSION.findall(path.read_text(encoding="utf-8")) if path.exists() else []


def compare_with_ours(found: dict[str, list[str]], ours: dict[str, str], absent: set[str]) -> list[str]:
    """Returns an error for each difference between the lists and kOFI's headers or absent.c."""
    errors = []
    all_names = [name for names in found.values() for name in names]
    errors += [f"{name} is in two lists" for name in set(all_names) if all_names.count(name) > 1]
    kernel = {name for title, names in found.items() if title != "Only in user space" for name in names}
    errors += [f"{name} is in no list" for name in ours.keys() - kernel]
    errors += [f"{name} is listed, but include/rdma does not declare it" for name in kernel - ours.keys()]
    listed = set(found["-FI_ENOSYS"])
    errors += [f"{name}: {ABSENT.name} has no test that it returns -FI_ENOSYS" for name in listed - absent]
    errors += [f"{name} returns -FI_ENOSYS, but is not in that list" for name in absent - listed]
    return errors


def compare_with_theirs(found: dict[str, list[str]], ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """Returns an error for each difference between the lists and the headers of user space."""
    only_here, only_there = set(found["Only here"]), set(found["Only in user space"])
    errors = [f"{name} is in the list `Only here`, but user space has it" for name in only_here & theirs.keys()]
    errors += [f"{name} is listed, but user space does not declare it" for name in only_there - theirs.keys()]
    errors += [f"{name} of user space is in no list" for name in theirs.keys() - ours.keys() - only_there]
    for name in (ours.keys() - only_here) & theirs.keys():
        prototype = theirs[name].removeprefix("FI_DEPRECATED_FUNC ")
        if ours[name] != prototype:
            errors.append(f"{name} is {ours[name]} in the kernel and {prototype} in user space")
    errors += [f"{name} is not in the list `Only here`" for name in ours.keys() - only_here - theirs.keys()]
    return errors


def compare() -> str:
    """Returns all differences, one a line.

    The headers of user space are compared only if both have the same version.
    """
    found = lists(PAGE.read_text(encoding="utf-8"))
    ours = calls.of(calls.OURS)
    errors = compare_with_ours(found, ours, set(ABSENT_TEST.findall(ABSENT.read_text(encoding="utf-8"))))
    if version(calls.OURS) == version(calls.THEIRS):
        errors += compare_with_theirs(found, ours, calls.of(calls.THEIRS))
    return "\n".join(sorted(errors))
