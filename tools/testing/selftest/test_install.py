# SPDX-License-Identifier: GPL-2.0
"""Whoever builds for a kernel of theirs is told what it lacks; what is installed can be removed."""

import os
import tempfile
import unittest
from pathlib import Path, PurePath
from unittest import mock

from kofi_lab import install, kdir
from kofi_lab.output import LabError
from kofi_lab.receipt import Receipt

CONFIG = "CONFIG_MODULES=y\nCONFIG_RUST=y\nCONFIG_INFINIBAND=m\nCONFIG_INFINIBAND_ADDR_TRANS=y\n"


class InTemporaryFolder(unittest.TestCase):
    """With a folder that goes at the end."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Path(folder.name)


class KernelTest(InTemporaryFolder):
    """Folders that are no good for KDIR."""

    def kernel(self, config: str | None = CONFIG, rustc: str = "") -> Path:
        """A build folder as far as it is looked at; in it a rustc that says it is this."""
        (self.place / "Makefile").touch()
        if config is not None:
            (self.place / ".config").write_text(config)
        program = self.place / "rustc"
        program.write_text(f"#!/bin/sh\necho '{rustc}'\n")
        program.chmod(0o755)
        return self.place

    def test_what_is_good_is_taken(self) -> None:
        self.assertEqual("m", kdir.inspect(self.kernel())["CONFIG_INFINIBAND"])

    def test_folders_that_are_no_kernel(self) -> None:
        with self.assertRaisesRegex(LabError, "is no kernel build folder.*KDIR="):
            kdir.inspect(self.place / "nothing")
        with self.assertRaisesRegex(LabError, "has no .config"):
            kdir.inspect(self.kernel(None))
        with self.assertRaisesRegex(LabError, "does not say which release"):
            kdir.release(self.place)

    def test_kernels_that_lack_something(self) -> None:
        for symbol in kdir.SYMBOLS:
            text = "\n".join(line for line in CONFIG.splitlines() if not line.startswith(f"{symbol}="))
            with self.assertRaisesRegex(LabError, f"without {symbol}, which kOFI needs"):
                kdir.inspect(self.kernel(text))

    def test_another_rustc_is_named(self) -> None:
        place = self.kernel(rustc="rustc 1.85.0 (nothing)")
        with mock.patch.dict(os.environ, {"RUSTC": str(place / "rustc"), "PATH": str(place)}):
            self.assertEqual(str(place / "rustc"), kdir.matching_rustc(place, "108500"))
            with self.assertRaisesRegex(LabError, r"with rustc 1\.12\.34, .* is 1\.85\.0"):
                kdir.matching_rustc(place, "101234")

    def test_nothing_is_installed_from_a_tree_that_was_not_built(self) -> None:
        with self.assertRaisesRegex(LabError, "was not built"):
            install.for_consumers(self.place)

    def test_what_was_not_installed_cannot_be_removed(self) -> None:
        with self.assertRaisesRegex(LabError, "nothing is installed for kernel 6.1"):
            install.uninstall(install.System(str(self.place), PurePath("/usr")), "6.1")


class ReceiptTest(InTemporaryFolder):
    """A list of what was installed."""

    def receipt(self, *files: str) -> Receipt:
        """Puts those files there, and nothing else."""
        receipt = Receipt(str(self.place), PurePath("/a/home"))
        for file in files:
            receipt.put(PurePath(file), b"text")
        receipt.finish()
        return Receipt(str(self.place), PurePath("/a/home"))

    def found(self) -> set[str]:
        """Every file and folder."""
        return {str(path.relative_to(self.place)) for path in self.place.rglob("*")}

    def test_all_of_it_can_be_removed(self) -> None:
        receipt = self.receipt("/a/home/x/one", "/b/c/two")
        self.assertLess({"a/home/x/one", "a/home/installed", "b/c/two"}, self.found())
        self.assertTrue(receipt.remove())
        self.assertEqual(set(), self.found())

    def test_an_update_removes_what_it_does_not_have(self) -> None:
        self.receipt("/b/c/one", "/b/c/two")
        self.receipt("/b/c/two")
        self.assertNotIn("b/c/one", self.found())
        self.receipt().remove()
        self.assertEqual(set(), self.found())

    def test_what_belongs_to_others_stays(self) -> None:
        (self.place / "b").mkdir()
        receipt = self.receipt("/b/c/one")
        (self.place / "b/c/other").touch()
        receipt.remove()
        self.assertEqual({"b", "b/c", "b/c/other"}, self.found())

    def test_there_was_none(self) -> None:
        self.assertFalse(Receipt(str(self.place), PurePath("/a/home")).remove())
