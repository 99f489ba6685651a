# SPDX-License-Identifier: GPL-2.0
"""Checks the layers of the crate: which part may use which, and which files may have `unsafe` code.

A part is a folder of rust/, or a file with the same name.
"""

import re
import sys
from pathlib import Path

from .paths import TREE

# The parts that each part may use. Only the crate root uses all providers.
MAY_USE = {
    "compat": {"util", "bindings"},
    "abi": {"util", "compat", "prelude"},
    "util": {"abi", "introspect", "compat", "prelude"},
    "introspect": {"abi", "util", "compat", "prelude"},
    # Exports names of abi and util, which rdma must not use.
    "prelude": {"abi", "util"},
    "bindings": set(),
    "rdma": {"bindings", "compat"},
    "fi": {"abi", "util", "introspect", "compat", "prelude"},
    "prov": {"fi", "rdma", "abi", "util", "compat", "prelude"},
    "capi": {"fi", "abi", "util", "introspect", "compat", "prelude"},
    "dev": {"fi", "abi", "util", "introspect", "compat", "prelude"},
    # A separate crate, which uses the public API of kofi.
    "perf": set(),
}

# Conditions on the series of Linux, and the only files that may have them.
SERIES_CONDITION = re.compile(r"\bkofi_before_|\bLINUX_VERSION_CODE\b|\bKERNEL_VERSION\b")
COMPAT_FILES = {"rust/compat.rs"}

UNSAFE_PARTS = {"abi", "util", "introspect", "bindings", "compat", "rdma", "capi"}
# Files of safe parts that may have unsafe code: the type of memory that stays valid until its operation completes,
# and the files of providers that keep such memory or retire completed operations.
UNSAFE_FILES = {
    "rust/fi/memory.rs",
    "rust/fi/memory/buffer.rs",
    # Calls raw_verbs.c.
    "rust/perf/raw_verbs.rs",
    "rust/prov/common/iov/device.rs",
    "rust/prov/common/iov/io_vec.rs",
    "rust/prov/common/iov/slot.rs",
    "rust/prov/loop/op.rs",
    "rust/prov/loop/srx.rs",
    "rust/prov/rxm/ep/atomic.rs",
    "rust/prov/rxm/ep/msg.rs",
    "rust/prov/rxm/ep/rma.rs",
    "rust/prov/rxm/ep/short.rs",
    "rust/prov/rxm/multi_recv.rs",
    "rust/prov/rxm/peer_srx.rs",
    "rust/prov/rxm/pkt_buf.rs",
    "rust/prov/rxm/rx_entry.rs",
    "rust/prov/rxm/srx/ops.rs",
    "rust/prov/rxm/srx/slots.rs",
    "rust/prov/rxm/tx_op.rs",
    "rust/prov/verbs/cq.rs",
    "rust/prov/verbs/cq/poll.rs",
    "rust/prov/verbs/cq/read.rs",
    "rust/prov/verbs/ep.rs",
    "rust/prov/verbs/ep/atomic.rs",
    "rust/prov/verbs/ep_region.rs",
    "rust/prov/verbs/srx.rs",
    "rust/prov/verbs/srx/endpoints.rs",
    "rust/prov/verbs/cntr.rs",
    "rust/prov/verbs/cq/cas.rs",
    "rust/prov/verbs/cq/wq_entry.rs",
    "rust/prov/verbs/cq/wq_table.rs",
    "rust/prov/verbs/ep/enable.rs",
    "rust/prov/verbs/wq/retire.rs",
}
# The data path of a provider: files that build and post work requests, and poll completions; and their tests.
UNSAFE_PROVIDER = re.compile(
    r"rust/prov/\w+/(.*/)?"
    r"(post|part|long_rma|sge_list|recv|reserve|drain|sge|operands|wq|wr_ring|fifo|iov|mr|mr_table)(/tests)?\.rs"
)

# The head of a function, a comment that justifies an unsafe block or an invariant, and the words that refer to a
# contract of the caller. The contracts of C callers are in the headers.
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?((?:unsafe )?(?:extern \"C\" )?)fn (\w+)")
JUSTIFICATION = re.compile(r"^\s*// (?:SAFETY|INVARIANT): ")
CONTRACT = re.compile(r"\bcallers?\b|\bwhoever calls\b|\bthis function's (?:contract|safety requirement)", re.I)
UNSAFE_BLOCK = re.compile(r"\bunsafe \{")
DOCUMENTED_CONTRACT = re.compile(r"\bthe caller (?:holds|keeps|has|owns|promises|sees to|does not)\b", re.I)
C_CALLER = re.compile(r"\bC callers?\b")

# Attribute of a module of unit tests, which is at the end of its file.
KUNIT_TESTS = re.compile(r"#\[(?:\w+::)*kunit_tests\(")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
CRATE_PATH = re.compile(r"\bcrate::(\{|\w+)")
SUPER_PATH = re.compile(r"\b((?:super::)+)(\w+)")


def strip_comments(text: str) -> str:
    """Returns the text without comments and strings, with the same number of lines."""
    return COMMENT_OR_STRING.sub(lambda match: "\n" * match[0].count("\n"), text)


def braced_names(code: str, start: int) -> list[str]:
    """Returns the first names in the braces of `crate::{a::b, c}`; the opening brace is before `start`."""
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
    """Returns the module path of a file: [fi, cq] for rust/fi/cq.rs, [fi] for rust/fi.rs."""
    return list(Path(name).relative_to("rust").with_suffix("").parts)


def used_parts(name: str, code: str) -> list[tuple[int, str]]:
    """Returns line and part of each path in a file that begins at the crate root."""
    found = []
    for match in CRATE_PATH.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        names = braced_names(code, match.end()) if match[1] == "{" else [match[1]]
        found += [(line, part) for part in names]
    depth = len(module_path(name))
    for match in SUPER_PATH.finditer(code):
        if match[1].count("super") >= depth:
            found.append((code.count("\n", 0, match.start()) + 1, match[2]))
    return found


def forbidden_uses(name: str, text: str) -> list[str]:
    """Returns an error for each path in a file that leads into a part which its own part must not use."""
    part = module_path(name)[0]
    if part not in MAY_USE:
        return []
    allowed = MAY_USE[part]
    return [
        f"{name}:{line}: {part} must not use {other}"
        for line, other in used_parts(name, strip_comments(text))
        if other in MAY_USE and other != part and other not in allowed
    ]


def forbidden_unsafe(name: str, text: str) -> list[str]:
    """Returns an error for each `unsafe` in a file of safe code."""
    if name.startswith("rust/"):
        if module_path(name)[0] in UNSAFE_PARTS or name in UNSAFE_FILES:
            return []
        if UNSAFE_PROVIDER.fullmatch(name):
            return []
    return [
        f"{name}:{number}: unsafe is not allowed in this file: {line.strip()}"
        for number, line in enumerate(strip_comments(text).split("\n"), 1)
        if re.search(r"\bunsafe\b(?!_)", line)
    ]


def unaccounted_allocations(name: str, text: str) -> list[str]:
    """Returns an error for each allocation that is not charged to the memory cgroup of the calling process.

    Allocations of rust/dev and rust/perf have to be.
    """
    if not re.match(r"rust/(dev|perf)(/|\.rs)", name) or name.endswith("/tests.rs"):
        return []
    code = KUNIT_TESTS.split(strip_comments(text))[0]
    return [
        f"{name}:{number}: use GFP_KERNEL_ACCOUNT: {line.strip()}"
        for number, line in enumerate(code.split("\n"), 1)
        if re.search(r"\bGFP_(KERNEL|NOWAIT|ATOMIC)\b", line)
    ]


def safe_functions_with_contracts(name: str, text: str) -> list[str]:
    """Returns an error for each safe function whose unsafe blocks or invariants rely on a contract of the caller."""
    found = []
    # Unit tests fulfil the contracts themselves.
    lines = KUNIT_TESTS.split(text)[0].split("\n")
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
        if JUSTIFICATION.match(line):
            comment, contract = line, CONTRACT
            for more in lines[number:]:
                if not more.lstrip().startswith("//"):
                    break
                comment += more
        elif UNSAFE_BLOCK.search(line):
            # The contract can also be in the doc comment of the function.
            comment, contract = doc, DOCUMENTED_CONTRACT
        else:
            continue
        if contract.search(C_CALLER.sub("", comment)):
            found.append(f"{name}:{number}: {function} is safe, but relies on its caller: {line.strip()}")
    return found


def sources() -> dict[str, str]:
    """Returns the text of all Rust files of the crate and the samples, by path."""
    found = [*(TREE / "rust").rglob("*.rs"), *(TREE / "samples").rglob("*.rs")]
    return {str(path.relative_to(TREE)): path.read_text() for path in sorted(found)}


def series_conditions(name: str, text: str) -> list[str]:
    """Returns an error for each condition on the series of Linux in a file other than rust/compat.rs."""
    if name in COMPAT_FILES:
        return []
    return [
        f"{name}:{number}: move conditions on the series of Linux to rust/compat.rs: {line.strip()}"
        for number, line in enumerate(strip_comments(text).split("\n"), 1)
        if SERIES_CONDITION.search(line)
    ]


def c_sources() -> dict[str, str]:
    """Returns the text of all C sources and headers that are built into modules, by path."""
    folders = ("include", "rust", "samples", "tools/testing/kunit", "tools/testing/bench", "tools/testing/consumers")
    found = [path for folder in folders for path in (TREE / folder).rglob("*.[ch]")]
    return {str(path.relative_to(TREE)): path.read_text() for path in sorted(found)}


def check_layers() -> list[str]:
    """Returns the errors of the tree: forbidden uses between parts, and misplaced conditions on the series."""
    crate = {name: text for name, text in sources().items() if name.startswith("rust/")}
    errors = [error for name, text in crate.items() for error in forbidden_uses(name, text)]
    files = sources() | c_sources()
    return errors + [error for name, text in files.items() for error in series_conditions(name, text)]


def check_accounting() -> list[str]:
    """Returns the errors of the tree: allocations that are not charged to the calling process."""
    return [error for name, text in sources().items() for error in unaccounted_allocations(name, text)]


def check_unsafe() -> list[str]:
    """Returns the errors of the tree: `unsafe` in safe parts, and safe functions that have to be `unsafe`."""
    rules = (forbidden_unsafe, safe_functions_with_contracts)
    return [error for name, text in sources().items() for rule in rules for error in rule(name, text)]


if __name__ == "__main__":
    errors = check_layers() + check_unsafe() + check_accounting()
    print("\n".join(errors) or "no errors")
    sys.exit(bool(errors))
