# SPDX-License-Identifier: GPL-2.0
"""Tests of the console parser: results, skips, splats and interrupted suites."""

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


BEGIN = "lab:   KTAP version 1\nlab:   # Subtest: {0}\n"
END = "lab: ok 1 {0}"
PROGRAM = """\
lab:     KTAP version 1
lab:     # Subtest: p
lab:     1..2
lab:     ok 1 one
"""


class ConsoleTest(unittest.TestCase):
    """Consoles of one guest."""

    def read(self, text: str, allowed: list[Allowance] | None = None) -> tuple[Console, Results]:
        """Parses a console. Returns the parser and the results."""
        results = Results()
        console = Console("plain", results, allowed or [])
        for number, line in enumerate(text.splitlines()):
            console.feed(f"[{number:5}.000000] {line}\r\n")
        return console, results

    def outcomes(self, text: str, allowed: list[Allowance] | None = None) -> dict[str, str]:
        """Returns the outcome of each test of a console, by name."""
        _, results = self.read(text, allowed)
        return {test.name: test.outcome for test in results.tests}

    def scenario(self, name: str, text: str, end: str = END) -> str:
        """Returns the console of a scenario that prints these lines."""
        return BEGIN.format(name) + text + end.format(name)

    def test_scenario_and_its_checks_count(self) -> None:
        text = "lab:   ok 1 x\nlab:   # y: bad luck\nlab:   not ok 2 y\nlab:   ok 3 z # SKIP none\n"
        _, results = self.read(self.scenario("a", text))
        want = [("a.x", PASSED, ""), ("a.y", FAILED, "bad luck"), ("a.z", SKIPPED, "none")]
        want += [("a", FAILED, "1 of its tests failed")]
        self.assertEqual([(test.name, test.outcome, test.reason) for test in results.tests], want)

    def test_reason_of_the_first_check_is_its_own(self) -> None:
        _, results = self.read(self.scenario("a", "lab:   # y: bad luck\nlab:   not ok 1 y\n"))
        self.assertEqual(results.tests[0].reason, "bad luck")

    def test_own_result_decides(self) -> None:
        late = "lab: # a: killed, as nothing happened; last line: x\nlab: not ok 1 {0}"
        ends = ((END, PASSED, ""), ("lab: ok 1 {0} # SKIP no device", SKIPPED, "no device"))
        for end, outcome, reason in (*ends, (late, FAILED, "killed, as nothing happened; last line: x")):
            _, results = self.read(self.scenario("a", "lab:   # words\n", end))
            self.assertEqual([(test.outcome, test.reason) for test in results.tests], [(outcome, reason)])

    def test_tests_of_a_program_count(self) -> None:
        text = PROGRAM + "lab:     ok 2 two\nlab:   ok 1 p\n"
        want = {"a.p.one": PASSED, "a.p.two": PASSED, "a": PASSED}
        self.assertEqual(self.outcomes(self.scenario("a", text)), want)

    def test_program_with_missing_results_fails(self) -> None:
        for end in ("lab:   not ok 1 p\n", "lab:   ok 1 p\n"):
            want = {"a.p.one": PASSED, "a.p": FAILED, "a.more": PASSED, "a": FAILED}
            self.assertEqual(self.outcomes(self.scenario("a", PROGRAM + end + "lab:   ok 2 more\n")), want)

    def test_kunit_cases_count(self) -> None:
        text = self.scenario("k", KTAP.format(planned=3))
        want = {"av.av_01_first_index": PASSED, "av.av_02_lowest": FAILED}
        want |= {"av.av_03_count": SKIPPED, "k": FAILED}
        self.assertEqual(self.outcomes(text), want)
        _, results = self.read(text)
        self.assertEqual(results.tests[1].reason, "EXPECTATION FAILED at av.c:7: Expected a == b, but")

    def test_lines_of_a_check_within_a_suite_are_apart(self) -> None:
        head, tail = KTAP.format(planned=3).split("    ok 1", 1)
        text = self.scenario("k", head + "lab:   ok 1 x\nlab:   # ok 2 words\n    ok 1" + tail)
        want = {"av.av_01_first_index": PASSED, "av.av_02_lowest": FAILED}
        want |= {"av.av_03_count": SKIPPED, "k.x": PASSED, "k": FAILED}
        self.assertEqual(self.outcomes(text), want)

    def test_case_with_parameters_is_one_test(self) -> None:
        value = "        # c: EXPECTATION FAILED at av.c:9\n        Expected x\n        not ok 2 large\n"
        inner = "        KTAP version 1\n        # Subtest: c\n        ok 1 small\n" + value
        suite = "    KTAP version 1\n    # Subtest: s\n    1..1\n" + inner + "    not ok 1 c\nnot ok 7 s\n"
        _, results = self.read(self.scenario("k", suite))
        want = [("s.c", "EXPECTATION FAILED at av.c:9: Expected x"), ("k", "1 of its tests failed")]
        self.assertEqual([(test.name, test.reason) for test in results.tests], want)

    def test_missing_kunit_cases_fail(self) -> None:
        text = self.scenario("k", KTAP.format(planned=4))
        self.assertEqual(self.outcomes(text)["av"], FAILED)

    def test_suite_that_does_not_initialise_fails(self) -> None:
        suite = "    # s:     # failed to initialize (-19)\nnot ok 1 s\n"
        _, results = self.read(self.scenario("k", suite))
        found = [(test.name, test.outcome, test.reason) for test in results.tests]
        self.assertEqual(found[0], ("s", FAILED, "failed to initialize (-19)"))

    def test_suite_that_is_skipped_counts(self) -> None:
        want = {"s": SKIPPED, "k": PASSED}
        self.assertEqual(self.outcomes(self.scenario("k", "ok 1 s # SKIP no device\n")), want)

    def test_suite_that_fails_without_a_case_fails(self) -> None:
        once = "    # Subtest: s\n    1..1\n    ok 1 c\nnot ok 1 s\n"
        self.assertEqual(self.outcomes(self.scenario("k", once))["s"], FAILED)

    def test_second_run_of_a_suite_may_fail_too(self) -> None:
        once = "    # Subtest: s\n    1..1\n    {0}ok 1 c\n{0}ok 1 s\n"
        text = self.scenario("k", once.format("") + once.format("not "))
        self.assertEqual(self.outcomes(text)["k"], FAILED)
        text = self.scenario("k", once.format("") * 2)
        self.assertEqual(self.read(text)[1].count(PASSED), 2)

    def test_interrupted_suite_fails(self) -> None:
        for planned, lines in ((3, 1), (3, 3), (1, 1)):
            head, *cases = KTAP.format(planned=planned).rsplit("not ok 1", 1)[0].split("    ok ")
            text = head + "".join(f"    ok {case}" for case in cases[:lines])
            console, results = self.read(BEGIN.format("k") + text)
            console.abort("the guest died")
            self.assertEqual(results.tests[-1].outcome, FAILED)
            self.assertIn("av", [test.name for test in results.tests if test.outcome == FAILED])
            # The suite also fails if its scenario ended.
            self.assertEqual(self.outcomes(self.scenario("k", text))["av"], FAILED)

    def test_suite_within_another_interrupts_it(self) -> None:
        text = KTAP.format(planned=3).split("    # av_02", 1)[0] + KTAP.format(planned=3).replace("av\n", "b\n")
        outcomes = self.outcomes(self.scenario("k", text))
        self.assertEqual((outcomes["av"], outcomes["k"]), (FAILED, FAILED))

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
            "rust_kernel: panicked at rust/fi/cq.rs:1:1:",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "x: Unknown rela relocation: 9",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        )
        for line in splats:
            text = self.scenario("a", f"{line}\n")
            self.assertEqual(self.outcomes(text), {"a": FAILED}, line)
            console, _ = self.read(line)
            self.assertEqual(console.outside, [line])

    def test_output_of_a_scenario_is_no_splat(self) -> None:
        text = self.scenario("a", "lab:   # WARNING: only quoted\n")
        self.assertEqual(self.outcomes(text), {"a": PASSED})

    def test_name_of_a_function_is_no_splat(self) -> None:
        # A stack trace has unreliable entries, marked with a question mark.
        text = self.scenario("a", " ? _RINvNtCs2_4core9panicking13assert_failedmmE+0x5f/0x5f [kofi]\n")
        self.assertEqual(self.outcomes(text), {"a": PASSED})

    def test_leaks_are_read_from_kmemleak(self) -> None:
        text = self.scenario("kmemleak", "lab:   # unreferenced object 0xff (size 64):\n")
        self.assertEqual(self.outcomes(text), {"kmemleak": FAILED})

    def test_allowance_holds_for_its_scenario_only(self) -> None:
        rule = [Allowance(re.compile("a"), re.compile("WARNING: x"), "on purpose")]
        for name, outcome in (("a", PASSED), ("b", FAILED)):
            text = self.scenario(name, "WARNING: x\n")
            self.assertEqual(self.outcomes(text, rule), {name: outcome})

    def test_allowance_may_ask_for_a_trace(self) -> None:
        rule = [Allowance(re.compile("a"), re.compile("BUG: "), "known", re.compile(r"\] theirs\+"))]
        theirs = "BUG: KASAN: x\nCall Trace:\n [<60>] lock+0x1/0x2\n [<61>] theirs+0x1/0x2\n"
        self.assertEqual(self.outcomes(self.scenario("a", theirs), rule), {"a": PASSED})
        ours = theirs.replace("theirs", "ours")
        self.assertEqual(self.outcomes(self.scenario("a", ours), rule), {"a": FAILED})
        both = self.scenario("a", ours + theirs)
        self.assertEqual(self.outcomes(both, rule), {"a": FAILED})


if __name__ == "__main__":
    unittest.main()
