# SPDX-License-Identifier: GPL-2.0
"""A list that does not agree with the headers, or with the test, is told."""

import unittest

from kofi_lab.libfabric import apart, lists, wrong

PAGE = """
Every call
==========

Text with ``fi_nothing``.

Same
----

``fi_a``, ``fi_b``

Different
---------

=========  ====
``fi_c``   unlike ``fi_a``
=========  ====

-FI_ENOSYS
----------

``fi_d``

Only here
---------

``fi_e``

Only in user space
------------------

``fi_f``
"""
OURS = dict.fromkeys(["fi_a", "fi_b", "fi_c", "fi_d", "fi_e"], "int (void)")
THEIRS = dict.fromkeys(["fi_a", "fi_b", "fi_c", "fi_d", "fi_f"], "int (void)")


class ListsTest(unittest.TestCase):
    """A good page, and what makes it a bad one."""

    def setUp(self) -> None:
        self.found = lists(PAGE)

    def test_what_agrees(self) -> None:
        self.assertEqual(["fi_c"], self.found["Different"])
        self.assertEqual([], wrong(self.found, OURS, {"fi_d"}))
        self.assertEqual([], apart(self.found, OURS, THEIRS))

    def test_our_headers(self) -> None:
        self.assertEqual(["fi_g stands in no list"], wrong(self.found, {**OURS, "fi_g": ""}, {"fi_d"}))
        fewer = {name: OURS[name] for name in OURS if name != "fi_b"}
        self.assertEqual(["fi_b is no call of ours"], wrong(self.found, fewer, {"fi_d"}))
        self.found["Same"].append("fi_c")
        self.assertEqual(["fi_c stands in two lists"], wrong(self.found, OURS, {"fi_d"}))

    def test_what_a_test_shows(self) -> None:
        self.assertEqual(1, len(wrong(self.found, OURS, set())))
        self.assertEqual(1, len(wrong(self.found, OURS, {"fi_d", "fi_a"})))

    def test_their_headers(self) -> None:
        self.assertEqual(1, len(apart(self.found, OURS, {**THEIRS, "fi_e": "int (void)"})))
        self.assertEqual(1, len(apart(self.found, OURS, {**THEIRS, "fi_h": "int (void)"})))
        self.assertEqual(1, len(apart(self.found, OURS, {**THEIRS, "fi_a": "int (int)"})))
        without = {name: THEIRS[name] for name in THEIRS if name != "fi_f"}
        self.assertEqual(1, len(apart(self.found, OURS, without)))
