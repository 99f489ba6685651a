# SPDX-License-Identifier: GPL-2.0
"""Places kOFI in a kernel's source tree: its files, and one line each in a Kconfig and a Makefile.

The public headers go to the kernel's include folder. All other files keep their layout below FOLDER.
"""

from pathlib import Path, PurePath

from .manifest import Manifest
from .output import LabError
from .paths import TREE

FOLDER = PurePath("/drivers/infiniband/ulp/kofi")
KCONFIG = PurePath("/drivers/infiniband/Kconfig")
MAKEFILE = PurePath("/drivers/infiniband/ulp/Makefile")
KCONFIG_LINE = f'source "{str(FOLDER).lstrip("/")}/Kconfig"\n'
# The line of KCONFIG_LINE is inserted after the last line that begins like this.
KCONFIG_ANCHOR = 'source "drivers/infiniband/ulp/'
MAKEFILE_LINE = "obj-$(CONFIG_KOFI)\t\t\t+= kofi/\n"
PARTS = (
    "rust",
    "samples/c",
    "samples/nvme",
    "samples/rust",
    "tools/testing/bench",
    "tools/testing/consumers",
    "tools/testing/kunit",
)
FILES = (".kunitconfig", "Kbuild", "Kconfig")
SUFFIXES = {".c", ".h", ".rs", ".S", ".sed", ""}
GENERATED = ("generated.rs", "generated.h", ".mod.c")


def sources() -> dict[PurePath, Path]:
    """Returns the files to place, by their path in the kernel's tree."""
    files = {FOLDER / name: TREE / name for name in FILES}
    for part in PARTS:
        for path in sorted((TREE / part).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not is_generated(path):
                files[FOLDER / path.relative_to(TREE)] = path
    for path in sorted((TREE / "include").rglob("*.h")):
        files["/" / path.relative_to(TREE)] = path
    return files


def is_generated(path: Path) -> bool:
    """Returns whether a build creates the file."""
    return path.name.startswith(".") or path.name.endswith(GENERATED)


def manifest(kernel: Path) -> Manifest:
    """Returns the manifest of the files that were placed in a kernel's tree."""
    if not resolve(kernel, KCONFIG).exists() or not resolve(kernel, MAKEFILE).exists():
        raise LabError(f"{kernel} is no kernel source tree: it has no {str(MAKEFILE)[1:]}")
    return Manifest(str(kernel), FOLDER, ".placed")


def resolve(kernel: Path, path: PurePath) -> Path:
    """Returns the path on this machine of a path in the kernel's tree."""
    return Path(f"{kernel}{path}")


def replace_file(path: Path, lines: list[str]) -> None:
    """Replaces a file by a new one with these lines; other links to the old inode do not change."""
    part = path.with_name(f".{path.name}.part")
    part.write_text("".join(lines), encoding="utf-8")
    part.chmod(path.stat().st_mode)
    part.rename(path)


def insert_line(lines: list[str], line: str, anchor: str) -> list[str]:
    """Returns the lines with `line` after the last line that begins with `anchor`, or at the end."""
    if line in lines:
        return lines
    anchors = [number for number, other in enumerate(lines, 1) if anchor and other.startswith(anchor)]
    position = anchors[-1] if anchors else len(lines)
    return [*lines[:position], line, *lines[position:]]


def set_line(kernel: Path, path: PurePath, line: str, anchor: str, is_present: bool) -> None:
    """Inserts a line into a file of the kernel's tree, or deletes it."""
    target = resolve(kernel, path)
    before = target.read_text(encoding="utf-8").splitlines(keepends=True)
    if is_present:
        lines = insert_line(before, line, anchor)
    else:
        lines = [other for other in before if other != line]
    if lines != before:
        replace_file(target, lines)


def place_in(kernel: Path) -> None:
    """Places kOFI in a kernel's tree, or updates the files that were placed before."""
    files = manifest(kernel)
    for path, source in sources().items():
        files.write(path, source.read_bytes())
    files.commit()
    set_line(kernel, KCONFIG, KCONFIG_LINE, KCONFIG_ANCHOR, True)
    set_line(kernel, MAKEFILE, MAKEFILE_LINE, "", True)


def remove_from(kernel: Path) -> None:
    """Removes kOFI from a kernel's tree."""
    set_line(kernel, KCONFIG, KCONFIG_LINE, KCONFIG_ANCHOR, False)
    set_line(kernel, MAKEFILE, MAKEFILE_LINE, "", False)
    if not manifest(kernel).remove():
        raise LabError(f"kOFI is not placed in {kernel}")
