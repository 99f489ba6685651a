# SPDX-License-Identifier: GPL-2.0
"""Tests of the file list of an initramfs."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kofi_lab import initramfs
from kofi_lab.paths import GUEST


class InitramfsTest(unittest.TestCase):
    """The list of a payload and two programs of the machine."""

    def setUp(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            payload = Path(folder)
            (payload / "guest").symlink_to(GUEST)
            (payload / "modules").mkdir()
            (payload / "modules/kofi.ko").touch(0o644)
            with mock.patch.object(initramfs, "contents", lambda: [Path("/bin/sh"), Path("/usr/bin/env")]):
                self.lines = initramfs.file_list(payload).splitlines()

    def test_each_name_is_listed_once_and_after_its_folder(self) -> None:
        words = [line.split() for line in self.lines]
        names = [word[1].strip("/") for word in words]
        self.assertEqual(len(names), len(set(names)))
        folders = {"."}
        for kind, name in zip((word[0] for word in words), names):
            self.assertIn(str(Path(name).parent), folders, name)
            if kind == "dir":
                folders.add(name)

    def test_files_have_their_paths_and_modes(self) -> None:
        self.assertIn("file /usr/bin/sh /bin/sh 755 0 0", self.lines)
        self.assertIn("file /usr/bin/env /usr/bin/env 755 0 0", self.lines)
        self.assertIn("file /kofi/modules/kofi.ko modules/kofi.ko 644 0 0", self.lines)
        self.assertIn("file /init guest/boot.sh 755 0 0", self.lines)


if __name__ == "__main__":
    unittest.main()
