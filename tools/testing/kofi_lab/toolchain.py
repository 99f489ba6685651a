# SPDX-License-Identifier: GPL-2.0
"""The compilers: Debian's clang and rustc, whatever else stands first on PATH."""

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
OF_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "KDIR", "KERNEL", "M", "O", "ARCH"}


@cache
def llvm() -> Path:
    """The newest versioned LLVM of the distribution that has both clang and lld."""
    homes = [
        home
        for home in Path("/usr/lib").glob("llvm-*")
        if (home / "bin/clang").exists() and (home / "bin/ld.lld").exists()
    ]
    if not homes:
        raise LabError("no clang with lld under /usr/lib/llvm-*: run `make setup`")
    return max(homes, key=lambda home: int(re.sub(r"\D", "", home.name) or 0))


def environment() -> dict[str, str]:
    """The environment of every compile: no variable of the caller's make leaks into it."""
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    cargo = Path(env.get("CARGO_HOME") or Path.home() / ".cargo") / "bin"
    path = env.get("PATH", "/usr/bin:/bin")
    env["PATH"] = f"{llvm()}/bin:{TOOLS}/bin:{path}:{cargo}:/usr/sbin:/sbin"
    env["LIBCLANG_PATH"] = f"{llvm()}/lib"
    env["LC_ALL"] = "C.UTF-8"
    return env


def make_variables() -> list[str]:
    """What every kernel make gets: rustup's toolchain has no rust-src, so name Debian's."""
    return ["LLVM=1", f"RUSTC={RUSTC}", f"RUSTDOC={RUSTDOC}", f"HOSTRUSTC={RUSTC}"]


def caching() -> tuple[list[str], dict[str, str]]:
    """Words of make and variables of the environment with which ccache serves all checkouts; none without it."""
    if not shutil.which("ccache"):
        return [], {}
    variables = {
        "CCACHE_DIR": str(CCACHE),
        # Paths below it count as relative to the module's folder, which itself does not count.
        "CCACHE_BASEDIR": str(BUILDS),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_MAXSIZE": "2G",
    }
    return ["CC=ccache clang"], variables


@cache
def versions() -> str:
    """What ties a built kernel to its compilers: another rustc cannot build its modules."""
    lines = []
    for command in ([RUSTC, "--version"], [f"{llvm()}/bin/clang", "--version"]):
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(result.stdout.splitlines()[0])
    return "\n".join(lines)


def cargo() -> str | None:
    """A cargo that works: rustup's is on many a PATH, and does nothing without a toolchain."""
    for program in (shutil.which("cargo"), "/usr/bin/cargo"):
        if program and os.access(program, os.X_OK):
            answer = subprocess.run([program, "--version"], capture_output=True, check=False)
            if answer.returncode == 0:
                return program
    return None


def bindgen() -> str | None:
    """Path of bindgen, if there is one."""
    return shutil.which("bindgen", path=environment()["PATH"])
