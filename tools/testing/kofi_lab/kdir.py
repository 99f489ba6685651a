# SPDX-License-Identifier: GPL-2.0
"""Builds against a kernel of the user's, or says in one sentence what that kernel lacks."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from . import series
from .lane import LANES
from .output import LabError
from .paths import TREE

SYMBOLS = ("CONFIG_MODULES", "CONFIG_RUST", "CONFIG_INFINIBAND", "CONFIG_INFINIBAND_ADDR_TRANS")
VERSION = re.compile(r"rustc (\d+)\.(\d+)\.(\d+)")
# What the kernel's make was told, for those who build against what it made.
SAID = TREE / "kofi.args"


def make(kdir: Path, target: str, more: list[str]) -> int:
    """Runs the kernel's make on this tree, with more variables or words."""
    symbols = inspect(kdir)
    words = variables(kdir, symbols, target)
    command = ["make", "-C", str(kdir), f"M={TREE}", f"-j{os.cpu_count() or 2}", *words, *more, target]
    code = subprocess.run(command, env=environment(), check=False).returncode
    if target == "clean":
        SAID.unlink(missing_ok=True)
    elif target == "modules" and code == 0:
        said = [word for word in [*words, *more] if not word.startswith(("CONFIG_", "V="))]
        SAID.write_text(shlex.join(map(settled, said)) + "\n")
    return code


def variables(kdir: Path, symbols: dict[str, str], target: str) -> list[str]:
    """What the kernel's make has to be told for this kernel."""
    words = []
    if symbols.get("CONFIG_UML") == "y":
        uml = LANES["uml"]
        words += [f"ARCH={uml.arch}", *uml.module_flags]
    if symbols.get("CONFIG_CC_IS_CLANG") == "y":
        words.append("LLVM=1")
    if target != "clean":
        rustc = matching_rustc(kdir, symbols["CONFIG_RUSTC_VERSION"])
        rustdoc = Path(rustc).with_name("rustdoc")
        words += [f"RUSTC={rustc}", f"RUSTDOC={rustdoc}", f"HOSTRUSTC={rustc}"]
    return words


def settled(word: str) -> str:
    """The same in an environment that knows nothing of ours: programs have their whole names."""
    name, _, value = word.partition("=")
    program = shutil.which("clang" if word == "LLVM=1" else value, path=environment()["PATH"])
    if not program:
        return word
    return f"LLVM={Path(program).parent}/" if word == "LLVM=1" else f"{name}={program}"


def environment() -> dict[str, str]:
    """The caller's environment, with the newest clang and bindgen that there are within reach."""
    from . import toolchain

    try:
        return toolchain.environment()
    except LabError:
        return dict(os.environ)


RELEASE = "include/config/kernel.release"


def release(kdir: Path) -> str:
    """The name by which the kernel's modules are kept."""
    place = kdir / RELEASE
    if not place.exists():
        raise LabError(
            f"{kdir} is no kernel build folder, or its kernel was never built: it does not say"
            " which release it is"
        )
    return place.read_text().strip()


def inspect(kdir: Path) -> dict[str, str]:
    """The kernel's configuration; raises when modules of ours cannot be built for it."""
    if not (kdir / "Makefile").exists():
        raise LabError(
            f"{kdir} is no kernel build folder: install this kernel's headers,"
            " or name a folder with KDIR="
        )
    if not (kdir / ".config").exists():
        raise LabError(f"{kdir} is not configured: it has no .config")
    lines = (kdir / ".config").read_text().splitlines()
    symbols = dict(line.split("=", 1) for line in lines if line.startswith("CONFIG_"))
    for name in SYMBOLS:
        if symbols.get(name, "n") == "n":
            raise LabError(f"the kernel of {kdir} is built without {name}, which kOFI needs")
    # A kernel that is newer than all known series may do: Kbuild says that it is, and builds.
    if (kdir / RELEASE).exists() and series.is_too_old(release(kdir)):
        raise LabError(
            f"the kernel of {kdir} is Linux {release(kdir)}, which kOFI does not build on:"
            f" it is tested on {series.known_text()}"
        )
    return symbols


def matching_rustc(kdir: Path, wanted: str) -> str:
    """A rustc of the very version that built the kernel: crates of another are unreadable to it."""
    places = (os.environ.get("RUSTC"), shutil.which("rustc"), "/usr/bin/rustc")
    candidates = dict.fromkeys(filter(None, places))
    seen = []
    for candidate in candidates:
        try:
            command = [candidate, "--version"]
            words = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if match := VERSION.match(words.stdout):
            major, minor, patch = (int(part) for part in match.groups())
            if major * 100_000 + minor * 100 + patch == int(wanted):
                return candidate
            seen.append(f"{candidate} is {major}.{minor}.{patch}")
    number = int(wanted)
    version = f"{number // 100_000}.{number // 100 % 1000}.{number % 100}"
    raise LabError(
        f"the kernel of {kdir} was built with rustc {version}, and its modules have to be too,"
        f" but {', '.join(seen) or 'there is no rustc here'}"
    )
