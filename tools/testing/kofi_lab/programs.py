# SPDX-License-Identifier: GPL-2.0
"""Compiles the test programs of user space for the guests."""

import subprocess
from pathlib import Path

from . import client, tree
from .kernel import Kernel
from .output import LabError
from .paths import TESTING, TREE

FLAGS = ("-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", str(TREE / "include" / "uapi"))
LIBRARIES = ("-lfabric",)


def build(kernel: Kernel) -> list[Path]:
    """Compiles the programs of tools/testing/user and the client. Returns their paths.

    The guests have the machine's libraries, so that the programs are linked against these.
    """
    target = tree.build_folder(kernel, "programs")
    built = []
    folder = TESTING / "user"
    newest = max(path.stat().st_mtime for path in folder.iterdir())
    with tree.locked(target):
        for source in sorted(folder.glob("*.c")):
            program = target / source.stem
            if not program.exists() or program.stat().st_mtime < newest:
                compile_one(source, program)
            built.append(program)
    return [*built, client.build()]


def compile_one(source: Path, program: Path) -> None:
    """Compiles one source file to one program."""
    command = ["/usr/bin/gcc", *FLAGS, "-o", str(program), str(source), *LIBRARIES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabError(f"{source.name} does not compile:\n{result.stderr}")
