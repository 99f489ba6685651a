# SPDX-License-Identifier: GPL-2.0
"""Test kernels, one per lane, built once and kept in the cache."""

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
    """A lane's kernel: its source, its build folder and its image."""

    lane: Lane
    source: Path
    build: Path

    @property
    def image(self) -> Path:
        """What a guest boots."""
        return self.build / self.lane.image

    @property
    def ready(self) -> bool:
        """Whether a build came to its end here."""
        return (self.build / ".kofi-ready").exists()


def make_command(kernel: Kernel, *arguments: str) -> list[str]:
    """A make of that kernel's build system."""
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
    """Returns the kernel that this lane's fragments, the chosen source and the compilers call for."""
    return of(lane, source.ensure())


def of(lane: Lane, tree: Path) -> Kernel:
    """Returns the kernel of a lane for one source."""
    more = [*lane.kernel_flags, *([header(lane).read_text()] if lane.kernel_header else [])]
    key = digest(fragments(lane, tree), toolchain.versions(), *more)
    return Kernel(lane, tree, BUILDS / f"{release(tree)}-{lane.name}-{key}")


def release(tree: Path) -> str:
    """Returns the release of a source in the cache, which its name ends with."""
    return tree.name.removeprefix("linux-")


def fragments(lane: Lane, tree: Path) -> tuple[str, ...]:
    """Returns the names of the fragments of a lane and of the source's series."""
    return (*lane.fragments, *series.fragments(release(tree)))


def header(lane: Lane) -> Path:
    """Returns the header that a lane's kernel is built with."""
    return CONFIGS / lane.kernel_header


def fragment(name: str) -> Path:
    """Returns the path of a fragment of a configuration."""
    return CONFIGS / f"{name}.config"


def digest(fragments: tuple[str, ...], *more: str) -> str:
    """Returns a short key of what fragments ask for, and of whatever else decides how a build ends."""
    lines = [line.strip() for name in fragments for line in fragment(name).read_text().splitlines()]
    # A later fragment wins.
    symbols = {match[1]: match[0] for match in map(SYMBOL.fullmatch, lines) if match}
    asked = "".join(f"{symbols[name]}\n" for name in sorted(symbols))
    return hashlib.sha256("\n".join([asked, *more]).encode()).hexdigest()[:12]


def ensure(lane: Lane) -> Kernel:
    """The same, built if it is not yet."""
    kernel = find(lane)
    if kernel.ready:
        return kernel
    with alone():
        if not kernel.ready:
            if lost := configure(kernel):
                words = f"the {lane.name} kernel's configuration does not hold:"
                raise LabError("\n  ".join([words, *lost]))
            compile_kernel(kernel)
    return kernel


@contextmanager
def alone() -> Iterator[None]:
    """Two kernel builds at once would only be slower, and would meet in one folder."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with open(BUILDS / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line("another run is building a kernel; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def configure(kernel: Kernel) -> list[str]:
    """Has the kernel's merge_config.sh write .config, and returns what it says of symbols that did not take."""
    kernel.build.mkdir(parents=True, exist_ok=True)
    if kernel.lane.kernel_header:
        shutil.copy(header(kernel.lane), kernel.build)
    paths = [str(fragment(name)) for name in fragments(kernel.lane, kernel.source)]
    options = ["-n", "-Q", "-O", str(kernel.build)]
    # The script calls make itself, which takes its variables from here.
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
    # It warns when a dependency lacks. Its strict mode would also refuse a symbol that is rightly absent.
    lost = result.stdout[result.stdout.index("WARNING: ") :] if "WARNING: " in result.stdout else ""
    return [line.strip() for line in lost.splitlines() if line.strip()]


def log(kernel: Kernel) -> Path:
    """Returns the log of a kernel's build."""
    return LOGS / f"kernel-{kernel.build.name}.log"


def compile_kernel(kernel: Kernel) -> None:
    """Builds the image and what modules need, one moving line on the way."""
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
