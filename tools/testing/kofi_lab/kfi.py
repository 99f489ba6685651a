# SPDX-License-Identifier: GPL-2.0
"""Whether the names in kfi_names.h lead to names that are there: nobody else looks before they are used."""

import re

from . import calls

RENAME = re.compile(r"^#define\s+[Kk](\w+)\s+(\w+)$", re.MULTILINE)
WORD = re.compile(r"\w+")


def lost() -> str:
    """Names that lead nowhere, or to another name than their own without its k."""
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
    return "\n".join(words)
