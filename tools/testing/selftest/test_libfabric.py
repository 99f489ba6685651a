# SPDX-License-Identifier: GPL-2.0
"""Tests of the comparison of the lists of calls with the headers and with absent.c."""

import unittest

from kofi_lab.libfabric import compare_with_ours, compare_with_theirs, lists

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
    """A correct page, and changes that make it wrong."""

    def setUp(self) -> None:
        self.found = lists(PAGE)

    def test_a_correct_page_has_no_errors(self) -> None:
        self.assertEqual(["fi_c"], self.found["Different"])
        self.assertEqual([], compare_with_ours(self.found, OURS, {"fi_d"}))
        self.assertEqual([], compare_with_theirs(self.found, OURS, THEIRS))

    def test_differences_from_our_headers(self) -> None:
        self.assertEqual(["fi_g is in no list"], compare_with_ours(self.found, {**OURS, "fi_g": ""}, {"fi_d"}))
        fewer = {name: OURS[name] for name in OURS if name != "fi_b"}
        error = "fi_b is listed, but include/rdma does not declare it"
        self.assertEqual([error], compare_with_ours(self.found, fewer, {"fi_d"}))
        self.found["Same"].append("fi_c")
        self.assertEqual(["fi_c is in two lists"], compare_with_ours(self.found, OURS, {"fi_d"}))

    def test_differences_from_the_tests_of_absent_calls(self) -> None:
        self.assertEqual(1, len(compare_with_ours(self.found, OURS, set())))
        self.assertEqual(1, len(compare_with_ours(self.found, OURS, {"fi_d", "fi_a"})))

    def test_differences_from_the_headers_of_user_space(self) -> None:
        self.assertEqual(1, len(compare_with_theirs(self.found, OURS, {**THEIRS, "fi_e": "int (void)"})))
        self.assertEqual(1, len(compare_with_theirs(self.found, OURS, {**THEIRS, "fi_h": "int (void)"})))
        self.assertEqual(1, len(compare_with_theirs(self.found, OURS, {**THEIRS, "fi_a": "int (int)"})))
        without = {name: THEIRS[name] for name in THEIRS if name != "fi_f"}
        self.assertEqual(1, len(compare_with_theirs(self.found, OURS, without)))
