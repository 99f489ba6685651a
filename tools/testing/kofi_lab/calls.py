# SPDX-License-Identifier: GPL-2.0
"""Parses the calls that headers declare: those of kOFI, and of libfabric in user space."""

import re
from pathlib import Path

from .paths import TREE

OURS = TREE / "include" / "rdma"
THEIRS = Path("/usr/include/rdma")

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# The brace of `extern "C" {` does not begin a body.
LANGUAGE = re.compile(r'extern\s+"C"\s*\{')
FUNCTION = re.compile(r"(?P<type>[\w\s*]*?)\b(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
QUALIFIER = re.compile(r"\b(?:static|inline|extern|__attribute__\s*\(\(.*?\)\))\s*")
NAMED = re.compile(r"\bfi_\w+")
# Types of user space, and their names in the kernel.
RENAMED = {"struct iovec": "struct kvec", "uint64_t": "u64", "uint32_t": "u32", "uint8_t": "u8"}


def top_level(text: str) -> list[str]:
    """Returns the declarations and the heads of functions outside of braces."""
    text = LANGUAGE.sub("", DIRECTIVE.sub("", COMMENT.sub("", text)))
    pieces, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char == "{":
            if depth == 0:
                pieces.append(text[start:at])
            depth += 1
        elif char == "}":
            # The closing brace of `extern "C"` has no counterpart: LANGUAGE is removed.
            depth = max(depth - 1, 0)
            start = at + 1
        elif char == ";" and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    return pieces


def normal(text: str) -> str:
    """Returns a part of a prototype with single spaces and the kernel's names of types."""
    text = " ".join(QUALIFIER.sub("", text).split())
    for theirs, ours in RENAMED.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    return re.sub(r"\s*\*\s*", " *", text).strip()


def parameter(text: str) -> str:
    """Returns the type of a parameter without its name."""
    text = normal(text)
    if "(" in text or text in ("void", ""):
        return text
    return re.sub(r"\b\w+(\[\])?$", r"\1", text).strip() or text


def declared(text: str) -> dict[str, str]:
    """Returns the prototype of each function in a header whose name begins with fi_, by name."""
    found = {}
    for piece in top_level(text):
        match = FUNCTION.fullmatch(piece.strip())
        if not match or not NAMED.fullmatch(match["name"]) or "typedef" in match["type"]:
            continue
        arguments = ", ".join(parameter(part) for part in match["arguments"].split(","))
        found[match["name"]] = f"{normal(match['type'])} ({arguments})"
    return found


def of(folder: Path) -> dict[str, str]:
    """Returns the prototype of each call in the headers of a folder, by name."""
    found = {}
    for path in sorted(folder.glob("f*.h")):
        found |= declared(path.read_text(encoding="utf-8", errors="replace"))
    return found
