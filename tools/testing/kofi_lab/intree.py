# SPDX-License-Identifier: GPL-2.0
"""Places kOFI in a kernel's source tree, as a part of it: files, and a line each of Kconfig and Makefile.

The headers go where every consumer in the tree finds them, the rest into a folder that looks as this
checkout does.
"""

from pathlib import Path, PurePath

from .output import LabError
from .paths import TREE
from .receipt import Receipt

HOME = PurePath("/drivers/infiniband/ulp/kofi")
KCONFIG = PurePath("/drivers/infiniband/Kconfig")
MAKEFILE = PurePath("/drivers/infiniband/ulp/Makefile")
SOURCE = f'source "{str(HOME).lstrip("/")}/Kconfig"\n'
NEIGHBOUR = 'source "drivers/infiniband/ulp/'
OBJECT = "obj-$(CONFIG_KOFI)\t\t\t+= kofi/\n"
PARTS = (
    "rust",
    "samples/c",
    "samples/rust",
    "tools/testing/bench",
    "tools/testing/consumers",
    "tools/testing/kunit",
)
FILES = (".kunitconfig", "Kbuild", "Kconfig")
KINDS = {".c", ".h", ".rs", ".S", ".sed", ""}
MADE = ("generated.rs", "generated.h", ".mod.c")


def placed() -> dict[PurePath, Path]:
    """Where each file goes, and which of the checkout it is."""
    files = {HOME / name: TREE / name for name in FILES}
    for part in PARTS:
        for path in sorted((TREE / part).rglob("*")):
            if path.is_file() and path.suffix in KINDS and not made(path):
                files[HOME / path.relative_to(TREE)] = path
    for path in sorted((TREE / "include").rglob("*.h")):
        files["/" / path.relative_to(TREE)] = path
    return files


def made(path: Path) -> bool:
    """Whether a build has left it."""
    return path.name.startswith(".") or path.name.endswith(MADE)


def receipt(kernel: Path) -> Receipt:
    """What was placed in that tree."""
    if not at(kernel, KCONFIG).exists() or not at(kernel, MAKEFILE).exists():
        raise LabError(f"{kernel} is no kernel source tree: it has no {str(MAKEFILE)[1:]}")
    return Receipt(str(kernel), HOME, ".placed")


def at(kernel: Path, path: PurePath) -> Path:
    """A path of the tree's on this machine."""
    return Path(f"{kernel}{path}")


def rewrite(place: Path, lines: list[str]) -> None:
    """Another file by the same name: a tree may share this one with others."""
    part = place.with_name(f".{place.name}.part")
    part.write_text("".join(lines), encoding="utf-8")
    part.chmod(place.stat().st_mode)
    part.rename(place)


def with_line(lines: list[str], line: str, after: str) -> list[str]:
    """The lines with one more, behind the last one that begins like that, or at the end."""
    if line in lines:
        return lines
    behind = [place for place, other in enumerate(lines, 1) if after and other.startswith(after)]
    place = behind[-1] if behind else len(lines)
    return [*lines[:place], line, *lines[place:]]


def edit(kernel: Path, path: PurePath, line: str, after: str, wanted: bool) -> None:
    """Has a line in a file of the tree, or not."""
    place = at(kernel, path)
    before = place.read_text(encoding="utf-8").splitlines(keepends=True)
    if wanted:
        lines = with_line(before, line, after)
    else:
        lines = [other for other in before if other != line]
    if lines != before:
        rewrite(place, lines)


def place_in(kernel: Path) -> None:
    """Places everything; what is there already is brought up to date."""
    files = receipt(kernel)
    for path, source in placed().items():
        files.put(path, source.read_bytes())
    files.finish()
    edit(kernel, KCONFIG, SOURCE, NEIGHBOUR, True)
    edit(kernel, MAKEFILE, OBJECT, "", True)


def undo(kernel: Path) -> None:
    """Leaves the tree as it was."""
    edit(kernel, KCONFIG, SOURCE, NEIGHBOUR, False)
    edit(kernel, MAKEFILE, OBJECT, "", False)
    if not receipt(kernel).remove():
        raise LabError(f"kOFI was not placed in {kernel}")
