# SPDX-License-Identifier: GPL-2.0
"""Whether the names in kfi_names.h lead to names that are there: nobody else looks before they are used."""

import re

from . import calls

RENAME = re.compile(r"^#define\s+[Kk](\w+)\s+(\w+)$", re.MULTILINE)
# Calls, structs and enumerations that the other headers of kfabric define.
DEFINITION = re.compile(r"^(?:#define|static inline[^(]*?|struct|enum)\s+\*?k(\w+)(?:\(| \{$)", re.MULTILINE)
WORD = re.compile(r"\w+")


def lost() -> str:
    """Names that lead nowhere or to another name than their own without its k, and definitions under such a name."""
    path = calls.OURS / "kfi_names.h"
    known: set[str] = set()
    for header in calls.OURS.glob("f*.h"):
        known |= set(WORD.findall(calls.COMMENT.sub("", header.read_text(encoding="utf-8"))))
    words = []
    for name, ours in RENAME.findall(path.read_text(encoding="utf-8")):
        if ours != name:
            words.append(f"k{name} stands for {ours}")
        elif ours not in known:
            words.append(f"{ours} is not there")
    renamed = {name for name, _ in RENAME.findall(path.read_text(encoding="utf-8"))}
    for header in set(calls.OURS.glob("kfi*.h")) - {path}:
        for name in sorted(renamed & set(DEFINITION.findall(header.read_text(encoding="utf-8")))):
            words.append(f"{header.name} defines k{name}, which {path.name} renames")
    return "\n".join(words)
