# SPDX-License-Identifier: GPL-2.0
"""The kernel's source, from a Debian package that the machine's own apt sources need not list."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from . import apt, stream
from .paths import APT, LOGS, SOURCES
from .say import LabError

PREFERRED = "linux-source-7.3"
PATTERN = re.compile(r"linux-source-7\.\d+")
SUITE = "trixie-backports"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"


def ensure() -> Path:
    """The unpacked source; fetched when there is none."""
    return unpacked() or fetch()


def unpacked() -> Path | None:
    """The newest source in the cache; a folder of that name is always whole."""
    trees = [tree for tree in SOURCES.glob("linux-[0-9]*") if tree.is_dir()]
    return max(trees, key=lambda tree: numbers(tree.name), default=None)


def numbers(text: str) -> list[int]:
    """Digits of a version, for comparing."""
    return [int(part) for part in re.findall(r"\d+", text)]


def mirror() -> str:
    """The Debian mirror that this machine uses already."""
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for place in places:
        text = place.read_text(errors="replace") if place.is_file() else ""
        for uri in re.findall(r"^(?:deb|URIs:)[^#\n]*?(https?://\S+)", text, re.MULTILINE):
            if uri.rstrip("/").endswith("/debian"):
                return uri.rstrip("/")
    return MIRROR


def private_apt() -> list[str]:
    """Options that make apt read our one source and keep its state to itself."""
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
        "APT::Sandbox::User": "",  # the cache may lie where the user _apt cannot go
        "APT::Get::List-Cleanup": "false",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def choose(options: list[str]) -> tuple[str, str]:
    """Package and version: the preferred series, or the newest 7.x there is."""
    result = subprocess.run(
        ["apt-cache", *options, "pkgnames", "linux-source-7"],
        capture_output=True,
        text=True,
        check=False,
    )
    names = [name for name in result.stdout.split() if PATTERN.fullmatch(name)]
    if not names:
        raise LabError(f"{mirror()} {SUITE} has no linux-source-7.*")
    name = PREFERRED if PREFERRED in names else max(names, key=numbers)
    shown = subprocess.run(
        ["apt-cache", *options, "madison", name], capture_output=True, text=True, check=True
    )
    versions = [row.split("|")[1].strip() for row in shown.stdout.splitlines() if SUITE in row]
    if not versions:
        raise LabError(f"{SUITE} lists {name} without a version")
    return name, versions[0]


def fetch() -> Path:
    """Downloads the package and unpacks it; the last rename makes it count."""
    apt.require_debian()
    env = dict(os.environ)
    log = LOGS / "source.log"
    options = private_apt()
    stream.run(["apt-get", *options, "update"], f"fetching the list of {SUITE}", log, env)
    name, version = choose(options)
    work = SOURCES / f"unpacking.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    download = f'cd "$0" && exec apt-get "$@" download {name}={version}'
    command = ["sh", "-c", download, str(work), *options]
    stream.run(command, f"downloading {name} {version}", log, env)
    package = next(work.glob("*.deb"))
    stream.run(["dpkg-deb", "-x", str(package), str(work)], "unpacking the package", log, env)
    archive = next((work / "usr/src").glob("linux-source-*.tar.xz"))
    unpack = ["tar", "-C", str(work), "-xf", str(archive)]
    stream.run(unpack, "unpacking the kernel's source", log, env)
    tree = next(folder for folder in work.glob("linux-source-*") if folder.is_dir())
    final = SOURCES / ("linux-" + version.split("-")[0])
    if not final.exists():
        tree.rename(final)
    shutil.rmtree(work, ignore_errors=True)
    return final
