# SPDX-License-Identifier: GPL-2.0
"""Packs the initramfs of a QEMU guest: busybox, iproute2 and the RDMA tools with their libraries, and the payload."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from .kernel import Kernel
from .output import LabError

PROGRAMS = (
    "ip rdma tc ibv_devinfo ibv_devices ib_send_lat ib_send_bw ib_write_lat rping"
    " fi_info fi_pingpong mkfs.ext4 fsck.ext4"
).split()
BUSYBOX = Path("/bin/busybox")
LIBRARY = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")
# Folders of a merged /usr, which are links to folders in /usr.
MERGED = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("dev", "proc", "sys", "tmp", "run", "var", "mnt", *(f"usr/{name}" for name in MERGED))
LINKS = {"var/run": "/run", **{name: f"usr/{name}" for name in MERGED}}


def providers() -> list[Path]:
    """Returns the user-space drivers of the soft devices, which libibverbs loads by name."""
    found = list(Path("/usr/lib").glob("*/libibverbs/lib*-rdmav*.so"))
    return [path for path in found if path.name.startswith(("librxe", "libsiw"))]


def libraries(program: Path) -> set[Path]:
    """Returns the libraries that the dynamic linker loads for a program."""
    result = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return {Path(match) for match in LIBRARY.findall(result.stdout)}


def programs() -> list[Path]:
    """Returns the paths of the guest's programs on this machine."""
    found = []
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not path:
            raise LabError(f"{name} is not installed: run `make setup`")
        found.append(Path(path))
    return found


@cache
def contents() -> list[Path]:
    """Returns the files of this machine that the archive has, with the same paths."""
    binaries = [*programs(), *providers()]
    needed = set().union(*(libraries(path) for path in binaries))
    # glibc loads this one by name when a thread is cancelled.
    needed.update(Path("/lib").glob("*-linux-gnu/libgcc_s.so.1"))
    drivers = sorted(Path("/etc/libibverbs.d").glob("*.driver"))
    drivers = [path for path in drivers if path.stem in ("rxe", "siw")]
    return [BUSYBOX, *binaries, *sorted(needed), *drivers]


def merged(path: Path) -> str:
    """Returns a path in a merged /usr: usr/bin for /bin, and so on."""
    name = str(path).strip("/")
    return f"usr/{name}" if name.split("/")[0] in MERGED else name


def file_list(payload: Path) -> str:
    """Returns the archive's file list for the kernel's gen_init_cpio, with paths relative to the payload."""
    files = {merged(path): path for path in contents()}
    for path in sorted(payload.rglob("*")):
        if path.is_file():
            files[f"kofi/{path.relative_to(payload)}"] = path.relative_to(payload)
    files |= {"init": Path("guest/boot.sh"), "etc/hosts": Path("guest/hosts")}
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    lines = [f"dir /{name} 0755 0 0" for name in sorted(folders.union(FOLDERS))]
    lines += [f"slink /{name} {target} 0777 0 0" for name, target in LINKS.items()]
    lines += ["nod /dev/console 0600 0 0 c 5 1"]
    for name, path in files.items():
        mode = (payload / path).stat().st_mode & 0o777
        lines.append(f"file /{name} {path} {mode:o} 0 0")
    return "\n".join(lines) + "\n"


def pack(kernel: Kernel, payload: Path, archive: Path) -> None:
    """Writes the initramfs with the kernel's gen_init_cpio, which makes device nodes without root."""
    subprocess.run(
        [kernel.build / "usr/gen_init_cpio", "-o", archive, "-"],
        cwd=payload,
        input=file_list(payload),
        text=True,
        check=True,
    )
