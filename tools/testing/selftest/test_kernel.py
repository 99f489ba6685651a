# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: their keys, and the refusal of a symbol that did not take."""

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from kofi_lab import kernel, toolchain
from kofi_lab.lane import lane
from kofi_lab.output import LabError

MERGED = "Using common.config as base\nMerging uml.config\n"
LOST = """\
WARNING: Value requested for CONFIG_RUST not in final .config
Requested value: CONFIG_RUST=y
Actual value:
"""


class KernelTest(unittest.TestCase):
    """Configures a kernel without building it."""

    def digest(self, *fragments: str) -> str:
        """Returns the digest of fragments with these texts."""
        with tempfile.TemporaryDirectory() as place:
            for number, text in enumerate(fragments):
                (Path(place) / f"{number}.config").write_text(text)
            with mock.patch.object(kernel, "CONFIGS", Path(place)):
                return kernel.digest(tuple(map(str, range(len(fragments)))), "rustc 1.96")

    def test_digest_is_that_of_the_symbols(self) -> None:
        want = self.digest("CONFIG_A=y\n# CONFIG_B is not set\n")
        self.assertEqual(self.digest("# Words\n# CONFIG_B is not set\n\nCONFIG_A=y"), want)
        self.assertEqual(self.digest("CONFIG_B=y", "CONFIG_A=y\n# CONFIG_B is not set"), want)
        self.assertNotEqual(self.digest("CONFIG_A=y\nCONFIG_B=y"), want)

    def configure(self, text: str) -> list[str]:
        """Returns what is lost of a configuration when merge_config.sh prints this."""
        answer = SimpleNamespace(returncode=0, stdout=text)
        with tempfile.TemporaryDirectory() as place:
            target = kernel.Kernel(lane("uml"), Path(place), Path(place))
            with mock.patch.object(kernel.subprocess, "run", return_value=answer):
                with mock.patch.object(toolchain, "environment", dict):
                    return kernel.configure(target)

    def test_symbol_that_did_not_take_is_refused(self) -> None:
        self.assertEqual([], self.configure(MERGED))
        lost = self.configure(MERGED + LOST)
        self.assertTrue(any("CONFIG_RUST not in final" in line for line in lost), lost)
        with tempfile.TemporaryDirectory() as place:
            target = kernel.Kernel(lane("uml"), Path(place), Path(place))
            with (
                mock.patch.object(kernel, "find", return_value=target),
                mock.patch.object(kernel, "BUILDS", Path(place)),
                mock.patch.object(kernel, "configure", return_value=lost),
                self.assertRaisesRegex(LabError, "(?s)uml kernel.*CONFIG_RUST not in final"),
            ):
                kernel.ensure(lane("uml"))


if __name__ == "__main__":
    unittest.main()
