# SPDX-License-Identifier: GPL-2.0
"""What the compiler is asked for of a program that must not compile."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kofi_lab import misuse

# Keeps what it was told, in the folder in which it runs.
COMPILER = "import pathlib, sys; pathlib.Path('told').write_text('\\n'.join(sys.argv[1:]))"


class MisuseTest(unittest.TestCase):
    """A compiler that does nothing."""

    def test_nothing_is_written_but_where_it_is_removed(self) -> None:
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(misuse, "compiler", return_value=[sys.executable, "-c", COMPILER]),
        ):
            place = Path(name)
            self.assertEqual([], misuse.errors(place, place / "program.rs"))
            told = (place / "told").read_text().splitlines()
        # The compiler puts a file in the place of what stands behind the kind of output, be it a device.
        self.assertIn("--emit=metadata", told)
        folders = [Path(word.split("=", 1)[1]) for word in told if word.startswith("--out-dir=")]
        self.assertEqual([False], [folder.exists() for folder in folders])
