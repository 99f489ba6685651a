# SPDX-License-Identifier: GPL-2.0
"""Tests that a folder without a usable Kbuild is refused before the build."""

import tempfile
import unittest
from pathlib import Path

from kofi_lab import module
from kofi_lab.output import LabError


class ModuleTest(unittest.TestCase):
    """Folders that cannot be built as a module."""

    def refusal(self, **files: str) -> str:
        """Returns the error for a folder with these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text)
            with self.assertRaises(LabError) as caught:
                module.build(None, Path(folder))
        return str(caught.exception)

    def test_without_kbuild(self) -> None:
        self.assertIn("has no Kbuild", self.refusal(mine="int x;"))

    def test_without_kofi(self) -> None:
        self.assertIn("kofi.mk", self.refusal(Kbuild="obj-m += mine.o\n"))


if __name__ == "__main__":
    unittest.main()
