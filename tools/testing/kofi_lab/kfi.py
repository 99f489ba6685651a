# SPDX-License-Identifier: GPL-2.0
"""Checks that the macros of kfi_names.h rename existing names: a compiler checks only those that are used."""

import re

from . import calls

RENAME = re.compile(r"^#define\s+[Kk](\w+)\s+(\w+)$", re.MULTILINE)
# Calls, structs and enumerations that the other headers of kfabric define.
DEFINITION = re.compile(r"^(?:#define|static inline[^(]*?|struct|enum)\s+\*?k(\w+)(?:\(| \{$)", re.MULTILINE)
WORD = re.compile(r"\w+")


def check() -> str:
    """Returns the errors, one a line.

    A macro has to be `k` and the name that it stands for, which another header declares. The other headers of kfabric
    must not define a name that is a macro.
    """
    path = calls.OURS / "kfi_names.h"
    known: set[str] = set()
    for header in calls.OURS.glob("f*.h"):
        known |= set(WORD.findall(calls.COMMENT.sub("", header.read_text(encoding="utf-8"))))
    errors = []
    for name, ours in RENAME.findall(path.read_text(encoding="utf-8")):
        if ours != name:
            errors.append(f"{path.name} defines k{name} as {ours} instead of {name}")
        elif ours not in known:
            errors.append(f"{path.name} defines k{name} as {ours}, which no header declares")
    renamed = {name for name, _ in RENAME.findall(path.read_text(encoding="utf-8"))}
    for header in set(calls.OURS.glob("kfi*.h")) - {path}:
        for name in sorted(renamed & set(DEFINITION.findall(header.read_text(encoding="utf-8")))):
            errors.append(f"{header.name} defines k{name}, which is a macro of {path.name}")
    return "\n".join(errors)
