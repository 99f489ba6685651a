# SPDX-License-Identifier: GPL-2.0
"""Builds and checks the user-space client, the cargo package tools/kofi."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import toolchain, tree
from .output import LabError
from .paths import BUILDS, TREE

PACKAGE = TREE / "tools" / "kofi"
# The target folder of all checkouts, which share the compiled dependencies.
TARGET = BUILDS / "client"
# A file with the path of the checkout whose package TARGET has.
OWNER = TARGET / "checkout"
VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)
TEST = re.compile(r"^test (\S+) \.\.\. (\w+)", re.MULTILINE)


def cargo(verb: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs cargo on the package, with the dependencies of its lock file."""
    program = toolchain.cargo()
    if not program:
        raise LabError("cargo is not installed: run `make setup`")
    paths = ["--manifest-path", str(PACKAGE / "Cargo.toml"), "--target-dir", str(TARGET)]
    return subprocess.run(
        [program, verb, "--locked", "--quiet", *paths, *arguments],
        env={**toolchain.cargo_environment(), "CARGO_TERM_COLOR": "never"},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def target() -> Iterator[None]:
    """Locks TARGET, and deletes the package of another checkout from it.

    Cargo identifies a package by its path within the workspace, and would use the program of another checkout unless
    a source file of this one is newer.
    """
    with tree.locked(TARGET):
        if not OWNER.is_file() or OWNER.read_text(encoding="utf-8") != str(TREE):
            for profile in ("dev", "release"):
                result = cargo("clean", "--package", "kofi", "--profile", profile)
                if result.returncode:
                    raise LabError(f"cargo cannot clean {TARGET}:\n{result.stderr}")
            OWNER.write_text(str(TREE), encoding="utf-8")
        yield


def version() -> str:
    """Returns the version of the package, which is the version of kOFI."""
    found = VERSION.search((PACKAGE / "Cargo.toml").read_text(encoding="utf-8"))
    if not found:
        raise LabError("tools/kofi/Cargo.toml has no version")
    return found[1]


def build() -> Path:
    """Builds the program if its sources changed. Returns its path."""
    program = tree.checkout_folder("client") / "kofi"
    with target():
        result = cargo("build", "--release")
        if result.returncode or "warning" in result.stderr:
            raise LabError(f"tools/kofi does not compile cleanly:\n{result.stderr}")
        program.parent.mkdir(exist_ok=True)
        shutil.copy(TARGET / "release" / "kofi", program)
    return program


def clippy() -> str:
    """Returns clippy's output for the package, which is empty without errors."""
    with target():
        result = cargo("clippy", "--all-targets", "--", "-D", "warnings")
    return result.stderr if result.returncode else ""


def unit_tests() -> dict[str, str]:
    """Runs the package's unit tests. Returns the error of each test, empty for those that passed."""
    # With --quiet, the output has no names of tests.
    with target():
        result = cargo("test", "--", "--format=pretty")
    found = TEST.findall(result.stdout)
    if not found or (result.returncode and all(outcome == "ok" for _, outcome in found)):
        return {"run": result.stderr + result.stdout}
    return {name.replace("::", "."): "" if outcome == "ok" else outcome for name, outcome in found}
