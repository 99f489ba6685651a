# SPDX-License-Identifier: GPL-2.0
"""The programs of a QEMU guest: busybox, iproute2 and the RDMA tools with their libraries."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from .cpio import Archive
from .paths import BUILDS
from .say import LabError

PROGRAMS = (
    "ip rdma tc ibv_devinfo ibv_devices ib_send_lat ib_send_bw ib_write_lat rping"
    " fi_info fi_pingpong"
).split()
BUSYBOX = Path("/bin/busybox")
LIBRARY = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")
HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
INIT = """#!/bin/busybox sh
mount -t proc proc /proc
exec /bin/busybox sh /kofi/guest/init.sh
"""


def providers() -> list[Path]:
    """The user-space drivers of the soft devices, which are loaded by name."""
    found = list(Path("/usr/lib").glob("*/libibverbs/lib*-rdmav*.so"))
    return [path for path in found if path.name.startswith(("librxe", "libsiw"))]


def libraries(program: Path) -> set[Path]:
    """What the dynamic linker would load for it."""
    result = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return {Path(match) for match in LIBRARY.findall(result.stdout)}


def programs() -> list[Path]:
    """Where the guest's programs are on this machine."""
    found = []
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not path:
            raise LabError(f"{name} is not installed: run `make setup`")
        found.append(Path(path))
    return found


def contents() -> list[Path]:
    """Every file that goes in under its own path."""
    binaries = [*programs(), *providers()]
    needed = set().union(*(libraries(path) for path in binaries))
    # glibc loads this one by name when a thread is cancelled.
    needed.update(Path("/lib").glob("*-linux-gnu/libgcc_s.so.1"))
    drivers = sorted(Path("/etc/libibverbs.d").glob("*.driver"))
    drivers = [path for path in drivers if path.stem in ("rxe", "siw")]
    return [BUSYBOX, *binaries, *sorted(needed), *drivers]


def digest(paths: list[Path]) -> str:
    """Changes when a file is replaced, or this code is."""
    stamp = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
    stamp.append(Path(__file__).read_text())
    return hashlib.sha256("\n".join(stamp).encode()).hexdigest()[:12]


def ensure() -> Path:
    """The archive, from the cache while nothing in it changed."""
    paths = contents()
    final = BUILDS / f"initramfs-{digest(paths)}.cpio"
    if final.exists():
        return final
    archive = Archive()
    for name in ("proc", "sys", "dev", "tmp", "run", "var", "mnt"):
        archive.folder(name)
    # A merged /usr, as the programs' own paths expect.
    for name in ("bin", "sbin", "lib", "lib64"):
        archive.folder(f"usr/{name}")
        archive.link(name, f"usr/{name}")
    archive.link("var/run", "/run")
    archive.node("dev/console", 5, 1)
    archive.text("etc/hosts", HOSTS)
    archive.text("init", INIT, 0o755)
    for path in paths:
        archive.file(merged(path), path)
    applets = subprocess.run([str(BUSYBOX), "--list"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        if f"usr/sbin/{applet}" not in archive.names:
            archive.link(f"usr/bin/{applet}", "busybox")
    BUILDS.mkdir(parents=True, exist_ok=True)
    part = final.with_suffix(".part")
    part.write_bytes(archive.finish())
    part.rename(final)
    return final


def merged(path: Path) -> str:
    """The path below /usr for what still names /bin, /sbin or /lib."""
    name = str(path).strip("/")
    return f"usr/{name}" if name.split("/")[0] in ("bin", "sbin", "lib", "lib64") else name
