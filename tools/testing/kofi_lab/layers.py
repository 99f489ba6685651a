# SPDX-License-Identifier: GPL-2.0
"""Holds the house in order: which room of the crate may name which, where `unsafe` may stand."""

import re
import sys
from pathlib import Path

from .paths import TREE

# What each room may stand on. The root alone knows every provider.
MAY_USE = {
    "compat": {"util", "bindings"},
    "abi": {"util", "compat", "prelude"},
    "util": {"abi", "introspect", "compat", "prelude"},
    "introspect": {"abi", "util", "compat", "prelude"},
    # Passes on names of abi and util: not for rdma.
    "prelude": {"abi", "util"},
    "bindings": set(),
    "rdma": {"bindings", "compat"},
    "fi": {"abi", "util", "introspect", "compat", "prelude"},
    "prov": {"fi", "rdma", "abi", "util", "compat", "prelude"},
    "capi": {"fi", "abi", "util", "introspect", "compat", "prelude"},
    "dev": {"fi", "abi", "util", "introspect", "compat", "prelude"},
    # A crate of its own, which sees the public API of kofi.
    "perf": set(),
}

# Conditions on the series of Linux, and the files that may have them.
SERIES_CONDITION = re.compile(r"\bkofi_before_|\bLINUX_VERSION_CODE\b|\bKERNEL_VERSION\b")
COMPAT_FILES = {"rust/compat.rs"}

UNSAFE_ROOMS = {"abi", "util", "introspect", "bindings", "compat", "rdma", "capi"}
# The type that stands for "this memory stays valid until the operation completes"; and the files of providers
# that keep such memory until then, or retire what has completed, under a promise of theirs.
UNSAFE_FILES = {
    "rust/fi/memory.rs",
    # Calls raw_verbs.c.
    "rust/perf/raw_verbs.rs",
    "rust/prov/loop/op.rs",
    "rust/prov/loop/srx.rs",
    "rust/prov/rxm/ep/atomic.rs",
    "rust/prov/rxm/ep/msg.rs",
    "rust/prov/rxm/ep/rma.rs",
    "rust/prov/rxm/multi_recv.rs",
    "rust/prov/rxm/peer_srx.rs",
    "rust/prov/rxm/pkt_buf.rs",
    "rust/prov/rxm/rx_entry.rs",
    "rust/prov/rxm/srx.rs",
    "rust/prov/rxm/tx_op.rs",
    "rust/prov/verbs/cq.rs",
    "rust/prov/verbs/cq/poll.rs",
    "rust/prov/verbs/cq/read.rs",
    "rust/prov/verbs/ep.rs",
    "rust/prov/verbs/ep/atomic.rs",
    "rust/prov/verbs/srx.rs",
    "rust/prov/verbs/srx/endpoints.rs",
    "rust/prov/verbs/cntr.rs",
}
# A provider's data path: what builds work requests, posts them and takes their completions.
UNSAFE_PROVIDER = re.compile(r"rust/prov/\w+/(.*/)?(post|recv|reserve|fetch|fetching|fast|native|drain|sge|operands|wq|wr_ring|fifo|iov|mr|mr_table)\.rs")

# The head of a function, a comment that justifies an unsafe block or an invariant, and words that name a promise of the
# caller. What C callers promise is said in the headers.
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?((?:unsafe )?(?:extern \"C\" )?)fn (\w+)")
JUSTIFIED = re.compile(r"^\s*// (?:SAFETY|INVARIANT): ")
PROMISED = re.compile(r"\bcallers?\b|\bwhoever calls\b|\bthis function's (?:contract|safety requirement)", re.I)
UNSAFE_BLOCK = re.compile(r"\bunsafe \{")
DOCUMENTED = re.compile(r"\bthe caller (?:holds|keeps|has|owns|promises|sees to|does not)\b", re.I)
C_CALLER = re.compile(r"\bC callers?\b")

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
CRATE_PATH = re.compile(r"\bcrate::(\{|\w+)")
SUPER_PATH = re.compile(r"\b((?:super::)+)(\w+)")


def code_of(text: str) -> str:
    """The text without comments and strings, lines kept."""
    return COMMENT_OR_STRING.sub(lambda match: "\n" * match[0].count("\n"), text)


def group(code: str, start: int) -> list[str]:
    """The first names in the braces of `crate::{a::b, c}`, which open before `start`."""
    depth, names, at_name = 1, [], True
    for token in re.finditer(r"[{},]|\w+", code[start:]):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                break
        elif token[0] == ",":
            at_name = at_name or depth == 1
        elif at_name and depth == 1:
            names.append(token[0])
            at_name = False
    return names


def module_path(name: str) -> list[str]:
    """The module that a file is: rust/fi/cq.rs is fi::cq, rust/fi.rs is fi."""
    return list(Path(name).relative_to("rust").with_suffix("").parts)


def used(name: str, code: str) -> list[tuple[int, str]]:
    """Line and room of every path that leads through the crate's root."""
    found = []
    for match in CRATE_PATH.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        names = group(code, match.end()) if match[1] == "{" else [match[1]]
        found += [(line, room) for room in names]
    depth = len(module_path(name))
    for match in SUPER_PATH.finditer(code):
        if match[1].count("super") >= depth:
            found.append((code.count("\n", 0, match.start()) + 1, match[2]))
    return found


def layering(name: str, text: str) -> list[str]:
    """Paths from this file into a room that its own must not know."""
    room = module_path(name)[0]
    if room not in MAY_USE:
        return []
    known = MAY_USE[room]
    return [
        f"{name}:{line}: {room} must not know {other}"
        for line, other in used(name, code_of(text))
        if other in MAY_USE and other != room and other not in known
    ]


def unsafety(name: str, text: str) -> list[str]:
    """Uses of `unsafe` in a file that has to do without."""
    if name.startswith("rust/"):
        if module_path(name)[0] in UNSAFE_ROOMS or name in UNSAFE_FILES:
            return []
        if UNSAFE_PROVIDER.fullmatch(name):
            return []
    return [
        f"{name}:{number}: unsafe has no place here: {line.strip()}"
        for number, line in enumerate(code_of(text).split("\n"), 1)
        if re.search(r"\bunsafe\b(?!_)", line)
    ]


def uncharging(name: str, text: str) -> list[str]:
    """Allocations of `rust/dev` and `rust/perf` that are not charged to the memory cgroup of the calling process."""
    if not re.match(r"rust/(dev|perf)(/|\.rs)", name) or name.endswith("/tests.rs"):
        return []
    # Unit tests are at the end of a file.
    code = code_of(text).split("#[kunit_tests(")[0]
    return [
        f"{name}:{number}: GFP_KERNEL_ACCOUNT is wanted: {line.strip()}"
        for number, line in enumerate(code.split("\n"), 1)
        if re.search(r"\bGFP_(KERNEL|NOWAIT|ATOMIC)\b", line)
    ]


def relying_on_callers(name: str, text: str) -> list[str]:
    """Safe functions whose unsafe blocks or invariants are justified by a promise of the caller."""
    found = []
    # Unit tests are at the end of a file, and keep their own promises.
    lines = text.split("#[kunit_tests(")[0].split("\n")
    function, is_safe, doc, pending = "", False, "", ""
    for number, line in enumerate(lines, 1):
        if line == "}":
            is_safe = False
        if line.lstrip().startswith("///"):
            pending += line
        elif start := FUNCTION.match(line):
            is_safe, function, doc, pending = "unsafe" not in start[1], start[2], pending, ""
        elif not line.lstrip().startswith("#["):
            pending = ""
        if not is_safe:
            continue
        if JUSTIFIED.match(line):
            words, promise = line, PROMISED
            for more in lines[number:]:
                if not more.lstrip().startswith("//"):
                    break
                words += more
        elif UNSAFE_BLOCK.search(line):
            # The doc comment of a function with an unsafe block may say it instead.
            words, promise = doc, DOCUMENTED
        else:
            continue
        if promise.search(C_CALLER.sub("", words)):
            found.append(f"{name}:{number}: {function} is safe, but relies on its caller: {line.strip()}")
    return found


def sources() -> dict[str, str]:
    """The crate and the Rust samples."""
    found = [*(TREE / "rust").rglob("*.rs"), *(TREE / "samples").rglob("*.rs")]
    return {str(path.relative_to(TREE)): path.read_text() for path in sorted(found)}


def conditions(name: str, text: str) -> list[str]:
    """Returns the conditions on the series of Linux in a file that has to do without."""
    if name in COMPAT_FILES:
        return []
    return [
        f"{name}:{number}: only rust/compat.rs asks for the series of Linux: {line.strip()}"
        for number, line in enumerate(code_of(text).split("\n"), 1)
        if SERIES_CONDITION.search(line)
    ]


def c_sources() -> dict[str, str]:
    """Returns all C sources and headers that are built into modules."""
    folders = ("include", "rust", "samples", "tools/testing/kunit", "tools/testing/bench", "tools/testing/consumers")
    found = [path for folder in folders for path in (TREE / folder).rglob("*.[ch]")]
    return {str(path.relative_to(TREE)): path.read_text() for path in sorted(found)}


def broken_layers() -> list[str]:
    """Every breach of the layering, and every condition on the series of Linux out of place."""
    crate = {name: text for name, text in sources().items() if name.startswith("rust/")}
    found = [word for name, text in crate.items() for word in layering(name, text)]
    everywhere = sources() | c_sources()
    return found + [word for name, text in everywhere.items() for word in conditions(name, text)]


def uncharged() -> list[str]:
    """Lists every allocation for a process that is not charged to it."""
    return [word for name, text in sources().items() for word in uncharging(name, text)]


def stray_unsafe() -> list[str]:
    """Lists every `unsafe` out of place, and every function that has to be `unsafe` and is not."""
    rules = (unsafety, relying_on_callers)
    return [word for name, text in sources().items() for rule in rules for word in rule(name, text)]


if __name__ == "__main__":
    words = broken_layers() + stray_unsafe() + uncharged()
    print("\n".join(words) or "clean")
    sys.exit(bool(words))
