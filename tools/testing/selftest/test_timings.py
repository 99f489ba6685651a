# SPDX-License-Identifier: GPL-2.0
"""Tests of the division of scenarios among guests, and of the list of the slowest."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kofi_lab import timings
from kofi_lab.plan import Scenario


def scenario(name, arguments="rxe", seconds=10):
    return Scenario(name, Path("x.sh"), seconds=seconds, arguments=arguments)


class Timings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "timings.json"
        patch = mock.patch.object(timings, "FILE", self.file)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_longest_scenario_is_alone_if_it_takes_as_long_as_the_rest(self):
        for name, seconds in {"a": 30.0, "b": 10.0, "c": 10.0, "d": 9.0}.items():
            timings.save("uml", name, seconds)
        parts = timings.divide("uml", [scenario(name) for name in "abcd"], 2)
        self.assertEqual(sorted([item.name for item in part] for part in parts), [["a"], ["b", "c", "d"]])

    def test_every_scenario_runs_once_and_an_unused_guest_is_not_started(self):
        self.assertEqual(len(timings.divide("uml", [scenario("a")], 2)), 1)
        self.assertEqual(timings.divide("uml", [], 2), [])
        parts = timings.divide("uml", [scenario(name) for name in "abcdefg"], 3)
        names = [item.name for part in parts for item in part]
        self.assertEqual(sorted(names), list("abcdefg"))

    def test_siw_comes_last_and_the_rest_keeps_the_order_of_the_plan(self):
        rows = [scenario("a", "siw 2"), scenario("b", "both"), scenario("c", "rxe"), scenario("d", "loop")]
        (part,) = timings.divide("uml", rows, 1)
        self.assertEqual([item.name for item in part], ["c", "d", "a", "b"])

    def test_durations_of_other_lanes_are_not_taken(self):
        timings.save("plain", "a", 500.0)
        self.assertEqual(timings.estimate("uml", scenario("a"), timings.read()), 1.0)

    def test_an_invalid_file_is_ignored(self):
        self.file.write_text("{")
        self.assertEqual(timings.read(), {})
        timings.save("uml", "a", 2.0)
        self.assertEqual(json.loads(self.file.read_text()), {"uml a": 2.0})

    def test_the_slowest_come_first_and_each_lane_has_a_sum(self):
        rows = timings.rows({"uml a": 2.0, "plain b": 5.0, "uml c": 1.0}.items())
        self.assertEqual([row.split("  ")[-1] for row in rows][:3], ["plain b", "uml a", "uml c"])
        self.assertTrue(rows[-1].endswith("3.0 s  uml, sum"))

    def test_a_case_takes_the_time_since_the_one_before(self):
        log = """[    1.000000] lab:   # Subtest: kunit.rxe
[    2.000000]     # Subtest: kofi_a
[    2.500000]     ok 1 first
[    2.600000]         ok 1 a parameter
[    4.500000]     not ok 2 second
"""
        found = timings.cases(log.splitlines())
        self.assertEqual(found, {"kunit.rxe": {"kofi_a.first": 0.5, "kofi_a.second": 2.0}})


if __name__ == "__main__":
    unittest.main()
