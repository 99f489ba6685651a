# SPDX-License-Identifier: GPL-2.0
"""Builds a kernel with kOFI in its source tree, and runs kOFI's KUnit suites with the kernel's kunit.py."""

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
# Builds both templates into the kernel. The Rust template needs the metadata of kofi.o: a rule in the same Makefile
# orders the two.
CONSUMERS = """
obj-y += consumer/template_c.o consumer/template_rs.o
$(obj)/consumer/template_rs.o: $(obj)/rust/kofi.o
RUSTFLAGS_consumer/template_rs.o += -L $(objtree)/$(obj)/rust --extern kofi
"""


def check_placing(kernel: Kernel) -> str:
    """Places kOFI twice in the files of a tree that it changes, and removes it. Returns the errors, one a line."""
    folder = installed.staging_folder(kernel, "placed")
    for path in (intree.KCONFIG, intree.MAKEFILE):
        copy = intree.resolve(folder, path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(intree.resolve(kernel.source, path), copy)
    before = contents(folder)
    intree.place_in(folder)
    once = contents(folder)
    intree.place_in(folder)
    lines = [] if contents(folder) == once else ["`make intree` changes files when it is repeated"]
    wanted = {name for name in tree.files() if name.startswith(tuple(f"{part}/" for part in intree.PARTS))}
    home = str(intree.FOLDER)[1:]
    lines += [f"{name} is not placed" for name in sorted(wanted) if f"{home}/{name}" not in once]
    for path in (intree.KCONFIG, intree.MAKEFILE):
        gained = set(once[str(path)[1:]].splitlines()) - set(before[str(path)[1:]].splitlines())
        if len(gained) != 1:
            lines.append(f"{path} gained {len(gained)} lines instead of one")
    intree.remove_from(folder)
    after = contents(folder)
    lines += [f"{name} is not restored" for name in before if after.get(name) != before[name]]
    lines += [f"{name} is not removed" for name in after.keys() - before.keys()]
    return "\n".join(lines)


def contents(folder: Path) -> dict[str, str]:
    """Returns the text of every file below a folder, by its relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def prepare() -> Path:
    """Returns a copy of the kernel's source with kOFI and both templates in it. Unchanged files are hard links."""
    original = source.ensure()
    copy = tree.checkout_folder("intree") / original.name
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(original, part, symlinks=True, copy_function=os.link)
        part.rename(copy)
    intree.place_in(copy)
    folder = intree.resolve(copy, intree.FOLDER)
    (folder / "consumer").mkdir(exist_ok=True)
    for template in installed.templates():
        for name in (*template.glob("*.c"), *template.glob("*.rs")):
            shutil.copy(name, folder / "consumer")
    kbuild = folder / "Kbuild"
    intree.replace_file(kbuild, [kbuild.read_text(encoding="utf-8"), CONSUMERS])
    return copy


def run() -> dict[str, str]:
    """Builds and runs the kernel. Returns the error of each test, empty for those that passed."""
    kernel = prepare()
    built = kernel.with_name(f"{kernel.name}.build")
    log = LOGS / "intree.log"
    options = [word for one in toolchain.make_variables() for word in ("--make_options", one)]
    config = str(intree.FOLDER)[1:]
    arguments = ["run", f"--kunitconfig={config}", f"--build_dir={built}", f"--jobs={os.cpu_count() or 2}"]
    command = ["tools/testing/kunit/kunit.py", *arguments, *options, "kofi*"]
    try:
        shell = ["sh", "-c", 'cd "$0" && exec python3 "$@"', str(kernel), *command]
        process.run_logged(shell, "building and running a kernel with kOFI in it", log, toolchain.environment())
    except LabError as error:
        # kunit.py also fails when a test fails: the result lines then have the details.
        if not LINE.search(COLOUR.sub("", log.read_text(errors="replace"))):
            return {NAME: str(error)}
    output = COLOUR.sub("", log.read_text(errors="replace"))
    found = {name: "" if word == "PASSED" else word for word, name in LINE.findall(output)}
    errors = {f"{NAME}.{name}": word for name, word in found.items()}
    # kofi_perf is a module only.
    missing = sorted(set(conformance.cases_in_rust(without="rust/perf")) - found.keys())
    errors[NAME] = f"these cases did not run: {' '.join(missing)}" if missing else ""
    console = (built / "test.log").read_text(errors="replace")
    errors["intree.console"] = "\n".join(splat.find(NAME, console.splitlines(), []))
    for template in ("template_c", "template_rs"):
        ready = f"{template}: ready count=" in console
        errors[f"intree.{template}"] = "" if ready else f"{template} did not print its ready line"
    return errors
