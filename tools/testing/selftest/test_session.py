# SPDX-License-Identifier: GPL-2.0
"""Tests of how often a session boots a guest that does not boot, when it kills a guest, and which times it saves."""

import unittest
from types import SimpleNamespace
from unittest.mock import patch

from kofi_lab.console import Console
from kofi_lab.results import FAILED, PASSED, Results
from kofi_lab.session import BOOTS, Session


class Guests(Session):
    """A session with fake guests, which end as `ends` says: the number of ended scenarios, and whether it booted."""

    def start(self, names, ends):
        self.ends, self.boots = list(ends), []
        self.run([SimpleNamespace(name=name) for name in names])
        return [(test.name, test.outcome) for test in self.results.tests]

    def _boot(self, scenarios, again):
        self.boots.append(([item.name for item in scenarios], again))
        return self.ends.pop(0)


def guests():
    kernel = SimpleNamespace(lane=SimpleNamespace(name="plain"))
    return Guests(kernel, [], Results())


class Boots(unittest.TestCase):
    def test_a_guest_that_did_not_boot_is_started_again(self):
        session = guests()
        self.assertEqual(session.start("ab", [(0, False), (1, True), (0, False), (1, True)]), [])
        names = [names for names, _ in session.boots]
        self.assertEqual(names, [["a", "b"], ["a", "b"], ["b"], ["b"]])

    def test_the_number_of_boots_is_limited(self):
        session = guests()
        outcomes = session.start("ab", [(0, False)] * BOOTS)
        self.assertEqual(outcomes, [("a", FAILED), ("b", FAILED)])
        self.assertEqual([again for _, again in session.boots], [True] * (BOOTS - 1) + [False])

    def test_a_booted_guest_that_ends_no_scenario_is_the_last(self):
        session = guests()
        self.assertEqual(session.start("a", [(0, True)]), [("a", FAILED)])


class Watch(unittest.TestCase):
    """Guests with one scenario, whose time limit is 100 seconds."""

    def outcomes(self, *script, **fields):
        """Returns the outcomes after a console of lines, and of numbers of seconds that pass."""
        clock = [0.0]

        def lines():
            for item in ("lab: KTAP version 1", "lab:   KTAP version 1", "lab:   # Subtest: a", *script):
                if isinstance(item, str):
                    yield item
                else:
                    clock[0] += item
                    yield None

        lane = SimpleNamespace(name="plain", timeout_factor=1)
        results = Results()
        session = Session(SimpleNamespace(lane=lane), [], results, echo=True, **fields)
        scenario = SimpleNamespace(name="a", limit=lambda _: 100)
        with (
            patch("kofi_lab.session.time.monotonic", lambda: clock[0]),
            patch("kofi_lab.session.timings.save") as self.save,
            patch("kofi_lab.session.print_line"),
        ):
            session._watch(SimpleNamespace(lines=lines), Console("plain", results, []), [scenario])
        return [(test.name, test.outcome) for test in results.tests]

    def test_a_slow_guest_has_time_while_its_console_has_new_lines(self):
        progress = [200, "lab:   ok 1 x", 200, "lab:   ok 2 y", 200]
        outcomes = [("a.x", PASSED), ("a.y", PASSED), ("a", PASSED)]
        self.assertEqual(self.outcomes(*progress, "lab: ok 1 a", "lab: # over"), outcomes)

    def test_a_guest_without_new_lines_is_killed(self):
        self.assertEqual(self.outcomes("lab:   ok 1 x", 200, 200, "lab: ok 1 a"), [("a.x", PASSED), ("a", FAILED)])

    def test_a_guest_that_never_ends_is_killed(self):
        progress = ["line", 200] * 100
        self.assertEqual(self.outcomes(*progress, "lab: ok 1 a"), [("a", FAILED)])

    def test_the_time_of_a_scenario_is_saved(self):
        self.outcomes(7, "lab: ok 1 a")
        self.save.assert_called_once_with("plain", "a", 7.0)
        self.outcomes(7, "lab: not ok 1 a")
        self.save.assert_not_called()

    def test_the_time_of_a_part_of_the_suites_is_not_saved(self):
        self.outcomes(7, "lab: ok 1 a", environment={"SUITES": "*av*"})
        self.save.assert_not_called()


if __name__ == "__main__":
    unittest.main()
