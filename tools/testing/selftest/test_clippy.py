# SPDX-License-Identifier: GPL-2.0
"""Tests of kofi_lab.clippy."""

import unittest
from pathlib import Path

from kofi_lab import clippy

SAVED = (
    "savedcmd_rust/kofi.o := OBJTREE=/k RUST_MODFILE=./kofi /usr/bin/rustc --edition=2021 -Wclippy::all"
    " --emit=metadata=./rust/libkofi.rmeta -Zcrate-attr='feature(asm_goto)' --emit=dep-info=rust/.kofi.o.d"
    " --emit=obj=rust/kofi.o rust/kofi.rs ; ./tools/objtool/objtool rust/kofi.o"
)


class Command(unittest.TestCase):
    """Commands for clippy-driver that are made from saved commands of Kbuild."""

    def test_the_driver_gets_the_arguments_and_emits_only_metadata(self) -> None:
        self.assertEqual(
            clippy.command(SAVED, Path("/t/0.rmeta")),
            "OBJTREE=/k RUST_MODFILE=./kofi /usr/bin/clippy-driver --edition=2021 -Wclippy::all"
            "  -Zcrate-attr='feature(asm_goto)'   rust/kofi.rs "
            " -Wclippy::incompatible_msrv --emit=metadata=/t/0.rmeta",
        )

    def test_a_command_without_environment(self) -> None:
        words = clippy.command("savedcmd_a.o := /usr/bin/rustc a.rs", Path("x"))
        self.assertEqual(words, "/usr/bin/clippy-driver a.rs -Wclippy::incompatible_msrv --emit=metadata=x")

    def test_commands_of_c_are_ignored(self) -> None:
        self.assertIsNone(clippy.command("savedcmd_rust/util/log.o := clang -c rust/util/log.c", Path("x")))


if __name__ == "__main__":
    unittest.main()
