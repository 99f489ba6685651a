# SPDX-License-Identifier: GPL-2.0
"""Tests of the selection of tests by changed files."""

import re
import unittest
from unittest import mock

from kofi_lab import changed, plan, static
from kofi_lab.lane import lane
from kofi_lab.results import matches
from kofi_lab.suite import is_selected


class ChangedTest(unittest.TestCase):
    def test_a_page_needs_no_guest(self):
        found = changed.affected(["Documentation/av.rst"])
        self.assertEqual(found.scenarios, [])
        self.assertIn("static.example", found.checks)

    def test_a_suite_is_run_over_every_provider(self):
        found = changed.affected(["tools/testing/kunit/inject_space.c"])
        self.assertEqual(found.scenarios, ["kunit.rxe", "kunit.siw", "kunit.loop"])
        self.assertEqual(found.suites, ["kofi_inject_space", "kofi_rdm_inject_space"])

    def test_the_core_reaches_all_suites_whatever_else_changes(self):
        found = changed.affected(["rust/prov/rxm/conn.rs", "rust/fi/cq.rs"])
        self.assertEqual(found.suites, [])
        self.assertIn("kunit.loop", found.scenarios)

    def test_a_scenario_is_run_when_its_script_changes(self):
        self.assertIn("devdel", changed.affected(["tools/testing/scenarios/devdel.sh"]).scenarios)

    def test_names_are_matched_word_by_word(self):
        self.assertTrue(is_selected("kunit.rxe", ["kunit.rxe"]))
        self.assertTrue(is_selected("devdel.siw", ["devdel"]))
        self.assertFalse(is_selected("kunit.rxe.serial", ["kunit.rxe"]))
        self.assertFalse(is_selected("devdels", ["devdel"]))

    def test_the_changes_of_a_clean_tree_are_those_of_its_last_commit(self):
        output = {"diff": [[], ["a"]], "ls-files": [[]]}
        with mock.patch.object(changed, "git", lambda verb, *_: output[verb].pop(0)):
            self.assertEqual(changed.files(), ["a"])

    def test_every_rule_names_existing_tests(self):
        names = [scenario.name for scenario in plan.select("test", lane("uml"))]
        tests = [*static.READING, *static.COMPILING, "static.header.x", "static.example.x", "static.client.test"]
        for rule in changed.rules():
            re.compile(rule["files"])
            for word in rule.get("scenarios", []):
                self.assertTrue(any(is_selected(name, [word]) for name in names), word)
            for word in rule.get("checks", []):
                self.assertTrue(any(matches(word, name) for name in tests), word)


if __name__ == "__main__":
    unittest.main()
