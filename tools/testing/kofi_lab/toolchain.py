# SPDX-License-Identifier: GPL-2.0
"""Finds the compilers: Debian's clang and rustc, independent of PATH."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from .output import LabError
from .paths import BUILDS, CCACHE, TOOLS

RUSTC = "/usr/bin/rustc"
RUSTDOC = "/usr/bin/rustdoc"
DEBIAN_CARGO = "/usr/bin/cargo"
# Variables that an outer make exports, and that would change the make of a kernel.
OUTER_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "KDIR", "KERNEL", "M", "O", "ARCH"}


@cache
def llvm() -> Path:
    """Returns the folder of the newest LLVM of the distribution that has both clang and lld."""
    homes = [
        home
        for home in Path("/usr/lib").glob("llvm-*")
        if (home / "bin/clang").exists() and (home / "bin/ld.lld").exists()
    ]
    if not homes:
        raise LabError("no clang with lld under /usr/lib/llvm-*: run `make setup`")
    return max(homes, key=lambda home: int(re.sub(r"\D", "", home.name) or 0))


def environment() -> dict[str, str]:
    """Returns the environment of compile commands, without the variables of an outer make."""
    env = {name: value for name, value in os.environ.items() if name not in OUTER_MAKE}
    cargo = Path(env.get("CARGO_HOME") or Path.home() / ".cargo") / "bin"
    path = env.get("PATH", "/usr/bin:/bin")
    env["PATH"] = f"{llvm()}/bin:{TOOLS}/bin:{path}:{cargo}:/usr/sbin:/sbin"
    env["LIBCLANG_PATH"] = f"{llvm()}/lib"
    env["LC_ALL"] = "C.UTF-8"
    return env


def make_variables() -> list[str]:
    """Returns the variables of every make of a kernel. They select Debian's rustc: rustup's may lack rust-src."""
    return ["LLVM=1", f"RUSTC={RUSTC}", f"RUSTDOC={RUSTDOC}", f"HOSTRUSTC={RUSTC}"]


def caching() -> tuple[list[str], dict[str, str]]:
    """Returns the make arguments and environment variables that make all checkouts share ccache's objects.

    Both are empty if ccache is not installed.
    """
    if not shutil.which("ccache"):
        return [], {}
    variables = {
        "CCACHE_DIR": str(CCACHE),
        # ccache makes paths below it relative to the module's folder, so that the folder's name does not matter.
        "CCACHE_BASEDIR": str(BUILDS),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_MAXSIZE": "2G",
    }
    return ["CC=ccache clang"], variables


@cache
def versions() -> str:
    """Returns the versions of rustc and clang. A kernel's modules need the rustc that built the kernel."""
    lines = []
    for command in ([RUSTC, "--version"], [f"{llvm()}/bin/clang", "--version"]):
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(result.stdout.splitlines()[0])
    return "\n".join(lines)


def cargo() -> str | None:
    """Returns the path of a cargo that runs, or None. rustup's cargo fails if no toolchain is installed."""
    for program in (shutil.which("cargo"), DEBIAN_CARGO):
        if program and os.access(program, os.X_OK):
            answer = subprocess.run([program, "--version"], capture_output=True, check=False)
            if answer.returncode == 0:
                return program
    return None


def cargo_environment() -> dict[str, str]:
    """Returns the environment of cargo's commands, in which Debian's cargo finds Debian's rustc before rustup's."""
    env = environment()
    if cargo() == DEBIAN_CARGO:
        env["PATH"] = f"{llvm()}/bin:{TOOLS}/bin:{Path(DEBIAN_CARGO).parent}:{env['PATH']}"
    return env


def bindgen() -> str | None:
    """Returns the path of bindgen, or None if it is not installed."""
    return shutil.which("bindgen", path=environment()["PATH"])
