# SPDX-License-Identifier: GPL-2.0
"""Downloads kernel sources from Debian's archive; the apt sources of the machine need not list the suite."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from . import apt, process, series
from .output import LabError, print_line
from .paths import APT, LOGS, SOURCES

PACKAGE = "linux-source-"
SUITE = "trixie-backports"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"


@cache
def ensure() -> Path:
    """Returns the source of the best acceptable series that the cache or the archive has.

    Uses the cache, with a message, if the archive cannot be read.
    """
    wanted = series.wanted()
    cached = unpacked(wanted)
    if cached and series.of(cached.name) == wanted[0]:
        return cached
    try:
        return fetch(wanted, cached)
    except LabError as error:
        if not cached:
            raise
        print_line(f"{cached.name} is taken from the cache: {str(error).splitlines()[0]}")
        return cached


def unpacked(wanted: list[str]) -> Path | None:
    """Returns the newest cached source of the first of these series that the cache has, or None."""
    # download() renames a folder to such a name only when it is complete.
    trees = [tree for tree in SOURCES.glob("linux-[0-9]*") if tree.is_dir()]
    for name in wanted:
        if fit := [tree for tree in trees if series.of(tree.name) == name]:
            return max(fit, key=lambda tree: series.numbers(tree.name))
    return None


def mirror() -> str:
    """Returns the Debian mirror of the machine's apt sources, or the default mirror."""
    paths = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for path in paths:
        text = path.read_text(errors="replace") if path.is_file() else ""
        for uri in re.findall(r"^(?:deb|URIs:)[^#\n]*?(https?://\S+)", text, re.MULTILINE):
            if uri.rstrip("/").endswith("/debian"):
                return uri.rstrip("/")
    return MIRROR


def private_apt() -> list[str]:
    """Returns the options that make apt read only the suite of the kernel sources, with its state in the cache."""
    lists, archives = APT / "lists", APT / "archives"
    for folder in (lists / "partial", archives / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    sources = APT / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {SUITE} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": lists,
        "Dir::Cache": APT,
        "Dir::Cache::archives": archives,
        "APT::Sandbox::User": "",  # the user _apt may have no access to the cache
        "APT::Get::List-Cleanup": "false",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def archive() -> list[str]:
    """Updates the list of the archive and returns the series whose source it has."""
    apt.require_debian()
    options = private_apt()
    log = LOGS / "source.log"
    process.run_logged(["apt-get", *options, "update"], f"fetching the list of {SUITE}", log, dict(os.environ))
    command = ["apt-cache", *options, "pkgnames", PACKAGE]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    names = [name.removeprefix(PACKAGE) for name in result.stdout.split()]
    return [name for name in names if re.fullmatch(r"\d+\.\d+", name)]


def newest_version(options: list[str], name: str) -> str:
    """Returns the newest version of a package in the archive."""
    command = ["apt-cache", *options, "madison", name]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    versions = [row.split("|")[1].strip() for row in shown.stdout.splitlines() if SUITE in row]
    if not versions:
        raise LabError(f"{SUITE} has no version of {name}")
    return versions[0]


def fetch(wanted: list[str], cached: Path | None = None) -> Path:
    """Returns the source of the first of these series that the archive has.

    Returns `cached` if it is of that series, or if the archive has none of the series.
    """
    archived = archive()
    name = next((name for name in wanted if name in archived), None)
    if cached and (not name or name == series.of(cached.name)):
        return cached
    if not name:
        raise LabError(f"{mirror()} {SUITE} has no source of Linux {' or '.join(wanted)}")
    return download(name)


def download(name: str) -> Path:
    """Downloads and unpacks the source of a series. Returns its folder, which is complete when it has its name."""
    env = dict(os.environ)
    log = LOGS / "source.log"
    options = private_apt()
    name = PACKAGE + name
    version = newest_version(options, name)
    final = SOURCES / ("linux-" + version.split("-")[0])
    if final.exists():
        return final
    work = SOURCES / f"unpacking.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    script = f'cd "$0" && exec apt-get "$@" download {name}={version}'
    command = ["sh", "-c", script, str(work), *options]
    process.run_logged(command, f"downloading {name} {version}", log, env)
    package = next(work.glob("*.deb"))
    process.run_logged(["dpkg-deb", "-x", str(package), str(work)], "unpacking the package", log, env)
    archived = next((work / "usr/src").glob("linux-source-*.tar.xz"))
    unpack = ["tar", "-C", str(work), "-xf", str(archived)]
    process.run_logged(unpack, "unpacking the kernel's source", log, env)
    tree = next(folder for folder in work.glob("linux-source-*") if folder.is_dir())
    if not final.exists():
        tree.rename(final)
    shutil.rmtree(work, ignore_errors=True)
    return final
