# SPDX-License-Identifier: GPL-2.0
"""Tests of the counts of unclear wording in Rust, C and pages."""

import unittest

from kofi_lab.prose import Count, folder, measure


def counts_of(suffix: str, text: str) -> tuple[int, int, int]:
    """Returns the counts of one text."""
    count = Count()
    measure(suffix, text, count)
    return count.limited


class ProseTest(unittest.TestCase):
    """Small files with one unclear comment, and with none."""

    def test_relative_openings(self) -> None:
        for suffix, text in (
            (".rs", "/// What is posted.\nfn f() {}"),
            (".rs", "//! Who receives."),
            (".h", "/* Where a peer is. */"),
            (".h", "/**\n * What it does\n */"),
            (".rst", "First sentence.\n\nWhat follows is a list."),
            (".py", 'def f():\n    """What it returns."""\n'),
            (".sh", "# SPDX-License-Identifier: GPL-2.0\n# What it tests.\n"),
        ):
            self.assertEqual(counts_of(suffix, text)[0], 1, text)

    def test_anaphoric_openings(self) -> None:
        self.assertEqual(counts_of(".rs", "/// The same for writes.\n"), (0, 1, 0))
        self.assertEqual(counts_of(".rs", "/// Frees the buffer.\n/// It is not used again.\n"), (0, 0, 0))

    def test_words_for_persons(self) -> None:
        self.assertEqual(counts_of(".rs", "// nobody is told of it\nlet nobody = 1;\n")[2], 1)
        self.assertEqual(counts_of(".rst", "Frees what somebody holds.\n")[2], 1)
        self.assertEqual(counts_of(".py", "# Wakes whoever waits.\nnobody = 1\n")[2], 1)

    def test_good_comments(self) -> None:
        self.assertEqual(counts_of(".rs", "/// Frees the buffer.\n///\n/// # Safety\n"), (0, 0, 0))
        self.assertEqual(counts_of(".c", "/* SPDX-License-Identifier: GPL-2.0 */\n/* Frees it. */\n"), (0, 0, 0))

    def test_a_question_is_no_relative_clause(self) -> None:
        self.assertEqual(counts_of(".rst", "What is missing?\n"), (0, 0, 0))

    def test_folders(self) -> None:
        self.assertEqual(folder("README.md"), ".")
        self.assertEqual(folder("rust/prov/verbs/ep/post.rs"), "rust/prov/verbs")


if __name__ == "__main__":
    unittest.main()
