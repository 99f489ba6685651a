# SPDX-License-Identifier: GPL-2.0
"""Compares the lists of calls in Documentation/libfabric.rst with the headers and with absent.c."""

import re

from . import calls
from .paths import TESTING, TREE

PAGE = TREE / "Documentation" / "libfabric.rst"
# The test that each call of the list "-FI_ENOSYS" returns this error.
ABSENT = TESTING / "kunit" / "absent.c"
LIST = re.compile(r"^([^\n]+)\n-+\n\n(.*?)(?=^[^\n]+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
# A row of a table: its first column is the name of a call.
ROW = re.compile(r"^``(fi_\w+)``  ", re.MULTILINE)
NAME = re.compile(r"``(fi_\w+)``")
SHOWN_ABSENT = re.compile(r"\bABSENT(?:_OPEN)?\((?:\w+,\s*)?(fi_\w+)\(")
VERSION = re.compile(r"#define FI_(MAJOR|MINOR)_VERSION\s+(\d+)")


def lists(text: str) -> dict[str, list[str]]:
    """Returns the calls of each list in the chapter `Every call`, by the title of the list."""
    text = text[text.index("\nEvery call\n") :]
    found = {}
    for title, body in LIST.findall(text):
        table = ROW.findall(body)
        found[title] = table or NAME.findall(body)
    return found


def version(folder: str) -> list[tuple[str, str]]:
    """Returns the major and minor version that a fabric.h defines; an empty list without the file."""
    path = (calls.OURS if folder == "ours" else calls.THEIRS) / "fabric.h"
    return VERSION.findall(path.read_text(encoding="utf-8")) if path.exists() else []


def wrong(found: dict[str, list[str]], ours: dict[str, str], absent: set[str]) -> list[str]:
    """Returns a line for each difference between the lists and our headers or absent.c."""
    words = []
    everywhere = [name for names in found.values() for name in names]
    words += [f"{name} stands in two lists" for name in set(everywhere) if everywhere.count(name) > 1]
    here = {name for title, names in found.items() if title != "Only in user space" for name in names}
    words += [f"{name} stands in no list" for name in ours.keys() - here]
    words += [f"{name} is no call of ours" for name in here - ours.keys()]
    listed = set(found["-FI_ENOSYS"])
    words += [f"{name}: no test shows that it answers -FI_ENOSYS" for name in listed - absent]
    words += [f"{name} answers -FI_ENOSYS, and is not listed" for name in absent - listed]
    return words


def apart(found: dict[str, list[str]], ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """Returns a line for each difference between the lists and the headers of user space."""
    only_here, only_there = set(found["Only here"]), set(found["Only in user space"])
    words = [f"{name} is not only here" for name in only_here & theirs.keys()]
    words += [f"{name} is no call of user space" for name in only_there - theirs.keys()]
    words += [f"{name} of user space stands in no list" for name in theirs.keys() - ours.keys() - only_there]
    for name in (ours.keys() - only_here) & theirs.keys():
        prototype = theirs[name].removeprefix("FI_DEPRECATED_FUNC ")
        if ours[name] != prototype:
            words.append(f"{name} is {ours[name]} here and {prototype} there")
    words += [f"{name} is only here" for name in ours.keys() - only_here - theirs.keys()]
    return words


def compare() -> str:
    """Returns all differences, one a line. Compares with user space only if both have the same version."""
    found = lists(PAGE.read_text(encoding="utf-8"))
    ours = calls.of(calls.OURS)
    words = wrong(found, ours, set(SHOWN_ABSENT.findall(ABSENT.read_text(encoding="utf-8"))))
    if version("ours") == version("theirs"):
        words += apart(found, ours, calls.of(calls.THEIRS))
    return "\n".join(sorted(words))
