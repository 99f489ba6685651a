# SPDX-License-Identifier: GPL-2.0
"""How often a guest is started, and what is said of one that was never up."""

import unittest
from types import SimpleNamespace

from kofi_lab.results import FAILED, Results
from kofi_lab.session import BOOTS, Session


class Guests(Session):
    """A session whose guests end as they are told to: so many scenarios, and whether one was up."""

    def start(self, names, ends):
        self.ends, self.asked = list(ends), []
        self.run([SimpleNamespace(name=name) for name in names])
        return [(test.name, test.outcome) for test in self.results.tests]

    def _boot(self, scenarios, again):
        self.asked.append(([item.name for item in scenarios], again))
        return self.ends.pop(0)


def guests():
    kernel = SimpleNamespace(lane=SimpleNamespace(name="plain"))
    return Guests(kernel, [], Results())


class Boots(unittest.TestCase):
    def test_one_that_was_never_up_is_started_again(self):
        session = guests()
        self.assertEqual(session.start("ab", [(0, False), (1, True), (0, False), (1, True)]), [])
        names = [names for names, _ in session.asked]
        self.assertEqual(names, [["a", "b"], ["a", "b"], ["b"], ["b"]])

    def test_but_not_for_ever(self):
        session = guests()
        told = session.start("ab", [(0, False)] * BOOTS)
        self.assertEqual(told, [("a", FAILED), ("b", FAILED)])
        self.assertEqual([again for _, again in session.asked], [True] * (BOOTS - 1) + [False])

    def test_one_that_was_up_and_ended_nothing_is_the_last(self):
        session = guests()
        self.assertEqual(session.start("a", [(0, True)]), [("a", FAILED)])


if __name__ == "__main__":
    unittest.main()
