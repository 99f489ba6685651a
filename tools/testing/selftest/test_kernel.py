# SPDX-License-Identifier: GPL-2.0
"""Tests of kernel configurations: their digests, and symbols that Kconfig drops."""

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from kofi_lab import kernel, toolchain
from kofi_lab.lane import lane
from kofi_lab.output import LabError

MERGED = "Using common.config as base\nMerging uml.config\n"
WARNINGS = """\
WARNING: Value requested for CONFIG_RUST not in final .config
Requested value: CONFIG_RUST=y
Actual value:
"""


class KernelTest(unittest.TestCase):
    """Configurations of a kernel that is not built."""

    def digest(self, *fragments: str) -> str:
        """Returns the digest of fragments with these contents."""
        with tempfile.TemporaryDirectory() as folder:
            for number, text in enumerate(fragments):
                (Path(folder) / f"{number}.config").write_text(text)
            with mock.patch.object(kernel, "CONFIGS", Path(folder)):
                return kernel.digest(tuple(map(str, range(len(fragments)))), "rustc 1.96")

    def test_the_digest_depends_on_the_symbols_only(self) -> None:
        want = self.digest("CONFIG_A=y\n# CONFIG_B is not set\n")
        self.assertEqual(self.digest("# Words\n# CONFIG_B is not set\n\nCONFIG_A=y"), want)
        self.assertEqual(self.digest("CONFIG_B=y", "CONFIG_A=y\n# CONFIG_B is not set"), want)
        self.assertNotEqual(self.digest("CONFIG_A=y\nCONFIG_B=y"), want)

    def configure(self, text: str) -> list[str]:
        """Returns the warnings of kernel.configure() when merge_config.sh prints this text."""
        answer = SimpleNamespace(returncode=0, stdout=text)
        with tempfile.TemporaryDirectory() as folder:
            target = kernel.Kernel(lane("uml"), Path(folder), Path(folder))
            with mock.patch.object(kernel.subprocess, "run", return_value=answer):
                with mock.patch.object(toolchain, "environment", dict):
                    return kernel.configure(target)

    def test_a_dropped_symbol_is_an_error(self) -> None:
        self.assertEqual([], self.configure(MERGED))
        dropped = self.configure(MERGED + WARNINGS)
        self.assertTrue(any("CONFIG_RUST not in final" in line for line in dropped), dropped)
        with tempfile.TemporaryDirectory() as folder:
            target = kernel.Kernel(lane("uml"), Path(folder), Path(folder))
            with (
                mock.patch.object(kernel, "find", return_value=target),
                mock.patch.object(kernel, "BUILDS", Path(folder)),
                mock.patch.object(kernel, "configure", return_value=dropped),
                self.assertRaisesRegex(LabError, "(?s)uml kernel.*CONFIG_RUST not in final"),
            ):
                kernel.ensure(lane("uml"))


if __name__ == "__main__":
    unittest.main()
