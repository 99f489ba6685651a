# SPDX-License-Identifier: GPL-2.0
"""Checks that need no guest; each is one test named static.xyz."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import client, clippy, conformance, dkms, docs, examples, frames, installed, kfi, kunit_tree, layers, locks
from . import kernel as kernels
from . import libfabric, misuse, prose, timings, toolchain, tree
from .kernel import Kernel
from .lane import lane
from .output import print_line
from .paths import CACHE, TESTING, TREE
from .results import FAILED, PASSED, Results, matches

LANE = "static"
LICENCE = re.compile(
    r"SPDX-License-Identifier: "
    r"(GPL-2\.0( OR BSD-2-Clause)?\b|\(GPL-2\.0 WITH Linux-syscall-note\) OR BSD-2-Clause)"
)
# The kernel's flags have -Wall, less what its own headers cannot bear.
HEADER_KBUILD = "ccflags-y := -I$(src)/include -I$(src)/include/uapi -Werror\n"
# What checkpatch says for lack of knowing better: the C API has the typedefs and error names of
# libfabric, exports functions that Rust defines, refuses to sleep where that is forbidden, and the
# bench gives way to workers of its own priority while it polls.
UNWANTED = "NEW_TYPEDEFS,ENOSYS,EXPORT_SYMBOL,AVOID_EXTERNS,IN_ATOMIC,FILE_PATH_CHANGES,YIELD"
SHOWN = 12  # lines of a complaint
CHECKED = CACHE / "checkpatch"  # digests of files, script and options that it was content with
PROCESSES = os.cpu_count() or 2


def named(*suffixes: str) -> list[str]:
    """The checkout's files with one of these suffixes."""
    return [name for name in tree.files() if name.endswith(suffixes)]


def said(command: list[str], **more: object) -> str:
    """What a check prints when it fails; nothing when it is content."""
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, **more
    )
    if result.returncode == 0:
        return ""
    return result.stdout + result.stderr or f"{command[0]} answered {result.returncode}"


def rustfmt(_: Kernel) -> str:
    """The kernel's format for Rust."""
    names = named(".rs")
    command = ["/usr/bin/rustfmt", "--check", "--edition", "2021", *names]
    return said(command, cwd=TREE, env=toolchain.environment()) if names else ""


def checkpatch(kernel: Kernel) -> str:
    """Runs the kernel's own style check on C, on files that it has not passed yet."""
    script = kernel.source / "scripts/checkpatch.pl"
    options = ["--no-tree", "--terse", "--no-summary", "--ignore", UNWANTED, "-f"]
    salt = script.read_bytes() + " ".join(options).encode()
    keys = {name: hashlib.sha256(salt + (TREE / name).read_bytes()).hexdigest() for name in named(".c", ".h")}
    passed = set(CHECKED.read_text().split()) if CHECKED.exists() else set()
    left = [name for name, key in keys.items() if key not in passed]

    def check(names: list[str]) -> str:
        return said(["perl", str(script), *options, *names], cwd=TREE) if names else ""

    parts = [left[at :: PROCESSES] for at in range(PROCESSES)]
    with ThreadPoolExecutor() as pool:
        words = "".join(pool.map(check, parts))
    if not words:
        CHECKED.write_text("".join(f"{key}\n" for key in sorted(passed | set(keys.values()))))
    return words


def layering(_: Kernel) -> str:
    """Who may know whom."""
    return "\n".join(layers.check_layers())


def unsafety(_: Kernel) -> str:
    """Where unsafe may stand."""
    return "\n".join(layers.check_unsafe())


def charges(_: Kernel) -> str:
    """Checks that allocations for a process are charged to it."""
    return "\n".join(layers.check_accounting())


def locking(_: Kernel) -> str:
    """Compares the locks of the modules with the page that lists them."""
    return "\n".join(locks.check())


def sentences(_: Kernel) -> str:
    """Holds comments and pages to the bars of prose.toml."""
    return "\n".join(prose.risen())


def licences(_: Kernel) -> str:
    """Every source says its licence within its first lines."""
    names = named(".rs", ".c", ".h", ".py", ".sh", ".toml", "Kbuild", "Kconfig", "Makefile")
    return "\n".join(
        f"{name}: no SPDX line of ours"
        for name in names
        if not name.startswith(".") and not any(LICENCE.search(line) for line in head(TREE / name))
    )


def head(path: Path) -> list[str]:
    """The first lines of a file."""
    with path.open(encoding="utf-8", errors="replace") as text:
        return [text.readline() for _ in range(3)]


def contract(_: Kernel) -> str:
    """The table of tests and contract lines is that of the tests there are."""
    return conformance.outdated()


def lab(_: Kernel) -> str:
    """The lab's own tests: what reads consoles must itself be right."""
    command = [sys.executable, "-m", "unittest", "discover", "-q", "-s", "selftest", "-t", "."]
    return said(command, cwd=TESTING)


def clippy_of_client(_: Kernel) -> str:
    """clippy on the user-space client."""
    return client.clippy()


def comments(_: Kernel) -> str:
    """The headers' comments are kernel-doc, and say of each call what they have to."""
    return docs.comments()


def pages(_: Kernel) -> str:
    """Documentation/ as HTML: every page is read, and every reference leads somewhere."""
    return docs.html()


def entries(_: Kernel) -> str:
    """Each public call has an entry in a page."""
    return docs.entries_lacking()


def names_of_kfabric(_: Kernel) -> str:
    """What kfabric's names stand for is there."""
    return kfi.check()


def lists(_: Kernel) -> str:
    """The lists of calls for those who know libfabric are true."""
    return libfabric.compare()


def manuals(_: Kernel) -> str:
    """Documentation/ as manual pages."""
    return docs.man()


def installation(kernel: Kernel) -> str:
    """What `make install` puts somewhere is what it should be, and `make uninstall` removes it."""
    try:
        return installed.check(kernel)
    except tree.ModuleError as error:
        return str(error)


def through_dkms(_: Kernel) -> str:
    """dkms builds and installs the module, and consumers build against that."""
    try:
        return dkms.check(kernels.ensure(lane("plain")))
    except tree.ModuleError as error:
        return str(error)


def stack(_: Kernel) -> str:
    """Bounds the stack of every function and call chain, as compiled without instrumentation."""
    try:
        return frames.check(kernels.ensure(lane("plain")))
    except tree.ModuleError as error:
        return str(error)


def placing(kernel: Kernel) -> str:
    """Checks `make intree` and `make intree-undo` on the files of a tree that they change."""
    return kunit_tree.check_placing(kernel)


def headers(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Every public header compiles on its own, and twice; one test each."""
    place = tree.build_folder(kernel, "headers")
    names = [name for name in named(".h") if name.startswith("include/")]
    names = [name for name in names if matches(pattern, test_of(name))]
    if not names:
        return
    with tree.locked(place):
        shutil.rmtree(place, ignore_errors=True)
        objects = {}
        shutil.copytree(TREE / "include", place / "include", dirs_exist_ok=True)
        for name in names:
            path = name.removeprefix("include/").removeprefix("uapi/")
            stem = re.sub(r"\W", "_", path)
            (place / f"{stem}.c").write_text(f"#include <{path}>\n#include <{path}>\n")
            objects[f"{stem}.o"] = name
        (place / "Kbuild").write_text(HEADER_KBUILD)
        try:
            tree.make(kernel, place, *objects)
            words = dict.fromkeys(objects, "")
        except tree.ModuleError:
            words = {target: complaint(kernel, place, target) for target in objects}
        for target, name in objects.items():
            record(results, test_of(name), words[target])


def complaint(kernel: Kernel, place: Path, target: str) -> str:
    """What the compiler says of one target."""
    try:
        tree.make(kernel, place, target)
    except tree.ModuleError as error:
        return str(error)
    return ""


def examples_of_pages(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """The examples in C of the documentation compile; one test for each page that has some."""
    names = {page: f"static.example.{page.stem}" for page in examples.pages()}
    chosen = [page for page, name in names.items() if matches(pattern, name)]
    for page, words in examples.compiled(kernel, chosen).items() if chosen else ():
        record(results, names[page], words)


def test_of(header: str) -> str:
    """The name of a header's test."""
    return "static.header." + header.removeprefix("include/").removesuffix(".h").replace("/", ".")


# Checks that only read: they begin with the builds of the modules.
READING: dict[str, Callable[[Kernel], str]] = {
    "static.lab": lab,
    "static.licences": licences,
    "static.conformance": contract,
    "static.layers": layering,
    "static.unsafe": unsafety,
    "static.charges": charges,
    "static.locks": locking,
    "static.prose": sentences,
    "static.docs.comments": comments,
    "static.docs.html": pages,
    "static.docs.calls": entries,
    "static.kfi": names_of_kfabric,
    "static.docs.libfabric": lists,
    "static.docs.man": manuals,
    "static.rustfmt": rustfmt,
    "static.checkpatch": checkpatch,
    "static.intree": placing,
}

# Checks that compile the modules.
COMPILING: dict[str, Callable[[Kernel], str]] = {
    "static.clippy": clippy.check,
    "static.stack": stack,
    "static.client.clippy": clippy_of_client,
    "static.install": installation,
    "static.dkms": through_dkms,
}


def run(
    checks: dict[str, Callable[[Kernel], str]], kernel: Kernel, results: Results, pattern: str | tuple[str, ...]
) -> None:
    """Runs the checks whose names match."""
    for name, check in checks.items():
        if matches(pattern, name):
            start = time.monotonic()
            record(results, name, check(kernel), time.monotonic() - start)


def run_reading(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Runs the checks that only read and whose names match."""
    run(READING, kernel, results, pattern)


def run_compiling(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Runs the checks that compile and whose names match."""
    run(COMPILING, kernel, results, pattern)
    headers(kernel, results, pattern)
    for name, words in misuse.check(kernel, "static.misuse", pattern).items():
        record(results, name, words)
    examples_of_pages(kernel, results, pattern)
    tests_of_client(results, pattern)


def tests_of_client(results: Results, pattern: str | tuple[str, ...]) -> None:
    """The unit tests of the user-space client, one test each."""
    prefix = "static.client.test"
    if not matches(pattern, prefix):
        return
    for name, words in client.unit_tests().items():
        record(results, f"{prefix}.{name}", words)


def record(results: Results, name: str, words: str, seconds: float | None = None) -> None:
    """Counts one check; what it complains about is shown at once."""
    lines = [line for line in words.splitlines() if line.strip() and "file included" not in line]
    outcome = FAILED if lines else PASSED
    telling = [line for line in lines if re.search(r"warning|error", line, re.IGNORECASE)]
    results.add(LANE, name, outcome, next(iter([*telling, *lines]), ""))
    took = "" if seconds is None else f"{seconds:6.1f} s"
    print_line(f"  {LANE:6} {name:32} {'FAILED' if lines else 'ok':8} {took}".rstrip())
    if seconds is not None and not lines:
        timings.note(LANE, name, seconds)
    for line in lines[:SHOWN]:
        print_line(f"         | {line}")
