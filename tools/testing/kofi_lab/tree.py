# SPDX-License-Identifier: GPL-2.0
"""Our modules, built against a lane's kernel in a folder of their own in the cache."""

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
    """The modules do not build: the compiler's words, for the developer."""


def place(purpose: str) -> Path:
    """Where something is built of this checkout; two checkouts do not share."""
    checkout = hashlib.sha256(str(TREE).encode()).hexdigest()[:8]
    return BUILDS / f"{purpose}-{checkout}"


def folder(kernel: Kernel, purpose: str = "modules") -> Path:
    """Where that is built against a kernel."""
    return place(purpose) / kernel.build.name


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Holds a folder against another run on the same checkout."""
    place.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(place.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def files() -> list[str]:
    """Every file of the checkout that git tracks or would track."""
    result = subprocess.run(
        ["git", "-C", str(TREE), "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise LabError(f"{TREE} is not a git checkout: {result.stderr.strip()}")
    return sorted({name for name in result.stdout.split("\0") if (TREE / name).is_file()})


def sync(place: Path) -> None:
    """Makes `place` hold the checkout's files, touching only those that differ."""
    place.mkdir(parents=True, exist_ok=True)
    manifest = place / ".synced"
    before = set(manifest.read_text().splitlines()) if manifest.exists() else set()
    names = files()
    manifest.write_text("\n".join(sorted(before.union(names))))
    for gone in before.difference(names):
        (place / gone).unlink(missing_ok=True)
    for name in names:
        source, copy = TREE / name, place / name
        content = source.read_bytes()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        copy.chmod(source.stat().st_mode)
    manifest.write_text("\n".join(names))


def make(kernel: Kernel, place: Path, *arguments: str) -> str:
    """Runs the kernel's make on `place`; any warning is an error."""
    words, variables = toolchain.caching()
    command = [
        "make",
        "-s",
        f"-j{os.cpu_count() or 2}",
        "-C",
        str(kernel.build),
        f"M={place}",
        f"ARCH={kernel.lane.arch}",
        *toolchain.make_variables(),
        *words,
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
        # An object that was built with a warning would not be looked at again.
        for stale in place.rglob("*.o"):
            stale.unlink()
        raise ModuleError(f"{' '.join(arguments)} for {kernel.lane.name}:\n{result.stdout}")
    return result.stdout


def build(kernel: Kernel) -> list[Path]:
    """The modules in an order in which they can be loaded; quick when nothing changed."""
    place = folder(kernel)
    if not (TREE / "Kbuild").exists():
        return []
    with locked(place):
        sync(place)
        make(kernel, place, "modules")
        order = place / "modules.order"
        return [(place / line).with_suffix(".ko") for line in order.read_text().split()]


def depends(module: Path) -> list[str]:
    """The modules that this one needs."""
    result = subprocess.run(
        ["/sbin/modinfo", "-F", "depends", str(module)], capture_output=True, text=True, check=True
    )
    return [name for name in result.stdout.strip().split(",") if name]
