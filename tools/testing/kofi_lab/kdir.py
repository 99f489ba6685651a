# SPDX-License-Identifier: GPL-2.0
"""Builds the modules against a kernel of the user (KDIR), or reports what that kernel lacks."""

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
# The arguments of the kernel's make, for builds of consumers.
ARGUMENTS = TREE / "kofi.args"


def make(kdir: Path, target: str, more: list[str]) -> int:
    """Runs the kernel's make on this tree with more arguments. Returns its exit status.

    After `modules`, writes the arguments to kofi.args; `clean` deletes that file.
    """
    symbols = inspect(kdir)
    arguments = [*variables(kdir, symbols, target), *more]
    command = ["make", "-C", str(kdir), f"M={TREE}", f"-j{os.cpu_count() or 2}", *arguments, target]
    code = subprocess.run(command, env=environment(), check=False).returncode
    if target == "clean":
        ARGUMENTS.unlink(missing_ok=True)
    elif target == "modules" and code == 0:
        kept = [argument for argument in arguments if not argument.startswith(("CONFIG_", "V=", "CC=ccache"))]
        ARGUMENTS.write_text(shlex.join(map(with_path, kept)) + "\n")
    return code


def variables(kdir: Path, symbols: dict[str, str], target: str) -> list[str]:
    """Returns the make variables that a kernel with this configuration needs: architecture and compilers."""
    found = []
    if symbols.get("CONFIG_UML") == "y":
        uml = LANES["uml"]
        found += [f"ARCH={uml.arch}", *uml.module_flags]
    if symbols.get("CONFIG_CC_IS_CLANG") == "y":
        found.append("LLVM=1")
    if target != "clean":
        rustc = matching_rustc(kdir, symbols["CONFIG_RUSTC_VERSION"])
        rustdoc = Path(rustc).with_name("rustdoc")
        found += [f"RUSTC={rustc}", f"RUSTDOC={rustdoc}", f"HOSTRUSTC={rustc}"]
    return found


def with_path(variable: str) -> str:
    """Returns a make variable with the full path of the program that it names, if it names one on PATH."""
    name, _, value = variable.partition("=")
    program = shutil.which("clang" if variable == "LLVM=1" else value, path=environment()["PATH"])
    if not program:
        return variable
    return f"LLVM={Path(program).parent}/" if variable == "LLVM=1" else f"{name}={program}"


def environment() -> dict[str, str]:
    """Returns the environment of the kernel's make: the lab's with its clang and bindgen, or else the caller's."""
    from . import toolchain

    try:
        return toolchain.environment()
    except LabError:
        return dict(os.environ)


RELEASE = "include/config/kernel.release"


def release(kdir: Path) -> str:
    """Returns the release of a built kernel, which names its folder below /lib/modules."""
    path = kdir / RELEASE
    if not path.exists():
        raise LabError(f"{kdir} is no kernel build folder, or its kernel is not built: it has no {RELEASE}")
    return path.read_text().strip()


def inspect(kdir: Path) -> dict[str, str]:
    """Returns the configuration of a kernel. Raises LabError if kOFI cannot be built for it."""
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
    # A kernel that is newer than all known series is accepted; Kbuild prints a note.
    if (kdir / RELEASE).exists() and series.is_too_old(release(kdir)):
        raise LabError(
            f"the kernel of {kdir} is Linux {release(kdir)}, which kOFI does not build on:"
            f" it is tested on {series.known_text()}"
        )
    return symbols


def matching_rustc(kdir: Path, wanted: str) -> str:
    """Returns the path of a rustc of the version that built the kernel, whose crates no other version can read."""
    paths = (os.environ.get("RUSTC"), shutil.which("rustc"), "/usr/bin/rustc")
    candidates = dict.fromkeys(filter(None, paths))
    seen = []
    for candidate in candidates:
        try:
            command = [candidate, "--version"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if match := VERSION.match(result.stdout):
            major, minor, patch = (int(part) for part in match.groups())
            if major * 100_000 + minor * 100 + patch == int(wanted):
                return candidate
            seen.append(f"{candidate} is {major}.{minor}.{patch}")
    number = int(wanted)
    version = f"{number // 100_000}.{number // 100 % 1000}.{number % 100}"
    raise LabError(
        f"the kernel of {kdir} was built with rustc {version}, which its modules need, too,"
        f" but {', '.join(seen) or 'no rustc is installed'}: install this version, or name it with RUSTC="
    )
