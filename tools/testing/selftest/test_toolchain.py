# SPDX-License-Identifier: GPL-2.0
"""Tests of the choice of cargo, and of the compiler that it runs."""

import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kofi_lab import toolchain


class CargoTest(unittest.TestCase):
    """Folders on PATH with a cargo and a rustc, as rustup and Debian install them."""

    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.rustup = folder / "rustup"
        self.debian = folder / "debian"
        for home in (self.rustup, self.debian):
            home.mkdir()
            for name in ("cargo", "rustc"):
                self.program(home / name, 0)
        path = f"{self.rustup}:{os.environ['PATH']}"
        self.enterContext(mock.patch.dict(os.environ, {"PATH": path}))
        self.enterContext(mock.patch.object(toolchain, "DEBIAN_CARGO", str(self.debian / "cargo")))
        self.enterContext(mock.patch.object(toolchain, "llvm", lambda: folder / "llvm"))

    def program(self, path: Path, status: int) -> None:
        """Writes a program that ends with this status."""
        path.write_text(f"#!/bin/sh\nexit {status}\n")
        path.chmod(0o755)

    def compiler(self) -> str | None:
        """Returns the rustc that cargo runs."""
        return shutil.which("rustc", path=toolchain.cargo_environment()["PATH"])

    def test_the_cargo_of_path_runs_the_rustc_of_path(self) -> None:
        self.assertEqual(str(self.rustup / "cargo"), toolchain.cargo())
        self.assertEqual(str(self.rustup / "rustc"), self.compiler())

    def test_a_rustup_without_a_toolchain_is_passed_over(self) -> None:
        self.program(self.rustup / "cargo", 1)
        self.assertEqual(str(self.debian / "cargo"), toolchain.cargo())
        self.assertEqual(str(self.debian / "rustc"), self.compiler())
