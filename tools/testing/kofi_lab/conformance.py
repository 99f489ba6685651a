# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/conformance.rst, the table of the contract's lines and the tests of each line.

The name of a KUnit case, or of a scenario's check, that tests line 4 of the group AV begins with av_04_. The table is
made from these names alone.
"""

import re
from collections import defaultdict

from .layers import KUNIT_TESTS
from .output import LabError, print_line
from .paths import SCENARIOS, TREE

PAGE = TREE / "Documentation" / "conformance.rst"

C_CASE = re.compile(r"\bKUNIT_CASE(?:_\w+)?\(\s*(\w+)")
RUST_CASE = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn\s+(\w+)")
CHECK = re.compile(r"^[^#\n]*\bcheck ([a-z]+_\d\d_\w+)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAME = re.compile(r"([a-z]+)_(\d\d)_\w+")

# The title of each group of the contract, and a phrase for each line; a number of lines if there are no phrases.
GROUPS: dict[str, tuple[str, list[str] | int]] = {
    "INFO": (
        "fi_getinfo, fi_fabric, fi_domain",
        [
            "no match is -FI_ENODATA",
            "a newer interface is -FI_ENOSYS",
            "unknown capabilities and flags",
            "FI_SOURCE needs an address",
            "without hints, every provider, device and endpoint type",
            "zero in a hint is a wildcard",
            "at least what was asked for; mode bits cleared",
            "primary capabilities only on demand",
            "allocating and copying an info",
            "parents with children are busy",
            "concurrent queries",
            "binding a fid of the wrong class",
            "layouts of the structs",
            "what is offered works, the rest is refused",
            "every capability and mode bit is offered or refused",
            "a fabric or a domain named in hints",
        ],
    ),
    "AV": (
        "address vectors",
        [
            "indices from 0 on, in order",
            "the lowest free index",
            "how many were inserted",
            "FI_ADDR_NOTAVAIL for failed addresses",
            "FI_SYNC_ERR: an errno for each",
            "unknown flags, and nothing to insert",
            "fi_addr may be NULL for a table",
            "FI_EVENT needs an event queue",
            "errors, then one FI_AV_COMPLETE",
            "aborted insertions are FI_ECANCELED",
            "a node and a service",
            "nodes and services in sequence",
            "invalid removals",
            "removed, and inserted again",
            "the same address twice",
            "reading an address back",
            "addresses as text",
            "shared under a name",
            "the type of a vector",
            "handles of a map are not reused",
            "busy while bound",
            "identifiers of the consumer's",
            "receive contexts in the high bits",
            "hints change nothing",
            "a million, from several CPUs",
        ],
    ),
    "AVSET": (
        "address vector sets",
        [
            "initial members",
            "union, intersection, difference",
            "members, other addresses, full sets; FI_UNIVERSE",
        ],
    ),
    "CQ": (
        "completion queues",
        [
            "size 0, bad formats, bad flags",
            "the formats nest",
            "successes ahead of an error come first",
            "reading nothing drives progress",
            "reading errors, and their texts",
            "ownership of err_data",
            "failures are always reported",
            "truncation reports the number of dropped bytes",
            "fi_cq_sread and its timeout",
            "fi_cq_sread without a wait object",
            "fi_cq_signal",
            "source addresses",
            "remote CQ data in host byte order",
            "no overrun",
            "closing while bound is busy",
            "the handler misses no completion",
            "the context that the handler runs in",
            "blocking calls in atomic context",
            "no handler after the close",
            "statuses map to distinct errnos",
        ],
    ),
    "EQ": (
        "event queues",
        [
            "reading, one event at a time; FI_PEEK",
            "a buffer that is too short",
            "fi_eq_write and the size of the queue",
            "fi_eq_sread",
            "busy while bound; no error is lost",
            "one queue for many endpoints",
            "unread connection requests are refused",
            "eq_event_handler",
        ],
    ),
    "CNTR": (
        "counters",
        [
            "reading and changing both values",
            "fi_cntr_wait",
            "counted operations, and bindings",
            "busy while bound",
        ],
    ),
    "POLL": (
        "poll sets, wait sets, trywait",
        [
            "reserved flags, and objects that cannot be members",
            "no ready member is missed",
            "counters: once after each change",
            "members added twice, objects deleted that are no members",
            "busy sets",
            "each member wakes a waiter",
            "fi_trywait: whether it is safe to block",
            "FI_GETWAIT, FI_GETWAITOBJ",
            "FI_WAIT_QUEUE: no missed event in wait_event",
            "wait objects of user space",
        ],
    ),
    "MR": (
        "memory regions",
        [
            "the three calls, descriptor and key",
            "requested keys",
            "limits on vectors and pages",
            "ranges and rights of remote access",
            "refused ranges",
            "maps and unmaps balance",
        ],
    ),
    "EP": (
        "connected endpoints",
        [
            "binding completion queues",
            "requirements of fi_enable; implicit enabling",
            "operations allowed in each state",
            "a full queue",
            "messages of zero bytes",
            "the address argument is ignored",
            "FI_SELECTIVE_COMPLETION",
            "flags of the msg calls",
            "too many vectors, too long a message",
            "fi_cancel",
            "options, multi-receive",
            "fi_inject",
            "aliases, operation flags, free entries",
        ],
    ),
    "CM": (
        "connection management",
        [
            "requests, acceptance, private data",
            "rejection",
            "the limit of private data",
            "connecting twice, or without a listener",
            "fi_shutdown flushes before it returns",
            "FI_SHUTDOWN, once, after the flushed entries",
            "fi_close reports no event",
            "names of both ends",
            "network namespaces, IPv6",
        ],
    ),
    "RMA": ("remote memory access", 3),
    "ATOM": ("atomics", 6),
    "RDM": (
        "reliable datagram endpoints",
        [
            "an address vector and valid addresses are required",
            "directed receives",
            "the order of messages",
            "the first send connects",
            "tags, FI_PEEK and FI_CLAIM, fi_cancel",
            "unexpected messages are bounded",
            "libfabric in user space",
            "scalable endpoints",
            "fi_sendto, fi_recvfrom",
            "rights of peers: capabilities, registrations, keys",
            "no peer takes resources of another one",
        ],
    ),
    "PEER": (
        "peer objects",
        [
            "FI_PEER where it is not supported",
            "peer completion queues",
            "peer shared receive contexts",
            "peer address vectors and sets, event queues, domains",
            "an undersized struct; fi_export_fid, fi_import_fid",
            "error data, descriptors, peer_ops",
        ],
    ),
    "CLOSE": (
        "every object",
        [
            "no code of the object runs after the return",
            "a constructor that fails undoes its steps",
            "closing in any order",
        ],
    ),
}

HEAD = """\
.. SPDX-License-Identifier: GPL-2.0
.. Written by "lab.py conformance" from the names of the tests. Do not edit.

===========
Conformance
===========

The contract states in numbered lines what each call must do, with a group of
lines for each kind of object. The name of a KUnit case, or of a scenario's
check, begins with the line that it tests: ``cq_05_readerr`` tests line 5 of the
completion queues. This page is made from these names by::

    python3 tools/testing/lab.py conformance

``make test`` fails if the page is out of date. The page does not say whether the
tests pass; ``make test`` does. Lines in *italics* have no test.
"""


def count(group: str) -> int:
    """Returns the number of lines of a group."""
    lines = GROUPS[group][1]
    return lines if isinstance(lines, int) else len(lines)


def cases() -> list[str]:
    """Returns the names of all KUnit cases, in C and in Rust, and of the scenarios' checks of the contract."""
    found = []
    for path in sorted(SCENARIOS.glob("*.sh")):
        found += CHECK.findall(path.read_text(encoding="utf-8"))
    for path in sorted((TREE / "tools/testing/kunit").glob("*.c")):
        found += C_CASE.findall(COMMENT.sub("", path.read_text(encoding="utf-8")))
    return [*found, *cases_in_rust()]


def cases_in_rust(without: str = "") -> list[str]:
    """Returns the names of the KUnit cases below rust/, except those of the folder `without`."""
    found = []
    for path in sorted((TREE / "rust").rglob("*.rs")):
        if without and path.is_relative_to(TREE / without):
            continue
        text = path.read_text(encoding="utf-8")
        if KUNIT_TESTS.search(text):
            found += RUST_CASE.findall(COMMENT.sub("", text))
    return found


def tests_of_lines() -> dict[tuple[str, int], set[str]]:
    """Returns the tests of each line. Raises LabError if a test names a line that the contract does not have."""
    found = defaultdict(set)
    for name in cases():
        if not (match := NAME.fullmatch(name)):
            continue
        group, line = match[1].upper(), int(match[2])
        if group not in GROUPS or not 1 <= line <= count(group):
            raise LabError(f"{name}: the contract has no line {group} {line}")
        found[group, line].add(name)
    return found


def table(group: str, found: dict[tuple[str, int], set[str]]) -> list[str]:
    """Returns the lines of the page's section about one group."""
    title, phrases = GROUPS[group]
    total = count(group)
    tested = [line for line in range(1, total + 1) if found.get((group, line))]
    heading = f"{group}: {title}"
    page = ["", heading, "=" * len(heading), ""]
    page.append(f"{len(tested)} of {total} lines have a test.")
    if isinstance(phrases, int) and not tested:
        return page
    page += ["", ".. list-table::", "   :header-rows: 1", "   :widths: 12 30 58", ""]
    page += ["   * - line", "     - about", "     - tests"]
    for line in range(1, total + 1):
        names = sorted(found.get((group, line), ()))
        about = phrases[line - 1] if isinstance(phrases, list) else ""
        mark = "" if names else "*"
        page.append(f"   * - {mark}{group} {line}{mark}")
        page.append(f"     - {about}".rstrip())
        page.append("     -" + ",\n      ".join(f" ``{name}``" for name in names))
    return page


def page() -> str:
    """Returns the text of the page."""
    found = tests_of_lines()
    total = sum(count(group) for group in GROUPS)
    lines = HEAD.splitlines()
    tests = sum(len(names) for names in found.values())
    lines += ["", f"In all, {tests} tests name {len(found)} of {total} lines."]
    for group in GROUPS:
        lines += table(group, found)
    return "\n".join(lines) + "\n"


def check() -> str:
    """Returns an error if the page in the tree is out of date, or an empty string."""
    try:
        wanted = page()
    except LabError as error:
        return str(error)
    present = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if present == wanted:
        return ""
    return f"{PAGE.relative_to(TREE)} is out of date: run lab.py conformance"


def run(check_only: bool) -> int:
    """Writes the page, or only checks it. Returns the exit status."""
    if not check_only:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        print_line(f"wrote {PAGE.relative_to(TREE)}")
    elif error := check():
        print_line(error)
        return 1
    return 0
