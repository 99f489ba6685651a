# SPDX-License-Identifier: GPL-2.0
"""Our own user-space programs, compiled for the guests."""

import subprocess
from pathlib import Path

from . import client, tree
from .kernel import Kernel
from .output import LabError
from .paths import TESTING, TREE

FLAGS = ("-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", str(TREE / "include" / "uapi"))
LIBRARIES = ("-lfabric",)


def build(kernel: Kernel) -> list[Path]:
    """Compiles what changed; the guests have the machine's libraries."""
    place = tree.folder(kernel, "programs")
    built = []
    folder = TESTING / "user"
    newest = max(path.stat().st_mtime for path in folder.iterdir())
    with tree.locked(place):
        for source in sorted(folder.glob("*.c")):
            program = place / source.stem
            if not program.exists() or program.stat().st_mtime < newest:
                compile_one(source, program)
            built.append(program)
    return [*built, client.build()]


def compile_one(source: Path, program: Path) -> None:
    """One file, one program."""
    command = ["/usr/bin/gcc", *FLAGS, "-o", str(program), str(source), *LIBRARIES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabError(f"{source.name} does not compile:\n{result.stderr}")
