# SPDX-License-Identifier: GPL-2.0
"""The reader of consoles: what it counts, and that it lets nothing slip."""

import re
import unittest

from kofi_lab.console import Console
from kofi_lab.results import FAILED, PASSED, SKIPPED, Results
from kofi_lab.splat import Allowance

KTAP = """\
    KTAP version 1
    # Subtest: av
    # speed: normal
    1..{planned}
    ok 1 av_01_first_index
    # av_02_lowest: EXPECTATION FAILED at av.c:7
    Expected a == b, but
    not ok 2 av_02_lowest
    ok 3 av_03_count # SKIP no device
not ok 1 av
"""


class ConsoleTest(unittest.TestCase):
    """Feeds a console by hand."""

    def read(self, text: str, allowed: list[Allowance] | None = None) -> tuple[Console, Results]:
        """The counts that this console gives."""
        results = Results()
        console = Console("plain", results, allowed or [])
        for number, line in enumerate(text.splitlines()):
            console.feed(f"[{number:5}.000000] {line}\r\n")
        return console, results

    def outcomes(self, text: str, allowed: list[Allowance] | None = None) -> dict[str, str]:
        """Names and outcomes."""
        _, results = self.read(text, allowed)
        return {test.name: test.outcome for test in results.tests}

    def test_scenario_and_its_lines_count(self) -> None:
        text = "lab: begin a\nlab: ok x\nlab: not ok y bad luck\nlab: end a 0"
        self.assertEqual(self.outcomes(text), {"a.x": PASSED, "a.y": FAILED, "a": FAILED})

    def test_exit_status_decides(self) -> None:
        for status, outcome in ((0, PASSED), (1, FAILED), (77, SKIPPED), (137, FAILED)):
            text = f"lab: begin a\nlab: end a {status}"
            self.assertEqual(self.outcomes(text), {"a": outcome})

    def test_kunit_cases_count(self) -> None:
        text = "lab: begin k\n" + KTAP.format(planned=3) + "lab: end k 0"
        want = {"av.av_01_first_index": PASSED, "av.av_02_lowest": FAILED}
        want |= {"av.av_03_count": SKIPPED, "k": FAILED}
        self.assertEqual(self.outcomes(text), want)

    def test_missing_kunit_cases_fail(self) -> None:
        text = "lab: begin k\n" + KTAP.format(planned=4) + "lab: end k 0"
        self.assertEqual(self.outcomes(text)["av"], FAILED)

    def test_second_run_of_a_suite_may_fail_too(self) -> None:
        once = "    # Subtest: s\n    1..1\n    {0}ok 1 c\n{0}ok 1 s\n"
        text = "lab: begin k\n" + once.format("") + once.format("not ") + "lab: end k 0"
        self.assertEqual(self.outcomes(text)["k"], FAILED)

    def test_interrupted_suite_fails(self) -> None:
        text = "lab: begin k\n" + KTAP.format(planned=3).rsplit("not ok 1", 1)[0]
        console, results = self.read(text)
        console.give_up("the guest is gone")
        self.assertEqual(results.tests[-1].outcome, FAILED)
        self.assertIn("av", [test.name for test in results.tests if test.outcome == FAILED])

    def test_every_splat_fails(self) -> None:
        splats = (
            "WARNING: CPU: 0 PID: 1 at x.c:1 f+0x1/0x2",
            "WARNING: possible circular locking dependency detected",
            "BUG: KASAN: slab-use-after-free in f",
            "BUG: sleeping function called from invalid context at x.c:1",
            "INFO: task x:1 blocked for more than 10 seconds.",
            "refcount_t: underflow; use-after-free.",
            "Oops: 0000 [#1] SMP",
            "Kernel panic - not syncing: x",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "x: Unknown rela relocation: 9",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        )
        for line in splats:
            text = f"lab: begin a\n{line}\nlab: end a 0"
            self.assertEqual(self.outcomes(text), {"a": FAILED}, line)
            console, _ = self.read(line)
            self.assertEqual(console.outside, [line])

    def test_words_of_a_scenario_are_no_splat(self) -> None:
        text = "lab: begin a\nlab: | WARNING: only quoted\nlab: end a 0"
        self.assertEqual(self.outcomes(text), {"a": PASSED})

    def test_leaks_are_read_from_kmemleak(self) -> None:
        leak = "lab: | unreferenced object 0xff (size 64):"
        text = f"lab: begin kmemleak\n{leak}\nlab: end kmemleak 0"
        self.assertEqual(self.outcomes(text), {"kmemleak": FAILED})

    def test_allowance_holds_for_its_scenario_only(self) -> None:
        rule = [Allowance(re.compile("a"), re.compile("WARNING: x"), "on purpose")]
        text = "lab: begin {0}\nWARNING: x\nlab: end {0} 0"
        self.assertEqual(self.outcomes(text.format("a"), rule), {"a": PASSED})
        self.assertEqual(self.outcomes(text.format("b"), rule), {"b": FAILED})


if __name__ == "__main__":
    unittest.main()
