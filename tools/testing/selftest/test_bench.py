# SPDX-License-Identifier: GPL-2.0
"""Tests of the bench: the rows of a console, their ratios and their limits."""

import unittest
from dataclasses import replace

from kofi_lab.bench import INSTRUCTIONS, Row, growth, packets, rows
from kofi_lab.output import LabError


def turn(impl: str, value: int, size: int = 8, unit: str = "ns") -> str:
    """Returns a line of a console."""
    return f"[    1.0] bench: impl={impl} name=lat size={size} value={value} unit={unit} iters=1"


class BenchTest(unittest.TestCase):
    """Rows of consoles, and limits of rows."""

    def test_the_turns_of_a_round_are_compared(self) -> None:
        # The second round is three times as slow: the ratio of the medians would be 1.5.
        lines = [turn("kofi", 110), turn("raw", 100), turn("raw", 200), turn("kofi", 220)]
        lines += [turn("kofi", 660), turn("raw", 600)]
        (row,) = rows("native", lines, 3)
        self.assertEqual((row.ours, row.raw, row.ratio), (220, 200, 1.1))

    def test_the_best_turn_of_a_round_counts(self) -> None:
        turns = [("kofi", 11), ("raw", 10), ("raw", 30), ("kofi", 20)]
        for unit, ratio in (("ns", 1.1), ("B/s", 0.6667)):
            lines = [turn(impl, value, unit=unit) for impl, value in turns] * 2
            (row,) = rows("native", lines, 2)
            self.assertEqual(row.ratio, ratio)

    def test_sizes_have_separate_rows_and_other_lines_are_ignored(self) -> None:
        lines = [turn("kofi", 1), "noise", turn("raw", 1), turn("raw", 2, 64), turn("kofi", 6, 64)]
        table = rows("native", lines, 1)
        self.assertEqual([(row.size, row.ratio) for row in table], [(8, 1.0), (64, 3.0)])

    def test_datagrams_have_three_baselines_or_none(self) -> None:
        lines = [turn("rdm", 12), turn("kofi", 10), turn("user", 24), turn("hand", 8)]
        lines += [turn("rdm", 700, 64, "B")]
        table = rows("native", lines, 1)
        found = [(row.beside, row.ours, row.raw, row.ratio) for row in table]
        self.assertEqual(found, [("msg", 12, 10, 1.2), ("hand", 12, 8, 1.5), ("user", 12, 24, 0.5), ("", 700, 0, 0)])
        with self.assertRaises(LabError):
            rows("native", [turn("user", 1)], 1)

    def test_limits_of_datagrams(self) -> None:
        def verdict(name: str, size: int, ratio: float, beside: str = "msg", unit: str = "ns") -> str:
            return Row("native", f"rdm_{name}", size, unit, 100 * ratio, 100, ratio, beside).verdict

        self.assertTrue(verdict("lat", 64, 1.15).startswith("met"))
        self.assertTrue(verdict("lat", 64, 1.16).startswith("missed"))
        self.assertEqual(verdict("lat", 64, 3.0, "user"), "")
        self.assertEqual(verdict("lat", 4096, 3.0), "")
        self.assertTrue(verdict("rate", 64, 0.85, unit="msg/s").startswith("met"))
        self.assertTrue(verdict("bw", 1 << 20, 0.96, unit="B/s").startswith("missed"))
        self.assertTrue(verdict("known", 1000, 0.64, "msg", "B").startswith("met"))
        self.assertTrue(verdict("known", 1000, 0.65, "msg", "B").startswith("missed"))
        peers = [Row("native", "rdm_peers", size, "ns", ours, 0, 0) for size, ours in ((1, 100), (64, 106))]
        (row,) = growth(peers)
        self.assertEqual((row.name, row.ours), ("rdm_growth", 1.06))
        self.assertTrue(row.verdict.startswith("missed"))

    def test_scaling_has_a_limit_relative_to_the_baseline(self) -> None:
        def measured(ours: float, raw: float) -> list[Row]:
            return [
                Row("plain", "regs", size, "ns", of[0], of[1], of[0] / of[1])
                for size, of in ((1, (1000, 1000)), (4, (ours, raw)))
            ]

        (row,) = growth(measured(525, 500))
        self.assertEqual((row.name, row.ours, row.raw, row.ratio), ("regs_x", 0.525, 0.5, 1.05))
        self.assertTrue(row.verdict.startswith("met"))
        (row,) = growth(measured(530, 500))
        self.assertTrue(row.verdict.startswith("missed"))

    def test_limits_within_a_host(self) -> None:
        def verdict(name: str, size: int, ratio: float, beside: str, unit: str = "ns") -> str:
            return Row("native", f"loop_{name}", size, unit, 100 * ratio, 100, ratio, beside).verdict

        self.assertTrue(verdict("lat", 8, 1.3, "ring").startswith("met"))
        self.assertTrue(verdict("lat", 8, 1.31, "ring").startswith("missed"))
        self.assertEqual(verdict("lat", 64, 3.0, "ring"), "")
        self.assertTrue(verdict("bw", 1 << 20, 0.9, "ring", "B/s").startswith("met"))
        self.assertTrue(verdict("rate", 64, 2.9, "device", "msg/s").startswith("missed"))
        self.assertEqual(verdict("rate", 64, 0.1, "ring", "msg/s"), "")
        lines = [turn("loop", 6), turn("ring", 5), turn("kofi", 60), turn("user", 12)]
        found = [(row.beside, row.ratio) for row in rows("native", lines, 1)]
        self.assertEqual(found, [("ring", 1.2), ("device", 0.1), ("shm", 0.5)])

    def test_rounds_with_different_measurements_are_refused(self) -> None:
        pair = [turn("kofi", 1), turn("raw", 1)]
        for lines in (
            pair[:1],
            pair,
            [*pair, turn("kofi", 1)],
            [turn("raw", 1), turn("raw", 1), *pair],
            [*pair, *pair, turn("raw", 1)],
        ):
            with self.assertRaises(LabError):
                rows("native", lines, 2)

    def test_the_baseline_of_a_packet_is_a_message_of_the_same_size(self) -> None:
        sizes = ((8, 90, 80), (64, 150, 100), (128, 160, 120))
        table = [Row("native", "rdm_lat", size, "ns", ours, raw, ours / raw, "msg") for size, ours, raw in sizes]
        (row,) = packets([*table, replace(table[2], beside="user", raw=1)])
        self.assertEqual((row.size, row.ours, row.raw, row.ratio), (64, 150, 120, 1.25))
        self.assertEqual((row.beside, row.verdict), ("packet", ""))

    def test_growth_is_relative_to_one_connection(self) -> None:
        sizes = {8: (3, 2), 1: (2, 1), 64: (2, 4)}
        table = [Row("native", "links", size, "ns", *cost, 1.0) for size, cost in sizes.items()]
        (row,) = growth(table)
        self.assertEqual((row.size, row.ours, row.raw, row.ratio), (64, 1.0, 4.0, 0.25))
        self.assertTrue(row.verdict.startswith("met"))
        self.assertEqual(growth([]), [])

    def test_limits(self) -> None:
        def verdict(name: str, ratio: float, lane: str = "native", unit: str = "ns") -> str:
            return Row(lane, name, 8, unit, 100 * ratio, 100, ratio).verdict

        self.assertTrue(verdict("lat", 1.02).startswith("met"))
        self.assertTrue(verdict("read", 1.021).startswith("missed"))
        self.assertTrue(verdict("rate", 0.98, unit="msg/s").startswith("met"))
        self.assertTrue(verdict("bw", 0.979, unit="B/s").startswith("missed"))
        self.assertEqual(verdict("lat", 2.0, "plain"), "")
        self.assertTrue(verdict("insert", 0.333).startswith("met"))
        self.assertTrue(verdict("insert", 0.34).startswith("missed"))
        self.assertTrue(verdict("wait", 1.2).startswith("met"))
        self.assertTrue(verdict("bytes", 0.4, unit="B").startswith("met"))
        self.assertTrue(verdict("bytes", 0.41, unit="B").startswith("missed"))
        self.assertEqual(verdict("poll", 3.0), "")
        self.assertEqual(verdict("send", 1.6, "plain", INSTRUCTIONS), "+60 met (<= 60)")
        self.assertEqual(verdict("send", 1.61, "plain", INSTRUCTIONS), "+61 missed (<= 60)")
        self.assertEqual(verdict("empty", 2.0, "plain", INSTRUCTIONS), "+100")
