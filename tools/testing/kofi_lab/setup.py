# SPDX-License-Identifier: GPL-2.0
"""Installs the packages and tools that the lab needs, and the kernel's source. Uses the network only for these."""

import re
import subprocess

from . import apt, process, source, toolchain
from .output import LabError
from .paths import LOGS, TOOLS

RUST_MINIMUM = "1.85"  # scripts/min-tool-version.sh of the known series
BINDGEN_MINIMUM = (0, 71, 1)
BINDGEN = "0.72.1"
# In the order of preference.
CLANG_MAJORS = ("19", "21", "20", "22", "18")

# Stable releases of Debian have a newer rustc for browsers (rustc-web) beside their own.
RUST_FLAVOURS = (
    ("rustc", "rust-src", "rust-clippy", "rustfmt", "cargo"),
    ("rustc-web", "rust-web-src", "rust-web-clippy", "rustfmt-web", "cargo-web"),
)

BUILD = (
    "bc bison ca-certificates ccache cpio flex gcc git kmod libc6-dev libelf-dev libssl-dev make perl"
    " python3 xz-utils zstd"
).split()
GUEST = (
    "busybox-static e2fsprogs ibverbs-providers ibverbs-utils iproute2 libfabric-bin libfabric-dev"
    " perftest qemu-system-x86 rdma-core rdmacm-utils"
).split()
# Packages that only the documentation, the soak or the bench needs.
DOCS = ("groff-base", "python3-sphinx")
SOAK = ("dkms", "fio")
BENCH = ("fio",)


def ensure(*more: str) -> None:
    """Installs the packages of the lab and `more` packages, bindgen and the kernel's source."""
    apt.require_debian()
    ensure_packages(more)
    ensure_bindgen()
    source.ensure()


def ensure_packages(more: tuple[str, ...] = ()) -> None:
    """Installs missing packages, Rust and clang."""
    fixed = [*BUILD, *GUEST, *more]
    missing = [name for name in fixed if name not in apt.installed(fixed)]
    need_rust = not have_rust()
    need_clang = not any(have_clang(major) for major in CLANG_MAJORS)
    if not (missing or need_rust or need_clang):
        return
    if apt.as_root() is not None:
        apt.update()
    if need_rust:
        missing += choose_rust()
    if need_clang:
        missing += choose_clang()
    apt.install(missing)


def without_cargo(flavour: tuple[str, ...]) -> list[str]:
    """Returns a flavour's packages, without cargo if one is installed: its version does not matter."""
    return [name for name in flavour if not (name.startswith("cargo") and toolchain.cargo())]


def have_rust() -> bool:
    """Returns whether a complete and sufficiently new flavour of Debian's Rust is installed."""
    for flavour in RUST_FLAVOURS:
        wanted = without_cargo(flavour)
        have = apt.installed(wanted)
        if len(have) == len(wanted) and apt.at_least(have[flavour[0]], RUST_MINIMUM):
            return True
    return False


def choose_rust() -> list[str]:
    """Returns the packages of the first flavour that is new enough in this release of Debian."""
    for flavour in RUST_FLAVOURS:
        if apt.at_least(apt.candidate(flavour[0]), RUST_MINIMUM):
            return without_cargo(flavour)
    raise LabError(f"this release of Debian has neither rustc nor rustc-web of version {RUST_MINIMUM} or newer")


def clang_packages(major: str) -> list[str]:
    """Returns the packages of one major version of LLVM."""
    return [f"{name}-{major}" for name in ("clang", "lld", "llvm")] + [f"libclang-{major}-dev"]


def have_clang(major: str) -> bool:
    """Returns whether all packages of one major version of LLVM are installed."""
    packages = clang_packages(major)
    return len(apt.installed(packages)) == len(packages)


def choose_clang() -> list[str]:
    """Returns the packages of the preferred LLVM of this release of Debian."""
    for major in CLANG_MAJORS:
        if all(apt.candidate(name) for name in clang_packages(major)):
            return clang_packages(major)
    raise LabError("this release of Debian has no clang of a supported version: " + ", ".join(CLANG_MAJORS))


def bindgen_version(program: str) -> tuple[int, ...]:
    """Returns the version of a bindgen."""
    result = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in re.findall(r"\d+", result.stdout)[:3])


def ensure_bindgen() -> None:
    """Builds bindgen in the cache unless one that is new enough is on PATH."""
    program = toolchain.bindgen()
    if program and bindgen_version(program) >= BINDGEN_MINIMUM:
        return
    process.run_logged(
        [
            toolchain.cargo() or "cargo",
            *("install", "--locked", "bindgen-cli"),
            *("--version", BINDGEN, "--root", str(TOOLS)),
        ],
        f"building bindgen {BINDGEN}",
        LOGS / "bindgen.log",
        toolchain.cargo_environment(),
    )
