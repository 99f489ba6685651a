# SPDX-License-Identifier: GPL-2.0
"""Tests of how often a session boots a guest that does not boot."""

import unittest
from types import SimpleNamespace

from kofi_lab.results import FAILED, Results
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


if __name__ == "__main__":
    unittest.main()
