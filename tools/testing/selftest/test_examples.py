# SPDX-License-Identifier: GPL-2.0
"""Tests of the extraction of examples from pages."""

import unittest

from kofi_lab.examples import blocks, rust_source, source, uncompiled

PAGE = """\
Title
=====

.. code-block:: c

    static void ready(struct fid_cq *cq, void *context)
    {
            while (more(cq))
                    ...
    }

    ret = one(ready);
    ...                         /* and so on */

Text::

    not C

.. code-block:: console

    # neither

* In a list:

  .. code-block:: c

      ret = two();

Text.
"""

RUST = """\
Title
=====

.. code-block:: rust

    let one = open(here)?;
    ...
    one.close()?;

.. code-block:: c
    :class: user-space

    ret = four();

"""

FENCED = "Text.\n\n```c\nret = three();\n```\n"


class ExamplesTest(unittest.TestCase):
    """Pages with examples in C, in Rust and for user space."""

    def test_only_blocks_of_c_are_found(self) -> None:
        found = [block.splitlines()[-1] for _, block in blocks(PAGE)]
        self.assertEqual(["...                         /* and so on */", "ret = two();"], found)
        self.assertEqual([(4, "ret = three();\n")], blocks(FENCED))

    def test_lines_are_those_of_the_page(self) -> None:
        lines = PAGE.splitlines()
        for line, block in blocks(PAGE):
            self.assertEqual(block.splitlines()[0], lines[line - 1].strip())

    def test_functions_are_moved_before_the_statements(self) -> None:
        text = source("page.rst", PAGE)
        self.assertLess(text.index("static void ready"), text.index("example_6"))
        self.assertIn('#line 6 "page.rst"\nstatic void ready', text)
        self.assertIn("\nret = one(ready);\n;", text)
        self.assertNotIn("...", text)

    def test_rust_keeps_its_line_numbers(self) -> None:
        lines = rust_source(RUST, "here").splitlines()
        self.assertEqual(lines[5], "let one = open(here)?;")
        self.assertTrue(lines[4].endswith("let Given { here } = given;"))
        self.assertEqual(lines[8], "Ok(()) }")
        self.assertNotIn("...", lines[6])

    def test_blocks_for_user_space_are_apart(self) -> None:
        self.assertEqual([], blocks(RUST))
        self.assertEqual([(13, "ret = four();\n")], blocks(RUST, "user"))

    def test_code_without_a_language_is_found(self) -> None:
        self.assertEqual([], uncompiled(PAGE))
        self.assertEqual([3], uncompiled("Text::\n\n    ret = five();\n\n"))
        self.assertEqual([], uncompiled("Text::\n\n    # echo 1; echo 2\n    modprobe kofi\n\n"))
