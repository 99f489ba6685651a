# SPDX-License-Identifier: GPL-2.0
"""Runs the static checks, which need no guest. Each is a test whose name begins with `static.`."""

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
# The kernel's flags contain -Wall, without the warnings that its own headers cause.
HEADER_KBUILD = "ccflags-y := -I$(src)/include -I$(src)/include/uapi -Werror\n"
# Types of checkpatch that do not apply: the C API has the typedefs and error names of libfabric and exports functions
# that Rust defines, blocking calls check in_atomic(), and the bench yields to workers of its own priority.
IGNORED_TYPES = "NEW_TYPEDEFS,ENOSYS,EXPORT_SYMBOL,AVOID_EXTERNS,IN_ATOMIC,FILE_PATH_CHANGES,YIELD"
MAX_LINES = 12  # printed lines of a failed check
PASSED_FILES = CACHE / "checkpatch"  # digests of files, script and options that passed checkpatch
PROCESSES = os.cpu_count() or 2


def files_with(*suffixes: str) -> list[str]:
    """Returns the checkout's files with one of these suffixes."""
    return [name for name in tree.files() if name.endswith(suffixes)]


def output_of_failure(command: list[str], **options: object) -> str:
    """Runs a command. Returns its output if it fails, or an empty string."""
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, **options
    )
    if result.returncode == 0:
        return ""
    return result.stdout + result.stderr or f"{command[0]} exited with {result.returncode}"


def check_rustfmt(_: Kernel) -> str:
    """Checks the format of Rust files with rustfmt."""
    names = files_with(".rs")
    command = ["/usr/bin/rustfmt", "--check", "--edition", "2021", *names]
    return output_of_failure(command, cwd=TREE, env=toolchain.environment()) if names else ""


def check_checkpatch(kernel: Kernel) -> str:
    """Runs the kernel's checkpatch.pl on those C files that did not pass it before."""
    script = kernel.source / "scripts/checkpatch.pl"
    options = ["--no-tree", "--terse", "--no-summary", "--ignore", IGNORED_TYPES, "-f"]
    salt = script.read_bytes() + " ".join(options).encode()
    keys = {name: hashlib.sha256(salt + (TREE / name).read_bytes()).hexdigest() for name in files_with(".c", ".h")}
    passed = set(PASSED_FILES.read_text().split()) if PASSED_FILES.exists() else set()
    remaining = [name for name, key in keys.items() if key not in passed]

    def check(names: list[str]) -> str:
        return output_of_failure(["perl", str(script), *options, *names], cwd=TREE) if names else ""

    parts = [remaining[at :: PROCESSES] for at in range(PROCESSES)]
    with ThreadPoolExecutor() as pool:
        output = "".join(pool.map(check, parts))
    if not output:
        PASSED_FILES.write_text("".join(f"{key}\n" for key in sorted(passed | set(keys.values()))))
    return output


def check_licences(_: Kernel) -> str:
    """Checks that each source has one of the project's SPDX lines among its first three lines."""
    names = files_with(".rs", ".c", ".h", ".py", ".sh", ".toml", "Kbuild", "Kconfig", "Makefile")
    return "\n".join(
        f"{name}: add an SPDX line with a licence of the project to its first three lines"
        for name in names
        if not name.startswith(".") and not any(LICENCE.search(line) for line in first_lines(TREE / name))
    )


def first_lines(path: Path) -> list[str]:
    """Returns the first three lines of a file."""
    with path.open(encoding="utf-8", errors="replace") as text:
        return [text.readline() for _ in range(3)]


def check_lab(_: Kernel) -> str:
    """Runs the unit tests of the lab."""
    command = [sys.executable, "-m", "unittest", "discover", "-q", "-s", "selftest", "-t", "."]
    return output_of_failure(command, cwd=TESTING)


def check_install(kernel: Kernel) -> str:
    """Checks the files that `make install` creates, and that `make uninstall` deletes them."""
    try:
        return installed.check(kernel)
    except tree.ModuleError as error:
        return str(error)


def check_dkms(_: Kernel) -> str:
    """Checks that dkms installs and removes the module, and that consumers build against it."""
    try:
        return dkms.check(kernels.ensure(lane("plain")))
    except tree.ModuleError as error:
        return str(error)


def check_stack(_: Kernel) -> str:
    """Checks the stack usage of the module of the plain lane, which has no instrumentation."""
    try:
        return frames.check(kernels.ensure(lane("plain")))
    except tree.ModuleError as error:
        return str(error)


def check_headers(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Compiles each public header by itself, included twice. Each header is a test."""
    folder = tree.build_folder(kernel, "headers")
    names = [name for name in files_with(".h") if name.startswith("include/")]
    names = [name for name in names if matches(pattern, test_name(name))]
    if not names:
        return
    with tree.locked(folder):
        shutil.rmtree(folder, ignore_errors=True)
        objects = {}
        shutil.copytree(TREE / "include", folder / "include", dirs_exist_ok=True)
        for name in names:
            path = name.removeprefix("include/").removeprefix("uapi/")
            stem = re.sub(r"\W", "_", path)
            (folder / f"{stem}.c").write_text(f"#include <{path}>\n#include <{path}>\n")
            objects[f"{stem}.o"] = name
        (folder / "Kbuild").write_text(HEADER_KBUILD)
        try:
            tree.make(kernel, folder, *objects)
            errors = dict.fromkeys(objects, "")
        except tree.ModuleError:
            errors = {target: compile_errors(kernel, folder, target) for target in objects}
        for target, name in objects.items():
            record(results, test_name(name), errors[target])


def compile_errors(kernel: Kernel, folder: Path, target: str) -> str:
    """Builds one target. Returns the output of make if it fails, or an empty string."""
    try:
        tree.make(kernel, folder, target)
    except tree.ModuleError as error:
        return str(error)
    return ""


def check_examples(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Compiles the examples of the pages. Each page with examples is a test."""
    names = {page: f"static.example.{page.stem}" for page in examples.pages()}
    chosen = [page for page, name in names.items() if matches(pattern, name)]
    for page, errors in examples.check(kernel, chosen).items() if chosen else ():
        record(results, names[page], errors)


def test_name(header: str) -> str:
    """Returns the name of the test of a header."""
    return "static.header." + header.removeprefix("include/").removesuffix(".h").replace("/", ".")


# Checks that only read. They run while the modules are built.
READING: dict[str, Callable[[Kernel], str]] = {
    "static.lab": check_lab,
    "static.licences": check_licences,
    "static.conformance": lambda _: conformance.check(),
    "static.layers": lambda _: "\n".join(layers.check_layers()),
    "static.unsafe": lambda _: "\n".join(layers.check_unsafe()),
    "static.charges": lambda _: "\n".join(layers.check_accounting()),
    "static.locks": lambda _: "\n".join(locks.check()),
    "static.prose": lambda _: "\n".join(prose.check()),
    "static.docs.comments": lambda _: docs.check_comments(),
    "static.docs.html": lambda _: docs.build_html(),
    "static.docs.calls": lambda _: docs.check_entries(),
    "static.kfi": lambda _: kfi.check(),
    "static.docs.libfabric": lambda _: libfabric.compare(),
    "static.docs.man": lambda _: docs.build_manuals(),
    "static.rustfmt": check_rustfmt,
    "static.checkpatch": check_checkpatch,
    "static.intree": kunit_tree.check_placing,
}

# Checks that compile. They run after the builds of the modules.
COMPILING: dict[str, Callable[[Kernel], str]] = {
    "static.clippy": clippy.check,
    "static.stack": check_stack,
    "static.client.clippy": lambda _: client.clippy(),
    "static.install": check_install,
}

# Checks of the soak: dkms builds all modules a second time.
SOAK: dict[str, Callable[[Kernel], str]] = {"static.dkms": check_dkms}


def run(
    checks: dict[str, Callable[[Kernel], str]], kernel: Kernel, results: Results, pattern: str | tuple[str, ...]
) -> None:
    """Runs the checks whose names match the pattern, and records their results."""
    for name, check in checks.items():
        if matches(pattern, name):
            start = time.monotonic()
            record(results, name, check(kernel), time.monotonic() - start)


def run_reading(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Runs the checks that only read, if their names match the pattern."""
    run(READING, kernel, results, pattern)


def run_compiling(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Runs the checks that compile, if their names match the pattern: two at a time, as each uses one CPU."""
    with ThreadPoolExecutor(2) as pool:
        halves = [
            pool.submit(run, COMPILING, kernel, results, pattern),
            pool.submit(compile_sources, kernel, results, pattern),
        ]
    for half in halves:
        half.result()


def compile_sources(kernel: Kernel, results: Results, pattern: str | tuple[str, ...]) -> None:
    """Compiles headers, examples and faulty consumers, and runs the client's unit tests: each is a test."""
    check_headers(kernel, results, pattern)
    for name, errors in misuse.check(kernel, "static.misuse", pattern).items():
        record(results, name, errors)
    check_examples(kernel, results, pattern)
    run_client_tests(results, pattern)


def run_client_tests(results: Results, pattern: str | tuple[str, ...]) -> None:
    """Runs the unit tests of the user-space client. Each is a test."""
    prefix = "static.client.test"
    if not matches(pattern, prefix):
        return
    for name, errors in client.unit_tests().items():
        record(results, f"{prefix}.{name}", errors)


def record(results: Results, name: str, errors: str, seconds: float | None = None) -> None:
    """Counts a check and prints its result with the first lines of its errors. Without errors, it passed."""
    lines = [line for line in errors.splitlines() if line.strip() and "file included" not in line]
    outcome = FAILED if lines else PASSED
    marked = [line for line in lines if re.search(r"warning|error", line, re.IGNORECASE)]
    results.add(LANE, name, outcome, next(iter([*marked, *lines]), ""))
    duration = "" if seconds is None else f"{seconds:6.1f} s"
    print_line(f"  {LANE:6} {name:32} {'FAILED' if lines else 'ok':8} {duration}".rstrip())
    if seconds is not None and not lines:
        timings.save(LANE, name, seconds)
    for line in lines[:MAX_LINES]:
        print_line(f"         | {line}")
