# SPDX-License-Identifier: GPL-2.0
"""Queries and installs Debian packages."""

import os
import platform
import shutil
import subprocess
from functools import cache

from . import process
from .output import LabError, print_line
from .paths import LOGS

QUERY = ["dpkg-query", "-W", "-f=${Package}\t${Version}\t${db:Status-Abbrev}\n"]


@cache
def require_debian() -> None:
    """Raises LabError on a system without Debian's apt."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    if release.get("ID") != "debian" or not shutil.which("apt-get"):
        name = release.get("PRETTY_NAME", "this system")
        raise LabError(
            f"`make setup` supports Debian 12 and newer, not {name}: build the modules with"
            " `make KDIR=...` against your kernel, and run the tests in a Debian container"
        )


def installed(packages: list[str]) -> dict[str, str]:
    """Returns the versions of those packages of the list that are installed."""
    result = subprocess.run([*QUERY, *packages], capture_output=True, text=True, check=False)
    rows = (line.split("\t") for line in result.stdout.splitlines())
    return {name: version for name, version, status in rows if status.startswith("ii")}


@cache
def candidate(package: str) -> str:
    """Returns the version of a package that apt would install, or an empty string."""
    result = subprocess.run(
        ["apt-cache", "policy", package], capture_output=True, text=True, check=False
    )
    for line in result.stdout.splitlines():
        if line.strip().startswith("Candidate:"):
            version = line.split(":", 1)[1].strip()
            return "" if version == "(none)" else version
    return ""


def at_least(version: str, minimum: str) -> bool:
    """Returns whether a version is not older than `minimum` in Debian's order; False for an empty version."""
    command = ["dpkg", "--compare-versions", version, "ge", minimum]
    return bool(version) and subprocess.run(command, check=False).returncode == 0


@cache
def as_root() -> list[str] | None:
    """Returns the command prefix that runs a command as root, or None if that needs a password."""
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    if shutil.which("sudo"):
        if subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0:
            return sudo
    return None


def update() -> None:
    """Updates the package lists."""
    run(["apt-get", "update", "-q"], "fetching package lists")
    candidate.cache_clear()


def install(packages: list[str]) -> None:
    """Installs packages without questions to the user."""
    print_line("installing: " + " ".join(packages))
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    run(command, f"installing {len(packages)} packages")


def run(command: list[str], title: str) -> None:
    """Runs apt as root with its output in a log."""
    prefix = as_root()
    if prefix is None:
        raise LabError(f"{title} needs root; run once:\n  sudo {' '.join(command)}")
    options = ["-o", "DPkg::Lock::Timeout=600"]
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive"]
    full = [*prefix, *quiet, command[0], *options, *command[1:]]
    process.run_logged(full, title, LOGS / "apt.log", dict(os.environ))
