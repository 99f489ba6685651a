# SPDX-License-Identifier: GPL-2.0
"""Tests of the checks of a kernel's build folder (KDIR), and of the manifest of an installation."""

import os
import tempfile
import unittest
from pathlib import Path, PurePath
from unittest import mock

from kofi_lab import install, kdir
from kofi_lab.manifest import Manifest
from kofi_lab.output import LabError

CONFIG = "CONFIG_MODULES=y\nCONFIG_RUST=y\nCONFIG_INFINIBAND=m\nCONFIG_INFINIBAND_ADDR_TRANS=y\n"


class InTemporaryFolder(unittest.TestCase):
    """A test case with a temporary folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class KernelTest(InTemporaryFolder):
    """Checks of the folder that KDIR names."""

    def kernel(self, config: str | None = CONFIG, rustc: str = "") -> Path:
        """Returns a build folder with a configuration, and a rustc that prints this version."""
        (self.folder / "Makefile").touch()
        if config is not None:
            (self.folder / ".config").write_text(config)
        program = self.folder / "rustc"
        program.write_text(f"#!/bin/sh\necho '{rustc}'\n")
        program.chmod(0o755)
        return self.folder

    def test_a_complete_kernel_is_accepted(self) -> None:
        self.assertEqual("m", kdir.inspect(self.kernel())["CONFIG_INFINIBAND"])

    def test_a_folder_without_a_built_kernel_is_refused(self) -> None:
        with self.assertRaisesRegex(LabError, "is no kernel build folder.*KDIR="):
            kdir.inspect(self.folder / "nothing")
        with self.assertRaisesRegex(LabError, "has no .config"):
            kdir.inspect(self.kernel(None))
        with self.assertRaisesRegex(LabError, "has no include/config/kernel.release"):
            kdir.release(self.folder)

    def test_a_missing_configuration_symbol_is_named(self) -> None:
        for symbol in kdir.SYMBOLS:
            text = "\n".join(line for line in CONFIG.splitlines() if not line.startswith(f"{symbol}="))
            with self.assertRaisesRegex(LabError, f"without {symbol}, which kOFI needs"):
                kdir.inspect(self.kernel(text))

    def test_another_rustc_is_named(self) -> None:
        folder = self.kernel(rustc="rustc 1.85.0 (nothing)")
        with mock.patch.dict(os.environ, {"RUSTC": str(folder / "rustc"), "PATH": str(folder)}):
            self.assertEqual(str(folder / "rustc"), kdir.matching_rustc(folder, "108500"))
            with self.assertRaisesRegex(LabError, r"with rustc 1\.12\.34, .* is 1\.85\.0"):
                kdir.matching_rustc(folder, "101234")

    def test_nothing_is_installed_from_a_tree_that_was_not_built(self) -> None:
        with self.assertRaisesRegex(LabError, "was not built"):
            install.consumer_files(self.folder)

    def test_what_was_not_installed_cannot_be_removed(self) -> None:
        with self.assertRaisesRegex(LabError, "nothing is installed for kernel 6.1"):
            install.uninstall(install.System(str(self.folder), PurePath("/usr")), "6.1")


class ManifestTest(InTemporaryFolder):
    """The manifest of an installation."""

    def install(self, *files: str) -> Manifest:
        """Installs exactly these files and returns their manifest."""
        manifest = Manifest(str(self.folder), PurePath("/a/home"))
        for file in files:
            manifest.write(PurePath(file), b"text")
        manifest.commit()
        return Manifest(str(self.folder), PurePath("/a/home"))

    def found(self) -> set[str]:
        """Returns the relative path of every file and folder."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def test_all_installed_files_are_removed(self) -> None:
        manifest = self.install("/a/home/x/one", "/b/c/two")
        self.assertLess({"a/home/x/one", "a/home/installed", "b/c/two"}, self.found())
        self.assertTrue(manifest.remove())
        self.assertEqual(set(), self.found())

    def test_an_update_removes_files_that_it_does_not_install(self) -> None:
        self.install("/b/c/one", "/b/c/two")
        self.install("/b/c/two")
        self.assertNotIn("b/c/one", self.found())
        self.install().remove()
        self.assertEqual(set(), self.found())

    def test_folders_and_files_of_others_stay(self) -> None:
        (self.folder / "b").mkdir()
        manifest = self.install("/b/c/one")
        (self.folder / "b/c/other").touch()
        manifest.remove()
        self.assertEqual({"b", "b/c", "b/c/other"}, self.found())

    def test_removal_without_a_manifest_returns_false(self) -> None:
        self.assertFalse(Manifest(str(self.folder), PurePath("/a/home")).remove())
