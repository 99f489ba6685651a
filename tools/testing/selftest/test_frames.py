# SPDX-License-Identifier: GPL-2.0
"""Tests of the stack check: frames and calls in a disassembly, and their limits."""

import unittest

from kofi_lab.frames import CHAIN_LIMIT, FRAME_LIMIT, Function, deepest, errors_of, parse

LISTING = """
0000000000000000 <kofi::a>:
       0:      \tpushq\t%rbp
       1:      \tsubq\t$0x38, %rsp
       5:      \tcallq\t0xa <kofi::a+0xa>
\t\t0000000000000006:  R_X86_64_PLT32\tkofi::b-0x4
       a:      \tcallq\t0x20 <kofi::c>
       f:      \tretq

0000000000000010 <kofi::b>:
      10:      \tsubq\t$1024, %rsp
      17:      \tmovq\t$0x0, %rax
\t\t000000000000001a:  R_X86_64_32S\tkofi::a
      1e:      \tjmp\t0x23 <kofi::b+0x13>
\t\t000000000000001f:  R_X86_64_PLT32\tprintk-0x4

0000000000000020 <kofi::c>:
      20:      \tretq
"""


class FramesTest(unittest.TestCase):
    """Frames, call chains and their limits."""

    def test_frames_and_calls_are_read(self) -> None:
        found = parse(LISTING.splitlines())
        self.assertEqual(found["kofi::a"].stack, 8 + 8 + 0x38)
        self.assertEqual(found["kofi::b"].stack, 8 + 1024)
        self.assertLessEqual({"kofi::b", "kofi::c"}, found["kofi::a"].calls)
        self.assertEqual(found["kofi::b"].calls & set(found), set())

    def test_the_largest_of_namesakes_counts(self) -> None:
        text = "0 <f>:\n subq $0x40, %rsp\n0 <f>:\n subq $0x10, %rsp\n"
        self.assertEqual(parse(text.splitlines())["f"].stack, 8 + 0x40)

    def test_a_chain_is_the_sum_of_its_frames(self) -> None:
        found = {
            "a": Function(100, {"b", "c", "printk"}),
            "b": Function(200, {"a"}),
            "c": Function(50, {"d"}),
            "d": Function(400, set()),
        }
        self.assertEqual(deepest(found)["a"], (550, ["a", "c", "d"]))

    def test_frames_and_chains_over_a_limit_are_reported(self) -> None:
        large = {"kofi::f": Function(FRAME_LIMIT + 1), "kofi::x::tests::g": Function(FRAME_LIMIT + 1)}
        errors = errors_of(large)
        self.assertEqual(len(errors), 1)
        self.assertIn("kofi::f", errors[0])
        count = CHAIN_LIMIT // FRAME_LIMIT + 1
        chain = {f"f{n}": Function(FRAME_LIMIT, {f"f{n + 1}"}) for n in range(count)}
        self.assertEqual([error.split(":")[0] for error in errors_of(chain)], ["f0"])
        self.assertFalse(errors_of({"f": Function(FRAME_LIMIT)}))
