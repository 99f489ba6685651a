# SPDX-License-Identifier: GPL-2.0
"""Configures and builds the test kernels, one per lane and series of Linux, and keeps them in the cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import process, series, source, toolchain
from .lane import Lane
from .output import LabError, print_line
from .paths import BUILDS, CONFIGS, LOGS

SYMBOL = re.compile(r"(?:# )?(CONFIG_\w+)(?:=.+| is not set)")


@dataclass(frozen=True)
class Kernel:
    """The kernel of a lane: its source and its build folder."""

    lane: Lane
    source: Path
    build: Path

    @property
    def image(self) -> Path:
        """The path of the kernel image that a guest boots."""
        return self.build / self.lane.image

    @property
    def ready(self) -> bool:
        """True if the build folder has a complete build."""
        return (self.build / ".kofi-ready").exists()


def make_command(kernel: Kernel, *arguments: str) -> list[str]:
    """Returns the command that runs the kernel's make with these arguments."""
    return [
        "make",
        "-C",
        str(kernel.source),
        f"O={kernel.build}",
        f"ARCH={kernel.lane.arch}",
        *toolchain.make_variables(),
        *arguments,
    ]


def find(lane: Lane) -> Kernel:
    """Returns the kernel of a lane for the chosen series of Linux; it need not be built yet."""
    return of(lane, source.ensure())


def of(lane: Lane, tree: Path) -> Kernel:
    """Returns the kernel of a lane for a source tree.

    The name of its build folder has a digest of the configuration, the flags and the compilers' versions.
    """
    flags = [*lane.kernel_flags, *(path.read_text() for path in headers(lane))]
    key = digest(fragments(lane, tree), toolchain.versions(), *flags)
    return Kernel(lane, tree, BUILDS / f"{release(tree)}-{lane.kernel_name}-{key}")


def release(tree: Path) -> str:
    """Returns the release of a source tree in the cache, which is part of its name."""
    return tree.name.removeprefix("linux-")


def fragments(lane: Lane, tree: Path) -> tuple[str, ...]:
    """Returns the names of the configuration fragments of a lane and of the source's series."""
    return (*lane.fragments, *series.fragments(release(tree)))


def headers(lane: Lane) -> list[Path]:
    """Returns the paths of the extra headers of a lane's kernel."""
    return [CONFIGS / name for name in lane.kernel_headers]


def fragment(name: str) -> Path:
    """Returns the path of a configuration fragment."""
    return CONFIGS / f"{name}.config"


def digest(fragments: tuple[str, ...], *more: str) -> str:
    """Returns a short digest of the symbols that fragments set, and of more strings."""
    lines = [line.strip() for name in fragments for line in fragment(name).read_text().splitlines()]
    # A later fragment overrides an earlier one.
    symbols = {match[1]: match[0] for match in map(SYMBOL.fullmatch, lines) if match}
    settings = "".join(f"{symbols[name]}\n" for name in sorted(symbols))
    return hashlib.sha256("\n".join([settings, *more]).encode()).hexdigest()[:12]


def ensure(lane: Lane) -> Kernel:
    """Returns the kernel of a lane for the chosen series of Linux, and builds it if necessary."""
    kernel = find(lane)
    if kernel.ready:
        return kernel
    with build_lock():
        if not kernel.ready:
            if dropped := configure(kernel):
                error = f"Kconfig dropped symbols of the {lane.name} kernel (tools/testing/configs):"
                raise LabError("\n  ".join([error, *dropped]))
            compile_kernel(kernel)
    return kernel


@contextmanager
def build_lock() -> Iterator[None]:
    """Holds a file lock that lets one process of the machine build kernels at a time."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with open(BUILDS / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line("another process is building a kernel; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def configure(kernel: Kernel) -> list[str]:
    """Writes .config with the kernel's merge_config.sh. Returns its warnings about symbols that Kconfig dropped."""
    kernel.build.mkdir(parents=True, exist_ok=True)
    for path in headers(kernel.lane):
        shutil.copy(path, kernel.build)
    paths = [str(fragment(name)) for name in fragments(kernel.lane, kernel.source)]
    options = ["-n", "-Q", "-O", str(kernel.build)]
    # The script calls make without arguments: MAKEFLAGS passes the variables.
    variables = " ".join(["-s", f"ARCH={kernel.lane.arch}", *toolchain.make_variables()])
    result = subprocess.run(
        ["scripts/kconfig/merge_config.sh", *options, *paths],
        cwd=kernel.source,
        env={**toolchain.environment(), "MAKEFLAGS": variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise LabError(f"configuring the {kernel.lane.name} kernel failed:\n{result.stderr}")
    # The script's strict mode cannot be used: it also refuses "is not set" for a symbol that does not exist.
    warnings = result.stdout[result.stdout.index("WARNING: ") :] if "WARNING: " in result.stdout else ""
    return [line.strip() for line in warnings.splitlines() if line.strip()]


def log(kernel: Kernel) -> Path:
    """Returns the path of the log of a kernel's build."""
    return LOGS / f"kernel-{kernel.build.name}.log"


def compile_kernel(kernel: Kernel) -> None:
    """Builds the image and the files that module builds need, and marks the build folder as ready."""
    files = 0

    def detail(line: str) -> str:
        nonlocal files
        files += bool(re.match(r"\s+(CC|AS|RUSTC|LD|AR)\b", line))
        return f"{files} files  {line.strip()}"

    jobs = os.cpu_count() or 2
    process.run_logged(
        make_command(kernel, f"-j{jobs}", *kernel.lane.kernel_flags, kernel.lane.target, "modules"),
        f"building the {kernel.lane.name} kernel",
        log(kernel),
        toolchain.environment(),
        detail,
    )
    (kernel.build / ".kofi-ready").touch()
