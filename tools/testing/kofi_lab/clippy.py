# SPDX-License-Identifier: GPL-2.0
"""Runs clippy on the Rust sources of a lane's modules.

Kbuild's CLIPPY=1 compiles everything once more. Each object's command is in a file beside it: clippy-driver
takes the same command, and stops before code is generated.
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
EMIT = re.compile(r"--emit=\S+")


def command(saved: str, output: Path) -> str | None:
    """Returns the shell command that checks what a saved command of Kbuild compiles; None if that is not Rust."""
    match = SAVED.match(saved)
    if not match:
        return None
    arguments = EMIT.sub("", match["arguments"])
    return f"{match['environment']}{DRIVER} {arguments} --emit=metadata={shlex.quote(str(output))}".strip()


def complaints(kernel: Kernel) -> str:
    """Returns what clippy says of the modules of a kernel, which are built if they are not."""
    tree.build(kernel)
    place = tree.build_folder(kernel)
    environment = {
        **toolchain.environment(),
        "CLIPPY_CONF_DIR": str(kernel.source),
        "KOFI_OBJ": str(place),
        "RUSTC_BOOTSTRAP": "1",
    }

    def check(line: str) -> str:
        result = subprocess.run(
            line, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        words = result.stdout + result.stderr
        return words or (f"clippy-driver answered {result.returncode}" if result.returncode else "")

    with tree.locked(place), TemporaryDirectory() as temporary:
        saved = [path.read_text().split("\n", 1)[0] for path in sorted(place.rglob(".*.o.cmd"))]
        lines = [command(text, Path(temporary) / f"{at}.rmeta") for at, text in enumerate(saved)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            words = list(pool.map(check, filter(None, lines)))
    return "".join(words) if words else "no Rust source was compiled"
