# SPDX-License-Identifier: GPL-2.0
"""The user-space client, a cargo package of its own: tools/kofi."""

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
# All checkouts share the compiled dependencies.
TARGET = BUILDS / "client"
# Names the checkout that the compiled package in TARGET is of.
OWNER = TARGET / "checkout"
VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)
TEST = re.compile(r"^test (\S+) \.\.\. (\w+)", re.MULTILINE)


def cargo(verb: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs cargo on the package, with nothing but what its lock file names."""
    program = toolchain.cargo()
    if not program:
        raise LabError("no cargo: run `make setup`")
    place = ["--manifest-path", str(PACKAGE / "Cargo.toml"), "--target-dir", str(TARGET)]
    return subprocess.run(
        [program, verb, "--locked", "--quiet", *place, *words],
        env={**toolchain.environment(), "CARGO_TERM_COLOR": "never"},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def target() -> Iterator[None]:
    """Holds TARGET, without the package of another checkout.

    Cargo tells packages apart by their path within the workspace: it takes the program of another
    checkout for this one's unless a source file here is newer.
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
    """The version, which is that of all of kOFI."""
    found = VERSION.search((PACKAGE / "Cargo.toml").read_text(encoding="utf-8"))
    if not found:
        raise LabError("tools/kofi/Cargo.toml says no version")
    return found[1]


def build() -> Path:
    """The program, compiled where something has changed."""
    program = tree.checkout_folder("client") / "kofi"
    with target():
        result = cargo("build", "--release")
        if result.returncode or "warning" in result.stderr:
            raise LabError(f"tools/kofi does not compile cleanly:\n{result.stderr}")
        program.parent.mkdir(exist_ok=True)
        shutil.copy(TARGET / "release" / "kofi", program)
    return program


def clippy() -> str:
    """What clippy says of it."""
    with target():
        result = cargo("clippy", "--all-targets", "--", "-D", "warnings")
    return result.stderr if result.returncode else ""


def unit_tests() -> dict[str, str]:
    """Its unit tests, and what each complains about: nothing when it passed."""
    # Quiet tests have no names.
    with target():
        result = cargo("test", "--", "--format=pretty")
    found = TEST.findall(result.stdout)
    if not found or (result.returncode and all(word == "ok" for _, word in found)):
        return {"run": result.stderr + result.stdout}
    return {name.replace("::", "."): "" if word == "ok" else word for name, word in found}
