# SPDX-License-Identifier: GPL-2.0
"""Tests of `misuse.errors()`, which compiles programs that must not compile."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kofi_lab import misuse

# Writes its arguments to a file in its working directory.
COMPILER = "import pathlib, sys; pathlib.Path('arguments').write_text('\\n'.join(sys.argv[1:]))"


class MisuseTest(unittest.TestCase):
    """Runs a compiler that only writes its arguments."""

    def test_the_output_folder_is_removed(self) -> None:
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(misuse, "compiler", return_value=[sys.executable, "-c", COMPILER]),
        ):
            folder = Path(name)
            self.assertEqual([], misuse.errors(folder, folder / "program.rs"))
            arguments = (folder / "arguments").read_text().splitlines()
        # rustc replaces the file at PATH of --emit=metadata=PATH, even if it is a device such as /dev/null.
        self.assertIn("--emit=metadata", arguments)
        folders = [Path(word.split("=", 1)[1]) for word in arguments if word.startswith("--out-dir=")]
        self.assertEqual([False], [folder.exists() for folder in folders])
