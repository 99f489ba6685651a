# SPDX-License-Identifier: GPL-2.0
"""Brings a fresh Debian to where kernels can be built; touches no network when nothing lacks."""

import re
import subprocess

from . import apt, process, source, toolchain
from .output import LabError
from .paths import LOGS, TOOLS

RUST_MINIMUM = "1.85"  # scripts/min-tool-version.sh of the kernels in question
BINDGEN_MINIMUM = (0, 71, 1)
BINDGEN = "0.72.1"
CLANG_MAJORS = ("19", "21", "20", "22", "18")

# Stable releases carry a rustc for browsers beside their own, old one.
RUST_FLAVOURS = (
    ("rustc", "rust-src", "rust-clippy", "rustfmt", "cargo"),
    ("rustc-web", "rust-web-src", "rust-web-clippy", "rustfmt-web", "cargo-web"),
)

BUILD = (
    "bc bison ca-certificates ccache cpio flex gcc git kmod libc6-dev libelf-dev libssl-dev make perl"
    " python3 xz-utils zstd"
).split()
GUEST = (
    "busybox-static ibverbs-providers ibverbs-utils iproute2 libfabric-bin libfabric-dev"
    " perftest qemu-system-x86 rdma-core rdmacm-utils"
).split()
# What only the documentation needs, and only the tests.
DOCS = ("groff-base", "python3-sphinx")
TESTS = (*DOCS, "dkms")


def ensure(*more: str) -> None:
    """Packages, and more of them, bindgen and the kernel's source."""
    apt.require_debian()
    ensure_packages(more)
    ensure_bindgen()
    source.ensure()


def ensure_packages(more: tuple[str, ...] = ()) -> None:
    """Installs what lacks of the packages."""
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
    """A flavour's packages; any cargo will do, so leave out Debian's where there is one."""
    return [name for name in flavour if not (name.startswith("cargo") and toolchain.cargo())]


def have_rust() -> bool:
    """Whether a complete flavour of Debian's Rust is installed and new enough."""
    for flavour in RUST_FLAVOURS:
        wanted = without_cargo(flavour)
        have = apt.installed(wanted)
        if len(have) == len(wanted) and apt.at_least(have[flavour[0]], RUST_MINIMUM):
            return True
    return False


def choose_rust() -> list[str]:
    """The packages of a flavour that this release has new enough."""
    for flavour in RUST_FLAVOURS:
        if apt.at_least(apt.candidate(flavour[0]), RUST_MINIMUM):
            return without_cargo(flavour)
    raise LabError(f"this release has neither rustc nor rustc-web of {RUST_MINIMUM} or newer")


def clang_packages(major: str) -> list[str]:
    """The packages of one LLVM."""
    return [f"{name}-{major}" for name in ("clang", "lld", "llvm")] + [f"libclang-{major}-dev"]


def have_clang(major: str) -> bool:
    """Whether that LLVM is installed in full."""
    packages = clang_packages(major)
    return len(apt.installed(packages)) == len(packages)


def choose_clang() -> list[str]:
    """The packages of the first LLVM that this release has."""
    for major in CLANG_MAJORS:
        if all(apt.candidate(name) for name in clang_packages(major)):
            return clang_packages(major)
    raise LabError("this release has none of clang " + ", ".join(CLANG_MAJORS))


def bindgen_version(program: str) -> tuple[int, ...]:
    """The version that a bindgen says it has."""
    result = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in re.findall(r"\d+", result.stdout)[:3])


def ensure_bindgen() -> None:
    """Installs bindgen into the cache unless a new enough one is on PATH."""
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
        toolchain.environment(),
    )
