# SPDX-License-Identifier: GPL-2.0
"""The calls that headers declare, ours and those of user space's libfabric."""

import re
from pathlib import Path

from .paths import TREE

OURS = TREE / "include" / "rdma"
THEIRS = Path("/usr/include/rdma")

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# `extern "C" {` opens no body.
LANGUAGE = re.compile(r'extern\s+"C"\s*\{')
FUNCTION = re.compile(r"(?P<type>[\w\s*]*?)\b(?P<name>\w+)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
QUALIFIER = re.compile(r"\b(?:static|inline|extern|__attribute__\s*\(\(.*?\)\))\s*")
NAMED = re.compile(r"\bfi_\w+")
# What user space has other names for.
RENAMED = {"struct iovec": "struct kvec", "uint64_t": "u64", "uint32_t": "u32", "uint8_t": "u8"}


def top_level(text: str) -> list[str]:
    """What stands outside of all braces, cut where a declaration or a body ends."""
    text = LANGUAGE.sub("", DIRECTIVE.sub("", COMMENT.sub("", text)))
    pieces, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char == "{":
            if depth == 0:
                pieces.append(text[start:at])
            depth += 1
        elif char == "}":
            # The one that closes `extern "C"` closes nothing here.
            depth = max(depth - 1, 0)
            start = at + 1
        elif char == ";" and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    return pieces


def normal(text: str) -> str:
    """A piece of a prototype with one space between words, in the kernel's names."""
    text = " ".join(QUALIFIER.sub("", text).split())
    for theirs, ours in RENAMED.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    return re.sub(r"\s*\*\s*", " *", text).strip()


def parameter(text: str) -> str:
    """The type of a parameter, whatever its name is."""
    text = normal(text)
    if "(" in text or text in ("void", ""):
        return text
    return re.sub(r"\b\w+(\[\])?$", r"\1", text).strip() or text


def declared(text: str) -> dict[str, str]:
    """The functions of a header called fi_...: what each takes and returns."""
    found = {}
    for piece in top_level(text):
        match = FUNCTION.fullmatch(piece.strip())
        if not match or not NAMED.fullmatch(match["name"]) or "typedef" in match["type"]:
            continue
        arguments = ", ".join(parameter(part) for part in match["arguments"].split(","))
        found[match["name"]] = f"{normal(match['type'])} ({arguments})"
    return found


def of(folder: Path) -> dict[str, str]:
    """The calls of all headers in a folder."""
    found = {}
    for path in sorted(folder.glob("f*.h")):
        found |= declared(path.read_text(encoding="utf-8", errors="replace"))
    return found
