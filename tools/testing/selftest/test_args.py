# SPDX-License-Identifier: GPL-2.0
"""Tests that the KUnit suites of invalid arguments, args*.c, call every function of the C API."""

import re
import unittest

from kofi_lab.paths import TREE

INLINE = re.compile(r"^static inline[^;{}()]*?\b(fi_\w+)\s*\(([^)]*)\)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
EXPORT = re.compile(r"EXPORT_SYMBOL_GPL\((\w+)\)")
TABLE = re.compile(r"struct (fi_ops\w*) \{(.*?)^\};", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"\(\*(\w+)\)\s*\(")
CALL = re.compile(r"\b(fi_\w+)\s*\(")

# Objects that kOFI may not have, and the entry of fi_ops_* that opens them. Without that entry in rust/capi, no test
# can make the object.
OPENERS = {
    "fid_av": "av_open",
    "fid_av_set": "av_set",
    "fid_cntr": "cntr_open",
    "fid_poll": "poll_open",
    "fid_wait": "wait_open",
    "fid_mc": "join",
}
TABLES = {"fi_ops_av": "fid_av", "fi_ops_av_set": "fid_av_set", "fi_ops_cntr": "fid_cntr"} | {
    "fi_ops_poll": "fid_poll",
    "fi_ops_wait": "fid_wait",
}
# Tables of fi_peer(3) that the consumer fills and calls.
OWNERS = re.compile(r"fi_ops_\w*(?:owner|peer)\w*|fi_ops_transfer_peer")


def text(pattern: str) -> str:
    return "\n".join(path.read_text() for path in sorted(TREE.glob(pattern)))


class ArgsTest(unittest.TestCase):
    """Comparisons of the declarations in include/rdma with the calls in args*.c."""

    def setUp(self) -> None:
        self.headers = text("include/rdma/*.h")
        self.args = text("tools/testing/kunit/args*.c")
        capi = text("rust/capi/**/*.rs")
        self.absent = {kind for kind, opener in OPENERS.items() if f"{opener}: fn " not in capi}

    def inlines(self) -> dict[str, str]:
        """Returns the bodies of the inline functions whose objects can be opened, by name."""
        found = {}
        for name, parameters, body in INLINE.findall(self.headers):
            taken = set(re.findall(r"\b(fid\w*) \*?\w", parameters))
            if taken and not taken & self.absent:
                found[name] = body
        return found

    def test_all_inlines_and_exports_are_called(self) -> None:
        inlines = self.inlines()
        self.assertGreater(len(inlines), 90)
        exports = set(EXPORT.findall(text("rust/capi/exports.c"))) - {"fi_version"}
        self.assertGreater(len(exports), 5)
        self.assertFalse(sorted((inlines.keys() | exports) - set(CALL.findall(self.args))))

    def test_all_entries_of_tables_are_called(self) -> None:
        bodies = "\n".join(self.inlines().values()) + self.args
        missing = [
            f"{table}.{entry}"
            for table, members in TABLE.findall(self.headers)
            if not OWNERS.fullmatch(table) and TABLES.get(table) not in self.absent
            for entry in ENTRY.findall(members)
            # An entry with the name of a macro is called in parentheses.
            if not re.search(rf"->{entry}\)?\(", bodies)
        ]
        self.assertFalse(missing)
