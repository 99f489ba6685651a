# SPDX-License-Identifier: GPL-2.0
"""Runs clippy on the Rust sources of a lane's modules.

Kbuild's CLIPPY=1 would compile all objects again. Kbuild saves the command of each object in a file: the check runs
clippy-driver with the same arguments, which stops before code generation.
"""

import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from . import toolchain, tree
from .kernel import Kernel

DRIVER = "/usr/bin/clippy-driver"
SAVED = re.compile(r"savedcmd_\S+ :=\s+(?P<environment>(?:\w+=\S+\s+)*)\S*rustc (?P<arguments>[^;\n]*)")
# The kernel allows this lint. Here it finds library functions that the oldest rustc for the kernel does not have.
LINTS = "-Wclippy::incompatible_msrv"
EMIT = re.compile(r"--emit=\S+")


def command(saved: str, output: Path) -> str | None:
    """Returns the clippy command for a saved command of Kbuild, or None if that does not compile Rust."""
    match = SAVED.match(saved)
    if not match:
        return None
    arguments = EMIT.sub("", match["arguments"])
    return f"{match['environment']}{DRIVER} {arguments} {LINTS} --emit=metadata={shlex.quote(str(output))}".strip()


def check(kernel: Kernel) -> str:
    """Builds the modules for a kernel. Returns clippy's output for them, which is empty without errors."""
    tree.build(kernel)
    folder = tree.build_folder(kernel)
    environment = {
        **toolchain.environment(),
        "CLIPPY_CONF_DIR": str(kernel.source),
        "KOFI_OBJ": str(folder),
        "RUSTC_BOOTSTRAP": "1",
    }

    def run(line: str) -> str:
        result = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        output = result.stdout + result.stderr
        return output or (f"clippy-driver exited with {result.returncode}" if result.returncode else "")

    with tree.locked(folder), TemporaryDirectory() as temporary:
        saved = [path.read_text().split("\n", 1)[0] for path in sorted(folder.rglob(".*.o.cmd"))]
        lines = [command(text, Path(temporary) / f"{at}.rmeta") for at, text in enumerate(saved)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            outputs = list(pool.map(run, filter(None, lines)))
    return "".join(outputs) if outputs else f"{folder} has no saved command that compiles Rust"
