# SPDX-License-Identifier: GPL-2.0
"""kOFI as a part of a kernel: placed in a tree of its own, its tests run by the kernel's kunit.py."""

import os
import re
import shutil
from pathlib import Path

from . import conformance, installed, intree, process, source, splat, toolchain, tree
from .kernel import Kernel
from .output import LabError
from .paths import LOGS

NAME = "intree.kunit"
LINE = re.compile(r"^\[[\d:]+\] \[(\w+)\] (\w+)$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# Consumers that stand in the tree too, beside the crate: its metadata has to be there before one in Rust
# is compiled, which only the same Makefile can say.
CONSUMERS = """
obj-y += consumer/template_c.o consumer/template_rs.o
$(obj)/consumer/template_rs.o: $(obj)/rust/kofi.o
RUSTFLAGS_consumer/template_rs.o += -L $(objtree)/$(obj)/rust --extern kofi
"""


def complaints_of_placing(kernel: Kernel) -> str:
    """What is wrong with the placing, on the few files of a tree that it needs."""
    place = installed.stage(kernel, "placed")
    for path in (intree.KCONFIG, intree.MAKEFILE):
        copy = intree.at(place, path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(intree.at(kernel.source, path), copy)
    before = contents(place)
    intree.place_in(place)
    once = contents(place)
    intree.place_in(place)
    lines = [] if contents(place) == once else ["placing it twice is not as placing it once"]
    wanted = {name for name in tree.files() if name.startswith(tuple(f"{part}/" for part in intree.PARTS))}
    home = str(intree.HOME)[1:]
    lines += [f"{name} is not placed" for name in sorted(wanted) if f"{home}/{name}" not in once]
    for path in (intree.KCONFIG, intree.MAKEFILE):
        gained = set(once[str(path)[1:]].splitlines()) - set(before[str(path)[1:]].splitlines())
        if len(gained) != 1:
            lines.append(f"{path} gained {len(gained)} lines")
    intree.undo(place)
    after = contents(place)
    lines += [f"{name} is not as it was" for name in before if after.get(name) != before[name]]
    lines += [f"{name} is left" for name in after.keys() - before.keys()]
    return "\n".join(lines)


def contents(place: Path) -> dict[str, str]:
    """Every file below, and what is in it."""
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_text(encoding="utf-8") for path in files}


def prepare() -> Path:
    """A kernel's tree with kOFI and two consumers in it; its other files are those of the lab's own."""
    original = source.ensure()
    copy = tree.place("intree") / original.name
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(original, part, symlinks=True, copy_function=os.link)
        part.rename(copy)
    intree.place_in(copy)
    home = intree.at(copy, intree.HOME)
    (home / "consumer").mkdir(exist_ok=True)
    for template in installed.templates():
        for name in (*template.glob("*.c"), *template.glob("*.rs")):
            shutil.copy(name, home / "consumer")
    kbuild = home / "Kbuild"
    intree.rewrite(kbuild, [kbuild.read_text(encoding="utf-8"), CONSUMERS])
    return copy


def run() -> dict[str, str]:
    """Each test, and what is wrong with it; builds a kernel, which takes its time."""
    kernel = prepare()
    built = kernel.with_name(f"{kernel.name}.build")
    log = LOGS / "intree.log"
    options = [word for one in toolchain.make_variables() for word in ("--make_options", one)]
    home = str(intree.HOME)[1:]
    words = ["run", f"--kunitconfig={home}", f"--build_dir={built}", f"--jobs={os.cpu_count() or 2}"]
    command = ["tools/testing/kunit/kunit.py", *words, *options, "kofi*"]
    try:
        shell = ["sh", "-c", 'cd "$0" && exec python3 "$@"', str(kernel), *command]
        process.run_logged(shell, "building and running a kernel with kOFI in it", log, toolchain.environment())
    except LabError as error:
        # A test that fails has a line of its own.
        if not LINE.search(COLOUR.sub("", log.read_text(errors="replace"))):
            return {NAME: str(error)}
    said = COLOUR.sub("", log.read_text(errors="replace"))
    found = {name: "" if word == "PASSED" else word for word, name in LINE.findall(said)}
    outcome = {f"{NAME}.{name}": words for name, words in found.items()}
    lost = sorted(set(conformance.cases_in_rust()) - found.keys())
    outcome[NAME] = f"these did not run: {' '.join(lost)}" if lost else ""
    console = (built / "test.log").read_text(errors="replace")
    splats = [line for line in console.splitlines() if splat.find(line, NAME, [])]
    outcome["intree.console"] = "\n".join(splats)
    for template in ("template_c", "template_rs"):
        ready = f"{template}: ready count=" in console
        outcome[f"intree.{template}"] = "" if ready else f"{template} said nothing"
    return outcome
