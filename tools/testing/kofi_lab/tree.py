# SPDX-License-Identifier: GPL-2.0
"""Copies the checkout into the cache, and builds its modules there against a lane's kernel."""

import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import toolchain
from .kernel import Kernel
from .output import LabError
from .paths import BUILDS, TREE

WARNING = re.compile(r"\bwarning\b", re.IGNORECASE)


class ModuleError(LabError):
    """An error of a module build; the message has the output of make."""


def checkout_folder(purpose: str) -> Path:
    """Returns the folder in the cache for files of this checkout; other checkouts have other folders."""
    checkout = hashlib.sha256(str(TREE).encode()).hexdigest()[:8]
    return BUILDS / f"{purpose}-{checkout}"


def build_folder(kernel: Kernel, purpose: str = "modules") -> Path:
    """Returns the folder in the cache for files of this checkout that depend on a kernel."""
    return checkout_folder(purpose) / kernel.build.name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates a folder, and holds a file lock on it against other processes."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def files() -> list[str]:
    """Returns all files of the checkout that git tracks or does not ignore."""
    result = subprocess.run(
        ["git", "-C", str(TREE), "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise LabError(f"{TREE} is not a git checkout: {result.stderr.strip()}")
    return sorted({name for name in result.stdout.split("\0") if (TREE / name).is_file()})


def sync(folder: Path) -> None:
    """Copies the checkout's files into a folder.

    A file with the same content stays, so that make does not build it again. Files that left the checkout are
    deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / ".synced"
    before = set(manifest.read_text().splitlines()) if manifest.exists() else set()
    names = files()
    manifest.write_text("\n".join(sorted(before.union(names))))
    for deleted in before.difference(names):
        (folder / deleted).unlink(missing_ok=True)
    for name in names:
        source, copy = TREE / name, folder / name
        content = source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        copy.chmod(source.stat().st_mode)
    manifest.write_text("\n".join(names))


def make(kernel: Kernel, folder: Path, *arguments: str) -> str:
    """Runs the kernel's make with M=`folder`. Returns its output. Raises ModuleError if it fails or warns."""
    caching, variables = toolchain.caching()
    command = [
        "make",
        "-s",
        f"-j{os.cpu_count() or 2}",
        "-C",
        str(kernel.build),
        f"M={folder}",
        f"ARCH={kernel.lane.arch}",
        *toolchain.make_variables(),
        *caching,
        *kernel.lane.module_flags,
        *arguments,
    ]
    result = subprocess.run(
        command,
        env=toolchain.environment() | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode or WARNING.search(result.stdout):
        # make would not compile an object again whose source has a warning.
        for stale in folder.rglob("*.o"):
            stale.unlink()
        raise ModuleError(f"{' '.join(arguments)} for {kernel.lane.name}:\n{result.stdout}")
    return result.stdout


def build(kernel: Kernel) -> list[Path]:
    """Builds the modules, and compiles only changed files. Returns the modules in an order in which they load."""
    folder = build_folder(kernel)
    if not (TREE / "Kbuild").exists():
        return []
    with locked(folder):
        sync(folder)
        make(kernel, folder, "modules")
        order = folder / "modules.order"
        return [(folder / line).with_suffix(".ko") for line in order.read_text().split()]


def depends(module: Path) -> list[str]:
    """Returns the names of the modules that a module depends on."""
    result = subprocess.run(
        ["/sbin/modinfo", "-F", "depends", str(module)], capture_output=True, text=True, check=True
    )
    return [name for name in result.stdout.strip().split(",") if name]
